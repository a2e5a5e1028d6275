"""A load whose every number is known: clients and an upstream that keep books of their own.

The upstream sends a token of a stream only when a client has got the one before, so it is known which came one by
one, and every time of the gateway lies between two times that are written down here, on the same clock:

- a reply's TTFT is no more than its client waited, and no less than the upstream took for it;
- the time from the first to the last token that the gateway has read is no more than from the upstream's sending the
  first to a client's getting the last, and no less than from a client's getting the first to the sending of the last.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.scripted_upstream import Call, Exchange, chunk, event, reply
from support.served import Served, chat

Json = Any
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
NUM_TOKENS = 5
"""Of a streamed reply."""
_TOKEN = re.compile(r"<(\d+)\.(\d+)>")


@dataclass(frozen=True, slots=True)
class Counts:
    """What a model says of the tokens of a reply."""

    prompt: int
    cached: int
    completion: int

    @property
    def computed(self) -> int:
        """Of the prompt."""
        return self.prompt - self.cached

    def usage(self) -> dict[str, Json]:
        """As OpenAI writes it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


def counts_of(prompt: str) -> Counts:
    """A prompt's tokens: another number for each, so that no two mistakes cancel out; every third has some cached."""
    number = int(prompt.rpartition("-")[2])
    return Counts(100 + 7 * number, 0 if number % 3 else 64 + number, 3 + number % 11)


@dataclass(slots=True)
class Stream:
    """When a stream's tokens were sent and came, on `time.perf_counter`."""

    sent_at: list[float] = field(default_factory=list)
    """Just before each was written."""
    got_at: list[float] = field(default_factory=list)
    """When the first client had each."""
    got: list[asyncio.Event] = field(default_factory=lambda: [asyncio.Event() for _ in range(NUM_TOKENS)])


