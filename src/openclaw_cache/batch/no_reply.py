"""Why a request got no reply, in plain words."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Self

from openclaw_cache.admin_client import LINE_TIMEOUT_S, UnreachableError


@dataclass(frozen=True, slots=True)
class NoReply:
    """What came in a reply's stead: nothing, or what is none."""

    reason: str
    code: str = "no_reply"
    """`no_reply`, or `timeout` where the server kept the connection and said nothing."""

    @classmethod
    def of(cls, error: UnreachableError) -> Self:
        """By what broke the exchange. None of the server's bytes are in it: they are nobody's message."""
        # What the client says of it is meant for a server that cannot be reached at all.
        match error.__context__:
            case TimeoutError(errno=None):  # ours; one with a number is the network's, and tells of no server
                return cls(f"no reply came within {LINE_TIMEOUT_S:.0f} s", "timeout")
            case http.client.RemoteDisconnected():
                reason = "the connection was closed without a reply"
            case http.client.IncompleteRead():
                reason = "the connection was closed in the middle of the reply"
            case http.client.HTTPException():
                reason = "what came is not an HTTP reply"
            case ConnectionResetError() | BrokenPipeError() | ConnectionAbortedError():
                reason = "the connection was reset"
            case OSError(strerror=str(told)):
                reason = told
            case _:
                reason = str(error)
        return cls(reason)
