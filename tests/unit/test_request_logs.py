"""Logs of requests in every form that is understood, and what of them cannot be read."""

from __future__ import annotations

import base64
import gzip
import io
import json
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs import elements as scanning
from openclaw_cache.request_logs.log import RequestLog
from openclaw_cache.request_logs.logged_request import LoggedRequest

CHAT = {"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]}
MESSAGES = {
    "model": "claude",
    "system": "s",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "hi"}],
}
RESPONSES = {"model": "m", "input": "hi", "instructions": "be brief"}
COMPLETION = {"model": "m", "prompt": "Once"}


def write(tmp_path: Path, *values: Any, name: str = "log") -> str:
    file = tmp_path / name
    file.write_text("\n".join(v if isinstance(v, str) else json.dumps(v) for v in values))
    return str(file)


def read(*paths: str) -> list[LoggedRequest]:
    return list(RequestLog(paths).requests())


def test_bodies_of_every_api_are_told_apart_by_their_shape(tmp_path: Path) -> None:
    tool_use = {"type": "tool_use", "id": "t", "name": "x", "input": {}}
    blocks = {"model": "claude", "messages": [{"role": "assistant", "content": [tool_use]}]}
    found = read(write(tmp_path, CHAT, MESSAGES, RESPONSES, COMPLETION, blocks))
    assert [one.api for one in found] == ["chat", "messages", "responses", "completions", "messages"]
    assert [one.body for one in found[:2]] == [CHAT, MESSAGES]
    assert [one.line for one in found] == [1, 2, 3, 4, 5]


