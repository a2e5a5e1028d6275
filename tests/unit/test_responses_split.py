"""The replay has the shape of OpenAI's own stream, and OpenAI's own SDK reads the reply back from it."""

from typing import Any

import orjson
import pytest
from openai import APIError
from openai.types.responses import ResponseErrorEvent

from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.responses import ResponsesDialect, ResponsesProgress, merge, shape_fault, split
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from support.responses_replies import CALL, CUSTOM, REASONING, client, message, read, response, text


def told(stream: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(event.data) for event in read(stream)]


def kinds(stream: bytes) -> list[str]:
    return [event["type"].removeprefix("response.") for event in told(stream)]


def test_a_message_is_replayed_event_by_event() -> None:
    reply = response(message(text("Hi there")))
    begun = {**reply, "status": "in_progress", "completed_at": None, "output": [], "usage": None}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    opened = {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    empty = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    expected: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        {"type": "response.content_part.added", **place, "part": empty},
        {"type": "response.output_text.delta", **place, "delta": "Hi th", "logprobs": []},
        {"type": "response.output_text.delta", **place, "delta": "ere", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Hi there", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**empty, "text": "Hi there"}},
        {"type": "response.output_item.done", "output_index": 0, "item": reply["output"][0]},
        {"type": "response.completed", "response": reply},
    ]
    stream = split(reply, max_piece_chars=5)
    assert told(stream) == [{**event, "sequence_number": n} for n, event in enumerate(expected)]
    assert [event.event for event in read(stream)] == [event["type"].encode() for event in expected]


def test_calls_are_opened_empty_and_their_arguments_come_in_pieces() -> None:
    stream = split(response(CALL, CUSTOM), max_piece_chars=9)
    function, custom = {"item_id": "fc_1", "output_index": 0}, {"item_id": "ctc_1", "output_index": 1}
    assert told(stream)[2:-1] == [
        {"type": f"response.{kind}", "sequence_number": number, **fields}
        for number, (kind, fields) in enumerate(
            [
                ("output_item.added", {"output_index": 0, "item": {**CALL, "arguments": "", "status": "in_progress"}}),
                ("function_call_arguments.delta", {**function, "delta": '{"place":'}),
                ("function_call_arguments.delta", {**function, "delta": '"Zürich"}'}),
                ("function_call_arguments.done", {**function, "arguments": '{"place":"Zürich"}'}),
                ("output_item.done", {"output_index": 0, "item": CALL}),
                ("output_item.added", {"output_index": 1, "item": {**CUSTOM, "input": "", "status": "in_progress"}}),
                ("custom_tool_call_input.delta", {**custom, "delta": "*** Begin"}),
                ("custom_tool_call_input.delta", {**custom, "delta": " Patch\n"}),
                ("custom_tool_call_input.done", {**custom, "input": CUSTOM["input"]}),
                ("output_item.done", {"output_index": 1, "item": CUSTOM}),
            ],
            2,
        )
    ]  # fmt: skip


def test_reasoning_is_summarised_part_by_part_and_its_ciphertext_is_kept_byte_for_byte() -> None:
    stream = split(response(REASONING, message(text("a"))))
    assert kinds(stream)[2:11] == [
        "output_item.added",
        *("reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done"),
        *("reasoning_summary_part.added", "reasoning_summary_text.done", "reasoning_summary_part.done"),
        "output_item.done",
    ]
    events = told(stream)
    assert events[2]["item"] == {**REASONING, "summary": []}
    assert [event["summary_index"] for event in events[3:10]] == [0, 0, 0, 0, 1, 1, 1]
    assert events[5]["text"] == "**Look**\n\nfirst"
    assert events[10]["item"] == REASONING
    ciphertext = orjson.dumps(REASONING["encrypted_content"])
    assert stream.count(b'"encrypted_content":' + ciphertext) == 3


def test_open_reasoning_comes_in_its_own_deltas() -> None:
    item = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    stream = split(response(item))
    place = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    assert told(stream)[3:7] == [
        {"type": f"response.{kind}", "sequence_number": number, **place, **fields}
        for number, (kind, fields) in enumerate(
            [
                ("content_part.added", {"part": {"type": "reasoning_text", "text": ""}}),
                ("reasoning_text.delta", {"delta": "hm"}),
                ("reasoning_text.done", {"text": "hm"}),
                ("content_part.done", {"part": {"type": "reasoning_text", "text": "hm"}}),
            ],
            3,
        )
    ]


def test_annotations_come_after_the_text_that_they_stand_in() -> None:
    notes = [
        {"type": "url_citation", "url": "https://a.test", "start_index": 0, "end_index": 1},
        {"type": "x"},
    ]
    stream = split(response(message(text("ab", annotations=notes))))
    assert kinds(stream)[3:9] == [
        *("content_part.added", "output_text.delta"),
        *("output_text.annotation.added", "output_text.annotation.added"),
        *("output_text.done", "content_part.done"),
    ]
    assert told(stream)[3]["part"]["annotations"] == []
    assert [(event["annotation_index"], event["annotation"]) for event in told(stream)[5:7]] == [
        (0, notes[0]),
        (1, notes[1]),
    ]


def test_each_token_keeps_its_logprobs_where_the_tokens_spell_the_text() -> None:
    tokens = [{"token": "He", "logprob": -1, "bytes": [72, 101]}, {"token": "llo", "logprob": -2}]
    stream = told(split(response(message(text("Hello", logprobs=tokens)))))
    assert [(event["delta"], event["logprobs"]) for event in stream if event["type"].endswith(".delta")] == [
        ("He", tokens[:1]),
        ("llo", tokens[1:]),
    ]
    assert stream[3]["part"]["logprobs"] == []
    assert stream[6]["logprobs"] == tokens
    other = told(split(response(message(text("Hallo", logprobs=tokens)))))
    assert [(event["delta"], event["logprobs"]) for event in other if event["type"].endswith(".delta")] == [
        ("Hallo", [])
    ]


def test_items_and_parts_of_other_types_are_opened_and_closed_whole() -> None:
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "x"}}
    audio = {"type": "output_audio", "data": "AA==", "transcript": "hi"}
    stream = split(response(search, message(audio)))
    assert kinds(stream)[2:-1] == [
        *("output_item.added", "output_item.done", "output_item.added"),
        *("content_part.added", "content_part.done", "output_item.done"),
    ]
    assert told(stream)[2]["item"] == {**search, "status": "in_progress"}
    assert told(stream)[5]["part"] == audio


