"""Whether a server is still there: how long it may be away, and what counts as a sign of life."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from openclaw_cache.admin_client import AdminClient, RefusedError, UnreachableError
from openclaw_cache.batch import presence
from openclaw_cache.batch.presence import Presence, ask


class Server:
    """Is away at these seconds; each look takes some."""

    def __init__(self, away: set[int]) -> None:
        self.now = 0.0
        self._away = away

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def ask(self) -> None:
        if self.now in self._away:
            raise UnreachableError("refused")


def looks(monkeypatch: pytest.MonkeyPatch, away: set[int], num: int) -> list[bool]:
    """What a look each second finds, with a minute's patience."""
    server = Server(away)
    monkeypatch.setattr(presence, "time", SimpleNamespace(sleep=server.pause, monotonic=lambda: server.now))
    found = Presence(server.ask, most_away_s=60.0, pause_s=1.0)
    return [found.is_there() for _ in range(num)]


def test_a_server_may_be_away_for_a_minute_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    away = {*range(1, 60), *range(61, 120)}
    assert looks(monkeypatch, away, 120) == [second not in away for second in range(1, 121)]


def test_a_server_that_is_away_for_a_minute_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError, match="away for 60 s"):
        looks(monkeypatch, set(range(1, 100)), 61)


@pytest.mark.parametrize(("status", "is_there"), [(401, True), (404, True), (500, False), (503, False)])
def test_who_refuses_is_there_and_who_speaks_for_one_that_is_away_is_not(
    monkeypatch: pytest.MonkeyPatch, status: int, is_there: bool
) -> None:
    def refuses(_client: AdminClient, _method: str, _path: str) -> None:
        raise RefusedError(status, "no")

    monkeypatch.setattr(AdminClient, "call", refuses)
    if is_there:
        ask(AdminClient("http://127.0.0.1:1"))
    else:
        with pytest.raises(UnreachableError, match=str(status)):
            ask(AdminClient("http://127.0.0.1:1"))