def test_the_batch_apis_lines_and_objects_around_a_body_are_read(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}}
    batch = {"custom_id": "c7", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    pair = {"request": CHAT, "response": {"id": "x", "choices": [], "usage": usage}}
    logged = {
        "timestamp": "2026-11-30T10:00:00Z",
        "headers": {"X-Session-Affinity": "s-9:0"},
        "body": json.dumps(CHAT),
        "usage": usage,
    }
    one, two, three = read(write(tmp_path, batch, pair, logged))
    assert (one.label, one.body, one.usage) == ("c7", CHAT, None)
    assert two.usage is not None
    assert (two.usage.prompt_tokens, two.usage.cached_tokens) == (90, 64)
    assert (three.at, three.session, three.body) == (1796032800.0, "s-9", CHAT)
    assert three.headers == [(b"x-session-affinity", b"s-9:0")]


@pytest.mark.parametrize(
    ("told", "at"),
    [
        (1796032800, 1796032800.0),
        (1796032800500, 1796032800.5),
        (1796032800500000, 1796032800.5),
        (1796032800500000000, 1796032800.5),
        ("1796032800.5", 1796032800.5),
        ("2026-11-30T11:00:00+01:00", 1796032800.0),
        ("soon", None),
        (True, None),
        (float("nan"), None),
    ],
)
def test_times_are_read_in_any_unit(tmp_path: Path, told: object, at: float | None) -> None:
    (found,) = read(write(tmp_path, {"timestamp": told, "body": CHAT}))
    assert found.at == (at if at is None else pytest.approx(at, abs=1e-3))


CAPTURE = {
    "scenario": "two",
    "requests": [
        {
            "seq": 1,
            "label": "t1",
            "t": 10.5,
            "path": "/v1/messages",
            "headers": [["Session_Id", "a"]],
            "body": MESSAGES,
        },
        {"seq": 2, "label": "t2", "t": 11.5, "path": "/v1/chat/completions", "headers": [], "body": CHAT},
        {"seq": 3, "label": "e", "t": 11.6, "path": "/v1/embeddings", "body": {"model": "e", "input": "x"}},
    ],
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_capture_is_read_request_by_request(tmp_path: Path, indent: int | None) -> None:
    log = RequestLog([write(tmp_path, json.dumps(CAPTURE, indent=indent))])
    found = list(log.requests())
    assert [(one.label, one.at, one.api, one.session) for one in found] == [
        ("t1", 10.5, "messages", "a"), ("t2", 11.5, "chat", "~1"),
    ]  # fmt: skip
    assert (log.num_other, log.num_skipped) == (1, 0)


def test_a_capture_on_one_long_line_is_never_held_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"requests": [{"label": f"r{i}", "body": CHAT | {"user": "u" * 3000}} for i in range(200)]}
    file = write(tmp_path, long)
    monkeypatch.setattr(scanning, "_BLOCK_BYTES", 1000)
    sizes: list[int] = []
    original = scanning._Scanner._refill

    def watched(scanner: Any) -> bool:
        has_more = original(scanner)
        sizes.append(len(scanner._buffer))
        return has_more

    monkeypatch.setattr(scanning._Scanner, "_refill", watched)
    assert [one.label for one in read(file)] == [f"r{i}" for i in range(200)]
    assert max(sizes) < 20_000


def test_requests_one_in_each_file_of_a_folder_come_in_order_of_time(tmp_path: Path) -> None:
    for name, at in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        write(tmp_path, json.dumps({"label": name, "t": at, "body": CHAT}, indent=1), name=f"{name}.json")
    (tmp_path / "notes.md").write_text("# not a log")
    log = RequestLog([str(tmp_path)])
    assert [one.label for one in log.requests()] == ["b", "c", "a"]
    assert [(Path(s.file).name, s.reason) for s in log.skipped] == [
        ("notes.md", "no request is in this file")
    ]


def test_files_whose_times_overlap_are_merged(tmp_path: Path) -> None:
    def rows(*times: float) -> list[dict[str, Any]]:
        return [{"label": str(at), "t": at, "body": CHAT} for at in times]

    one = write(tmp_path, *rows(1, 4, 9), name="one")
    two = write(tmp_path, *rows(2, 3, 5), name="two")
    three = write(tmp_path, *rows(20), name="three")
    assert [float(r.label) for r in read(three, one, two)] == [1, 2, 3, 4, 5, 9, 20]


def test_files_without_times_come_as_people_count(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        write(tmp_path, {"label": str(number), "body": CHAT}, name=f"request-{number}.json")
    assert [one.label for one in read(str(tmp_path))] == ["1", "9", "10"]


def har(text: str, mime: str, **content: Any) -> dict[str, Any]:
    def entry(url: str, body: str, method: str = "POST") -> dict[str, Any]:
        return {
            "startedDateTime": "2026-11-30T10:00:00.000Z",
            "request": {
                "method": method,
                "url": url,
                "headers": [{"name": "Session_ID", "value": "har-1"}],
                "postData": {"mimeType": "application/json", "text": body},
            },
            "response": {"status": 200, "content": {"mimeType": mime, "text": text, **content}},
        }

    entries = [
        entry("https://api.example.com/v1/models", "", "GET"),
        entry("https://api.example.com/v1/chat/completions?x=1", json.dumps(CHAT)),
        entry("https://api.example.com/login", "a=b"),
    ]
    return {"log": {"version": "1.2", "creator": {"name": "b", "version": "1"}, "entries": entries}}


USAGE = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 32}}
STREAM = "".join(
    f"data: {json.dumps(chunk)}\n\n"
    for chunk in ({"choices": [{"delta": {"content": "x"}}]}, {"choices": [], "usage": USAGE})
)


@pytest.mark.parametrize(
    "document",
    [
        har(json.dumps({"usage": USAGE}), "application/json"),
        har(STREAM + "data: [DONE]\n\n", "text/event-stream"),
        har(base64.b64encode(STREAM.encode()).decode(), "text/event-stream", encoding="base64"),
    ],
    ids=["whole", "stream", "base64"],
)
def test_a_har_file_gives_its_posts_to_models_with_their_usage(tmp_path: Path, document: Any) -> None:
    log = RequestLog([write(tmp_path, json.dumps(document, indent=1), name="x.har")])
    (found,) = log.requests()
    assert (found.api, found.body, found.session, found.at) == ("chat", CHAT, "har-1", 1796032800.0)
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.cached_tokens) == (40, 32)
    assert (log.num_other, log.num_skipped) == (2, 0)


def test_a_har_body_in_base64_is_read(tmp_path: Path) -> None:
    document = har("", "application/json")
    post = document["log"]["entries"][1]["request"]["postData"]
    post |= {"text": base64.b64encode(json.dumps(CHAT).encode()).decode(), "encoding": "base64"}
    (found,) = read(write(tmp_path, document))
    assert found.body == CHAT


