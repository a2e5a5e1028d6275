"""What is known of a conversation's next call: from how its reply ended, and by an operator's order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from openclaw_cache.engine import kv_admin
from openclaw_cache.engine.kv_routes import KvRoutes
from openclaw_cache.errors import RequestError
from openclaw_cache.kv.rhythm import Hint
from support.toy_engine import reply_to
from support.toy_loop import Site, prompt_of, site

DEEP = "[" * 100_000 + "]" * 100_000
CALL = '{"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "tool_calls": [%s]}]}'


@asynccontextmanager
async def told() -> AsyncIterator[tuple[Site, KvRoutes]]:
    """An engine whose tokens are the numbers of a text."""
    async with site() as running:
        assert running.loop is not None
        model = SimpleNamespace(encode_text=lambda text: [int(word) for word in text.split()])
        engine: Any = SimpleNamespace(loop=running.loop, call=running.loop.call, model=model, window=100)
        yield running, KvRoutes(engine)


async def ask(routes: KvRoutes, body: str) -> Any:
    """The answer to `POST /kv/hint`."""
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body.encode()})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    assert await routes("POST", "/kv/hint", {}, incoming.get, send)
    assert sent[0]["status"] == 200
    return json.loads(sent[1]["body"])


async def test_how_a_reply_ends_says_what_the_next_call_waits_for() -> None:
    reply = reply_to(prompt_of(30), 20)
    at = next(i for i in range(3, 20) if reply[i] not in reply[:i])

    async def hint_after(engine: Site, num_tokens: int) -> int:
        await engine.ask(prompt_of(30), num_tokens)
        await engine.settled()
        whole = np.array(prompt_of(30) + reply[:at], np.int32)
        return int(await engine.call(lambda: engine.cache.tree.match(b"", whole).node.hint))

    async with site(ends=frozenset({reply[at]})) as engine:
        assert await hint_after(engine, 2) == Hint.NONE  # cut off
        assert await hint_after(engine, 20) == Hint.IDLE
        engine.model.texts[reply[at - 1]] = '<tool_call>{"name": "ls"}</tool_call>'
        assert await hint_after(engine, 20) == Hint.TOOL


async def test_an_operator_may_say_that_conversations_have_ended() -> None:
    async with site() as engine:
        prompt = prompt_of(32)
        for last in (1, 2):
            await engine.ask([*prompt, last, last, last, last], 1)
        await engine.ask(prompt_of(32, 9), 1)
        await engine.settled()
        told: Any = SimpleNamespace(loop=engine.loop)

        def say(tokens: list[int]) -> Any:
            return kv_admin.hint(told, tokens, b"", Hint.ENDED)

        # Nobody goes on with the first, nor with the second, though all its whole blocks are cached; of the third more
        # than a block is missing. Below the fourth are what both begin with, and both ends.
        assert await engine.call(lambda: say([*prompt, 3, 3, 3, 3])) == {"num_nodes": 0}
        assert await engine.call(lambda: say([*prompt, 1, 1, 3])) == {"num_nodes": 0}
        assert await engine.call(lambda: say([*prompt, 1, 1, 1, 1, *range(5)])) == {"num_nodes": 0}
        assert await engine.call(lambda: say(prompt)) == {"num_nodes": 3}
        hints = await engine.call(lambda: [node.hint for node in engine.cache.tree.nodes()])
        assert sorted(hints) == [Hint.NONE, Hint.ENDED, Hint.ENDED, Hint.ENDED]


async def test_an_end_may_be_said_of_a_conversation_whose_last_mark_is_not_cached() -> None:
    async with site() as engine:
        await engine.ask(prompt_of(10), 1)
        await engine.settled()
        told: Any = SimpleNamespace(loop=engine.loop)
        longer = [*prompt_of(10), 1, 2, 3]  # begins a block that nobody has
        for salt, num in ((b"", 1), (b"other", 0)):
            answer = await engine.call(partial(kv_admin.hint, told, longer, salt, Hint.ENDED))
            assert answer == {"num_nodes": num}


async def test_a_request_that_was_cut_off_leaves_what_is_known_of_a_conversation() -> None:
    async with site() as engine:
        await engine.ask(prompt_of(32), 1)
        await engine.settled()
        (node,) = await engine.call(lambda: list(engine.cache.tree.nodes()))
        await engine.call(lambda: engine.cache.tree.rhythm.hint(node, Hint.ENDED))
        await engine.ask(prompt_of(32), 0)  # a warm-up, which is no call
        assert await engine.call(lambda: node.hint) == Hint.ENDED


# Over HTTP.


async def test_a_hint_reaches_the_conversation_of_its_namespace_and_no_other() -> None:
    async with told() as (engine, routes):
        for salt in (b"", b"\xc0\xff"):
            await engine.ask(prompt_of(32), 1, salt=salt)
        await engine.settled()
        order: dict[str, Any] = {"prompt": {"text": " ".join(map(str, prompt_of(32)))}, "salt": "c0ff"}
        for hint in ("tool", "idle", "ended"):
            assert await ask(routes, json.dumps(order | {"hint": hint})) == {"num_nodes": 1}
            found = await engine.call(lambda: {node.root: node.hint for node in engine.cache.tree.nodes()})
            assert found == {b"": Hint.NONE, b"\xc0\xff": Hint[hint.upper()]}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("", "missing required field `prompt`"),
        ("nope", "malformed"),
        ("[]", "Expected `object`"),
        (f'{{"prompt": {DEEP}, "hint": "ended"}}', "nested too deeply"),
        ('{"prompt": 1, "hint": "ended"}', "with 'messages' or 'text'"),
        ('{"prompt": {"text": ""}, "hint": "ended"}', "empty"),
        (f'{{"prompt": {{"text": "{"1 " * 101}"}}, "hint": "ended"}}', "101 tokens, more than the 100"),
        ('{"prompt": {"messages": []}, "hint": "ended"}', "at least one message"),
        (f'{{"prompt": {CALL % ("[" * 500 + "]" * 500)}, "hint": "ended"}}', "cannot be told"),
        (f'{{"prompt": {CALL % 2**70}, "hint": "ended"}}', "cannot be told"),
        ('{"prompt": {"text": "1"}}', "missing required field `hint`"),
        ('{"prompt": {"text": "1"}, "hint": "none"}', "Invalid enum value 'none'"),
        ('{"prompt": {"text": "1"}, "hint": "ended", "salt": "xy"}', "64 bytes in hex"),
        ('{"prompt": {"text": "1"}, "hint": "ended", "then": 1}', "unknown field `then`"),
    ],
)
async def test_a_hint_that_is_none_is_refused_and_says_why(body: str, fault: str) -> None:
    async with told() as (_, routes):
        with pytest.raises(RequestError, match=fault) as refused:
            await ask(routes, body)
        assert refused.value.status == 400