def test_an_incomplete_response_ends_as_incomplete() -> None:
    reply = response(
        message(text("a")), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    events = told(split(reply))
    assert events[0]["response"]["incomplete_details"] is None
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"] == reply
    assert kinds(split(response(status="failed", error={"code": "server_error"})))[-1] == "failed"


def test_fields_that_nobody_knows_are_in_the_last_event() -> None:
    reply = response(message(text("a"), x=1), provider={"y": [2]}, output_text="a")
    events = told(split(reply))
    assert events[-1]["response"] == reply
    assert "output_text" not in events[0]["response"]
    assert events[2]["item"]["x"] == 1


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        {},
        {"status": "completed"},
        {"status": "completed", "output": None},
        {"status": "completed", "output": ["a"]},
        {"status": "completed", "output": [{"id": "a"}]},
        response(status="in_progress"),
        response(status="queued"),
        response(status="cancelled"),
        response(status=None),
    ],
)
def test_what_is_no_finished_response_is_refused(reply: Any) -> None:
    assert shape_fault(reply) is not None
    if isinstance(reply, dict):
        with pytest.raises(ValueError, match="cannot be replayed"):
            split(reply)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message"},
        {"type": "message", "content": "text"},
        {"type": "message", "content": ["text"]},
        {"type": "message", "content": [{"text": "a"}]},
        {"type": "message", "content": [{"type": "output_text", "text": None, "annotations": 3}]},
        {"type": "message", "id": 7, "content": [{"type": "output_text", "text": "a", "logprobs": {}}]},
        {"type": "reasoning", "summary": None, "content": None, "status": None},
        {"type": "function_call", "arguments": {"a": 1}},
        {"type": "custom_tool_call"},
    ],
)
def test_an_item_of_odd_shape_is_replayed_without_loss(item: dict[str, Any]) -> None:
    reply = response(item)
    stream = split(reply)
    assert merge([event.data for event in read(stream)]) == reply
    assert told(stream)[-2]["item"] == item


