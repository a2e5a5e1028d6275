"""Read from a request which agent and which session sent it.

Everything here is the client's own word: a label for affinity, memory and statistics, never a boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from openclaw_cache.types import Headers, Identity, Json

MAX_LABEL_CHARS: Final = 128

_AGENT_HEADER: Final = b"x-openclaw-agent"
_SESSION_HEADERS: Final = (b"x-session-affinity", b"session_id")
"""In order of precedence. `x-client-request-id` is not among them: OpenAI's own clients make a new one per
request, and OpenClaw sends it only beside the other two."""

_HEADERS: Final = frozenset({_AGENT_HEADER, *_SESSION_HEADERS})

_RUNTIME: Final = "\nRuntime: agent="
_RUNTIME_CHARS: Final = 2048
"""OpenClaw's line ends the text that has it, or is followed by a short marker: only so much is searched."""

_CLAUDE_SESSION: Final = "_session_"


class BodyLabels(NamedTuple):
    """What a body says of who sent it: `prompt_cache_key`, OpenClaw's `Runtime:` line, Anthropic's user id."""

    cache_key: str | None
    runtime_agent: str | None
    runtime_session: str | None
    metadata_session: str | None


def labels(body: dict[str, Json]) -> BodyLabels:
    """Read the labels in a body.

    About 2 µs: of its messages only the ends of the leading system text and of the first user message are read.
    """
    line = _runtime_line(body)
    return BodyLabels(
        cache_key=_label(body.get("prompt_cache_key")),
        runtime_agent=_label(line.get("agent")),
        runtime_session=_label(line.get("sessionId")) or _label(line.get("session")),
        metadata_session=_metadata_session(body),
    )


def identify(headers: Headers, told: BodyLabels) -> Identity:
    """Return who is asking, so far as the request tells; `source` names what told the session, or the agent.

    Agent: `x-openclaw-agent`, then OpenClaw's `Runtime:` line. Session: `prompt_cache_key`,
    `x-session-affinity`, `session_id`, the `Runtime:` line's session id, Anthropic's `metadata.user_id`.
    OpenClaw's hints are `<session id>:0`; the `:0` is left out, so that each source names the session alike.
    """
    hints = {name: value for name, value in reversed(headers) if name in _HEADERS}  # of two the first counts
    agent = _label(_text(hints.get(_AGENT_HEADER)))
    source = _AGENT_HEADER.decode() if agent else "unknown"
    if agent is None and told.runtime_agent:
        agent, source = told.runtime_agent, "runtime"
    session, session_source = _session_hint(hints, told.cache_key)
    if session is None:
        session, session_source = told.runtime_session, "runtime"
    if session is None:
        session, session_source = told.metadata_session, "metadata.user_id"
    return Identity(agent, session, session_source if session else source)


def _session_hint(hints: Mapping[bytes, bytes], cache_key: str | None) -> tuple[str | None, str]:
    if cache_key is not None:
        return _without_counter(cache_key), "prompt_cache_key"
    for name in _SESSION_HEADERS:
        hint = _label(_text(hints.get(name)))
        if hint is not None:
            return _without_counter(hint), name.decode()
    return None, ""


def _text(value: bytes | None) -> str | None:
    return None if value is None else value[: 4 * MAX_LABEL_CHARS].decode("utf-8", "ignore")


def _label(value: Json) -> str | None:
    """Return a value as a label: printable, cut to a bounded length; None for what is no such text."""
    if not isinstance(value, str):
        return None
    label = value[: 2 * MAX_LABEL_CHARS].strip()[:MAX_LABEL_CHARS]
    return label if label and label.isprintable() else None


def _without_counter(hint: str) -> str:
    return hint.removesuffix(":0") or hint


def _runtime_line(body: dict[str, Json]) -> dict[str, str]:
    """Return the fields of `Runtime: agent=… | session=… | sessionId=… | …`, empty where there is none.

    OpenClaw writes the line at the end of the system text, or else of the first user message. Within a text
    the last such line counts, because what a user typed stands before it; later messages are not read.
    """
    for text in _runtime_places(body):
        _, found, rest = ("\n" + text[-_RUNTIME_CHARS:]).rpartition(_RUNTIME)
        if found:
            agent, *others = rest.partition("\n")[0].split(" | ")
            pairs = [
                field.partition("=") for field in reversed(others)
            ]  # of a repeated name the first counts
            return {**{name: value for name, _, value in pairs}, "agent": agent}
    return {}


def _runtime_places(body: dict[str, Json]) -> Iterator[str]:
    """Yield the texts whose end may have the line: system texts, then those of the first user message."""
    yield from _texts(body.get("system"))
    yield from _texts(body.get("instructions"))
    messages = body.get("messages") or body.get("input")
    for message in messages if isinstance(messages, list) else ():
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("system", "developer", "user"):
            yield from _texts(message.get("content"))
        if role not in ("system", "developer"):
            return


def _texts(content: Json) -> Iterator[str]:
    """Yield the texts of a content, last first: the line comes in a text of its own, or ends one."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in reversed(content):
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str):
                yield text


def _metadata_session(body: dict[str, Json]) -> str | None:
    """Read `metadata.user_id`: Claude Code writes its session into it, as text or as JSON."""
    metadata = body.get("metadata")
    user_id = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user_id, str) or len(user_id) > 1024:
        return None
    if user_id.startswith("{"):
        try:
            fields = orjson.loads(user_id)
        except orjson.JSONDecodeError:
            return None
        return _label(fields.get("session_id"))
    return _label(user_id.rpartition(_CLAUDE_SESSION)[2])
