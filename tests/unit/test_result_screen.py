"""Looking through prompts and replies before they are stored: which rules apply, and what becomes of the reply."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.result import screen
from openclaw_cache.result.screen import INLINE_CHARS, MAX_CHARS, Screen
from openclaw_cache.settings import ResultCacheSettings, ScreenRule

EMAIL = "alice@mail.alice-und-bob.de"
PHONE = "13800138000"
TOKEN = "hf_" + "aB3dE5gH7j" * 3 + "k9Lm"
BOTH = Screen([ScreenRule(find="secrets"), ScreenRule(find="personal")])


def test_each_rule_finds_its_own_kind_in_any_of_the_texts() -> None:
    assert BOTH.find([]) == frozenset()
    assert BOTH.find(["hello", "什么是缓存？"]) == frozenset()
    assert BOTH.find(["hello", TOKEN]) == {"secrets"}
    assert BOTH.find([EMAIL, "hello"]) == {"personal"}
    assert BOTH.find([EMAIL, TOKEN]) == {"secrets", "personal"}


def test_what_no_rule_asks_for_is_not_looked_for() -> None:
    assert Screen([ScreenRule(find="secrets")]).find([EMAIL]) == frozenset()
    assert Screen([ScreenRule(find="personal")]).find([TOKEN]) == frozenset()
    assert Screen([]).find([EMAIL, TOKEN]) == frozenset()


@pytest.mark.parametrize("text", [TOKEN, EMAIL, PHONE, f'password = "{TOKEN[3:14]}"'])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_in_json_hides_nothing(text: str, depth: int, ascii_only: bool) -> None:
    content = f"电话\n{text}\n。"
    for _ in range(depth):
        content = json.dumps({"content": content}, ensure_ascii=ascii_only)
    assert BOTH.find([content])


@pytest.mark.parametrize("filler", ["word ", "字", "x", "\n"])
def test_nothing_is_missed_where_two_pieces_meet(filler: str) -> None:
    # Pieces are of 8,192 characters and share up to 1,024: the number stands around each of the four ends.
    text = (filler * 16_500)[:16_500]
    for at in [
        *range(7100, 7240, 4),
        *range(7620, 7720, 4),
        *range(8130, 8230, 4),
        *range(15_820, 15_900, 4),
    ]:
        assert BOTH.find([f"{text[:at]} {PHONE} {text[at:]}"]) == {"personal"}, at


def test_a_seam_between_two_words_makes_no_number_out_of_a_longer_one() -> None:
    # Each of these is too long for a phone number; a part of it would be one.
    text = f"id{PHONE}1 " * 4000
    assert BOTH.find([text]) == frozenset()


def test_what_is_too_large_to_be_looked_through_counts_as_found() -> None:
    half = "a" * (MAX_CHARS // 2)
    assert BOTH.find([half, half]) == frozenset()
    assert BOTH.find([half, half, "a"]) == {"secrets", "personal"}


def test_lone_surrogates_and_control_characters_are_looked_through() -> None:
    assert BOTH.find(["\ud83d\x00 \\ud83d " + PHONE]) == {"personal"}


@pytest.mark.parametrize(
    "text", ["\\" * 200_000, "=" * 200_000, "+1 000 " * 30_000, "eyJ" * 60_000, "token" * 40_000]
)
def test_a_text_made_to_be_slow_comes_to_an_end(text: str) -> None:
    # Quadratic patterns took minutes for these.
    assert isinstance(BOTH.find([text]), frozenset)


@pytest.mark.parametrize(
    ("rules", "found", "verdict"),
    [
        (["secrets", "personal"], [], "store"),
        (["secrets", "personal"], ["personal"], "skip"),
        ([("secrets", "skip"), ("personal", "encrypt")], ["personal"], "encrypt"),
        ([("secrets", "skip"), ("personal", "encrypt")], ["secrets"], "skip"),
        ([("secrets", "skip"), ("personal", "encrypt")], ["secrets", "personal"], "skip"),
        ([("secrets", "skip"), ("secrets", "encrypt")], ["secrets"], "skip"),
        ([("secrets", "encrypt"), ("secrets", "skip")], ["secrets"], "skip"),
    ],
)
def test_the_strictest_rule_decides(rules: list[Any], found: list[str], verdict: str) -> None:
    written = [{"find": rule[0], "action": rule[1]} if isinstance(rule, tuple) else rule for rule in rules]
    settings = ResultCacheSettings.model_validate({"encryption_key_env": "KEYS", "screen": written})
    assert Screen(settings.screen).verdict(frozenset(found)) == verdict


@pytest.mark.parametrize(("num_chars", "in_a_thread"), [(INLINE_CHARS, False), (INLINE_CHARS + 1, True)])
async def test_large_texts_are_looked_through_in_a_thread(
    num_chars: int, in_a_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    whole = screen._unescaped

    def noted(text: str) -> str:
        threads.append(threading.current_thread())
        return whole(text)

    monkeypatch.setattr(screen, "_unescaped", noted)
    text = (PHONE + " " * num_chars)[:num_chars]
    assert await BOTH.look([text]) == {"personal"}
    assert (threads[0] is not threading.main_thread()) is in_a_thread


async def test_two_threads_may_look_at_the_same_time() -> None:
    texts = ["字" * 20_000 + found for found in (PHONE, TOKEN, EMAIL, "")]
    looks = await asyncio.gather(*(BOTH.look([text]) for text in texts * 3))
    assert looks == [{"personal"}, {"secrets"}, {"personal"}, set()] * 3


@pytest.mark.parametrize(
    ("find", "module", "package"),
    [
        ("secrets", "detect_secrets.plugins.aws", "bc-detect-secrets"),
        ("personal", "phonenumbers", "phonenumberslite"),
        ("personal", "stdnum", "python-stdnum"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    find: Any, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'openclaw-cache\[screen\]'") as caught:
        Screen([ScreenRule(find=find)])
    assert package in str(caught.value)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for part in value.values() for text in _strings(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in _strings(part))


def test_requests_of_real_agents_without_secrets_pass(data_root: Path) -> None:
    found = {
        text[:80]
        for path in (data_root / "openclaw").glob("*.json")
        for request in json.loads(path.read_text())["requests"]
        for text in _strings(request.get("body"))
        if BOTH.find([text])
    }
    assert found == set()
