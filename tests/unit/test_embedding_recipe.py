"""What a sentence-transformers folder says of its use. The files are cut from those of models on Hugging Face."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from openclaw_cache.embedding.recipe import read_recipe
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
MEAN = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def folder(place: Path, **files: Any) -> Path:
    for name, content in files.items():
        file = place / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".json").write_text(content if isinstance(content, str) else json.dumps(content))
    return place


def test_mean_pooling_and_the_stated_window_are_read(tmp_path: Path) -> None:
    recipe = read_recipe(
        folder(
            tmp_path,
            modules=MODULES,
            **{"1_Pooling__config": MEAN},
            sentence_bert_config={"max_seq_length": 256, "do_lower_case": False},
            tokenizer_config={"model_max_length": 512},
        )
    )

    assert (recipe.pooling, recipe.window_tokens, recipe.prompt, recipe.lower_case) == (
        "mean",
        256,
        "",
        False,
    )


@pytest.mark.parametrize(
    ("stated", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, "lasttoken"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_each_pooling_is_read(tmp_path: Path, stated: dict[str, object], pooling: str) -> None:
    assert read_recipe(folder(tmp_path, modules=MODULES, **{"1_Pooling__config": stated})).pooling == pooling


@pytest.mark.parametrize(
    "stated",
    [
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},  # two, one behind the other
        {"pooling_mode": "weightedmean"},
        {"pooling_mode_mean_tokens": True, "include_prompt": False},
        {},
    ],
)
def test_a_pooling_that_we_do_not_have_is_an_error(tmp_path: Path, stated: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"semantic_cache\.embedder"):
        read_recipe(folder(tmp_path, modules=MODULES, **{"1_Pooling__config": stated}))


def test_a_step_that_we_do_not_have_is_an_error(tmp_path: Path) -> None:
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}

    with pytest.raises(ConfigError, match="'Dense'"):
        read_recipe(folder(tmp_path, modules=[*MODULES, dense]))


def test_a_folder_of_a_plain_network_is_pooled_by_the_mean(tmp_path: Path) -> None:
    assert read_recipe(folder(tmp_path, config={"max_position_embeddings": 128})).pooling == "mean"


@pytest.mark.parametrize(
    ("stated", "prompt"),
    [
        ({"prompts": {"query": "query: ", "document": "passage: "}}, "query: "),
        ({"prompts": {"query": "q: ", "same": "s: "}, "default_prompt_name": "same"}, "s: "),
        ({"prompts": {}, "default_prompt_name": None}, ""),
        ({}, ""),
    ],
)
def test_questions_get_the_default_prompt_or_that_of_queries(
    tmp_path: Path, stated: dict[str, object], prompt: str
) -> None:
    assert read_recipe(folder(tmp_path, config_sentence_transformers=stated)).prompt == prompt


@pytest.mark.parametrize(
    ("network", "tokenizer", "window"),
    [
        ({"max_position_embeddings": 512}, {"model_max_length": 1000000000000000019884624838656}, 512),
        ({"max_position_embeddings": 514, "model_type": "xlm-roberta"}, {}, 512),
        ({"max_position_embeddings": 8192}, {"model_max_length": 512}, 512),
        ({}, {}, 512),
    ],
)
def test_the_window_is_the_smallest_that_is_stated(
    tmp_path: Path, network: dict[str, object], tokenizer: dict[str, object], window: int
) -> None:
    made = folder(tmp_path, config=network, tokenizer_config=tokenizer)

    assert read_recipe(made).window_tokens == window


@pytest.mark.parametrize("content", ["{", "[]", '"a"', "null"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match=r"sentence_bert_config\.json"):
        read_recipe(folder(tmp_path, sentence_bert_config=content))
