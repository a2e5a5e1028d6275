from pathlib import Path

import blake3
import pytest

from openclaw_cache.engine import files
from openclaw_cache.errors import ConfigError


def write_model(folder: Path) -> None:
    with files.replacing(folder) as draft:
        (draft / "model.safetensors").write_bytes(b"weights" * 1000)
        (draft / "config.json").write_text("{}")
        files.write_manifest(draft, {"name": "x.gguf"})


def test_a_hash_is_blake3_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 100_000)
    assert files.file_hash(tmp_path / "f") == blake3.blake3(b"abc" * 100_000).hexdigest()
    (tmp_path / "empty").touch()
    # The first test vector of the BLAKE3 paper's reference implementation: the empty input.
    assert (
        files.file_hash(tmp_path / "empty")
        == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    )


def test_an_intact_folder_has_the_fingerprint_of_its_content(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    assert files.verified_fingerprint(tmp_path / "m") == files.folder_fingerprint(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def flip_a_byte(folder: Path) -> None:
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[3500] ^= 1
    (folder / "model.safetensors").write_bytes(weights)


def truncate(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(100)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte,
        truncate,
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "chat_template.jinja").write_text("foreign"),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").unlink(),
    ],
)
def test_any_damage_is_noticed(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    write_model(tmp_path / "m")
    damage(tmp_path / "m")
    assert files.verified_fingerprint(tmp_path / "m") is None


def test_a_changed_file_or_name_changes_the_fingerprint() -> None:
    base = files.fingerprint([("ab", "c")])
    assert files.fingerprint([("a", "bc")]) != base
    assert files.fingerprint([("ab", "d")]) != base


def test_an_interrupted_writer_leaves_the_old_folder_as_it_was(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    before = files.verified_fingerprint(tmp_path / "m")

    def interrupted() -> None:
        with files.replacing(tmp_path / "m") as draft:
            (draft / "config.json").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert files.verified_fingerprint(tmp_path / "m") == before
    write_model(tmp_path / "m")  # and its leftovers do not disturb the next one
    assert files.verified_fingerprint(tmp_path / "m") == before


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot write the model"):
        write_model(tmp_path / "file" / "m")
