"""What a stream tells and what its last event says must be the same story."""

from typing import Any

import orjson
import pytest

from openclaw_cache.dialects.responses import merge
from openclaw_cache.errors import MergeError
from support.responses_replies import CALL, CUSTOM, REASONING, events, message, response, text

REPLY = response(REASONING, message(text("Hello, world"), text("!")), CALL, CUSTOM)
CREATED = ("created", {"response": {**REPLY, "status": "in_progress", "output": [], "usage": None}})
COMPLETED = ("completed", {"response": REPLY})


def delta(kind: str, index: int, told: Any, **fields: Any) -> tuple[str, dict[str, Any]]:
    return f"{kind}.delta", {"item_id": "x", "output_index": index, "delta": told, **fields}


WHOLE = [
    delta("reasoning_summary_text", 0, "**Look**\n\n", summary_index=0),
    delta("reasoning_summary_text", 0, "first", summary_index=0),
    delta("output_text", 1, "Hello, ", content_index=0, logprobs=[], obfuscation="x8s"),
    delta("output_text", 1, "world", content_index=0, logprobs=[], obfuscation="9"),
    delta("output_text", 1, "!", content_index=1, logprobs=[]),
    delta("function_call_arguments", 2, '{"place":'),
    delta("function_call_arguments", 2, '"Zürich"}'),
    delta("custom_tool_call_input", 3, "*** Begin Patch\n"),
]


def test_the_reply_is_the_response_of_the_last_event() -> None:
    assert merge(events(CREATED, *WHOLE, COMPLETED)) == REPLY
    assert merge([*events(CREATED, *WHOLE, COMPLETED), b"[DONE]"]) == REPLY


