import json
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import MessagesDialect
from openclaw_cache.dialects.anthropic.merge import merge
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.errors import MergeError
from support.anthropic_replies import BASIC_STREAM, RECORDED, TOOL_STREAM, accumulated, filled

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
STOP = {"type": "message_stop"}
CLOSE = {"type": "content_block_stop", "index": 0}
TEXT = {"type": "text", "text": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
HI = {"type": "text_delta", "text": "Hi"}


def opened(block: Any, index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grown(delta: Any, index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def json_piece(piece: str) -> dict[str, Any]:
    return grown({"type": "input_json_delta", "partial_json": piece})


def merged(*events: Any) -> dict[str, Any]:
    return merge([event if isinstance(event, bytes) else json.dumps(event).encode() for event in events])


def block(start: Any, *deltas: Any) -> Any:
    """The block that a stream of one block gives."""
    content = merged(START, opened(start), *deltas, CLOSE, END, STOP)["content"]
    assert len(content) == 1
    return content[0]


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in SseParser().feed(stream)]


@pytest.mark.parametrize("name", RECORDED)
def test_a_stream_adds_up_to_the_message_of_the_plain_api_and_of_the_sdk(name: str) -> None:
    stream, message = RECORDED[name]
    assert MessagesDialect().merge(payloads(stream)) == message
    assert accumulated(stream) == filled(message)


@pytest.mark.parametrize("stream", [BASIC_STREAM, TOOL_STREAM])
def test_a_stream_that_lacks_an_event_other_than_a_delta_of_a_block_or_a_ping_is_refused(
    stream: bytes,
) -> None:
    events = payloads(stream)
    for position, event in enumerate(events):
        if json.loads(event)["type"] not in ("content_block_delta", "ping"):
            with pytest.raises(MergeError):
                merge(events[:position] + events[position + 1 :])


@pytest.mark.parametrize("stream", [BASIC_STREAM, TOOL_STREAM])
def test_a_stream_that_is_cut_anywhere_is_refused(stream: bytes) -> None:
    events = payloads(stream)
    for cut in range(len(events)):
        with pytest.raises(MergeError):
            merge(events[:cut])


def test_counts_of_the_message_delta_replace_those_of_the_start_and_null_ones_say_nothing() -> None:
    usage = {"input_tokens": None, "output_tokens": 9, "cache_read_input_tokens": 4, "new_count": 2}
    reply = merged(START, {**END, "usage": usage}, STOP)
    assert reply["usage"] == {
        "input_tokens": 3,
        "output_tokens": 9,
        "cache_read_input_tokens": 4,
        "new_count": 2,
    }


def test_several_message_deltas_add_to_each_other() -> None:
    first = {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "\n\n"}}
    second = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}}
    reply = merged(START, first, {"type": "ping"}, second, STOP)
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", "\n\n")
    assert reply["usage"]["output_tokens"] == 7


def test_what_compatible_servers_leave_out_or_add_is_no_fault() -> None:
    bare = {"type": "message_start", "message": {"id": "a", "content": [], "model": "m"}}
    reply = merged(
        {"type": "ping", "cost": 0}, bare, {**END, "error": None}, STOP, b"[DONE]", {"type": "ping"}
    )
    assert (reply["type"], reply["role"], reply["stop_reason"]) == ("message", "assistant", "end_turn")
    assert reply["usage"] == {"output_tokens": 5}


def test_unknown_fields_of_the_message_and_of_whole_blocks_are_kept() -> None:
    start = {**START, "message": {**START["message"], "provider": {"name": "x"}}}  # type: ignore[dict-item]
    odd = {"type": "block_of_next_year", "content": {"a": [1.0]}}
    reply = merged(start, opened(odd), CLOSE, END, STOP)
    assert reply["provider"] == {"name": "x"}
    assert reply["content"] == [odd]


def test_a_fallback_names_the_message_after_the_model_that_went_on() -> None:
    fallback = {"type": "fallback", "from": {"model": "m"}, "to": {"model": "other"}, "trigger": {}}
    assert merged(START, opened(fallback), CLOSE, END, STOP)["model"] == "other"
    with pytest.raises(MergeError):
        merged(START, opened({"type": "fallback"}), CLOSE, END, STOP)


def test_texts_of_the_start_and_of_the_deltas_are_joined() -> None:
    assert block({"type": "text", "text": "Oh "}, grown(HI), grown(HI)) == {"type": "text", "text": "Oh HiHi"}