class Model:
    """The upstream's side: answers by the prompt's first word, and keeps its book."""

    def __init__(self) -> None:
        self.num_by_result: Counter[str] = Counter()
        self.request_ids: list[str] = []
        self.computed = 0
        self.cached = 0
        self.completion = 0
        self.streams: dict[int, Stream] = {}
        self.took_s: dict[str, float] = defaultdict(float)
        """From a call's arrival to the first byte of its reply, by where its prompt's KV came from."""
        self._num_calls: Counter[str] = Counter()

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one call."""
        call = exchange.call
        arrived = time.perf_counter()
        self.request_ids.append(call.header("x-request-id") or "")
        prompt = call.json()["messages"][-1]["content"]
        kind = prompt.partition("-")[0]
        self._num_calls[prompt] += 1
        await asyncio.sleep(0.01)  # so that others come meanwhile
        if kind == "limited":
            self.num_by_result["limited"] += 1
            await exchange.json({"error": {"message": "slow down"}}, 429, {"retry-after": "60"})
        elif kind == "flaky" and self._num_calls[prompt] == 1:
            self.num_by_result["server_error"] += 1
            await exchange.json({"error": {"message": "busy"}}, 503, {"retry-after": "0"})
        elif kind == "wrong":
            self.num_by_result["client_error"] += 1
            await exchange.json({"error": {"message": "no such parameter"}}, 400)
        else:
            self.num_by_result["ok"] += 1
            await self._answer(exchange, call, prompt, kind, arrived)

    async def _answer(self, exchange: Exchange, call: Call, prompt: str, kind: str, arrived: float) -> None:
        counts = counts_of(prompt)
        source = "upstream" if kind in ("leaves", "broken") else "device" if counts.cached else "computed"
        if not call.json().get("stream"):
            self.took_s[source] += time.perf_counter() - arrived
            self._spend(counts)
            await exchange.json(reply(prompt, usage=counts.usage()))
            return
        number, stream = exchange.number, Stream()
        self.streams[number] = stream
        await exchange.start_stream()
        if kind != "broken":  # whose reply is an error in the end
            self.took_s[source] += time.perf_counter() - arrived
        await exchange.chunk(event(chunk({"role": "assistant", "content": ""})))
        for i in range(NUM_TOKENS):
            if kind == "broken" and i == 2:
                exchange.close()
                return
            stream.sent_at.append(time.perf_counter())
            await exchange.chunk(event(chunk({"content": f"<{number}.{i}>"})))
            await _until_either(stream.got[i], call.closed)
            if call.closed.is_set():
                return
        self._spend(counts)
        await exchange.chunk(event(chunk({}, finish="stop")))
        if (call.json().get("stream_options") or {}).get("include_usage"):
            await exchange.chunk(event({**chunk({}), "choices": [], "usage": counts.usage()}))
        await exchange.chunk(event(b"[DONE]"))
        await exchange.last_chunk()

    def _spend(self, counts: Counts) -> None:
        self.computed += counts.computed
        self.cached += counts.cached
        self.completion += counts.completion

    @property
    def num_retries(self) -> int:
        """Calls that repeated one of the same request."""
        return len(self.request_ids) - len(set(self.request_ids))


async def _until_either(one: asyncio.Event, other: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(e.wait()) for e in (one, other)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


@dataclass(frozen=True, slots=True)
class Wish:
    """One request of the load."""

    prompt: str
    stream: bool = False
    tools: bool = False
    control: str = ""
    raw: bytes | None = None
    model: str = "pod-model"
    leaves_after: int | None = None
    """Leave when so many tokens have come."""


@dataclass(slots=True)
class Book:
    """What clients saw, from replies alone."""

    outcomes: Counter[str] = field(default_factory=Counter)
    num_negative: int = 0
    num_lookups: int = 0
    num_hits: int = 0
    answered: list[Counts] = field(default_factory=list)
    """Of hits, and of requests that joined another's."""
    by_layer: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Tokens that nobody computed: without what the provider would have had."""
    waited_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    num_waits: Counter[str] = field(default_factory=Counter)
    left: list[Wish] = field(default_factory=list)
    intervals: set[tuple[int, int]] = field(default_factory=set)
    """(call, token): those that came after another one of the same stream."""


def wishes(rng: random.Random, num: int) -> list[Wish]:
    """A mixed load: repeats that hit or join, streams, bypasses, refusals, failures, clients that leave."""
    made: list[Wish] = []
    for i in range(num):
        shared = f"ask-{rng.randrange(40)}"
        stream = rng.random() < 0.5
        match rng.choices(
            [
                "plain",
                "tools",
                "no-cache",
                "only",
                "limited",
                "wrong",
                "flaky",
                "raw",
                "model",
                "leaves",
                "broken",
            ],
            [60, 8, 6, 4, 4, 3, 3, 3, 3, 4, 2],
        )[0]:
            case "tools":
                made.append(Wish(shared, stream, tools=True))
            case "no-cache":
                made.append(Wish(shared, stream, control="no-cache"))
            case "only":
                made.append(Wish(f"never-{i}", control="only-if-cached"))
            case "limited":
                made.append(Wish(f"limited-{rng.randrange(3)}", stream))
            case "wrong":
                made.append(Wish(f"wrong-{i}", stream))
            case "flaky":
                made.append(Wish(f"flaky-{i}", stream))
            case "raw":
                made.append(Wish("", raw=b'{"model": "pod-model", "messages": ['))
            case "model":
                made.append(Wish(f"ask-{i}", model="nobody"))
            case "leaves":
                made.append(Wish(f"leaves-{i}", stream=True, leaves_after=2))
            case "broken":
                made.append(Wish(f"broken-{i}", stream=True))
            case _:
                made.append(Wish(shared, stream))
    return made


class Clients:
    """Several clients at once, with one book."""

    def __init__(self, gateway: Served, model: Model) -> None:
        self._gateway = gateway
        self._model = model
        self.book = Book()

    async def run(self, load: Sequence[Wish], *, num_at_once: int) -> Book:
        """Ask everything; returns when all is answered."""
        queue = list(reversed(load))

        async def client() -> None:
            while queue:
                await self._ask(queue.pop())

        async with asyncio.TaskGroup() as group:
            for _ in range(num_at_once):
                group.create_task(client())
        return self.book

    async def _ask(self, wish: Wish) -> None:
        fields: dict[str, Json] = {"stream": True} if wish.stream else {}
        if wish.tools:
            fields["tools"] = TOOLS
            if wish.stream:  # nobody else asks for the usage of what is not stored
                fields["stream_options"] = {"include_usage": True}
        raw = wish.raw or body_of(wish, fields)
        headers = {"cache-control": wish.control} if wish.control else {}
        began = time.perf_counter()
        async with self._gateway.send(raw=raw, headers=headers) as response:
            first_at = time.perf_counter()
            text, broke, has_first = b"", False, False
            try:
                async for part in response.content.iter_any():
                    if wish.stream and not has_first:
                        first_at = time.perf_counter()
                    has_first = True
                    text += part
                    self._note_tokens(part, wish.leaves_after)
                    if wish.leaves_after is not None and text.count(b"<") >= wish.leaves_after:
                        break
            finally:
                if wish.leaves_after is not None:
                    response.close()
            broke = b'"error"' in text
            self._count(
                wish, response.status, response.headers.get("cache-status") or "", broke, first_at - began
            )

    def _note_tokens(self, part: bytes, leaves_after: int | None) -> None:
        now = time.perf_counter()
        for number, i in ((int(a), int(b)) for a, b in _TOKEN.findall(part.decode())):
            stream = self._model.streams.get(number)
            if stream is None or len(stream.got_at) > i:
                continue  # a stored reply, or another client had it first
            stream.got_at.append(now)
            if i:
                self.book.intervals.add((number, i))
            if leaves_after is None or i + 1 < leaves_after:  # who leaves asks for no further one
                stream.got[i].set()

    def _count(self, wish: Wish, status: int, told: str, broke: bool, waited_s: float) -> None:
        book, counts = self.book, counts_of(wish.prompt) if wish.prompt else None
        is_error = status >= 400 or broke
        outcome = "error" if is_error else _outcome(told)
        book.outcomes[outcome] += 1
        if "detail=negative" in told:
            book.num_negative += 1
        if wish.raw is None and wish.model == "pod-model" and not wish.tools and wish.control != "no-cache":
            book.num_lookups += 1
            book.num_hits += outcome == "exact"
        if is_error:
            return
        if outcome in ("exact", "collapsed"):
            assert counts is not None
            book.answered.append(counts)
            layer = source = {"exact": "result", "collapsed": "flight"}[outcome]
            book.by_layer[layer] += counts.computed + counts.completion
        elif wish.leaves_after is not None:
            book.left.append(wish)
            source = "upstream"
        else:
            assert counts is not None
            source = "device" if counts.cached else "computed"
        book.num_waits[source] += 1
        book.waited_s[source] += waited_s


def body_of(wish: Wish, fields: dict[str, Json]) -> bytes:
    """A request's bytes."""
    return json.dumps(chat(wish.prompt, **fields) | {"model": wish.model}).encode()


def _outcome(told: str) -> str:
    if "hit; detail=exact" in told:
        return "exact"
    if "fwd=bypass" in told:
        return "bypass"
    return "collapsed" if "collapsed" in told else "miss"
