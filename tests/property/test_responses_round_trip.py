"""merge(split(reply)) == reply: a stream client and a plain client get the same response, to the last field."""

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.responses import merge, shape_fault, split
from openclaw_cache.errors import MergeError
from support.responses_replies import client, events, read, response

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
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            NAMES | st.sampled_from(["id", "type", "text", "delta", "output"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(NAMES, JSON, max_size=2)
TOKENS = st.lists(st.fixed_dictionaries({"token": TEXT, "logprob": NUMBERS}), max_size=3)


def typed(kind: str, always: dict[str, Any], sometimes: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object of a known type, with fields that nobody knows."""
    known = st.fixed_dictionaries({"type": st.just(kind), **always}, optional=sometimes)
    return st.builds(lambda unknown, told: {**unknown, **told}, UNKNOWN, known)


OUTPUT_TEXT = typed(
    "output_text",
    {"text": TEXT},
    {"annotations": st.lists(UNKNOWN, max_size=2), "logprobs": TOKENS | st.none()},
)
SPELLED = st.lists(TEXT.filter(bool), min_size=1, max_size=4).map(
    lambda tokens: {
        "type": "output_text",
        "text": "".join(tokens),
        "logprobs": [{"token": token} for token in tokens],
    }
)
PARTS = (
    OUTPUT_TEXT
    | SPELLED
    | typed("refusal", {"refusal": TEXT}, {})
    | typed("output_audio", {"data": TEXT}, {})
)
STATUS = st.sampled_from(["completed", "incomplete"])
ITEMS = (
    typed("message", {"id": TEXT, "content": st.lists(PARTS, max_size=3)}, {"status": STATUS, "role": TEXT})
    | typed(
        "reasoning",
        {"id": TEXT, "summary": st.lists(typed("summary_text", {"text": TEXT}, {}), max_size=2)},
        {
            "content": st.none() | st.lists(typed("reasoning_text", {"text": TEXT}, {}), max_size=2),
            "encrypted_content": st.none() | TEXT,
            "status": st.none() | STATUS,
        },
    )
    | typed(
        "function_call", {"arguments": TEXT, "call_id": TEXT, "name": TEXT}, {"id": TEXT, "status": STATUS}
    )
    | typed("custom_tool_call", {"input": TEXT, "call_id": TEXT, "name": TEXT}, {"id": TEXT})
    | typed("web_search_call", {"action": JSON}, {"id": TEXT, "status": STATUS})
    | st.builds(
        lambda kind, fields: {**fields, "type": kind}, st.sampled_from(["message", "reasoning", "x"]), UNKNOWN
    )
    | st.builds(
        lambda kind, value: {"type": kind, "content": value, "summary": value, "arguments": value},
        st.sampled_from(["message", "reasoning", "function_call"]),
        JSON,
    )
)
REPLIES = st.builds(
    lambda unknown, items, status: {**unknown, **response(*items), "status": status},
    UNKNOWN,
    st.lists(ITEMS, max_size=4),
    STATUS,
)


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in read(stream)]


@settings(max_examples=200, deadline=None)
@given(REPLIES, st.integers(1, 30))
def test_replayed_response_merges_into_itself(reply: dict[str, Any], max_piece_chars: int) -> None:
    assert shape_fault(reply) is None
    merged = merge(payloads(split(reply, max_piece_chars=max_piece_chars)))
    assert merged == reply
    # 1 == True == 1.0 for Python, not for JSON
    assert json.dumps(merged, sort_keys=True) == json.dumps(reply, sort_keys=True)


@settings(max_examples=100, deadline=None)
@given(REPLIES, st.integers(1, 30))
def test_replay_is_a_well_formed_stream(reply: dict[str, Any], max_piece_chars: int) -> None:
    stream = read(split(reply, max_piece_chars=max_piece_chars))
    told = [json.loads(event.data) for event in stream]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert [event.event for event in stream] == [event["type"].encode() for event in told]
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    assert told[-1]["type"] == f"response.{reply['status']}"
    added = [event["output_index"] for event in told if event["type"] == "response.output_item.added"]
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert added == list(range(len(reply["output"])))
    assert done == reply["output"]
    assert all(
        len(event["delta"]) <= max_piece_chars or event.get("logprobs") for event in told if "delta" in event
    )


@settings(max_examples=100, deadline=None)
@given(REPLIES, st.integers(1, 30), st.data())
def test_a_stream_that_lost_a_piece_of_a_text_has_no_reply(
    reply: dict[str, Any], max_piece_chars: int, data: st.DataObject
) -> None:
    told = payloads(split(reply, max_piece_chars=max_piece_chars))
    kinds = [json.loads(event) for event in told]
    deltas = [n for n, event in enumerate(kinds) if event["type"].endswith(".delta") and event["delta"]]
    lost = data.draw(st.sampled_from(deltas)) if deltas else None
    assume(lost is not None)
    assert lost is not None
    same = [n for n in deltas if all(kinds[n][key] == kinds[lost][key] for key in ("type", "output_index"))]
    assume(len(same) > 1)  # without any delta a text is only not streamed
    with pytest.raises(MergeError):
        merge(told[:lost] + told[lost + 1 :])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(OUTPUT_TEXT | SPELLED, max_size=3), max_size=3), st.integers(1, 30))
def test_openais_own_sdk_reads_every_message_back(
    parts: list[list[dict[str, Any]]], max_piece_chars: int
) -> None:
    items = [
        {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": content}
        for n, content in enumerate(parts)
    ]
    stream = split(response(*items), max_piece_chars=max_piece_chars)
    pieces = ["" for _ in items]
    with client(stream).responses.stream(model="m", input="a") as followed:
        for event in followed:
            if event.type == "response.output_text.delta":
                pieces[event.output_index] += event.delta
        final = followed.get_final_response()
    texts = ["".join(part["text"] for part in content) for content in parts]
    assert pieces == texts
    assert final.output_text == "".join(texts)


@given(st.lists(TEXT, min_size=1, max_size=5), st.lists(TEXT, min_size=1, max_size=5))
def test_deltas_are_held_against_the_final_text(deltas: list[str], final: list[str]) -> None:
    reply = response(
        {"type": "message", "content": [{"type": "output_text", "text": text} for text in final]}
    )
    stream = events(
        *(("output_text.delta", {"output_index": 0, "delta": delta}) for delta in deltas),
        ("completed", {"response": reply}),
    )
    if "".join(deltas) == "".join(final):
        assert merge(stream) == reply
    else:
        with pytest.raises(MergeError):
            merge(stream)