def test_citations_are_gathered_in_order() -> None:
    one, two = {"type": "char_location", "start": 1}, {"type": "char_location", "start": 2}
    deltas = [grown({"type": "citations_delta", "citation": citation}) for citation in (one, two)]
    assert block(TEXT, deltas[0], grown(HI), deltas[1])["citations"] == [one, two]
    assert block({**TEXT, "citations": None}, deltas[1])["citations"] == [two]


def test_a_tools_input_is_what_its_joined_pieces_say() -> None:
    assert block(TOOL, json_piece(""))["input"] == {}
    assert block({**TOOL, "input": {"a": 1}}, json_piece(""))["input"] == {"a": 1}
    pieces = ('{"n": 1', '.0, "m": 1e2, "t": "\\u4', 'e16", "u": 184467440737', "09551615}")
    given = block(TOOL, *map(json_piece, pieces))["input"]
    assert given == {"n": 1.0, "m": 100.0, "t": "世", "u": 2**64 - 1}
    assert [type(given[name]) for name in "nmu"] == [float, float, int]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"x": {"a": 1, "\\u0061": 1}}',
        '{"a": 18446744073709551616}',
        '{"a": -9223372036854775809}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": 1e400}',
        '{"a": "\\ud800"}',
        '{"a": NaN}',
        '{"a": 1',
        '{"a": 1} {}',
        "[1]",
        "null",
        " ",
        '{"a": ' + "[" * 260 + "]" * 260 + "}",
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_an_input_that_readers_may_read_differently_is_refused(text: str) -> None:
    with pytest.raises(MergeError):
        block(TOOL, json_piece(text))


@pytest.mark.parametrize("number", ["18446744073709551616", "1e400"])
def test_a_whole_block_that_readers_may_read_differently_is_refused(number: str) -> None:
    start = b'{"type":"content_block_start","index":0,"content_block":{"type":"x","n":%b}}'
    with pytest.raises(MergeError):
        merged(START, start % number.encode(), CLOSE, END, STOP)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing"),
        pytest.param([b"[DONE]"], id="another dialect's end"),
        pytest.param([START, b"{"], id="broken JSON"),
        pytest.param([START, [STOP]], id="no object"),
        pytest.param([START, {"delta": {}}], id="no type"),
        pytest.param([START, {"type": ["ping"]}], id="type is no string"),
        pytest.param(
            [START, {"type": "error", "error": {"type": "overloaded_error"}}, END, STOP], id="error"
        ),
        pytest.param([START, {"type": "event_of_next_year"}, END, STOP], id="unknown event"),
        pytest.param([START, START, END, STOP], id="two starts"),
        pytest.param([END, STOP], id="no start"),
        pytest.param([{"type": "message_start"}, END, STOP], id="no message"),
        pytest.param(
            [{"type": "message_start", "message": {"type": "error"}}, END, STOP], id="no message type"
        ),
        pytest.param(
            [{"type": "message_start", "message": {"content": [TEXT]}}, END, STOP], id="content at start"
        ),
        pytest.param(
            [{"type": "message_start", "message": {"stop_reason": "end_turn"}}, END, STOP],
            id="ended at start",
        ),
        pytest.param([START, STOP], id="no message_delta"),
        pytest.param([START, END], id="no message_stop"),
        pytest.param([START, END, STOP, STOP], id="two stops"),
        pytest.param([START, END, STOP, opened(TEXT)], id="block after the stop"),
        pytest.param([START, END, opened(TEXT), CLOSE, STOP], id="block after message_delta"),
        pytest.param([START, opened(TEXT), END, STOP], id="open block at message_delta"),
        pytest.param([START, opened(TEXT), opened(TEXT, 1), CLOSE, END, STOP], id="two open blocks"),
        pytest.param([START, opened(TEXT, 1), {**CLOSE, "index": 1}, END, STOP], id="index out of order"),
        pytest.param([START, opened(TEXT, None), CLOSE, END, STOP], id="no index"),
        pytest.param([START, opened(TEXT, False), CLOSE, END, STOP], id="index is no number"),
        pytest.param([START, opened(TEXT), CLOSE, opened(TEXT), CLOSE, END, STOP], id="index twice"),
        pytest.param([START, opened(TEXT), {**CLOSE, "index": 1}, END, STOP], id="wrong stop"),
        pytest.param([START, CLOSE, END, STOP], id="stop without a block"),
        pytest.param([START, grown(HI), END, STOP], id="delta without a block"),
        pytest.param([START, opened(TEXT), grown(HI, 1), CLOSE, END, STOP], id="delta of another block"),
        pytest.param([START, {**END, "delta": None}, STOP], id="message_delta without delta"),
        pytest.param([START, {**END, "usage": 5}, STOP], id="usage is no object"),
        pytest.param(
            [START, END, {**END, "delta": {"stop_reason": "tool_use"}}, STOP], id="two stop reasons"
        ),
        pytest.param(
            [START, END, {**END, "delta": {"stop_reason": None}}, STOP], id="stop reason taken back"
        ),
        pytest.param(
            [START, {**END, "delta": {"stop_reason": "x", "mood": 1}}, STOP], id="unknown delta field"
        ),
        pytest.param([START, {**END, "mood": 1}, STOP], id="unknown event field"),
        pytest.param([START, END, {**STOP, "metrics": {}}], id="unknown stop field"),
    ],
)
def test_a_stream_that_does_not_add_up_is_refused(events: list[Any]) -> None:
    with pytest.raises(MergeError):
        merged(*events)


