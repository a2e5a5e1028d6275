"""One request for an agent's memory, and its reply."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from openclaw_cache.api.order import decode_order
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers, Json

if TYPE_CHECKING:
    from openclaw_cache.api.principal import Principal
    from openclaw_cache.memory.agent import AgentMemory
    from openclaw_cache.memory.service import MemoryService

_T = TypeVar("_T", bound=msgspec.Struct)

_AT: Final = re.compile(r"- at `\$\.?([^`]+)`")
_NAMED: Final = re.compile(r"(?:unknown|missing required) field `([^`]+)`", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that has been let in. `params` are what stands in its path, `query` what follows the `?`."""

    service: MemoryService
    principal: Principal
    agent: str
    params: tuple[str, ...]
    query: Mapping[str, str]
    headers: Headers
    raw: bytes
    now: float

    @property
    def namespace(self) -> str:
        """Whose agent it is."""
        return self.principal.namespace

    def memory(self, *, create: bool = False) -> AbstractAsyncContextManager[AgentMemory]:
        """The agent's memory. An agent without a store is as one that is empty, unless `create` makes one.

        Raises:
            MemoryStoreError: its store cannot be opened.
        """
        return self.service.agent(self.namespace, self.agent, create=create)

    def order(self, kind: type[_T]) -> _T:
        """The body, decoded. Raises RequestError (400) that names the field at fault."""
        return decode_named(self.raw, kind)

    def only(self, *known: str) -> None:
        """Raises RequestError (400) for a parameter of the query that is none of these."""
        if unknown := self.query.keys() - set(known):
            wrong = min(unknown)
            has = f"known are {', '.join(known)}" if known else "there are none here"
            raise RequestError(400, f"unknown parameter {wrong!r}: {has}", param=wrong)

    def number(self, name: str, otherwise: int, *, most: int) -> int:
        """A number of the query from 1. Raises RequestError (400)."""
        text = self.query.get(name)
        if text is None:
            return otherwise
        if not (_NUMBER.fullmatch(text) and text.isascii() and 1 <= int(text) <= most):
            raise RequestError(400, f"{name}: write a number in 1-{most}", param=name)
        return int(text)

    def flag(self, name: str) -> bool:
        """A parameter of the query that is `true` or `false`. Raises RequestError (400)."""
        text = self.query.get(name, "false")
        if text not in ("true", "false", "1", "0"):
            raise RequestError(400, f"{name}: write true or false", param=name)
        return text in ("true", "1")


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered: `value` as JSON, or `lines` as they come."""

    value: Json = None
    status: int = 200
    headers: Headers = field(default_factory=list)
    lines: AsyncIterator[bytes] | None = None


Handler = Callable[[Ask], Awaitable[Reply]]
Table = dict[tuple[str, str], Handler]
"""By method, and the path below the agent, in which `*` stands for any one part: `("GET", "memories/*")`."""


def query_of(raw: bytes) -> dict[str, str]:
    """The parameters of a query. Raises RequestError (400) for one that comes twice."""
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestError(400, "a parameter stands twice in the query")
    return found


def decode_named(raw: bytes, kind: type[_T]) -> _T:
    """A JSON object of a known kind. Raises RequestError (400); its `param` is the field at fault."""
    try:
        return decode_order(raw, kind)
    except RequestError as e:
        raise RequestError(400, e.message, param=_field(e.message)) from None


def _field(message: str) -> str | None:
    """The field that a message of the decoder is about: `memories[3].text`."""
    place = found[1] if (found := _AT.search(message)) else ""
    named = found[1] if (found := _NAMED.search(message)) else ""
    return ".".join(part for part in (place, named) if part) or None
