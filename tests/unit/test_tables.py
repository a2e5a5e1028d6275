"""What the command line prints: names come from configurations and clients, and none of them is markup."""

from __future__ import annotations

import pytest

from openclaw_cache import console, kv_tables, tables
from openclaw_cache.config import load
from support.fake_engine import ROWS, STATUS

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


# The KV cache.


def test_an_engines_status_is_told_in_rows() -> None:
    rows = dict(kv_tables.status_rows(STATUS))
    assert rows[", device"] == (
        "120 of 4,096 blocks, 1.2 MB of 41.0 MB (3,976 free, 4 running, 70 new, 46 hit, 12 pinned)"
    )
    assert rows[", disk"].startswith("DEAD: no space left; 0 of 0 blocks")
    assert rows[", hit ratio"] == "0.800 of 1,000 tokens (device 0.600, host 0.150, disk 0.050)"
    assert rows[", prefill saved"] == "12.5 s"
    assert rows[", requests"] == "2 running, 1 waiting"
    assert rows[", pins"].startswith("p1 (2,048 tokens, until 2027-01-1")
    assert ", integrity" not in rows
    assert ", eviction" not in rows


def test_the_status_says_which_side_of_the_adaptive_policy_leads_and_why_nodes_went() -> None:
    duel = {"side": "rhythm", "score": {"rhythm": 0.93, "recency": 0.8}}
    gone = {"rhythm": 1200, "recency": 0, "ended": 2}
    told = STATUS | {"eviction": {"policy": "agent", "tiers": {"device": duel | {"num_gone": gone}}}}
    assert dict(kv_tables.status_rows(told))[", eviction"] == (
        "agent: device by rhythm (rhythm 0.93, recency 0.80); went: 1,200 rhythm, 2 ended"
    )


def test_what_an_engine_does_not_tell_is_no_error() -> None:
    assert list(kv_tables.status_rows(None)) == []
    assert list(kv_tables.status_rows({"reason": "its engine is starting"})) == [
        ("", "unknown: its engine is starting")
    ]
    assert list(kv_tables.status_rows({"enabled": False, "tiers": []})) == [
        ("", "off (kv_cache.enabled: false)")
    ]
    bare = dict(kv_tables.status_rows({"tiers": [{"tier": "device"}, {"tier": "disk", "state": "off"}]}))
    assert bare[", device"] == "0 of 0 blocks, 0 B of 0 B"
    assert (bare[", disk"], bare[", hit ratio"], bare[", pins"]) == ("off", "–", "none")
    broken = dict(kv_tables.status_rows({"tiers": [], "integrity": {"ok": False, "checked_at": 0.0}}))
    assert broken[", integrity"].startswith("BROKEN")


def test_the_tree_hangs_each_run_of_tokens_under_its_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    kv_tables.print_tree({"upstream": "local", "rows": ROWS, "is_cut": True})
    assert capsys.readouterr().out.splitlines() == [
        "upstream local",
        "└── 512 tokens hit, 7 hits, blocks: device 32, host 32, pinned  You are Finn.",
        "    ├── 20 tokens new, blocks: device 1  private words",
        "    └── 9 tokens evicted",
        "… and more: see --limit",
    ]


def test_namespaces_are_apart_in_the_tree_and_a_cut_off_branch_is_still_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"id": 1, "root": 0, "num_tokens": 1, "state": "new"},
        {"id": 9, "root": 1, "parent": 5, "num_tokens": 2, "state": "new", "text": ODD},
    ]
    kv_tables.print_tree({"upstream": "local", "rows": rows, "is_cut": False})
    out = capsys.readouterr().out
    assert out.splitlines()[1:4] == ["├── namespace #0", "│   └── 1 token new", "└── namespace #1"]
    assert "b[/b] [red]x" in out
    assert "\x1b" not in out


def test_namespaces_have_their_names_in_the_tree_and_a_number_without_one_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"id": i, "root": i, "num_tokens": i + 1, "state": "new"} for i in (1, 0)]
    roots = [
        {"root": 0, "namespace": "default"},
        {"root": 1, "namespace": None},
        {"root": 2, "namespace": "x"},
    ]
    kv_tables.print_tree({"upstream": "local", "roots": roots, "rows": rows, "is_cut": False})
    *drawn, note = capsys.readouterr().out.splitlines()
    assert drawn == [
        "upstream local", "├── namespace default", "│   └── 1 token new", "└── namespace #1", "    └── 2 tokens new",
    ]  # fmt: skip
    assert note.startswith("namespace #N: ")
    kv_tables.print_tree({"upstream": "local", "roots": roots[:1], "rows": rows[1:], "is_cut": False})
    assert capsys.readouterr().out.splitlines() == [
        "upstream local",
        "└── namespace default",
        "    └── 1 token new",
    ]


