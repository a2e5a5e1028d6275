"""What `connect` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from openclaw_cache.connect import shown
from openclaw_cache.connect.checks import Finding
from openclaw_cache.connect.plan import Change
from openclaw_cache.connect.proof import Proof
from openclaw_cache.connect.record import Record
from openclaw_cache.console import plural, printable

Say = Callable[[str], None]

_MARKS: Final = {"ok": "ok     ", "warn": "warning", "fail": "FAILED ", "unknown": "?      "}


def quiet(_line: str) -> None:
    """Say nothing: --json prints one object at the end."""


def plan_lines(changes: Sequence[Change], notes: Iterable[str], say: Say) -> None:
    """What would be changed, and what there is to say about it."""
    for note in notes:
        say(printable(note))
    if not changes:
        say("already connected: the config says all of it")
    for line in shown.lines(changes):
        say(printable(line))


def written(root: Path, backups: Iterable[Path], say: Say) -> None:
    """That it was written, and where the backups are."""
    say(f"written, and OpenClaw accepts it: {root}")
    for backup in backups:
        say(f"backup: {backup}")


def proof(proved: Proof, *, with_plugin: bool, say: Say) -> None:
    """What the two questions showed."""
    for answer in proved.answers:
        say(f"  answer: {printable(answer.text[:200])}")
        prompt = plural(answer.num_prompt_tokens, "prompt token")
        say(f"  OpenClaw counted {prompt}, {answer.num_cached_tokens:,} of them cached")
    if proved.num_requests is not None:
        say(f"this server saw {plural(proved.num_requests, 'request')}")
    if with_plugin:
        turns = (
            "did not say"
            if proved.num_turns is None
            else f"got {plural(proved.num_turns, 'turn')} from the plugin"
        )
        say(f"this server's memory {turns}")
    if not any(answer.num_cached_tokens for answer in proved.answers):
        say("no saving can be seen: the upstream reports no cached tokens")


def kept_lines(kept: Record, say: Say) -> None:
    """What would be taken back."""
    for one in kept.kept:
        name = ".".join(one.path) + ("[]" if one.is_item else "")
        say(f"  - {name}" if one.before is None else f"  < {name}: as it was")


def undone(done: Iterable[str], notes: Iterable[str], say: Say) -> None:
    """What was taken back."""
    for line in done:
        say(line)
    for note in notes:
        say(f"note: {printable(note)}")
    say(
        "disconnected; a running gateway of OpenClaw takes it over by itself (unless gateway.reload.mode is off)"
    )


def findings(found: Iterable[Finding], say: Say) -> None:
    """One line for each check, the remedy below it."""
    for one in found:
        say(f"{_MARKS[one.state]}  {one.name}: {printable(one.found)}")
        if one.remedy and one.state != "ok":
            say(f"         -> {printable(one.remedy)}")
