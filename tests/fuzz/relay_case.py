"""One case of the relay's fuzzer: a request, what the upstream answers, and what its client may then see."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from fuzz import reading, replies
from fuzz.delivery import Delivery, delivered, dumped
from fuzz.mutation import VALUES, mutated, mutated_value
from fuzz.reading import Event, View, of_stream, of_whole, sse_events
from fuzz.wire import Reply

Json = Any
HIT = "openclaw-cache; hit; detail=exact"
MAX_EVENT_BYTES = 16 * 2**20
"""A longer one ends its stream."""

NOT_CACHED = "openclaw-cache; detail=not-cached"


@dataclass(frozen=True, slots=True)
class RelayCase:
    """A request and its upstream's answer."""

    api: str
    prompt: str
    streams: bool
    fields: dict[str, Json]
    delivery: Delivery

    def body(self, *, stream: bool) -> bytes:
        """The request; it has the same key whether it streams or not."""
        return json.dumps(replies.request(self.api, self.prompt, stream=stream, **self.fields)).encode()

    @property
    def hides_usage(self) -> bool:
        """Whether the client has not asked for the usage that the gateway asks for."""
        return self.api in ("chat", "completions") and "stream_options" not in self.fields

    @property
    def is_stream(self) -> bool:
        """Whether the upstream's reply is to be read as a stream; of vectors there is none."""
        return self.delivery.is_stream and self.api != "embeddings"

    def truth(self) -> View | None:
        """What the upstream has said; None where that is no whole reply."""
        plain, is_whole = self.delivery.received()
        if self.delivery.head_garbage is not None:
            return None
        if self.is_stream:
            return (
                of_stream(self.api, sse_events(plain, is_whole=is_whole))
                if self.api in replies.STREAMED
                else None
            )
        return of_whole(self.api, plain) if is_whole and 200 <= self.delivery.status < 300 else None


def make(rng: random.Random, nonce: str) -> RelayCase:
    """A case. A third of them are as they should be: the fuzzer must see replies that are stored, too."""
    api = rng.choice((*replies.STREAMED, *replies.STREAMED, *replies.PATHS))
    said = replies.said(api, rng, nonce)
    streams = api in replies.STREAMED and rng.random() < 0.6
    fields: dict[str, Json] = {}
    if api in ("chat", "completions") and rng.random() < 0.3:
        fields["stream_options"] = {"include_usage": True}
    is_pristine = rng.random() < 0.33
    is_events = bool(said.events) and (streams if rng.random() < 0.9 else not streams)
    if is_events:
        body, kind = _stream(said, rng, is_pristine=is_pristine), "text/event-stream"
    else:
        body, kind = _whole(said, rng, is_pristine=is_pristine), "application/json"
    return RelayCase(api, nonce, streams, fields, delivered(body, kind, rng, is_pristine=is_pristine))


def _whole(said: replies.Said, rng: random.Random, *, is_pristine: bool) -> bytes:
    if is_pristine:
        return dumped(said.whole)
    match rng.randrange(6):
        case 0 | 1:
            return dumped(mutated_value(said.whole, rng))
        case 2 | 3:
            return mutated(dumped(said.whole), rng)
        case 4:
            return rng.choice(
                (
                    b"",
                    b"<html>502</html>",
                    b"null",
                    b"[]",
                    b'"x"',
                    b'{"error":{"message":"x","code":429}}',
                    b"{}",
                )
            )
        case _:
            return dumped(said.whole)


def _stream(said: replies.Said, rng: random.Random, *, is_pristine: bool) -> bytes:
    events = list(said.events)
    if not is_pristine:
        for _ in range(rng.choice((0, 1, 1, 2))):
            _misplace(events, rng)
    wire = replies.rendered(events, rng)
    if rng.random() < 0.1:
        wire.append(rng.choice((b": bye\n\n", b"data: x\n\n", b"\n", b"data: [DONE]\n\n")))
    raw = (b"\xef\xbb\xbf" if rng.random() < 0.03 else b"") + b"".join(wire)
    if is_pristine:
        return raw
    match rng.randrange(5):
        case 0 | 1:
            return mutated(raw, rng)
        case 2:
            return raw.rstrip(b"\r\n")
        case _:
            return raw