@pytest.mark.parametrize(
    ("start", "deltas"),
    [
        (None, []),
        ({"text": ""}, []),
        ({"type": 5}, []),
        ({"type": "text"}, []),
        ({"type": "thinking", "thinking": None}, []),
        (TEXT, [None]),
        (TEXT, [{"text": "a"}]),
        (TEXT, [{"type": "text_delta"}]),
        (TEXT, [{"type": "text_delta", "text": None}]),
        (TEXT, [{"type": "text_delta", "text": "a", "logprobs": [1]}]),
        (TEXT, [{"type": ["text_delta"], "text": "a"}]),
        (TEXT, [{"type": "delta_of_next_year", "text": "a"}]),
        (TEXT, [{"type": "thinking_delta", "thinking": "a"}]),
        (TEXT, [{"type": "signature_delta", "signature": "a"}]),
        (TEXT, [{"type": "citations_delta"}]),
        ({**TEXT, "citations": {}}, [{"type": "citations_delta", "citation": {}}]),
        (TOOL, [HI]),
        ({**TOOL, "input": {"a": 1}}, [{"type": "input_json_delta", "partial_json": "{}"}]),
        ({"type": "redacted_thinking", "data": "a"}, [HI]),
        ({"type": "block_of_next_year"}, [HI]),
        ({"type": "block_of_next_year"}, [{"type": "", "": "{}"}]),
        ({"type": "thinking", "thinking": ""}, [{"type": "signature_delta", "signature": "a"}] * 2),
        (
            {"type": "thinking", "thinking": "", "signature": "a"},
            [{"type": "signature_delta", "signature": "a"}],
        ),
        ({"type": "thinking", "thinking": ""}, [{"type": "signature_delta", "signature": 5}]),
        ({"type": "thinking", "thinking": ""}, [{"type": "signature_delta", "text": "a"}]),
        ({"type": "compaction", "content": None}, [{"type": "compaction_delta", "content": "a"}] * 2),
    ],
)
def test_a_block_or_delta_that_we_do_not_know_is_never_guessed(start: Any, deltas: list[Any]) -> None:
    with pytest.raises(MergeError):
        block(start, *map(grown, deltas))


def test_an_error_of_the_merge_repeats_no_text_of_the_reply() -> None:
    for events in (
        [START, opened(TEXT), grown({"type": "text_delta", "text": 5, "x": "SECRET"}), CLOSE],
        [START, opened(TOOL), json_piece('{"SECRET": 1, "SECRET": 2}'), CLOSE],
        [START, {**END, "SECRET": 1}],
    ):
        with pytest.raises(MergeError) as refused:
            merged(*events)
        assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(("depth", "fits"), [(251, True), (252, False), (253, False), (2000, False)])
def test_a_message_nested_deeper_than_orjson_writes_is_refused(depth: int, fits: bool) -> None:
    """254 levels: the message, its content and the block are three of them, the event has one less."""
    start = b'{"type":"content_block_start","index":0,"content_block":{"type":"x","d":%b1%b}}'
    events = [START, start % (b"[" * depth, b"]" * depth), CLOSE, END, STOP]
    if fits:
        assert merged(*events)["content"][0]["type"] == "x"
    else:
        with pytest.raises(MergeError):
            merged(*events)
