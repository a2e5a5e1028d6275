"""The last prompt of each session that an embedded engine answers, and what is told to the engine of its next call.

An engine learns the rhythm of its callers by itself; what only a client knows (a tool is running, the turn is over, the
conversation is over) it takes as a hint on a prompt. The client names its session, and here is the prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import orjson

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.kv_pod import KvPod
from openclaw_cache.types import Json, Namespace

State: TypeAlias = Literal["tool", "idle", "ended"]
"""What is known of a session's next call: a tool's result will come with it, a person is to answer, there is none."""

MAX_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SessionPrompt:
    """What a session asked last, and of whom."""

    upstream: str
    salt: str
    """The namespace, as the engine knows it."""
    body: bytes


class SessionPrompts:
    """The newest sessions' last prompts, within a bound on their bytes. In memory only.

    Sessions are the client's own labels: kept apart by the client's namespace, and good for nothing but hints.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._prompts: OrderedDict[tuple[Namespace, str], SessionPrompt] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        """Bytes of all prompts together."""
        return self._num_bytes

    def note(self, namespace: Namespace, session: str, prompt: SessionPrompt) -> None:
        """Keep what a session has just asked in place of what it asked before; the oldest sessions make room."""
        self.forget(namespace, session)
        if len(prompt.body) > self._max_bytes:
            return
        self._prompts[namespace, session] = prompt
        self._num_bytes += len(prompt.body)
        while self._num_bytes > self._max_bytes:
            _, oldest = self._prompts.popitem(last=False)
            self._num_bytes -= len(oldest.body)

    def find(self, namespace: Namespace, session: str) -> SessionPrompt | None:
        """What a session asked last; None where that is not known (any more)."""
        return self._prompts.get((namespace, session))

    def forget(self, namespace: Namespace, session: str) -> None:
        """Keep nothing of a session. Nothing happens where nothing is kept."""
        old = self._prompts.pop((namespace, session), None)
        if old is not None:
            self._num_bytes -= len(old.body)


class SessionHints:
    """Tells engines what clients say of their sessions.

    Args:
        prompts: What the sessions asked last.
        pods: The embedded engines, by the upstream's name.
    """

    def __init__(self, prompts: SessionPrompts, pods: Mapping[str, KvPod]) -> None:
        self._prompts = prompts
        self._pods = pods

    async def tell(self, namespace: Namespace, session: str, state: State) -> int:
        """Pass on what a client knows of its session's next call.

        A hint can only help, so this never fails: returns how many engines took it, 0 where none answered the session
        lately, or it is busy, loading or gone.
        """
        prompt = self._prompts.find(namespace, session)
        pod = None if prompt is None else self._pods.get(prompt.upstream)
        if prompt is None or pod is None:
            return 0
        if state == "ended":
            self._prompts.forget(namespace, session)
        try:
            answer = await pod.hint(_beginning(prompt.body), state, salt=prompt.salt)
        except RequestError:
            return 0
        return int(bool(answer.get("num_nodes")))


def _beginning(body: bytes) -> Json:
    """What the engine needs of a request's body to find its prompt; the body was understood once already."""
    asked = orjson.loads(body)
    return {name: asked[name] for name in ("messages", "tools") if asked.get(name) is not None}
