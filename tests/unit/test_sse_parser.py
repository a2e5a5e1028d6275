"""The examples of the WHATWG HTML standard, §9.2.6, and what senders do beside it."""

import pytest

from openclaw_cache.dialects.sse import SseEvent, SseParser, encode
from openclaw_cache.errors import StreamError


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_standard_example_joins_data_lines_with_lf() -> None:
    assert parse(b"data: YHOO\ndata: +2\ndata: 10\n\n") == [SseEvent(b"YHOO\n+2\n10")]


def test_standard_example_skips_comments_and_ids_and_drops_only_one_space() -> None:
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert parse(stream) == [SseEvent(b"first event"), SseEvent(b"second event"), SseEvent(b" third event")]


def test_standard_example_dispatches_empty_data_but_not_an_unfinished_event() -> None:
    # "fires two events …, the third block's event is discarded, since it is not followed by a blank line"
    assert parse(b"data\n\ndata\ndata\n\ndata:") == [SseEvent(b""), SseEvent(b"\n")]


def test_standard_example_space_after_the_colon_is_ignored() -> None:
    assert parse(b"data:test\n\ndata: test\n\n") == [SseEvent(b"test"), SseEvent(b"test")]


def test_event_type_belongs_to_its_event_only() -> None:
    stream = b"event: add\ndata: 73857293\n\ndata: 1\n\nevent:\ndata: 2\n\n"
    assert parse(stream) == [SseEvent(b"73857293", b"add"), SseEvent(b"1"), SseEvent(b"2")]


def test_event_without_data_is_no_event() -> None:
    assert parse(b"event: ping\n\nretry: 10\n\n\n\ndata: 1\n\n") == [SseEvent(b"1")]


def test_field_name_is_exact() -> None:
    assert parse(b"Data: 1\n\n data: 2\n\ndatas: 3\n\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_line_end_of_the_standard_is_one(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert parse(stream) == [SseEvent(b"1\n2", b"a"), SseEvent(b"3")]


def test_cr_ends_its_line_at_once_and_a_later_lf_is_its_other_half() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\r\n\r") == [SseEvent(b"1")]
    assert parser.feed(b"\ndata: 2\r") == []
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\r\n") == [SseEvent(b"2")]


def test_byte_order_mark_is_dropped_once_even_when_cut() -> None:
    assert parse(b"\xef", b"\xbb", b"\xbfdata: 1\n\n") == [SseEvent(b"1")]
    assert parse(b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n") == []  # the second belongs to the field name


def test_character_cut_between_chunks_comes_out_whole() -> None:
    text = "data: 你好🧑‍🚀\n\n".encode()
    chunks = [text[at : at + 1] for at in range(len(text))]
    assert parse(*chunks) == [SseEvent("你好🧑‍🚀".encode())]


def test_line_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    parser = SseParser(max_event_bytes=1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(StreamError):
        parser.feed(b"x" * 200)


def test_event_over_the_bound_is_refused_also_when_it_comes_whole() -> None:
    with pytest.raises(StreamError):
        SseParser(max_event_bytes=100).feed(b"data: " + b"x" * 200 + b"\n\n")
    assert len(SseParser(max_event_bytes=100).feed(b"data: 1\n\n" * 50)) == 50


def test_encode_frames_a_payload() -> None:
    assert encode(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert encode(b"1\n2\r\n3\r4") == b"data: 1\ndata: 2\ndata: 3\ndata: 4\n\n"
