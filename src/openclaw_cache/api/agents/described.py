"""The part of `/openapi.json` that is about agents. Schemas of bodies are made from the types that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from openclaw_cache.api.agents import context, memories, recalling, replies, turns

if TYPE_CHECKING:
    from openclaw_cache.types import Json

TAG: Final = {
    "name": "agents",
    "description": "What agents remember: memories, turns, and the context engine.",
}

_BASE: Final = "/v1/agents/{agent_id}"
_ERRORS: Final = (400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503, 507)
_AGENT: Final = {"$ref": "#/components/parameters/AgentId"}
_COMMON: Final = [
    {"$ref": "#/components/parameters/Namespace"},
    {"$ref": "#/components/parameters/RequestId"},
]
_ID: Final = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "description": "The version that was seen, in quotes; 409 where it is not the current one.",
    "schema": {"type": "string", "pattern": '^((W/)?"[0-9]{1,9}"|\\*)$'},
}
_MOMENT: Final = {"type": "string", "description": "ISO 8601, or Unix seconds."}
_CURSOR: Final = {"type": "string", "description": "`next_cursor` of the page before."}
_SUMMARY: Final = {
    ("GET", ""): ("listAgents", "The agents of the namespace", "AgentList"),
    ("DELETE", "/{agent_id}"): ("removeAgent", "Remove an agent with all that it remembers", "AgentRemoval"),
    ("GET", "stats"): ("agentStats", "What an agent's store holds", "AgentStats"),
    ("POST", "memories"): ("storeMemory", "Store a memory", "StoredMemory"),
    ("GET", "memories"): ("listMemories", "Memories, by id", "MemoryPage"),
    ("POST", "memories:batch"): ("storeMemories", "Store up to 1000 memories, all or none", "Memories"),
    ("GET", "memories/*"): ("readMemory", "One memory, with its versions", "OneMemory"),
    ("PATCH", "memories/*"): ("changeMemory", "Give a memory a new version", "OneMemory"),
    ("DELETE", "memories/*"): ("forgetMemory", "Forget a memory, in turns and recalls too", "Forgotten"),
    ("POST", "memories:search"): ("searchMemories", "Find memories by meaning, words and time", "FoundMemories"),
    ("POST", "memories:capture"): ("captureMemories", "Take memories out of what a user said", "Captured"),
    ("POST", "memories:recall"): ("recallMemories", "What bears on a prompt, as a fenced block", "Recalled"),
    ("GET", "export"): ("exportMemory", "Everything, as JSON lines", None),
    ("POST", "import"): ("importMemory", "Take in an export, a memory file or a transcript", "Imported"),
    ("GET", "turns"): ("listTurns", "Turns, the oldest first", "TurnPage"),
    ("POST", "turns"): ("commitTurn", "Keep an accepted turn", "CommittedTurn"),
    ("GET", "turns/*"): ("readTurn", "One turn", "Turn"),
    ("POST", "turns:search"): ("searchTurns", "Find messages", "FoundMessages"),
    ("POST", "turns:expand"): ("expandTurn", "What stood around a message", "Expanded"),
    ("POST", "context:assemble"): ("assembleContext", "What to insert into a history", "Assembled"),
    ("DELETE", "sessions/*"): ("dropSession", "Remove a session's turns and recalls", "SessionReply"),
    ("POST", "sessions:fork"): ("forkSession", "A sub-agent's session is about to begin", "SessionReply"),
    ("POST", "sessions:rollback"): ("rollBackSession", "It did not begin after all", "SessionReply"),
    ("POST", "sessions:end"): ("endSession", "A session is over", "SessionReply"),
    ("POST", "hints"): ("hint", "What is known of a session's next call", "SessionReply"),
}  # fmt: skip
_ORDERS: Final[Mapping[tuple[str, str], type[msgspec.Struct]]] = {
    ("POST", "memories"): memories.MemoryOrder,
    ("POST", "memories:batch"): memories.BatchOrder,
    ("PATCH", "memories/*"): memories.ChangeOrder,
    ("POST", "memories:search"): recalling.SearchOrder,
    ("POST", "memories:capture"): recalling.CaptureOrder,
    ("POST", "memories:recall"): recalling.RecallOrder,
    ("POST", "turns"): context.TurnOrder,
    ("POST", "turns:search"): turns.TurnSearchOrder,
    ("POST", "turns:expand"): turns.ExpandOrder,
    ("POST", "context:assemble"): context.AssembleOrder,
    ("POST", "sessions:fork"): context.ForkOrder,
    ("POST", "sessions:rollback"): context.RollbackOrder,
    ("POST", "sessions:end"): context.EndOrder,
    ("POST", "hints"): context.HintOrder,
}


def _query(name: str, schema: Json, *, required: bool = False) -> dict[str, Json]:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _limit(most: int, otherwise: int) -> dict[str, Json]:
    return _query("limit", {"type": "integer", "minimum": 1, "maximum": most, "default": otherwise})


_QUERIES: Final[Mapping[tuple[str, str], Sequence[Json]]] = {
    ("DELETE", "/{agent_id}"): [
        _query("confirm", {"type": "string", "description": "The agent's id again."}, required=True)
    ],
    ("GET", "memories"): [
        _query("cursor", _CURSOR),
        _limit(memories.MOST_PAGE, 50),
        _query("kind", {"type": "string"}),
        _query("tag", {"type": "string"}),
        _query("since", _MOMENT),
        _query("until", _MOMENT),
        _query("superseded", {"type": "boolean", "default": False}),
    ],
    ("GET", "memories/*"): [_ID, _query("versions", {"type": "boolean", "default": False})],
    ("PATCH", "memories/*"): [_ID, _IF_MATCH],
    ("DELETE", "memories/*"): [_ID],
    ("GET", "turns"): [
        _query("session", {"type": "string"}),
        _query("cursor", _CURSOR),
        _limit(turns.MOST_PAGE, 20),
    ],
    ("GET", "turns/*"): [_ID],
    ("DELETE", "sessions/*"): [_ID],
    ("POST", "import"): [
        _query("format", {"enum": ["jsonl", "markdown", "transcript"], "default": "jsonl"}),
        _query(
            "path", {"type": "string", "maxLength": 512, "description": "The file's place in the workspace."}
        ),
    ],
}


def path_of(name: str) -> str:
    """The path that a name in the table of routes stands for."""
    if not name or name.startswith("/"):
        return f"/v1/agents{name}"
    return f"{_BASE}/{name.replace('*', '{id}')}"


def paths() -> dict[str, dict[str, Json]]:
    """All operations."""
    found: dict[str, dict[str, Json]] = {}
    for method, name in _SUMMARY:
        found.setdefault(path_of(name), {})[method.lower()] = _operation(method, name)
    return found


def schemas() -> dict[str, Json]:
    """All schemas that operations refer to."""
    _, orders = msgspec.json.schema_components(
        set(_ORDERS.values()), ref_template="#/components/schemas/{name}"
    )
    return {**orders, **replies.SCHEMAS}


def parameters() -> dict[str, Json]:
    """The agent's id in the path."""
    return {
        "AgentId": {
            "name": "agent_id",
            "in": "path",
            "required": True,
            "description": "1-128 printable characters without /, percent-encoded.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }
    }


def responses() -> dict[str, Json]:
    """Errors that only memory has."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    headers = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
    return {
        "OpenAI500": {
            "description": "The agent's file failed: code `memory_…`.",
            "headers": headers,
            "content": error,
        },
        "OpenAI507": {
            "description": "No room is left: nothing was stored.",
            "headers": headers,
            "content": error,
        },
    }


def _operation(method: str, name: str) -> dict[str, Json]:
    operation_id, summary, reply = _SUMMARY[method, name]
    told: dict[str, Json] = {
        "operationId": operation_id,
        "tags": [TAG["name"]],
        "summary": summary,
        "parameters": [*([_AGENT] if name else []), *_QUERIES.get((method, name), ()), *_COMMON],
    }
    if (order := _ORDERS.get((method, name))) is not None:
        told["requestBody"] = {
            "required": any(field.required for field in msgspec.structs.fields(order)),
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{order.__name__}"}}},
        }
    elif (method, name) == ("POST", "import"):
        told["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    done: dict[str, Json] = {
        "description": "Done.",
        "headers": {"x-request-id": {"$ref": "#/components/headers/RequestId"}},
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
    if reply is not None:
        done["content"] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{reply}"}}}
    told["responses"] = {"200": done}
    if (method, name) == ("POST", "memories"):
        done["description"] = "The very text was remembered already: this is the memory that says it."
        told["responses"]["201"] = {**done, "description": "Stored."}
    for status in _ERRORS:
        told["responses"][str(status)] = {"$ref": f"#/components/responses/OpenAI{status}"}
    return told
