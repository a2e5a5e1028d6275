"""The embedded engine as the gateway sees it: a child process with a URL. Imports no torch."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import orjson

from openclaw_cache.engine.source import require_extras, resolve
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from openclaw_cache.types import Json

PodState = Literal["stopped", "starting", "ready", "restarting", "failed"]

_SAY_PREFIX = "engine: "  # as in engine.__main__, which must not be imported from here
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_STOP_S = 15.0
_MOST_LINE_BYTES = 64 * 1024


class EmbeddedPod:
    """Starts the engine's process, keeps it running, and knows where it listens.

    States: stopped → starting → ready; when the process dies: restarting (with pauses that double from 0.5 to
    30 s) → ready; failed when another try is no use (the configuration is wrong), with `reason`.

    Args:
        model: A registered name, a folder, or a GGUF file.
        data_dir: Where the converted model is kept.
        threads: Threads of the model; None: the cores, at most 4.
        max_waiting: Requests that may wait in the engine; more get 429.
        kv: The engine's KV cache, as `engine_command` takes it; None: the engine's own defaults.
        device: Where the model computes: auto, cpu, cuda or mps.
        on_event: Told about progress, one line at a time; never sees prompt text.
    """

    def __init__(
        self,
        *,
        model: str,
        data_dir: Path,
        threads: int | None = None,
        max_waiting: int = 32,
        kv: Mapping[str, object] | None = None,
        device: str = "auto",
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        self._model = model
        self._data_dir = data_dir
        self._threads = threads
        self._max_waiting = max_waiting
        self._kv = kv
        self._device = device
        self._on_event = on_event or (lambda _line: None)
        self._state: PodState = "stopped"
        self._changed = asyncio.Event()
        self._port: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.model_ids: list[str] = []
        self.fingerprint: str | None = None
        self._last_line: str | None = None
        self._end_reason: str | None = None

    @property
    def state(self) -> PodState:
        """Where in its life the pod is."""
        return self._state

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered now."""
        return self._state == "ready"

    @property
    def url(self) -> str | None:
        """Base URL without `/v1`; another one after each restart; None while nothing listens."""
        return None if self._port is None else f"http://127.0.0.1:{self._port}"

    @property
    def reason(self) -> str | None:
        """Why it is not ready: what ended it, or the last line that it has said."""
        return None if self._state == "ready" else self._end_reason or self._last_line

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the process in the background and return at once; `wait_ready` waits for it.

        Raises:
            ConfigError: The model or the engine's libraries are not there.
        """
        if self._keeper is not None:
            return
        require_extras()
        source = resolve(self._model)
        self.model_ids = [source.model_id, *source.aliases]
        self._enter("starting")
        self._keeper = asyncio.create_task(self._keep_running(), name="embedded-pod")

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until requests are answered.

        Raises:
            ConfigError: The engine has failed for good, or was not started.
            TimeoutError: It is not ready in time; the message has the last reason known.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._state in ("starting", "restarting"):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            reason = self.reason or "no news from it"
            raise TimeoutError(f"the embedded engine is not ready after {timeout_s:g} s: {reason}") from None
        if self._state != "ready":
            raise ConfigError(f"the embedded engine has {self._state}: {self.reason}")

    async def stop(self) -> None:
        """End the process: SIGTERM, and SIGKILL if it is still there after 15 s. Harmless when not running.

        It may take seconds: the engine brings what its KV cache holds to the disk.
        """
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
        self._enter("stopped")

    async def __aenter__(self) -> EmbeddedPod:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _enter(self, state: PodState, reason: str | None = None) -> None:
        self._state = state
        self._end_reason = reason
        self._changed.set()

    async def _keep_running(self) -> None:
        """Run the process again and again until cancelled or it is no use."""
        pause_s = _FIRST_PAUSE_S
        while True:
            exit_code = await self._run_once()
            reason = self._last_line or f"exit code {exit_code}"
            if exit_code == 2:
                self._enter("failed", reason)
                self._on_event(f"the engine cannot run: {reason}")
                return
            if exit_code < 0:
                reason = f"killed by signal {-exit_code}"
            if self._state == "ready":
                pause_s = _FIRST_PAUSE_S
            self._enter("restarting", reason)
            self._on_event(f"the engine ended ({reason}); starting it again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _run_once(self) -> int:
        """Run one process to its end, whichever way it comes; returns its exit code."""
        self._last_line = None
        events_fd, child_fd = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(child_fd),
                stdin=asyncio.subprocess.PIPE,  # the lifeline: it closes with us, even under kill -9
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(child_fd,),
                start_new_session=True,  # Ctrl-C in a terminal is for us; we stop the engine after draining
                env=os.environ | {"OMP_WAIT_POLICY": "PASSIVE"},
                limit=_MOST_LINE_BYTES,
            )
        except OSError as exc:
            os.close(events_fd)
            self._last_line = f"cannot start the engine: {exc}"
            return 1
        finally:
            os.close(child_fd)
        self._process = process
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_events(events_fd))
                group.create_task(self._follow_stderr(process))
            return await process.wait()
        finally:
            self._port = None
            await _end(process)
            self._process = None

    def _command(self, ready_fd: int) -> list[str]:
        command = engine_command(self._model, self._data_dir, kv=self._kv, device=self._device)
        command += ["--ready-fd", str(ready_fd), "--max-waiting", str(self._max_waiting)]
        return command if self._threads is None else [*command, "--threads", str(self._threads)]

    async def _follow_events(self, fd: int) -> None:
        """Take in what the process says of itself until it closes the pipe."""
        reader = asyncio.StreamReader(limit=_MOST_LINE_BYTES)
        pipe = os.fdopen(fd, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while line := await reader.readline():
                self._take(orjson.loads(line))
        finally:
            transport.close()

    def _take(self, event: Json) -> None:
        match event:
            case {"event": "listening", "port": int(port)}:
                self._port = port
            case {"event": "ready", "fingerprint": str(fingerprint)}:
                self.fingerprint = fingerprint
                self._enter("ready")

    async def _follow_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Pass on the engine's own lines; keep the last line of any kind as the reason of an end."""
        stderr = process.stderr
        if stderr is None:
            return
        async for raw in _lines(stderr):
            line = raw.decode(errors="replace").strip()
            if line:
                self._last_line = line.removeprefix(_SAY_PREFIX)
            if line.startswith(_SAY_PREFIX):
                self._on_event(line.removeprefix(_SAY_PREFIX))


def engine_command(model: str, data_dir: Path, *, kv: Mapping[str, object] | None, device: str) -> list[str]:
    """The command line of an engine's process, without what concerns its place under a parent or in the network.

    `kv` has the names of `settings.KvCacheSettings.for_engine`.
    """
    # -P: a file in the working directory must not pass for one of our libraries.
    command = [sys.executable, "-P", "-m", "openclaw_cache.engine", "--model", model]
    command += ["--data-dir", str(data_dir), "--device", device]
    return command if kv is None else [*command, "--kv", orjson.dumps(dict(kv)).decode()]


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream; one that is too long is left out."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit: asyncio has dropped it
            continue
        if not line:
            return
        yield line


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