def test_text_traces_are_read(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1760428436442742, "input": f"a{'b' * i}", "output": "", "session_id": "s"}
        for i in (0, 1)
    ]
    found = read(write(tmp_path, *rows))
    assert [(one.api, one.body, one.session) for one in found] == [
        ("text", {"prompt": "a"}, "s"), ("text", {"prompt": "ab"}, "s"),
    ]  # fmt: skip
    assert found[0].at == pytest.approx(1760428436.442742)


def entry(own: str, parent: str | None, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **fields}
    return {
        "type": "message",
        "id": own,
        "parentId": parent,
        "timestamp": "2026-11-30T10:00:00Z",
        "message": message,
    }


def said(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


TOLD = {"input": 10, "output": 2, "cacheRead": 100, "cacheWrite": 5, "totalTokens": 117}
TRANSCRIPT = [
    {"type": "session", "version": 3, "id": "sess", "timestamp": "2026-11-30T10:00:00Z", "cwd": "/home"},
    entry("1", None, "user", said("first")),
    entry("2", "1", "assistant", said("one"), model="m1", usage=TOLD),
    entry("3", "2", "user", said("second")),
    entry(
        "4",
        "3",
        "assistant",
        [{"type": "toolCall", "id": "c", "name": "x", "arguments": {"a": 1}}],
        usage=TOLD,
    ),
    entry("5", "4", "toolResult", said("done"), toolCallId="c"),
    entry("6", "5", "assistant", said("note"), usage={"input": 0, "output": 0}),
    entry("7", "6", "assistant", said("two"), model="m1", usage=TOLD),
    {"type": "compaction", "id": "8", "parentId": "7", "summary": "so far", "firstKeptEntryId": "5"},
    entry("9", "8", "user", said("third")),
    entry("10", "9", "assistant", said("three"), usage=TOLD),
    entry("11", "2", "user", said("another branch")),
    entry("12", "11", "assistant", said("four"), usage=TOLD),
]


def test_a_transcript_tells_of_one_request_for_each_reply(tmp_path: Path) -> None:
    found = read(write(tmp_path, *TRANSCRIPT))
    assert [(one.session, one.line, one.is_whole) for one in found] == [
        ("sess", line, False) for line in (3, 5, 8, 11, 13)
    ]
    first, second, third, compacted, branch = (one.body["messages"] for one in found)
    assert first == [{"role": "user", "content": said("first")}]
    assert second == [
        *first,
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": said("second")},
    ]
    assert third[:3] == second
    assert third[3]["tool_calls"][0]["function"] == {"name": "x", "arguments": '{"a":1}'}
    assert third[4:] == [
        {"role": "tool", "tool_call_id": "c", "content": said("done")},
        {"role": "assistant", "content": "note"},
    ]
    # After the compaction: its summary, what it kept (entries 5 to 7), what came then.
    assert [message["role"] for message in compacted] == ["user", "tool", "assistant", "assistant", "user"]
    assert "so far" in compacted[0]["content"]
    assert branch == [*second[:2], {"role": "user", "content": said("another branch")}]
    assert found[0].usage is not None
    assert (found[0].usage.prompt_tokens, found[0].usage.cached_tokens) == (115, 100)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_are_told_by_their_content(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "no-suffix"
    file.write_bytes(pack(json.dumps(CHAT).encode()))
    assert [one.body for one in read(str(file))] == [CHAT]


def test_what_stands_before_the_end_of_a_torn_packed_file_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(json.dumps(CHAT | {"seed": i}).encode() + b"\n" for i in range(20_000)))
    file = tmp_path / "log.gz"
    file.write_bytes(packed[: len(packed) // 2])
    log = RequestLog([str(file)])
    assert len(list(log.requests())) > 1000
    assert "the rest cannot be read" in log.skipped[-1].reason


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(CHAT).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    (found,) = read("-")
    assert found.place == "standard input:1"


def test_lines_that_cannot_be_read_are_counted_and_told(tmp_path: Path) -> None:
    log = RequestLog([write(tmp_path, "garbage", CHAT, "{broken", '"text"', {"id": "x"}, CHAT, "")])
    assert len(list(log.requests())) == 2
    assert [(one.line, one.reason) for one in log.skipped] == [
        (1, "not valid JSON"), (3, "not valid JSON"), (4, "not a JSON object"),
    ]  # fmt: skip
    assert log.num_other == 1


@pytest.mark.parametrize("text", ["", "# prose\n", "\x00\xff", '{"a": 1}', "[1, 2]", '{"requests": []}'])
def test_a_file_of_no_known_form_says_what_is_known(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"no request is in .*known are"):
        read(str(file))


def test_a_file_that_is_not_there_and_one_in_utf16_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        RequestLog([str(tmp_path / "none")])
    (tmp_path / "wide").write_bytes(json.dumps(CHAT).encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-16"):
        read(str(tmp_path / "wide"))


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf" + json.dumps(CHAT).encode())
    assert len(read(str(tmp_path / "x"))) == 1


# Sessions that nobody tells.


def turns(system: str, *texts: str) -> dict[str, Any]:
    said = [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(texts)]
    return {"model": "m", "messages": [{"role": "system", "content": system}, *said]}


def test_a_session_goes_on_where_most_of_the_beginning_is_the_same(tmp_path: Path) -> None:
    rows = [
        turns("s", "one"),
        turns("s", "two"),
        turns("s", "one", "1", "more"),
        turns("another day", "two", "2", "more"),
        turns("s", "one", "1", "more", "3", "and more"),
    ]
    assert [one.session for one in read(write(tmp_path, *rows))] == ["~1", "~2", "~1", "~2", "~1"]


def test_a_history_that_was_cut_from_the_front_stays_in_its_session(tmp_path: Path) -> None:
    rows = [turns("s", *"abcdefg"), turns("s", *"efghi")]
    assert [one.session for one in read(write(tmp_path, *rows))] == ["~1", "~1"]


def test_the_same_question_to_another_model_is_another_session(tmp_path: Path) -> None:
    rows = [turns("s", "one"), turns("s", "one") | {"model": "other"}]
    assert [one.session for one in read(write(tmp_path, *rows))] == ["~1", "~2"]


def test_a_session_told_in_a_message_that_was_cut_away_goes_on(tmp_path: Path) -> None:
    """OpenClaw tells it in the first message of a user, which a compaction replaces."""
    line = "Runtime: agent=main | session=agent:main:a | sessionId=7f1c29a1 | host=h"
    told = turns("s", f"hello\n\n{line}", "b", "c", "d", "e")
    other = turns("s", "unlike", "1", "2")
    cut = turns("s", "compacted into the following summary: …", "d", "e")
    first, _, last = read(write(tmp_path, told, other, cut))
    assert first.session == last.session == "7f1c29a1"


def test_what_stands_at_the_tail_of_all_prompts_ties_no_two_sessions_together(tmp_path: Path) -> None:
    tail = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    rows = [turns("s", "one", "1", "two"), turns("s", "three")]
    for row in rows:
        row["messages"].append({"role": "user", "content": [{"type": "text", "text": tail}]})
    assert [one.session for one in read(write(tmp_path, *rows))] == ["~1", "~2"]


@pytest.mark.parametrize("around", ['{{"requests": [{}', '{{"log": {{"entries": [{}', "[{}"])
def test_an_entry_that_the_end_of_a_document_tears_is_told(tmp_path: Path, around: str) -> None:
    entries = ", ".join(json.dumps({"body": CHAT}) for _ in range(3))
    log = RequestLog([write(tmp_path, around.format(entries)[:-20])])
    assert len(list(log.requests())) == 2
    assert [(one.line, one.reason) for one in log.skipped] == [(3, "not valid JSON")]


# Real captures.


def test_all_requests_of_the_captured_scenarios_are_read_with_their_sessions(data_root: Path) -> None:
    log = RequestLog([str(data_root / "openclaw")])
    found = list(log.requests())
    assert len(found) == 104
    assert log.num_skipped == 0
    assert [one.at for one in found] == sorted(one.at or 0 for one in found)
    assert {one.agent for one in found} == {"main", "second", None}  # the summariser names none
    told = json.loads((data_root / "openclaw" / "conv1.json").read_text())["requests"]
    for one, expected in zip([r for r in found if r.label.startswith("conv1")], told, strict=True):
        assert one.raw == json.dumps(expected["body"], ensure_ascii=False, separators=(",", ":")).encode()


def test_the_text_traces_are_read(data_root: Path) -> None:
    found = read(str(data_root / "traces" / "lmcache_agent" / "miniswe.jsonl.gz"))
    assert len(found) == 402
    assert len({one.session for one in found}) == 20
