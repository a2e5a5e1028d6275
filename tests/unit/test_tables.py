"""What the command line prints: names come from configurations and clients, and none of them is markup."""

from __future__ import annotations

import pytest

from openclaw_cache import tables
from openclaw_cache.config import load

ODD = "b[/b] [red]x\x1b[31m"
"""Rich markup and a terminal's escape sequence."""


def test_brackets_in_a_value_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_config(load(env={}, overrides={"result_cache.ignore": ["user"]}), as_json=False)
    assert "│ [user] " in capsys.readouterr().out


def test_a_long_value_is_not_cut_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    folder = "/tmp/" + "x" * 200
    tables.print_config(load(env={}, overrides={"server.data_dir": folder}), as_json=False)
    assert folder in capsys.readouterr().out


def test_a_clients_model_name_is_neither_markup_nor_a_terminal_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample = {"model": ODD, "namespace": "n", "created_at": 0.0, "size_bytes": 1}
    report = {"dry_run": True, "num_matched": 1, "num_corrupt": 0, "sample": [sample]}
    tables.print_evicted(report, "*")
    tables.print_invalidated({"model": ODD, "served": False, "durable": True})
    out = capsys.readouterr().out
    assert out.count("b[/b] [red]x") == 2
    assert "\x1b" not in out
    assert "1 entry would go" in out


def test_a_pattern_that_matches_nothing_is_told_how_to_match_a_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables.print_evicted({"dry_run": False, "num_matched": 0, "num_corrupt": 0, "sample": []}, "France")
    assert '"*France*"' in capsys.readouterr().out
