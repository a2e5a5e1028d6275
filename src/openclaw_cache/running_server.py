"""A running server as the commands use it: what goes wrong becomes a message and an exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self

import typer

from openclaw_cache.admin_client import AdminClient, NotFoundError, RefusedError, UnreachableError
from openclaw_cache.errors import ConfigError

EXIT_NO, EXIT_USAGE, EXIT_UNREACHABLE = 1, 2, 3


class RunningServer:
    """The server of a URL, or of the data dir. Every failure ends the process."""

    def __init__(self, url: str | None, data_dir: Path | None) -> None:
        try:
            self._client = AdminClient.find(url, data_dir, os.environ)
        except ConfigError as e:
            fail(str(e), EXIT_USAGE)
        except NotFoundError as e:
            fail(str(e), EXIT_UNREACHABLE)

    def as_client(self, namespace: str | None) -> Self:
        """The same server as its clients ask it: with the key of OPENCLAW_CACHE_KEY, where that is set."""
        headers = {} if namespace is None else {"x-openclaw-namespace": namespace}
        self._client = replace(self._client, admin_key=os.environ.get("OPENCLAW_CACHE_KEY"), headers=headers)
        return self

    @property
    def client(self) -> AdminClient:
        """What talks to it: its failures are raised."""
        return self._client

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._client.url

    def get(self, path: str) -> Any:
        """Ask for something; returns the decoded answer."""
        return self._call("GET", path, None)

    def post(self, path: str, order: Mapping[str, object]) -> Any:
        """Send one order; returns the decoded answer."""
        return self._call("POST", path, order)

    def order(self, method: str, path: str, order: Mapping[str, object] | None = None) -> Any:
        """Send one order by another method; returns the decoded answer."""
        return self._call(method, path, order)

    def upload(self, path: str, body: bytes) -> Any:
        """Send bytes; returns the decoded answer."""
        with _exit_codes():
            return self._client.upload(path, body)

    def download(self, path: str) -> Iterator[bytes]:
        """Ask for something; gives each line of the answer as it comes."""
        with _exit_codes():
            yield from self._client.download(path)

    def lines(self, path: str, order: Mapping[str, object]) -> Iterator[Any]:
        """Send one order; gives each line of the answer as it comes."""
        with _exit_codes():
            yield from self._client.lines(path, order)

    def _call(self, method: str, path: str, order: Mapping[str, object] | None) -> Any:
        with _exit_codes():
            return self._client.call(method, path, order)


@contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    except UnreachableError as e:
        fail(str(e), EXIT_UNREACHABLE)
    except RefusedError as e:
        is_usage = (
            e.status < 500 and e.status != 409
        )  # that one is no fault of the order: it cannot be done now
        fail(str(e), EXIT_USAGE if is_usage else EXIT_NO)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong, and end with an exit code."""
    typer.echo(f"openclaw-cache: {message}", err=True)
    raise typer.Exit(code)