def _misplace(events: list[replies.Event], rng: random.Random) -> None:
    """Something happens to the order of events, or to one of them."""
    if not events:
        return
    at = rng.randrange(len(events))
    kind, data = events[at]
    match rng.randrange(9):
        case 0:
            del events[at]
        case 1:
            events.insert(at, events[at])
        case 2:
            other = rng.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        case 3:
            del events[at:]
        case 4:
            error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
            events.insert(at, (rng.choice((None, "error")), error))
        case 5:
            size = 17 * 2**20 if rng.random() < 0.005 else 200_000
            events.insert(at, (None, rng.choice((b"", b"x", b"null", b"[]", b'"[DONE]"', b"x" * size))))
        case 6 if data.startswith(b"{"):
            events[at] = (kind, dumped(mutated_value(json.loads(data), rng)))
        case 7:
            events[at] = (rng.choice((None, "error", "x", "response.completed", "message_stop")), data)
        case _:
            events[at] = (kind, dumped(rng.choice(VALUES)))


# What the client may see.


def fault_of_reply(case: RelayCase, reply: Reply, *, streams: bool) -> str | None:
    """Why a client must not have been answered like this; None where all is well."""
    if reply.status == 500 and case.delivery.status != 500:
        return "the gateway failed"
    if reply.header("x-request-id") is None or not (reply.cache_status or "").startswith("openclaw-cache; "):
        return "a reply without our own x-request-id and cache-status"
    if reply.status >= 400:
        return _fault_of_error(case, reply)
    if case.delivery.head_garbage is not None:
        return None  # what it says depends on how forgiving a reader is
    if streams and reply.kind == "text/event-stream" and case.delivery.encoding != "snappy":
        return _fault_of_stream(case, reply)
    return _fault_of_whole(case, reply)


def _fault_of_error(case: RelayCase, reply: Reply) -> str | None:
    if not reply.is_whole:
        return "an error that breaks off"
    if case.delivery.is_pristine:
        return "an error for a good reply"
    if case.delivery.encoding == "snappy":
        return None  # header and body are a pair that nobody here can read
    if not reading.is_error_object(case.api, reply.body) and not _is_upstreams_own(case, reply):
        return "an error without an error object"
    return None


def _is_upstreams_own(case: RelayCase, reply: Reply) -> bool:
    """Whether the body is the JSON object that the upstream sent with its error, alone or as an event."""
    plain = case.delivery.received()[0]
    sent = [plain, *(data for _, data in sse_events(plain))]
    return reading.an_object(reply.body) is not None and reply.body in sent


def _fault_of_whole(case: RelayCase, reply: Reply) -> str | None:
    plain, is_whole = case.delivery.received()
    if not reply.is_whole:
        return "a whole reply that breaks off"
    if case.delivery.encoding == "snappy":
        same = reply.body == plain and reply.header("content-encoding") == "snappy"
        had_begun = reply.kind == "text/event-stream" and any(map(reading.is_error, sse_events(reply.body)))
        return None if same or had_begun else "an encoding that is unknown here, and not passed on as it came"
    if case.is_stream:
        truth, seen = case.truth(), of_whole(case.api, reply.body)
        if (
            truth is None and seen is None
        ):  # what the events add up to is no reply, but that is what they add up to
            told = sse_events(plain, is_whole=is_whole)
            end = next((i for i, event in enumerate(told) if reading.is_end(case.api, event)), None)
            is_ended = end is not None and not any(map(reading.is_error, told[: end + 1]))
            return None if is_ended else "a whole reply of a stream that broke off"
        if seen is None or truth is None or truth.says != seen.says:
            return "a whole reply that says something else than the events"
        return None
    if not is_whole:
        return "a whole reply of a body that broke off"
    if reading.an_object(plain) is None:
        return "a good status for what is no JSON object"
    if reply.body != plain:
        return "another body than the upstream's"
    return None


