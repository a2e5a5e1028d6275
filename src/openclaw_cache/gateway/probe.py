"""Asks an upstream's pods from time to time whether they live."""

from __future__ import annotations

import asyncio
import contextlib
import time

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.remote_pods import RemotePod, RemotePods
from openclaw_cache.gateway.retry import Cause
from openclaw_cache.gateway.upstream_client import AttemptError, UpstreamClient


class Probes:
    """Probes the pods that `RemotePods.to_probe` names, all at once, every `interval_s`.

    Any answer below 500 means alive: an API that has no such path says 404.
    """

    def __init__(self, pods: RemotePods, client: UpstreamClient, path: str, interval_s: float) -> None:
        self._pods = pods
        self._client = client
        self._path = path
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the background, with a round at once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def aclose(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.gather(*map(self._probe, self._pods.to_probe(time.monotonic())))
            await asyncio.sleep(self._interval_s)

    async def _probe(self, pod: RemotePod) -> None:
        try:
            status = await self._client.probe(pod.url + self._path)
        except AttemptError as e:
            pod.failed(e.code, time.monotonic(), at_once=e.cause is Cause.UNREACHED)
            return
        except RequestError as e:  # it cannot even be asked; the others must be
            pod.failed(e.code or e.kind, time.monotonic(), at_once=True)
            return
        now = time.monotonic()
        if status >= 500:
            pod.failed(str(status), now)
        else:
            pod.ejection.revive(now)
