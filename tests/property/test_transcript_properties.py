"""What a transcript lets through: every byte, in whole events, however the stream is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.dialects import openai
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.transcript import EventTranscript, without_usage_event

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
USAGE = b'{"choices":[],"usage":{"prompt_tokens":1}}'
PAYLOADS = st.one_of(
    st.sampled_from([b'{"choices":[{"index":0,"delta":{"content":"hi"}}]}', USAGE, '{"a":"東🏰"}'.encode()]),
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).map(str.encode),
)
DONE = b"data: [DONE]"


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A complete stream in one kind of line end, and its payloads."""
    end = draw(LINE_ENDS)
    raw, payloads = b"", []
    for kind, payload in draw(st.lists(st.tuples(st.sampled_from(["data", "comment", "fields"]), PAYLOADS))):
        if kind == "comment":
            raw += b": " + payload + end + end
        else:
            raw += (b"id: 1" + end if kind == "fields" else b"") + b"data: " + payload + end + end
            payloads.append(payload)
    return raw + DONE + end + end, [*payloads, b"[DONE]"]


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """The chunks of a stream, cut anywhere, and its payloads."""
    raw, payloads = draw(streams())
    cuts = sorted(draw(st.sets(st.integers(1, len(raw) - 1), max_size=20)))
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)], payloads


def ends_an_event(block: bytes) -> bool:
    """Whether a blank line ends it, in any line end."""
    return re.search(rb"(\n\n|\r\r\n?|\r\n\r\n?)\Z", block) is not None


@given(cut_streams())
def test_every_byte_passes_in_whole_events(cut: tuple[list[bytes], list[bytes]]) -> None:
    chunks, payloads = cut
    transcript, passed = EventTranscript(openai.ChatDialect()), b""
    for number, chunk in enumerate(chunks):
        assert not transcript.terminal or not b"".join(chunks[number:]).strip()
        if transcript.terminal:
            break  # nothing more is read
        block = transcript.feed(chunk)
        passed += block
        assert not block or block == b"\n" or ends_an_event(passed)
    assert transcript.terminal
    raw = b"".join(chunks)
    assert passed in (raw, raw + b"\n")  # a last CR may get its LF before it is read
    assert transcript.events == payloads
    assert [e.data for e in SseParser().feed(passed)] == payloads


@given(cut_streams())
def test_a_stream_without_done_passes_its_whole_events_and_then_fails(
    cut: tuple[list[bytes], list[bytes]],
) -> None:
    chunks, payloads = cut
    raw = b"".join(chunks)
    raw = raw[: raw.rindex(DONE) + 3]
    transcript, passed = EventTranscript(openai.ChatDialect()), b""
    for start in range(0, len(raw), 5):
        passed += transcript.feed(raw[start : start + 5])
    assert raw.startswith(passed)
    assert transcript.events == payloads[:-1]
    with pytest.raises(RequestError) as failed:
        transcript.end()
    assert failed.value.status == 502


@given(streams())
def test_taking_the_usage_event_out_leaves_every_other_byte(stream: tuple[bytes, list[bytes]]) -> None:
    raw, payloads = stream
    shown = without_usage_event(raw, openai.ChatDialect())
    assert [e.data for e in SseParser().feed(shown)] == [p for p in payloads if not openai.is_usage_event(p)]
    if USAGE not in payloads:
        assert shown == raw
    assert shown.count(b": ") >= raw.count(b": ") - 3 * payloads.count(USAGE)


def test_a_transcript_that_forgets_keeps_counting_but_holds_nothing() -> None:
    transcript = EventTranscript(openai.ChatDialect())
    transcript.feed(b"data: 1\n\n")
    transcript.forget()
    assert transcript.feed(b"data: 2\n\n") == b"data: 2\n\n"
    assert transcript.events == []
    transcript.feed(b"data: [DONE]\n\n")
    assert transcript.terminal