def test_a_replay_is_followed_to_its_end() -> None:
    progress = ResponsesProgress()
    events = read(split(response(REASONING, message(text("a")))))
    for event in events[:-1]:
        progress.add(event.data, event.event)
    assert not progress.has_end
    progress.add(events[-1].data, events[-1].event)
    assert progress.has_end
    assert not progress.has_error


@pytest.mark.parametrize(
    "output",
    [
        [message(text("Hello, 世界 🧑‍🚀" * 30))],
        [message(text("a"), text("b", annotations=[{"type": "file_path", "file_id": "f", "index": 1}]))],
        [REASONING, message(text("x" * 1000), phase="final_answer")],
        [REASONING, CALL, CUSTOM],
        [message({"type": "refusal", "refusal": "I cannot"})],
    ],
)
def test_openais_own_sdk_reads_the_stream_back_as_the_reply(output: list[dict[str, Any]]) -> None:
    reply = response(*output)
    pieces: dict[int, str] = {}
    with client(split(reply)).responses.stream(model="m", input="a") as stream:
        for event in stream:
            if event.type in ("response.output_text.delta", "response.function_call_arguments.delta"):
                pieces[event.output_index] = pieces.get(event.output_index, "") + event.delta
        final = stream.get_final_response()
    read_back = final.to_dict(mode="json")
    for item in read_back["output"]:  # type: ignore[attr-defined]
        item.pop("parsed_arguments", None)  # a field of the SDK, not of the wire
        for part in item.get("content") or ():
            part.pop("parsed", None)
    assert read_back == reply
    for index, item in enumerate(output):
        texts = "".join(part.get("text", "") for part in item.get("content", ()))
        assert pieces.get(index, "") == (item.get("arguments") or texts)


def test_openais_own_sdk_builds_the_same_from_the_events_alone() -> None:
    done = [
        event.item.to_dict(mode="json")
        for event in client(split(response(REASONING, message(text("ab")), CALL))).responses.create(
            model="m", input="a", stream=True
        )
        if event.type == "response.output_item.done"
    ]
    assert done == [REASONING, message(text("ab")), CALL]


ERROR = RequestError(502, "the upstream broke off", kind="upstream_error", code="broken", param=None)


def test_an_error_has_both_forms_that_clients_read() -> None:
    [event] = read(ResponsesDialect().error_event(ERROR))
    assert event.event == b"error"
    assert orjson.loads(event.data) == {
        "type": "error",
        "code": "broken",
        "message": "the upstream broke off",
        "param": None,
        "sequence_number": 2147483647,
        "error": {
            "type": "upstream_error",
            "code": "broken",
            "message": "the upstream broke off",
            "param": None,
        },
    }
    documented = ResponseErrorEvent.model_validate_json(event.data)  # OpenAI's own type
    assert (documented.code, documented.message) == ("broken", "the upstream broke off")
    progress = ResponsesProgress()
    progress.add(event.data, event.event)
    assert progress.has_error


@pytest.mark.parametrize("num_events", [0, 1, 5])
def test_openais_own_sdk_raises_the_error_wherever_the_stream_broke(num_events: int) -> None:
    whole = split(response(message(text("a" * 600)))).split(b"\n\n")
    broken = b"".join(event + b"\n\n" for event in whole[:num_events])
    stream = client(broken + ResponsesDialect().error_event(ERROR)).responses.create(
        model="m", input="a", stream=True
    )
    with pytest.raises(APIError, match="the upstream broke off") as raised:
        list(stream)
    assert raised.value.code == "broken"
    with (
        pytest.raises(APIError, match="the upstream broke off"),
        client(broken + ResponsesDialect().error_event(ERROR)).responses.stream(
            model="m", input="a"
        ) as told_again,
    ):
        told_again.get_final_response()


def test_the_usage_of_a_stream_is_that_of_its_reply() -> None:
    dialect = ResponsesDialect()
    reply = response(message(text("a")))
    events = [event.data for event in read(dialect.split(reply, Request("m", stream=True)))]
    assert dialect.usage(reply) == dialect.stream_usage(events) == Usage(36, 87)
