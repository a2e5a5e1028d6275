"""One request, sent and waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from openclaw_cache.admin_client import UnreachableError, WholeReply
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.results import is_success
from openclaw_cache.gateway import negative
from openclaw_cache.request_logs.logged_request import decoded, encoded

_TRIES: Final = 6
_FIRST_WAIT_S: Final = 1.0
_MOST_WAIT_S: Final = 300.0
NOT_NOW: Final = frozenset({429, 502, 503, 504, 529})
"""Replies of a server that is too busy, or has nobody behind it: worth another try."""

Exchange = Callable[[str, bytes], WholeReply]


class Stopped(Exception):  # noqa: N818 - an order, not an error
    """Nobody waits for this reply any more."""


class Sender:
    """Sends requests over a server's own connection, and tries again what it was too busy for."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._stop = threading.Event()

    def send(self, request: BatchRequest) -> WholeReply | NoReply:
        """Send one request and wait for its reply.

        "Not now" is waited out, at least as long as the server asks for: up to six tries, and five minutes in all. A
        connection that breaks is not tried again here: whether it was the request's fault, only who sees the others
        can tell.

        Raises:
            Stopped: it was to stop meanwhile.
        """
        body, wait_s, left_s = encoded(request.body), _FIRST_WAIT_S, _MOST_WAIT_S
        for _ in range(_TRIES - 1):
            reply = self._tried(request.path, body)
            if isinstance(reply, NoReply) or reply.status not in NOT_NOW:
                return reply
            asked_s = retry_after_s(reply.headers, time.time())
            pause_s = max(wait_s, asked_s or 0.0)  # sooner than asked for is in vain, and so is at once
            if pause_s > left_s:
                return reply
            if self._stop.wait(pause_s):
                raise Stopped
            left_s -= pause_s
            wait_s *= 2
        return self._tried(request.path, body)

    def stop(self) -> None:
        """Let no one wait for another try."""
        self._stop.set()

    def _tried(self, path: str, body: bytes) -> WholeReply | NoReply:
        try:
            reply = self._exchange(path, body)
        except UnreachableError as e:
            return NoReply.of(e)
        if is_success(reply.status):
            try:
                decoded(reply.body)
            except ValueError:  # the end of the connection may be all that tells where a reply ends
                return NoReply("what came is not JSON: cut off, or not a model's reply")
        return reply


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a reply asks to wait, in seconds or until a date (RFC 9110, 10.2.3); None where it does not tell."""
    told = headers.get("retry-after", "").encode("latin-1", "replace")
    return negative.retry_after_s([(b"retry-after", told)], now)