def test_what_was_evicted_hangs_in_its_place_also_if_its_parent_went_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"id": 1, "root": 0, "parent": None, "num_tokens": 1, "state": "hit"},
        {"id": 3, "root": 0, "parent": 2, "num_tokens": 3, "state": "evicted"},
        {"id": 2, "root": 0, "parent": 1, "num_tokens": 2, "state": "evicted"},
        {"id": 9, "root": None, "parent": None, "num_tokens": 9, "state": "evicted"},
    ]
    kv_tables.print_tree({"upstream": "local", "rows": rows, "is_cut": False})
    assert capsys.readouterr().out.splitlines()[1:7] == [
        "├── namespace #0",
        "│   └── 1 token hit",
        "│       └── 2 tokens evicted",
        "│           └── 3 tokens evicted",
        "└── namespaces with nothing left in the cache",
        "    └── 9 tokens evicted",
    ]


def test_on_a_narrow_terminal_no_word_of_the_tree_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "width", 40)
    words = [f"word{i}" for i in range(60)]
    row = {"id": 1, "root": 0, "num_tokens": 9, "state": "new", "text": " ".join(words) + "\nlast\tone"}
    kv_tables.print_tree({"upstream": "local", "rows": [row], "is_cut": False})
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 40
    assert out.split()[-60:] == [*words[:-1], "word59⏎last\N{REPLACEMENT CHARACTER}one"]


def test_a_time_that_is_not_known_is_not_told() -> None:
    pins = [{"id": "p1", "num_tokens": 16, "expires_at": None}]
    rows = dict(
        kv_tables.status_rows({"tiers": [], "pins": pins, "integrity": {"ok": False, "checked_at": None}})
    )
    assert (rows[", pins"], rows[", integrity"]) == ("p1 (16 tokens)", "BROKEN")


def test_evicted_kv_is_told_with_what_was_kept(capsys: pytest.CaptureFixture[str]) -> None:
    kv = {"num_blocks": 1, "num_tokens": 16, "num_pinned_blocks": 2}
    tables.print_evicted({"dry_run": False, "type": "kv", "kv": kv}, "*")
    assert capsys.readouterr().out == (
        "1 KV block (16 tokens) removed; 2 pinned blocks kept (--pinned ends pins too)\n"
    )
    tables.print_evicted({"dry_run": False, "type": "kv", "kv": kv}, "*", pinned=True)
    assert capsys.readouterr().out == "1 KV block (16 tokens) removed; 2 pinned blocks kept\n"
    nothing = {"num_blocks": 0, "num_tokens": 0}
    tables.print_evicted({"dry_run": True, "type": "kv", "kv": nothing}, "France")
    assert '"*France*"' in capsys.readouterr().out


def test_a_warm_up_without_its_last_line_was_broken_off() -> None:
    first = {"index": 0, "num_tokens": 9, "num_cached_tokens": 4, "num_computed_tokens": 5}
    failed = {"index": 1, "error": "too long"}
    whole = kv_tables.warm_summary([first, failed, {"done": True, "pins": []}], 2, None)
    assert whole["namespace"] == "default"
    assert (whole["num_warm"], whole["error"], whole["failed"]) == (1, None, [failed])
    assert (whole["num_tokens"], whole["num_cached_tokens"], whole["num_computed_tokens"]) == (9, 4, 5)
    cut = kv_tables.warm_summary([first], 2, "team")
    assert (cut["num_warm"], cut["error"]) == (1, "the server ended its answer too early")


def test_a_rekey_tells_replies_and_history_apart(capsys: pytest.CaptureFixture[str]) -> None:
    replies = {"num_rewritten": 1, "num_current": 2000, "num_unreadable": 0}
    history = {"num_rewritten": 5, "num_current": 0, "num_unreadable": 1}
    tables.print_rekeyed({"by_kind": {"result": replies, "history": history}})
    assert capsys.readouterr().out.splitlines() == [
        "1 entry rewritten, 2,000 were current",
        "5 values of history rewritten, 0 were current",
        "1 value of history could not be read: corrupt, or under a key that this node does not have",
    ]