def _fault_of_stream(case: RelayCase, reply: Reply) -> str | None:
    if not reply.is_whole:
        return "a stream that breaks off"
    seen = sse_events(reply.body, is_whole=False)
    if not case.is_stream:
        return _fault_of_made_stream(case, reply, seen)
    plain, is_whole = case.delivery.received()
    told = [_plain(case, e) for e in sse_events(plain, is_whole=is_whole) if not _is_hidden(case, e)]
    seen = [_plain(case, e) for e in seen if not _is_hidden(case, e)]
    end = next((i for i, event in enumerate(told) if reading.is_end(case.api, event)), None)
    if end is not None and len(seen) > end and seen == told[: len(seen)]:
        return None
    is_sure = case.delivery.is_sure and (is_whole or case.delivery.encoding is None)
    is_sure = is_sure and all(len(data) <= MAX_EVENT_BYTES for _, data in told)
    if end is not None and is_sure and not any(map(reading.is_error, told[: end + 1])):
        return "a stream with a good end that its client does not see"
    while seen and case.api in ("chat", "completions") and reading.is_end(case.api, seen[-1]):
        seen.pop()
    if any(map(reading.is_error, seen)) and seen == told[: len(seen)]:
        return None  # the upstream itself has told of a failure
    if not seen or not reading.is_error(seen[-1]):
        return "a broken stream without an error event at its end"
    if seen[:-1] != told[: len(seen) - 1]:
        return "events that the upstream has not sent"
    return None


def _fault_of_made_stream(case: RelayCase, reply: Reply, seen: list[Event]) -> str | None:
    """The upstream sent one body, and the client asked for events."""
    truth = case.truth()
    if any(map(reading.is_error, seen)):
        return "an error for a good reply" if case.delivery.is_pristine else None
    if not any(reading.is_end(case.api, event) for event in seen):
        return "a stream without an end"
    plain, is_whole = case.delivery.received()
    if not is_whole or reading.an_object(plain) is None:
        return "a stream made of a body that broke off, or is none"
    told = of_stream(case.api, seen)
    if truth is not None and (told is None or told.says != truth.says):
        return "a stream that says something else than the body"
    return None


def _is_hidden(case: RelayCase, event: Event) -> bool:
    """Whether an event is there for the usage alone, and its client has not asked for it."""
    may_be = case.hides_usage and event[0] != "error" and b'"usage"' in event[1]
    told = reading.an_object(event[1]) if may_be else None
    return told is not None and told.get("choices") == [] and isinstance(told.get("usage"), dict)


def _plain(case: RelayCase, event: Event) -> Event:
    """An event without the `usage: null` that comes where usage was asked for."""
    return (event[0], event[1].replace(b',"usage":null}', b"}")) if case.hides_usage else event


# What may be stored.


def _tells_usage(case: RelayCase) -> bool:
    """Whether a stream tells of its tokens. Without, it may not answer those who want to know."""
    return case.api in ("responses", "messages") or b'"usage":{' in case.delivery.body


def fault_of_stored(case: RelayCase, reply: Reply, *, streams: bool) -> str | None:
    """Why an `only-if-cached` request must not have been answered like this; None where all is well."""
    if reply.status == 504 and reply.cache_status == NOT_CACHED:
        is_missing = case.delivery.is_pristine and (not case.is_stream or _tells_usage(case))
        return "a good reply that was not stored" if is_missing else None
    if reply.status != 200 or reply.cache_status != HIT or not reply.is_whole:
        return f"neither a hit nor a 504: {reply.status} {reply.header('cache-status')}"
    truth = case.truth()
    if truth is None:
        return "what is no whole reply was stored"
    if not truth.is_storable:
        return "a reply was stored that must not be given again"
    seen = of_stream(case.api, sse_events(reply.body)) if streams else of_whole(case.api, reply.body)
    if seen is None or seen.says != truth.says:
        return "what was stored says something else than the upstream"
    if not streams and not case.is_stream and case.api != "embeddings":
        return None if reply.body == case.delivery.received()[0] else "a stored body with other bytes"
    return None
