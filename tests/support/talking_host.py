"""A host that talks as OpenClaw does: it keeps a transcript, assembles prompts, and rewrites what it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from openclaw_cache.memory.context.engine import Assembled, ContextEngine, Ended, Upcoming
from openclaw_cache.memory.context.host import HostMessage, text_of
from openclaw_cache.memory.record import Memory, Message, RecalledItem, Turn
from openclaw_cache.memory.store import MemoryStore

T = TypeVar("T")

Wire = list[tuple[str, str]]
"""What a model is sent: role and text of each message."""


@dataclass
class Found:
    """What a recall gives."""

    text: str = ""
    items: tuple[RecalledItem, ...] = ()
    num_tokens: int = 0
    degraded: tuple[str, ...] = ()


@dataclass
class Captured:
    """What was taken from messages."""

    memories: list[Memory] = field(default_factory=list)


class PlainAgent:
    """An agent's memory over a real store. Its recall is plain: all that shares a word with the query."""

    def __init__(self, store: MemoryStore, memories: Collection[Memory] = ()) -> None:
        self.store = store
        self.memories = list(memories)
        self.captured: list[Message] = []
        self.num_recalls = 0

    async def run(self, work: Callable[[MemoryStore], T]) -> T:
        return work(self.store)

    async def recall(
        self,
        query: str,
        *,
        max_items: int,
        max_tokens: int,
        exclude: Collection[str],
        is_known: Callable[[Memory], bool],
    ) -> Found:
        await asyncio.sleep(0)
        self.num_recalls += 1
        words = set(query.casefold().split())
        items: list[RecalledItem] = []
        for memory in self.memories:
            if memory.id in exclude or is_known(memory) or not words & set(memory.text.casefold().split()):
                continue
            if len(items) == max_items or num_tokens([*items, _item(memory)]) > max_tokens:
                break
            items.append(_item(memory))
        return Found("\n".join(i.line for i in items), tuple(items), num_tokens(items))

    async def capture(
        self, session: str, messages: Sequence[Message], now: float, *, turn: str | None = None
    ) -> Captured:
        self.captured += [m for m in messages if m.role == "user"]
        return Captured()

    def cleaned(self, turn: Turn) -> Turn:
        return turn

    def touched(self) -> None:
        pass


def _item(memory: Memory) -> RecalledItem:
    return RecalledItem("memory", memory.id, f"- {memory.text}")


def num_tokens(items: Sequence[RecalledItem]) -> int:
    """One a word."""
    return sum(len(item.line.split()) for item in items)


class TalkingHost:
    """One session of a host.

    `sent` has, for each prompt, the host's own history with the turn's message, and what went to the model.
    """

    def __init__(self, engine: ContextEngine, agent: PlainAgent, session: str = "s1") -> None:
        self.engine, self.agent, self.session = engine, agent, session
        self.key = f"agent:main:{session}"
        self.transcript: list[HostMessage] = []
        self.now_ms = 1_795_000_000_000
        self.num_turns = 0
        self.sent: list[tuple[Wire, Wire]] = []
        self.assembled: Assembled = Assembled()

    def message(self, role: str, content: object, **fields: object) -> HostMessage:
        self.now_ms += 1000
        return msgspec.convert(
            {"role": role, "content": content, "timestamp": self.now_ms, **fields}, HostMessage
        )

    async def assemble(self, prompt: str | None, budget: int | None = 100_000) -> Assembled:
        upcoming = Upcoming(self.session, list(self.transcript), self.key, prompt, budget)
        return await self.engine.assemble(self.agent, upcoming, self.now_ms / 1000)

    async def turn(
        self,
        prompt: str,
        *,
        num_tools: int = 0,
        budget: int | None = 100_000,
        commits: bool = True,
        fails: bool = False,
    ) -> None:
        self.assembled = await self.assemble(prompt, budget)
        asked = self.message("user", prompt)
        own = [wire(m) for m in [*self.transcript, asked]]
        self.sent.append((own, [*prompt_of(self.transcript, self.assembled), wire(asked)]))
        if fails:
            return
        said = [asked]
        for i in range(num_tools):
            call = {"type": "toolCall", "id": f"call_{i}_0", "name": "look", "arguments": {"b": 1, "a": 2}}
            said.append(self.message("assistant", [call]))
            said.append(
                self.message("toolResult", f"result {i} " * 20, toolCallId=f"call_{i}_0", toolName="look")
            )
        said.append(self.message("assistant", [{"type": "text", "text": f"Reply to: {len(said)}"}]))
        self.num_turns += 1
        if commits:
            await self.commit(said)
        self.transcript += [self.shown_later(m) for m in said]

    async def commit(self, said: Sequence[HostMessage], key: str | None = None) -> str:
        ended = Ended(key or f"turn-{self.num_turns}", self.session, list(said), self.key)
        return (await self.engine.commit(self.agent, ended, self.now_ms / 1000)).status

    def shown_later(self, message: HostMessage) -> HostMessage:
        """A message as the host shows it in later histories: call ids bare, arguments in another order."""
        content = message.content
        if isinstance(content, list):
            content = [
                {**p, "id": p["id"].replace("_", ""), "arguments": dict(sorted(p["arguments"].items()))}
                if p.get("type") == "toolCall"
                else p
                for p in content
            ]
        call = message.tool_call_id and message.tool_call_id.replace("_", "")
        return msgspec.structs.replace(message, content=content, tool_call_id=call)

    def compact(self, num_messages: int) -> None:
        """Replace the beginning of the transcript by a summary."""
        if num_messages:
            self.transcript[:num_messages] = [
                self.message("compactionSummary", f"Summary of {num_messages} by {self.now_ms}")
            ]

    def prune(self) -> None:
        """Trim all tool results, in place."""
        self.transcript = [
            msgspec.structs.replace(m, content="[Old tool result content cleared]")
            if m.role == "toolResult"
            else m
            for m in self.transcript
        ]

    def take_back(self, num_turns: int) -> None:
        """Remove the last turns, as if the user edited what he had said."""
        starts = [i for i, m in enumerate(self.transcript) if m.role == "user"]
        if num_turns and starts:
            del self.transcript[starts[max(0, len(starts) - num_turns)] :]


def wire(message: HostMessage) -> tuple[str, str]:
    """A message as the model reads it."""
    return message.role, text_of(message) or msgspec.json.encode(message.content).decode()


def prompt_of(history: Sequence[HostMessage], assembled: Assembled) -> Wire:
    """The history with what is inserted."""
    out: Wire = []
    for index in range(len(history) + 1):
        out += [("user", i.text) for i in assembled.insertions if i.index == index]
        if index < len(history):
            out.append(wire(history[index]))
    return out


def memory(number: int, text: str) -> Memory:
    """A memory that is told by its number."""
    return Memory(f"mem_{number}", text, "fact", (), "api", 1.0, 1.0, 1.0)
