from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.dialects.sse import SseEvent, SseParser, encode

FRAGMENTS = st.sampled_from(
    [b"data", b"data: ", b"data:", b"event: ", b": ", b":", b"id", b"x", b" ", b"\n", b"\r", b"\r\n", b"\n\n",
     b"\r\n\r\n", "é🧑‍🚀".encode(), b"\xef\xbb\xbf", b"data: {}\n\n"]
)  # fmt: skip
STREAMS = st.lists(FRAGMENTS, max_size=40).map(b"".join)


def by_the_letter(stream: bytes) -> list[SseEvent]:
    """The standard's algorithm, a line at a time, over the whole stream."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, _unended = text.split(b"\n")
    events, data, kind = [], b"", b""
    for line in lines:
        if line == b"":
            if data:
                events.append(SseEvent(data[:-1], kind or None))
            data, kind = b"", b""
            continue
        field, colon, value = line.partition(b":")
        if colon and value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            kind = value
    return events


def fed(stream: bytes, cuts: list[int]) -> list[SseEvent]:
    parser, events, start = SseParser(), [], 0
    for cut in sorted({cut % (len(stream) + 1) for cut in cuts} | {len(stream)}):
        events += parser.feed(stream[start:cut])
        start = cut
    return events


@given(STREAMS, st.lists(st.integers(0, 1000), max_size=12))
def test_events_are_the_standards_however_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    assert fed(stream, cuts) == by_the_letter(stream)


@given(STREAMS)
def test_events_are_the_same_byte_by_byte(stream: bytes) -> None:
    assert fed(stream, list(range(len(stream)))) == by_the_letter(stream)


@given(
    st.lists(
        st.text(alphabet=st.characters(blacklist_characters="\r", codec="utf-8"), min_size=1), max_size=8
    )
)
def test_encoded_payloads_come_back(payloads: list[str]) -> None:
    stream = b"".join(encode(payload.encode()) for payload in payloads)
    assert [event.data.decode() for event in SseParser().feed(stream)] == payloads
