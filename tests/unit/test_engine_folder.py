"""Models given as Hugging Face folders."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import ConfigError

for library in ("gguf", "torch", "transformers"):
    pytest.importorskip(library, reason="the [engine] extra is not installed")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from openclaw_cache.engine import convert  # noqa: E402
from openclaw_cache.engine.model import LanguageModel  # noqa: E402
from support.tiny_gguf import random_model, weights_of, write_gguf  # noqa: E402


def folder_of(tmp_path: Path, arch: str = "llama") -> Path:
    source = write_gguf(tmp_path / "tiny.gguf", weights_of(random_model(arch)), arch)
    return convert.converted(source, "tiny", tmp_path / "models", lambda _line: None)[0]


def loaded(folder: Path) -> LanguageModel:
    return LanguageModel(folder, "", torch.device("cpu"))


def test_weights_in_bf16_are_computed_with_in_fp32_on_the_cpu(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    weights = {name: values.bfloat16() for name, values in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_bytes()) | {"dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    model = loaded(folder)
    assert model.dtype == torch.float32
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(model.network.get_parameter(name), weights[name].float())


def test_a_model_without_some_of_its_weights_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "qwen2")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.self_attn.k_proj.bias"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"no weights for model\.layers\.1\.self_attn\.k_proj\.bias"):
        loaded(folder)


def test_a_model_whose_weights_have_another_shape_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = torch.ones(5)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="cannot load the model"):
        loaded(folder)


def test_a_tokenizer_that_is_written_in_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path)

    class Slow(transformers.PythonBackend):  # type: ignore[misc]
        vocab_size = 10

        def get_vocab(self) -> dict[str, int]:
            return {}

        def _convert_token_to_id(self, _token: str) -> int:
            return 0

    def slow(*_: Any, **__: Any) -> Any:
        return Slow(chat_template="{{ x }}")

    monkeypatch.setattr("openclaw_cache.engine.model.AutoTokenizer.from_pretrained", slow)
    with pytest.raises(ConfigError, match=r"Slow, is not one of the tokenizers library"):
        loaded(folder)
