"""Broken HTTP from clients: answered with a refusal or not at all, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from fuzz import head_case
from fuzz.body_case import read
from fuzz.byte_upstream import ByteUpstream
from fuzz.knob import Knob, seconds
from fuzz.test_fuzz_bodies import SECRET, config, right_answer
from fuzz.watched import Watched
from fuzz.wire import DEADLINE_S, BadReplyError, Connection, Reply, read_reply
from support.running import RunningGateway

DEFAULT_S = 15.0
NUM_AT_ONCE = 16
NUM_TO_SETTLE = 300
PATIENCE_S = 0.15
"""For an answer to what need not be answered."""

ALLOWED = {200, 400, 403, 404, 405, 408, 413, 415, 431, 505}
"""What a request may come to that is broken, or only looks so."""


async def play(knob: Knob, number: int, watched: Watched, counts: Counter[str]) -> str | None:
    """One connection: a good request in pieces, or a broken one. Returns what is wrong."""
    rng = knob.random(number)
    is_good = rng.random() < 0.3
    pieces = head_case.good(rng) if is_good else head_case.bad(rng)
    try:
        replies = await _send(watched, pieces, DEADLINE_S if is_good else PATIENCE_S)
    except BadReplyError as e:
        return f"a reply that is none: {e}\n{b''.join(pieces)[:3000]!r}"
    for reply in replies:
        counts[str(reply.status)] += 1
        if reply.status not in ALLOWED:
            return f"status {reply.status}: {reply.body[:1000]!r}\n{b''.join(pieces)[:3000]!r}"
    if is_good:
        name = read(head_case.BODY).name.encode()
        if [reply.status for reply in replies] != [200] or name not in replies[0].body:
            return f"a good request, and no good answer: {replies}\n{pieces}"
    elif not replies:
        counts["no answer"] += 1
    return None


async def _send(watched: Watched, pieces: list[bytes], patience_s: float) -> list[Reply]:
    """Send the pieces one by one; the replies that come, interim ones apart, until nothing comes for a while."""
    reader, writer = await asyncio.open_connection(watched.host, watched.port, limit=2**20)
    replies: list[Reply] = []
    try:
        for piece in pieces:
            writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        while True:
            async with asyncio.timeout(PATIENCE_S if replies else patience_s):
                reply = await read_reply(reader, is_head=b"".join(pieces).startswith(b"HEAD "))
            if reply.status >= 200:
                replies.append(reply)
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return replies
    finally:
        writer.transport.abort()


async def _serves(connection: Connection) -> bool:
    """Whether a plain request is answered as it should be."""
    reply = await connection.exchange("POST", "/v1/chat/completions", [], head_case.BODY)
    return reply.status == 200 and read(head_case.BODY).name.encode() in reply.body


@pytest.mark.timeout(seconds(DEFAULT_S) + 240)
async def test_broken_requests_are_refused_and_good_ones_in_pieces_answered(tmp_path: Path) -> None:
    knob = Knob("framing", DEFAULT_S)
    counts: Counter[str] = Counter()
    async with ByteUpstream(right_answer) as upstream:
        settings = config(upstream.url)
        settings["server"] |= {"body_timeout": "2s"}
        gateway = await asyncio.to_thread(RunningGateway(tmp_path / "data", settings).start)
        try:
            watched = Watched(gateway, SECRET)
            numbers, faults = knob.numbers(), list[str]()

            async def worker() -> None:
                async with watched.connection() as connection:
                    for number in numbers:
                        found = await play(knob, number, watched, counts)
                        if found is None and number % 50 == 0 and not await _serves(connection):
                            found = "a plain request is not answered"
                        if found is not None:
                            faults.append(f"{knob.how_to_repeat(number)}\n{found}")
                        if faults:
                            return
                        watched.visit(number, NUM_TO_SETTLE)

            await asyncio.gather(*(worker() for _ in range(NUM_AT_ONCE)))
            assert not faults, "\n\n".join([*faults, watched.last_traceback()])
            await watched.check_at_rest()
        finally:
            await asyncio.to_thread(gateway.__exit__)
        assert upstream.failures == []
    print(
        f"{knob.num_cases} cases, {upstream.num_calls} calls, {watched.most_bytes >> 20} MiB: {dict(counts)}"
    )
