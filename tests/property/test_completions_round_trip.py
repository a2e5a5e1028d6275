"""merge(split(reply)) == reply: a stream client and a plain client get the same completion, to the last field."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.completions import merge, shape_fault, split
from openclaw_cache.dialects.pieces import pieces
from support.responses_replies import read

AWKWARD = [
    "e\u0301",
    "世",
    "🧑\u200d🚀",
    "🇨🇳",
    "\r\n",
    "\u2028",
    "data: ",
    "\n\n",
    '"',
    "\\",
    "\x00",
    "[DONE]",
]
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.lists(
    st.sampled_from(AWKWARD), max_size=12
).map("".join)
NAMES = st.text(alphabet="abcxyz_", min_size=2, max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(NAMES, JSON, max_size=2)
FINISHES = st.sampled_from(["stop", "length", "content_filter", "x"])


@st.composite
def choices(draw: st.DrawFn, index: int) -> dict[str, Any]:
    text = draw(TEXT)
    choice = {**draw(UNKNOWN), "index": index, "text": text, "finish_reason": draw(FINISHES)}
    choice |= draw(
        st.fixed_dictionaries(
            {}, optional={"stop_reason": JSON, "token_ids": st.none() | st.lists(NUMBERS, max_size=3)}
        )
    )
    if draw(st.booleans()):
        tokens = pieces(text, draw(st.integers(1, 4)))
        whole = st.lists(JSON, min_size=len(tokens), max_size=len(tokens))
        spelled = st.fixed_dictionaries(
            {"tokens": st.just(tokens), "token_logprobs": whole},
            optional={"top_logprobs": st.none() | whole, "text_offset": whole, "other": JSON},
        )
        choice["logprobs"] = draw(st.none() | spelled | UNKNOWN | JSON)
    return choice


@st.composite
def replies(draw: st.DrawFn) -> dict[str, Any]:
    indexes = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)))
    known = st.fixed_dictionaries(
        {},
        optional={
            "id": st.none() | TEXT,
            "object": st.just("text_completion"),
            "created": st.integers(0, 2**40),
            "model": TEXT,
            "system_fingerprint": st.none() | TEXT,
            "usage": st.none() | st.dictionaries(NAMES, st.integers(0, 10) | UNKNOWN, max_size=3),
            "kv_transfer_params": JSON,
        },
    )
    return {**draw(UNKNOWN), **draw(known), "choices": [draw(choices(index)) for index in indexes]}


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in read(stream)]


@settings(max_examples=200, deadline=None)
@given(replies(), st.integers(1, 30))
def test_replayed_completion_merges_into_itself(reply: dict[str, Any], max_piece_chars: int) -> None:
    assert shape_fault(reply) is None
    merged = merge(payloads(split(reply, include_usage=True, max_piece_chars=max_piece_chars)))
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
@given(replies(), st.integers(1, 30))
def test_replay_is_a_well_formed_stream(reply: dict[str, Any], max_piece_chars: int) -> None:
    events = payloads(split(reply, include_usage=True, max_piece_chars=max_piece_chars))
    assert events[-1] == b"[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    for choice in reply["choices"]:
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert "".join(one["text"] for one in own) == choice["text"]
        assert [one["finish_reason"] for one in own] == [None] * (len(own) - 1) + [choice["finish_reason"]]
