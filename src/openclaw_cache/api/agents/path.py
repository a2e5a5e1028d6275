"""Which agent a path names, and what is asked of it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from openclaw_cache.errors import RequestError

ROOT: Final = b"/v1/agents"
MOST_ID_CHARS: Final = 128
_BROKEN_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class AgentPath(NamedTuple):
    """A path under `/v1/agents`: the agent, and the rest in parts; None and nothing for the list of agents."""

    agent: str | None
    parts: tuple[str, ...]


def is_ours(raw_path: bytes) -> bool:
    """Whether a path, as it came over the wire, is one of `/v1/agents`."""
    return raw_path == ROOT or raw_path.startswith(ROOT + b"/")


def parse_path(raw_path: bytes) -> AgentPath:
    """Read a path as it came over the wire: an escaped `/` parts nothing.

    Two spellings of a name are the same agent where Unicode says that they are the same text (form NFC): escaped or
    not, composed or not. Upper and lower case are different agents.

    Raises:
        RequestError: 400, the agent's name is none.
    """
    rest = raw_path.removeprefix(ROOT).removeprefix(b"/")
    if not rest:
        return AgentPath(None, ())
    first, *others = rest.split(b"/")
    return AgentPath(_agent(first), tuple(_text(part, "path") for part in others))


def _agent(escaped: bytes) -> str:
    name = unicodedata.normalize("NFC", _text(escaped, "agent_id"))
    is_name = 0 < len(name) <= MOST_ID_CHARS and name.isprintable() and name == name.strip()
    if not is_name or "/" in name or name in (".", ".."):
        raise RequestError(
            400,
            f"agent_id: 1-{MOST_ID_CHARS} printable characters without /, percent-encoded in the path",
            code="invalid_agent_id",
            param="agent_id",
        )
    return name


def _text(escaped: bytes, param: str) -> str:
    try:
        text = None if _BROKEN_ESCAPE.search(escaped) else unquote_to_bytes(escaped).decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise RequestError(400, f"{param}: not percent-encoded UTF-8", param=param)
    return text
