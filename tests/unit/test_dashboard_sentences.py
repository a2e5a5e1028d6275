"""What the server says as data is said by the dashboard: in English as the server says it, in Chinese whole."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import openclaw_cache
from openclaw_cache.api import analysis
from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.api.break_labels import LABELS
from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.semantic.agreement import Agreement
from support.every_sentence import every_code, every_finding, every_label, every_step
from support.node import DASHBOARD, run_node

LANGUAGES = {name: json.loads((DASHBOARD / "i18n" / f"{name}.json").read_text()) for name in ("en", "zh")}
SAY = Path(__file__).parent.parent / "support" / "say.mjs"
FINDINGS, STEPS, BREAKS = every_finding(), every_step(), list(every_label())
TOLD = [
    *((row["text"], row["said"]) for row in FINDINGS),
    *((row["advice"], row["advised"]) for row in FINDINGS),
    *((row["text"], row["said"]) for row in STEPS),
    *BREAKS,
]
"""What the server says in English, and the same as data."""
AS_THEY_ARE = re.compile(
    # names of settings, commands, files, fields and headers; values of the cases; words that Chinese operators use
    r"cache_hints: auto|canonical: safe|[a-z_]+(?:[./][A-Za-z_]+)+(?:: cache\b)?|/admin/\S+|"
    r"openclaw-cache \w+(?: --\w+(?: \w+)?)*(?: FILE)?|Cache-Control|no-cache|no-store|max-age|max_tokens|"
    r"\bcache 字段|\bupstreams\b|invalid_request_error|127\.0\.0\.1:\d+: Connection refused|"
    r"MEMORY\.md|Current time|\b(?:exec|read|write|openclaw|pods|claude|main|faq|m|other)\b|3a0dc4d87579bbc8|"
    r"tools \"research_papers_by_author\", \"res…|"
    r"\b(?:token|KV|JSON|GET|ID|OpenClaw|DYNAMIC|Runtime|full|server)\b"
)


def said(lang: str, sentences: list[Any]) -> list[str | None]:
    ran = run_node([str(SAY)], json.dumps({"lang": lang, "said": sentences}))
    assert ran.returncode == 0, ran.stderr
    found: list[str | None] = json.loads(ran.stdout)
    return found


def test_the_english_of_the_page_is_the_server_s() -> None:
    assert {code: LANGUAGES["en"].get(code) for code in ENGLISH} == ENGLISH


def test_the_cases_say_every_sentence_that_there_is() -> None:
    told = set(every_code([FINDINGS, STEPS, [data for _, data in BREAKS]]))
    by_the_step = {f"diagnosis.{step}" for step in range(1, 6)}
    parts = {code for code in LABELS if code.startswith(("label.role.", "label.turn."))}
    assert ENGLISH.keys() - told - by_the_step - parts == set()
    assert told - ENGLISH.keys() == set()


def test_every_code_in_the_code_has_its_english_and_none_is_left_over() -> None:
    """A branch that no case reaches cannot say what has no template."""
    named: set[str] = set()
    begun: set[str] = set()
    for file in Path(analysis.__file__).parent.glob("*.py"):
        if file.name == "english.py":
            continue
        groups = r"(?:finding|advice|seen|effect|fix|diagnosis)\."
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.fullmatch(groups + r"[\w.-]*\w", node.value):
                    named.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                begin = ast.unparse(node.values[0]).strip("'")
                begun |= {begin} if re.fullmatch(groups + r"(?:\w+\.)?", begin) else set()
    assert named - ENGLISH.keys() == set()
    assert [start for start in begun if not any(code.startswith(start) for code in ENGLISH)] == []
    whole = {code.removesuffix(".one") for code in ENGLISH} - LABELS.keys()
    assert [code for code in whole - named if not code.startswith(tuple(begun))] == []


@pytest.mark.node
def test_in_english_the_page_says_what_the_server_says() -> None:
    told = said("en", [data for _, data in TOLD])
    assert [(theirs, ours) for ours, (theirs, _) in zip(told, TOLD, strict=True) if ours != theirs] == []


@pytest.mark.node
def test_in_chinese_every_sentence_is_chinese_with_its_names_and_numbers() -> None:
    told = said("zh", [data for _, data in TOLD])
    for text, (english, data) in zip(told, TOLD, strict=True):
        assert text is not None, english
        if data[0]["code"] != "label.heading":
            assert re.search(r"[一-鿿]", text), english
        assert not re.search(r"[{}]|undefined|null|NaN", text), text
        left = re.findall(r"[A-Za-z]{2,}", AS_THEY_ARE.sub(" ", text))
        assert left == [], text
        for number in re.findall(r"\d[\d,.]*%?", english):
            if number not in ("1", "64"):  # one is a word in some templates of either
                assert number.rstrip(",.") in text, (english, text)


@pytest.mark.node
def test_a_code_that_is_not_known_is_left_to_the_server_s_own_words() -> None:
    known = {"code": "seen.no_lookup", "values": {}}
    new = {"code": "seen.something_new", "values": {}}
    inside = {"code": "finding.prefix_break", "values": {"what": new}}
    among = {"code": "seen.moved_new", "values": {"moved_ratio": 0.5, "kinds": [new]}}
    told = said("zh", [[new], [known, new], [inside], [among], [], [{"code": "constructor", "values": {}}]])
    assert told == [None] * 6


@pytest.mark.node
def test_names_are_text_and_nothing_in_them_is_looked_up() -> None:
    name = "{n}<b>{what:cause}&seen.books"
    names = {"code": "label.names", "values": {"names": [name]}}
    told = said("zh", [[{"code": "label.tools_missing", "values": {"n": 1, "names": names}}]])
    assert told == [f"缺少工具“{name}”"]


def test_every_reason_of_a_check_has_a_name() -> None:
    reasons: set[str] = set()
    for file in (Path(openclaw_cache.__file__).parent / "semantic").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Verdict" and len(node.args) > 2:
                reasons |= set(re.findall(r"'(\w+)'", ast.unparse(node.args[2])))
    assert len(reasons) > 15
    reasons |= {"entry", "unlike", "other", "more"}  # given their names before
    assert {f"reason.{reason}" for reason in reasons} == {
        key for key in LANGUAGES["en"] if key.startswith("reason.")
    }
    learned = {*Agreement, "good", "bad", "by the model", "by feedback"}
    assert {f"learned.{word}" for word in learned} == {
        key for key in LANGUAGES["en"] if key.startswith("learned.")
    }


def test_every_cause_has_what_helps_and_every_word_in_a_sentence_a_group() -> None:
    assert {f"fix.{cause}" for cause in CAUSES} <= ENGLISH.keys()
    groups = {key.split(".")[0] for key in LANGUAGES["zh"]}
    asked = {
        form
        for text in LANGUAGES["zh"].values()
        for form in re.findall(r"\{\w+:([a-z]+)\}", text)
        if form != "d"
    }
    assert asked - groups == set()
