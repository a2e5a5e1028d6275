"""Stands where the plugin expects our server: keeps every byte that arrives, and answers as the agents' API does.

With it a test knows what is recalled, and can be away, slow or wrong at will. The recall for a prompt is
`<recalled>PROMPT</recalled>`, and stands after the last message of the history in which it was asked for.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

Json = Any


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the plugin."""

    method: str
    path: str
    """Below the agent's address."""
    agent: str
    raw: bytes
    """Request line, headers and body."""
    body: Json


class PluginCalls:
    """The server; use as a context manager. `stop` and `start` again are an outage; all else is kept over it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.fault: Callable[[Call], tuple[int, Json]] | None = None
        """Answers instead, where it is set."""
        self.delay_s = 0.0
        self._memories: dict[str, list[Json]] = {}
        self._keys: set[tuple[str, str]] = set()
        self._recalls: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._lock = threading.Lock()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Its address, the same after an outage."""
        return f"http://127.0.0.1:{self._port}"

    def bodies(self, path: str) -> list[Json]:
        """The bodies of all calls of one operation, in order."""
        return [call.body for call in self.calls if call.path == path]

    def start(self) -> Self:
        """Begin to answer."""
        server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        server.daemon_threads = True
        self._port = server.server_port
        self._server = server
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        """Be away: connections are refused."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, call: Call) -> tuple[int, Json]:
        """Keep a call and answer it."""
        with self._lock:
            self.calls.append(call)
        time.sleep(self.delay_s)
        if self.fault is not None:
            return self.fault(call)
        with self._lock:
            match call.method, call.path:
                case "POST", "context:assemble":
                    return 200, self._assembled(call)
                case "POST", "turns":
                    key = (call.agent, call.body["key"])
                    status = "duplicate" if key in self._keys else "committed"
                    self._keys.add(key)
                    return 200, {"status": status, "id": "turn_1", "captured": []}
                case "POST", "memories":
                    memory = {
                        "id": f"mem_{len(self._memories.get(call.agent, []))}",
                        "text": call.body["text"],
                    }
                    self._memories.setdefault(call.agent, []).append(memory)
                    return 201, {"memory": memory, "similar": []}
                case "POST", "memories:search":
                    found = [{"memory": m, "score": 1.0} for m in self._memories.get(call.agent, [])]
                    return 200, {"results": found}
                case _:
                    return 200, {}

    def _assembled(self, call: Call) -> Json:
        kept = self._recalls.setdefault((call.agent, call.body["session_id"]), [])
        marks = ["start", *(f"{m['role']} {m.get('timestamp')}" for m in call.body["messages"])]
        prompt = call.body.get("prompt")
        if prompt and not call.body["is_heartbeat"] and (marks[-1] not in [after for after, _ in kept]):
            kept.append((marks[-1], f"<recalled>{prompt}</recalled>"))
        insertions = [{"index": marks.index(after), "text": text} for after, text in kept if after in marks]
        return {"insertions": insertions, "recalled": len(insertions), "reconciled": 0}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _handler(server: PluginCalls) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def _do(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            agent, _, path = self.path.removeprefix("/v1/agents/").partition("/")
            head = f"{self.requestline}\n{self.headers}".encode()
            call = Call(self.command, path, unquote(agent), head + raw, json.loads(raw or b"null"))
            status, body = server.answer(call)
            data = json.dumps(body).encode()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the caller may have left
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _do  # noqa: N815 - the names that http.server calls

    return Handler
