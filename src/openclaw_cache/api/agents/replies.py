"""Schemas of what is answered about agents, for `/openapi.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openclaw_cache.types import Json

_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_COUNT: Final = {"type": "integer", "minimum": 0}
_NUMBER: Final = {"type": "number"}
_UNIX: Final = {"type": "number", "description": "Unix seconds."}
_TIME: Final = {"type": "string", "description": "ISO 8601 in UTC."}
_FLAG: Final = {"type": "boolean"}


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: Json) -> dict[str, Json]:
    return {"type": "array", "items": of}


def _object(required: dict[str, Json], optional: dict[str, Json] | None = None) -> dict[str, Json]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


_DEGRADED: Final = {
    **_list(_TEXT),
    "description": "What the search went without: `no_embedder`, `embedder_loading`, `embedder_failed`, "
    "`embedding_failed`, `vectors_loading`, `rerank`.",
}
_RANGE: Final = _object({"since": _TEXT_OR_NULL, "until": _TEXT_OR_NULL, "phrase": _TEXT_OR_NULL})
_WHY: Final = {
    "type": "object",
    "description": "By list (`vector`, `text`, `time`, `recency`): the rank in it and the value that gave it.",
    "additionalProperties": _object({"rank": {"type": ["integer", "null"]}, "value": _NUMBER}),
}

SCHEMAS: Final[dict[str, Json]] = {
    "Memory": _object(
        {
            "id": _TEXT,
            "text": _TEXT,
            "kind": _TEXT,
            "tags": _list(_TEXT),
            "time": _TIME,
            "source": _TEXT,
            "slot": _TEXT_OR_NULL,
            "version": {"type": "integer", "minimum": 1},
            "created_at": _UNIX,
            "updated_at": _UNIX,
            "supersedes": _list(_TEXT),
            "superseded_by": _TEXT_OR_NULL,
            "provenance": {
                "type": "object",
                "description": "Session, turn and message in which it was said, or path and line it was imported from.",
                "properties": {
                    "session": _TEXT,
                    "turn": _TEXT,
                    "message": _TEXT,
                    "path": _TEXT,
                    "line": {"type": "integer"},
                },
                "additionalProperties": False,
            },
        }
    ),
    "AgentList": _object(
        {
            "agents": _list(
                _object(
                    {
                        "id": _TEXT,
                        "num_memories": _COUNT,
                        "num_turns": _COUNT,
                        "size_bytes": _COUNT,
                        "last_used_at": _UNIX,
                    }
                )
            )
        }
    ),
    "AgentRemoval": _object({"id": _TEXT, "removed": _FLAG}),
    "AgentStats": _object(
        {
            "id": _TEXT,
            "num_memories": _COUNT,
            "num_superseded": _COUNT,
            "num_turns": _COUNT,
            "num_messages": _COUNT,
            "num_sessions": _COUNT,
            "num_recalls": _COUNT,
            "num_passages": _COUNT,
            "num_without_vector": {
                "type": ["integer", "null"],
                "description": "Passages that wait for their vector; null while no embedder is loaded.",
            },
            "size_bytes": _COUNT,
            "oldest_at": {"type": ["number", "null"]},
            "newest_at": {"type": ["number", "null"]},
            "embedder": {"enum": ["off", "idle", "loading", "ready", "failed"]},
        }
    ),
    "StoredMemory": _object(
        {
            "memory": _ref("Memory"),
            "similar": {
                **_list(_object({"memory": _ref("Memory"), "score": _NUMBER})),
                "description": "Others that say nearly the same.",
            },
        }
    ),
    "Memories": _object({"memories": _list(_ref("Memory"))}),
    "MemoryPage": _object({"memories": _list(_ref("Memory")), "next_cursor": _TEXT_OR_NULL}),
    "OneMemory": _object(
        {"memory": _ref("Memory")},
        {"versions": {**_list(_ref("Memory")), "description": "All of them, oldest first."}},
    ),
    "Forgotten": _object(
        {
            "forgotten": _COUNT,
            "redacted": {**_COUNT, "description": "Messages and recalls in which it had stood."},
        }
    ),
    "FoundMemories": _object(
        {"results": _list(_object({"memory": _ref("Memory"), "score": _NUMBER}, {"why": _WHY}))},
        {"range": _RANGE, "degraded": _DEGRADED},
    ),
    "Captured": _object({"captured": _list(_ref("Memory")), "superseded": _list(_TEXT)}),
    "Recalled": _object(
        {
            "text": {**_TEXT, "description": "Empty where nothing bears on it."},
            "items": _list(
                _object({"of": {"enum": ["memory", "message"]}, "id": _TEXT, "score": _NUMBER, "why": _WHY})
            ),
            "num_tokens": _COUNT,
        },
        {"degraded": _DEGRADED},
    ),
    "Imported": _object(
        {
            "added": _COUNT,
            "updated": _COUNT,
            "unchanged": _COUNT,
            "skipped": _list(_object({"line": {"type": "integer"}, "reason": _TEXT})),
        },
        {"num_skipped": {**_COUNT, "description": "Where not all of them are named."}},
    ),
    "Message": _object(
        {
            "id": _TEXT,
            "role": _TEXT,
            "content": {"description": "As the host gave it."},
            "time": _TIME,
        },
        {"tool_call": _TEXT, "tool_name": _TEXT},
    ),
    "Turn": _object(
        {
            "id": _TEXT,
            "key": _TEXT,
            "session_id": _TEXT,
            "session_key": _TEXT_OR_NULL,
            "time": _TIME,
            "is_heartbeat": _FLAG,
            "origin": {"enum": ["commit", "reconciled", "import"]},
            "messages": _list(_ref("Message")),
        }
    ),
    "TurnPage": _object({"turns": _list(_ref("Turn")), "next_cursor": _TEXT_OR_NULL}),
    "CommittedTurn": {
        "type": "object",
        "required": ["status", "id"],
        "properties": {
            "status": {"enum": ["committed", "duplicate"]},
            "id": _TEXT,
            "captured": {**_list(_TEXT), "description": "Ids of the memories that were taken from it."},
        },
    },
    "FoundMessages": _object(
        {
            "results": _list(
                _object(
                    {
                        "message": _TEXT,
                        "turn": _TEXT_OR_NULL,
                        "session": _TEXT_OR_NULL,
                        "role": _TEXT_OR_NULL,
                        "time": _TIME,
                        "snippet": _TEXT,
                        "score": _NUMBER,
                    },
                    {"why": _WHY},
                )
            )
        },
        {"range": _RANGE, "degraded": _DEGRADED},
    ),
    "Expanded": _object({"messages": _list(_ref("Message")), "truncated": _FLAG}),
    "Assembled": {
        "type": "object",
        "required": ["insertions", "recalled", "reconciled"],
        "properties": {
            "insertions": {
                "type": "array",
                "description": "Before message `index` of those that were sent stands a user message with this text.",
                "items": {
                    "type": "object",
                    "required": ["index", "text"],
                    "properties": {"index": _COUNT, "text": _TEXT},
                },
            },
            "recalled": _COUNT,
            "reconciled": _COUNT,
            "degraded": _list(_TEXT),
        },
    },
    "SessionReply": {
        "type": "object",
        "properties": {"inherits": _FLAG, "removed": _COUNT, "told": _COUNT},
    },
}
