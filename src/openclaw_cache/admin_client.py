"""A small client for `/admin`: finds the server, sends one order, says what went wrong."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError, OpenClawCacheError

TIMEOUT_S = 120.0


class NotFoundError(OpenClawCacheError):
    """No running server is known here."""


class UnreachableError(OpenClawCacheError):
    """The server does not answer."""


class RefusedError(OpenClawCacheError):
    """The server answered with an error; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class AdminClient:
    """Talks to one server. Blocking; one connection per call."""

    url: str
    admin_key: str | None = field(default=None, repr=False)

    @classmethod
    def find(cls, url: str | None, data_dir: Path | None, env: Mapping[str, str]) -> Self:
        """The server of `url`, or the one that runs in the data dir.

        Raises:
            ConfigError: `url` is none.
            NotFoundError: neither is there; the message says how to name one.
        """
        admin_key = env.get("OPENCLAW_CACHE_ADMIN_KEY")
        if url is not None:
            if not _is_http(url):
                raise ConfigError(f"--url {url!r} is not an http URL such as http://127.0.0.1:8800")
            return cls(url.rstrip("/").removesuffix("/v1"), admin_key)
        chosen = data_dir or Path(
            env.get("OPENCLAW_CACHE_SERVER__DATA_DIR") or load(env={}).settings.server.data_dir
        )
        server_file = chosen.expanduser() / "server.json"
        try:
            found = json.loads(server_file.read_bytes())["url"]
        except (OSError, ValueError, KeyError, TypeError):
            raise NotFoundError(
                f"no server runs in {chosen}: start one with `openclaw-cache serve`, or name it with --url "
                "or OPENCLAW_CACHE_URL"
            ) from None
        return cls(str(found), admin_key)

    def call(self, method: str, path: str, order: Mapping[str, object] | None = None) -> Any:
        """Send one order and return the decoded answer.

        Raises:
            UnreachableError, RefusedError.
        """
        parts = urlsplit(self.url)
        connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = connect(parts.hostname or "127.0.0.1", parts.port, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json"}
        if self.admin_key:
            headers["Authorization"] = f"Bearer {self.admin_key}"
        try:
            connection.request(method, parts.path + path, json.dumps(order) if order else None, headers)
            reply = connection.getresponse()
            raw = reply.read()
        except (OSError, http.client.HTTPException) as e:
            raise UnreachableError(f"cannot reach {self.url}: {e}") from None
        finally:
            connection.close()
        try:
            answer = json.loads(raw)
        except ValueError:  # something else listens there now
            raise UnreachableError(f"{self.url} is not an openclaw-cache server") from None
        if reply.status >= 400:
            error = answer.get("error") if isinstance(answer, dict) else None
            message = error.get("message") if isinstance(error, dict) else str(answer)
            raise RefusedError(reply.status, str(message))
        return answer


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket left open
        return False
