"""merge(split(reply)) == reply: a stream client and a plain client get the same reply, to the last field."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.openai import StreamProgress, merge, shape_fault, split
from openclaw_cache.dialects.pieces import pieces
from openclaw_cache.dialects.sse import SseParser

GRAPHEMES = [
    "é",
    "e\u0301",
    "世",
    "界",
    "🧑\u200d🚀",
    "👍🏽",
    "🇨🇳",
    "🇫🇷",
    "\u2764\ufe0f",
    "한",
    "\u1112\u1161\u11ab",
]
AWKWARD = ["\r\n", "\u2028", "data: ", "\n\n", '"', "\\", "\x00", "\u200d", "[DONE]", " "]
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=30) | st.lists(
    st.sampled_from(GRAPHEMES + AWKWARD), max_size=30
).map("".join)
NAMES = st.text(alphabet="abcxyz_", min_size=2, max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            NAMES | st.sampled_from(["index", "id", "type", "role", "name", "arguments"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(NAMES, JSON, max_size=3)
TOKENS = st.fixed_dictionaries(
    {"token": TEXT, "logprob": NUMBERS, "bytes": st.none() | st.lists(st.integers(0, 255), max_size=3)}
)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    function = {"name": draw(TEXT), "arguments": draw(TEXT), **draw(UNKNOWN)}
    return {"id": draw(TEXT), "type": "function", "function": function, **draw(UNKNOWN)}


MESSAGES = st.builds(
    lambda unknown, known, fixed: {**unknown, **known, **fixed},
    UNKNOWN,
    st.fixed_dictionaries(
        {},
        optional={
            "refusal": st.none() | TEXT,
            "reasoning_content": st.none() | TEXT,
            "reasoning": st.none() | TEXT,
            "tool_calls": st.none() | st.lists(calls(), max_size=3),
            "function_call": st.fixed_dictionaries({"name": TEXT, "arguments": TEXT}),
            "annotations": st.lists(UNKNOWN, max_size=2),
            "audio": st.none() | st.fixed_dictionaries({"id": TEXT, "data": TEXT, "expires_at": NUMBERS}),
            "reasoning_details": st.lists(JSON, max_size=3),
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | TEXT | st.lists(UNKNOWN, max_size=2)}
    ),
)


@st.composite
def choices(draw: st.DrawFn, index: int) -> dict[str, Any]:
    message = draw(MESSAGES)
    choice = {**draw(UNKNOWN), "index": index, "message": message}
    choice["finish_reason"] = draw(st.sampled_from(["stop", "tool_calls", "length", "content_filter", None]))
    choice |= draw(
        st.fixed_dictionaries(
            {}, optional={"stop_reason": JSON, "token_ids": st.lists(st.integers(0, 9), max_size=3)}
        )
    )
    if draw(st.booleans()):
        spelled = [{"token": piece, "logprob": -0.5} for piece in pieces(str(message["content"]), 3)]
        lists = st.none() | st.lists(TOKENS, max_size=3) | st.just(spelled)
        choice["logprobs"] = draw(
            st.none() | st.fixed_dictionaries({"content": lists}, optional={"refusal": lists, "x": JSON})
        )
    return choice


@st.composite
def replies(draw: st.DrawFn) -> dict[str, Any]:
    indexes = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)))
    known = st.fixed_dictionaries(
        {},
        optional={
            "id": TEXT,
            "created": st.integers(0, 2**40),
            "model": TEXT,
            "system_fingerprint": st.none() | TEXT,
            "service_tier": st.none() | TEXT,
            "usage": st.none() | st.dictionaries(NAMES, st.integers(0, 10) | UNKNOWN, max_size=3),
            "prompt_filter_results": JSON,
        },
    )
    told = [draw(choices(index)) for index in indexes]
    return {**draw(UNKNOWN), **draw(known), "object": "chat.completion", "choices": told}


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in SseParser().feed(stream)]


@settings(max_examples=200, deadline=None)
@given(replies(), st.integers(1, 40))
def test_replayed_reply_merges_into_itself(reply: dict[str, Any], max_piece_chars: int) -> None:
    assert shape_fault(reply) is None
    stream = split(reply, include_usage=True, max_piece_chars=max_piece_chars)
    merged = merge(payloads(stream))
    assert merged == reply
    # 1 == True == 1.0 for Python, not for JSON
    assert json.dumps(merged, sort_keys=True) == json.dumps(reply, sort_keys=True)


@settings(max_examples=60, deadline=None)
@given(replies())
def test_without_usage_only_the_usage_is_missing(reply: dict[str, Any]) -> None:
    merged = merge(payloads(split(reply, include_usage=False)))
    reply.pop("usage", None)
    assert merged == reply


@settings(max_examples=60, deadline=None)
@given(replies(), st.integers(1, 40))
def test_replay_is_a_well_formed_stream(reply: dict[str, Any], max_piece_chars: int) -> None:
    events = payloads(split(reply, include_usage=True, max_piece_chars=max_piece_chars))
    progress = StreamProgress()
    for event in events:
        progress.add(event)
    assert (progress.has_end, progress.has_error) == (True, False)
    chunks = [json.loads(event) for event in events[:-1]]
    for name in ("id", "created", "model", "system_fingerprint", "service_tier"):
        assert all(
            chunk.get(name) == reply.get(name) and (name in chunk) == (name in reply) for chunk in chunks
        )
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    for choice in reply["choices"]:
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert own[0]["delta"]["role"] == "assistant"
        assert [one["finish_reason"] for one in own[:-1]] == [None] * (len(own) - 1)
        assert own[-1]["finish_reason"] == choice["finish_reason"]


@given(TEXT, st.integers(1, 20))
def test_pieces_keep_every_character_and_the_bound(text: str, max_chars: int) -> None:
    cut = pieces(text, max_chars)
    assert "".join(cut) == text
    assert all(0 < len(piece) <= max_chars for piece in cut)
