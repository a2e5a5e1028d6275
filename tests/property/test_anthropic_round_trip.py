"""merge(split(reply)) == reply, and the official SDK reads the same message out of the same stream."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.anthropic import MessagesDialect
from openclaw_cache.dialects.anthropic.merge import merge
from openclaw_cache.dialects.anthropic.split import shape_fault, split
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.errors import MergeError
from support.anthropic_replies import RECORDED, accumulated, filled

GRAPHEMES = [
    "é",
    "e\u0301",
    "世",
    "界",
    "🧑\u200d🚀",
    "👍🏽",
    "🇨🇳",
    "\u2764\ufe0f",
    "한",
    "\u1112\u1161\u11ab",
]
AWKWARD = [
    "\r\n",
    "\u2028",
    "\x85",
    "data: ",
    "\n\n",
    '"',
    "\\",
    "\x00",
    "message_stop",
    '{"type":"error"}',
    " ",
]
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.lists(
    st.sampled_from(GRAPHEMES + AWKWARD), max_size=20
).map("".join)
NAMES = st.text(alphabet="abcxyz_", min_size=2, max_size=6)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXT, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(NAMES, JSON, max_size=2)
COUNTS = st.integers(0, 10**6)

CITATION = st.fixed_dictionaries(
    {
        "type": st.just("char_location"),
        "cited_text": TEXT,
        "document_index": COUNTS,
        "document_title": st.none() | TEXT,
        "start_char_index": COUNTS,
        "end_char_index": COUNTS,
    }
)
TEXT_BLOCK = st.fixed_dictionaries(
    {"type": st.just("text"), "text": TEXT},
    optional={"citations": st.none() | st.lists(CITATION, max_size=3)},
)
THINKING = st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT, "signature": TEXT})
REDACTED = st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": TEXT})
TOOL_USE = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["tool_use", "server_tool_use", "mcp_tool_use"]),
        "id": TEXT,
        "name": TEXT,
        "server_name": TEXT,
        "input": st.dictionaries(TEXT, JSON, max_size=4),
    }
)
RESULT = st.fixed_dictionaries(
    {
        "type": st.just("web_search_tool_result"),
        "tool_use_id": TEXT,
        "content": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.just("web_search_result"),
                    "title": TEXT,
                    "url": TEXT,
                    "encrypted_content": TEXT,
                    "page_age": st.none() | TEXT,
                }
            ),
            max_size=2,
        ),
    }
)
COMPACTION = st.fixed_dictionaries(
    {"type": st.just("compaction"), "content": st.none() | TEXT},
    optional={"encrypted_content": st.none() | TEXT, "signature": st.none() | TEXT},
)
KNOWN_BLOCK = TEXT_BLOCK | THINKING | REDACTED | TOOL_USE | RESULT | COMPACTION
ODD_BLOCK = st.builds(
    lambda unknown, block: {**unknown, **block},
    UNKNOWN,
    KNOWN_BLOCK
    | st.fixed_dictionaries({"type": NAMES})
    | st.fixed_dictionaries({"type": st.just("tool_use")}, optional={"input": JSON})
    | st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT}, optional={"signature": JSON}),
)
USAGE = st.fixed_dictionaries(
    {"input_tokens": COUNTS, "output_tokens": COUNTS},
    optional={
        "cache_creation_input_tokens": st.none() | COUNTS,
        "cache_read_input_tokens": st.none() | COUNTS,
        "cache_creation": st.fixed_dictionaries(
            {"ephemeral_5m_input_tokens": COUNTS, "ephemeral_1h_input_tokens": COUNTS}
        ),
        "server_tool_use": st.none()
        | st.fixed_dictionaries({"web_search_requests": COUNTS, "web_fetch_requests": COUNTS}),
        "output_tokens_details": st.none() | st.fixed_dictionaries({"thinking_tokens": COUNTS}),
        "service_tier": st.sampled_from(["standard", "priority"]),
    },
)


def messages(block: st.SearchStrategy[Any], usage: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "id": TEXT,
            "type": st.just("message"),
            "role": st.just("assistant"),
            "model": TEXT,
            "content": st.lists(block, max_size=4),
            "stop_reason": st.sampled_from(
                ["end_turn", "tool_use", "stop_sequence", "max_tokens", "refusal"]
            ),
            "stop_sequence": st.none() | TEXT,
            "usage": usage,
        },
        optional={
            "stop_details": st.none()
            | st.fixed_dictionaries({"type": st.just("refusal"), "explanation": TEXT}),
            "container": st.none(),
            "context_management": st.none() | st.fixed_dictionaries({"applied_edits": st.just([])}),
        },
    )


KNOWN = messages(KNOWN_BLOCK, USAGE)
ODD = st.builds(
    lambda unknown, message, more: {**unknown, **message, **more},
    UNKNOWN,
    messages(ODD_BLOCK, st.builds(lambda unknown, usage: {**unknown, **usage}, UNKNOWN, USAGE)),
    st.fixed_dictionaries(
        {},
        optional={"container": JSON, "stop_details": JSON, "context_management": JSON, "diagnostics": JSON},
    ),
)


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in SseParser().feed(stream)]


def spelled(value: Any) -> str:
    """Tell 1, 1.0 and true apart, which are equal for Python and not in JSON."""
    return json.dumps(value, sort_keys=True)


@settings(max_examples=200, deadline=None)
@given(ODD, st.integers(1, 40))
def test_a_replayed_message_merges_into_itself(message: dict[str, Any], max_piece_chars: int) -> None:
    assert shape_fault(message) is None
    assert spelled(merge(payloads(split(message, max_piece_chars=max_piece_chars)))) == spelled(message)


@settings(max_examples=80, deadline=None)
@given(KNOWN, st.integers(1, 40))
def test_the_sdk_reads_a_replay_as_the_message(message: dict[str, Any], max_piece_chars: int) -> None:
    stream = split(message, max_piece_chars=max_piece_chars)
    assert spelled(accumulated(stream)) == spelled(filled(message))


@settings(max_examples=80, deadline=None)
@given(ODD, st.integers(1, 40))
def test_a_replay_has_one_end_and_no_error_whatever_its_texts_say(
    message: dict[str, Any], max_piece_chars: int
) -> None:
    progress = MessagesDialect().progress()
    *events, last = SseParser().feed(split(message, max_piece_chars=max_piece_chars))
    for event in events:
        progress.add(*event)
        assert not progress.has_end
    progress.add(*last)
    assert progress.has_end
    assert not progress.has_error


@settings(max_examples=60, deadline=None)
@given(KNOWN, st.data())
def test_a_replay_without_one_of_its_frame_events_is_refused(
    message: dict[str, Any], data: st.DataObject
) -> None:
    events = payloads(split(message))
    frame = [at for at, event in enumerate(events) if b'"type":"content_block_delta"' not in event[:30]]
    lost = data.draw(st.sampled_from(frame))
    try:
        merge(events[:lost] + events[lost + 1 :])
    except MergeError:
        return
    raise AssertionError(f"merged without {events[lost][:40]!r}")


@given(JSON | ODD)
def test_whatever_is_admitted_can_be_replayed(reply: Any) -> None:
    dialect, request = MessagesDialect(), Request("m", limit=7)
    if dialect.refusal_to_store(reply, request) is None:
        assert merge(payloads(dialect.split(reply, request))) == reply


@given(st.sampled_from(sorted(RECORDED)), st.data())
def test_a_stream_that_lost_bytes_is_merged_rightly_or_refused(name: str, data: st.DataObject) -> None:
    """Bytes lost inside a text or a number are no fault that JSON could show: the rest of the message holds."""
    stream, message = RECORDED[name]
    start = data.draw(st.integers(0, len(stream) - 1))
    end = data.draw(st.integers(start + 1, min(len(stream), start + 400)))
    try:
        merged = merge(payloads(stream[:start] + stream[end:]))
    except MergeError:
        return
    assert [block["type"] for block in merged["content"]] == [block["type"] for block in message["content"]]
