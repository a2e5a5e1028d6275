"""ONNX files through ONNX Runtime, on a network of which every number can be reckoned by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.embedding.load import load
from openclaw_cache.embedding.model import vector_of
from openclaw_cache.errors import ConfigError, EmbeddingError
from support.tiny_models import WORDS, write_onnx

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")


@pytest.mark.parametrize("ready", [False, True])
def test_a_vector_is_the_normalised_mean_of_its_words_whoever_pools(tmp_path: Path, *, ready: bool) -> None:
    model = load(str(write_onnx(tmp_path, ready=ready)))

    # ((3,0) + (0,4)) / 2 = (1.5, 2), of length 2.5
    assert model.encode("a b").tolist() == pytest.approx([0.6, 0.8])
    assert model.num_dims == 2


def test_prompt_and_pooling_of_the_folder_are_used(tmp_path: Path) -> None:
    file = write_onnx(tmp_path)
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "b "}}))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    model = load(str(file))

    assert model.encode("a").tolist() == [0, 1]  # the first token is the prompt's
    assert model.num_tokens("a") == 2


def test_files_one_folder_up_are_found_as_the_hub_lays_them(tmp_path: Path) -> None:
    file = write_onnx(tmp_path)
    below = tmp_path / "onnx" / "model.onnx"
    below.parent.mkdir()
    file.rename(below)

    assert load(str(below)).encode("a").tolist() == [1, 0]


def test_a_text_beyond_the_window_has_no_vector(tmp_path: Path) -> None:
    file = write_onnx(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 4}')
    model = load(str(file))

    assert model.window_tokens == 4
    assert vector_of(model, "a a a a", max_tokens=100) is not None
    assert vector_of(model, "a a a a a", max_tokens=100) is None
    assert vector_of(model, "a a a", max_tokens=2) is None


def test_a_text_whose_vector_has_no_direction_is_an_error(tmp_path: Path) -> None:
    model = load(str(write_onnx(tmp_path)))

    for text in ("zero", "a back"):
        with pytest.raises(EmbeddingError, match="direction"):
            model.encode(text)


def test_other_weights_tokenizer_or_pooling_make_another_fingerprint(tmp_path: Path) -> None:
    prints = {load(str(write_onnx(tmp_path))).fingerprint}
    prints.add(load(str(write_onnx(tmp_path, words=WORDS | {"a": (3.0, 0.5)}))).fingerprint)
    swapped = {word: WORDS[word] for word in ("[UNK]", "b", "a", "zero", "back")}
    prints.add(load(str(write_onnx(tmp_path, words=swapped))).fingerprint)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    prints.add(load(str(tmp_path / "model.onnx")).fingerprint)

    assert len(prints) == 4
    assert load(str(tmp_path / "model.onnx")).fingerprint in prints


def test_what_is_not_such_a_network_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "damaged")
    file.write_bytes(b"not a network")
    asks_more = write_onnx(tmp_path / "more", extra_input="pixel_values")
    alone = write_onnx(tmp_path / "alone")
    (alone.parent / "tokenizer.json").unlink()
    odd = write_onnx(tmp_path / "odd")
    (odd.parent / "tokenizer.json").write_text("{}")

    for one, reason in (
        (file, "loaded"),
        (asks_more, "pixel_values"),
        (alone, "tokenizer"),
        (odd, "tokenizer"),
    ):
        with pytest.raises(ConfigError, match=rf"semantic_cache\.embedder.*{reason}"):
            load(str(one))