def test_an_incomplete_response_is_a_reply_too() -> None:
    cut = {**REPLY, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert merge(events(*WHOLE, ("incomplete", {"response": cut}))) == cut


def test_text_that_came_in_no_delta_is_no_contradiction() -> None:
    assert merge(events(COMPLETED)) == REPLY


@pytest.mark.parametrize("missing", range(len(WHOLE)))
def test_a_delta_that_got_lost_is_noticed(missing: int) -> None:
    told = WHOLE[:missing] + WHOLE[missing + 1 :]
    alone = sum(one[0] == WHOLE[missing][0] for one in WHOLE) == 1
    if alone:  # then nothing of that text was streamed at all
        assert merge(events(CREATED, *told, COMPLETED)) == REPLY
    else:
        with pytest.raises(MergeError, match="do not add up"):
            merge(events(CREATED, *told, COMPLETED))


@pytest.mark.parametrize("doubled", range(len(WHOLE)))
def test_a_delta_that_came_twice_is_noticed(doubled: int) -> None:
    told = WHOLE[: doubled + 1] + WHOLE[doubled:]
    with pytest.raises(MergeError, match="do not add up"):
        merge(events(CREATED, *told, COMPLETED))


@pytest.mark.parametrize(
    "stray",
    [
        delta("output_text", 0, "Hello"),
        delta("output_text", 4, "Hello"),
        delta("output_text", -1, "Hello"),
        delta("refusal", 1, "I cannot"),
        delta("reasoning_text", 0, "hm"),
        delta("function_call_arguments", 1, "{}"),
    ],
)
def test_a_delta_of_an_item_that_has_no_such_text_is_noticed(stray: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(MergeError, match="do not add up"):
        merge(events(*WHOLE, stray, COMPLETED))


def test_open_reasoning_and_refusals_are_checked_alike() -> None:
    thought = {
        "id": "rs",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    reply = response(thought, message({"type": "refusal", "refusal": "no"}))
    told = [delta("reasoning_text", 0, "hm"), delta("refusal", 1, "no"), ("completed", {"response": reply})]
    assert merge(events(*told)) == reply
    for position in (0, 1):
        with pytest.raises(MergeError):
            merge(
                events(*told[:position], delta(told[position][0][:-6], position, "other"), *told[position:])
            )


def test_parts_that_are_numbered_over_all_items_do_no_harm() -> None:
    # vLLM before its content_index was counted by item
    thought = {
        "id": "rs",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    reply = response(thought, message(text("a")))
    told = [delta("reasoning_text", 0, "hm", content_index=0), delta("output_text", 1, "a", content_index=1)]
    assert merge(events(*told, ("completed", {"response": reply}))) == reply


def test_a_final_response_without_the_items_that_were_streamed_is_no_reply() -> None:
    # what ChatGPT's backend sends: the items come in output_item.done only
    done = ("output_item.done", {"output_index": 0, "item": message(text("a"))})
    slim = response()
    with pytest.raises(MergeError, match="lacks an item"):
        merge(events(done, ("completed", {"response": slim})))
    del slim["output"]
    with pytest.raises(MergeError, match="without its output"):
        merge(events(done, ("completed", {"response": slim})))
    with pytest.raises(MergeError, match="without its output"):
        merge(events(done, ("completed", {})))


def test_an_item_may_not_turn_into_another() -> None:
    done = ("output_item.done", {"output_index": 0, "item": CALL})
    with pytest.raises(MergeError, match="another type"):
        merge(events(done, ("completed", {"response": response(message(text("a")))})))
    # a reasoning item is encrypted anew for each event
    again = {**REASONING, "encrypted_content": "other"}
    done = ("output_item.done", {"output_index": 0, "item": again})
    assert merge(events(done, COMPLETED)) == REPLY


@pytest.mark.parametrize(
    ("numbers", "adds_up"),
    [
        ((0, 1, 2), True),
        ((1, 5, 9), True),
        ((None, None, None), True),
        ((0, None, 1), True),
        ((0, 0, 1), False),
        ((0, 2, 1), False),
        ((0, 0, 0), False),
        ((0, "1", 2), False),
        ((0, True, 2), False),
        ((0, 1.0, 2), False),
        ((-1, 0, 1), False),
    ],
)
def test_sequence_numbers_increase_where_there_are_any(numbers: tuple[Any, ...], adds_up: bool) -> None:
    reply = response(message(text("ab")))
    told = [delta("output_text", 0, "a"), delta("output_text", 0, "b"), ("completed", {"response": reply})]
    stream = [
        orjson.dumps({"type": f"response.{kind}", "sequence_number": number, **fields})
        for number, (kind, fields) in zip(numbers, told, strict=True)
    ]
    if adds_up:
        assert merge(stream) == reply
    else:
        with pytest.raises(MergeError, match="sequence"):
            merge(stream)


def test_events_of_other_types_are_the_senders_own() -> None:
    own = [
        ("mcp_call.in_progress", {"item_id": "x"}),
        ("vendor.thing", {"delta": 3}),
        ("web_search_call.searching", {"output_index": 7}),
    ]
    assert merge(events(*own, COMPLETED)) == REPLY
    assert merge([b'{"type":"keepalive"}', b"{}", *events(COMPLETED)]) == REPLY


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"error","code":"x","message":"m","param":null}',
        b'{"type":"error","error":{"message":"m"}}',
        b'{"error":{"message":"m"}}',
        b'{"type":"response.failed","response":{"status":"failed"}}',
        b"not json",
        b"[]",
        b"null",
        b"",
        b'{"type":"response.output_text.delta","output_index":0}',
        b'{"type":"response.output_text.delta","output_index":0,"delta":null}',
        b'{"type":"response.output_text.delta","delta":"a"}',
        b'{"type":"response.output_item.done","output_index":0,"item":null}',
        b'{"type":"response.output_item.done","item":{"type":"message"}}',
        b'{"type":"response.completed","response":{"output":{}}}',
    ],
)
def test_a_stream_with_an_error_or_a_broken_event_has_no_reply(event: bytes) -> None:
    with pytest.raises(MergeError):
        merge([event, *events(COMPLETED)])


def test_a_stream_has_one_end() -> None:
    with pytest.raises(MergeError, match="no final response"):
        merge(events(CREATED, *WHOLE))
    with pytest.raises(MergeError, match="no final response"):
        merge([])
    with pytest.raises(MergeError, match="twice"):
        merge(events(COMPLETED, COMPLETED))


@pytest.mark.parametrize("item", [None, "message", {}, {"type": 3}])
def test_a_final_item_without_a_type_is_no_item(item: Any) -> None:
    with pytest.raises(MergeError, match="no type"):
        merge(events(("completed", {"response": response(item)})))
