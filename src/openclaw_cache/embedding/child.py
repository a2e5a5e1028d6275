"""One run of the embedding process, from its start to its end."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from openclaw_cache.embedding.wire import (
    HEAD,
    Answer,
    Question,
    Ready,
    Said,
    Unable,
    framed,
    length_of,
)
from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector

_KEPT_ENV: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "TMPDIR",
)
"""The gateway's environment may hold secrets: the process gets this much of it."""

_OWN_ENV: Final = {
    "HF_HUB_OFFLINE": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_GRACE_S: Final = 0.5
_SAID: Final[msgspec.msgpack.Decoder[Said]] = msgspec.msgpack.Decoder(Said)


class Child:
    """A running process with its model loaded. Made by `start`; `kill` and `ended` finish it.

    It is asked one text at a time, in the order of the calls. A caller that gives up leaves its text with the
    process, and the next is not sent before that answer is there. So a process that hangs holds one text at most,
    and is killed when it owes an answer for `hung_s`.
    """

    def __init__(self, process: asyncio.subprocess.Process, ready: Ready, hung_s: float) -> None:
        self.ready = ready
        self._process = process
        self._hung_s = hung_s
        self._turn = asyncio.Semaphore(1)
        self._answer: asyncio.Future[Vector | None] | None = None
        self._number = 0
        self._hung: asyncio.TimerHandle | None = None
        self._is_over = False
        self._follower = asyncio.create_task(self._follow(), name="embedding-answers")

    @classmethod
    async def start(
        cls, model: str, *, max_tokens: int, load_timeout_s: float, hung_s: float, nice: int = 5
    ) -> Child:
        """Start a process and wait until its model is loaded.

        Raises:
            ConfigError: it says that an operator must mend something.
            EmbeddingError: it did not start, died, or was not ready in time.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "openclaw_cache.embedding.worker"),
                *("--model", model, "--max-tokens", str(max_tokens), "--nice", str(nice)),
                stdin=asyncio.subprocess.PIPE,  # the lifeline: it closes with us, even under kill -9
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT_ENV if name in os.environ} | _OWN_ENV,
                start_new_session=True,  # Ctrl-C in a terminal is for us
            )
        except OSError as exc:
            raise EmbeddingError(f"the embedding process cannot be started: {exc}") from None
        said: Said | None = None
        try:
            async with asyncio.timeout(load_timeout_s):
                said = await _next(process)
        except TimeoutError:
            raise EmbeddingError(f"the embedding model was not loaded within {load_timeout_s:g} s") from None
        finally:
            if not isinstance(said, Ready):
                await _end(process)
        match said:
            case Ready():
                return cls(process, said, hung_s)
            case Unable(reason):
                raise ConfigError(reason)
            case _:
                raise EmbeddingError(f"the embedding process ended while it loaded: {_exit(process)}")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ask(self, text: str) -> Vector | None:
        """The vector of a text, None where it does not fit. Waits its turn; may be cancelled at any time.

        Raises:
            EmbeddingError: the model gave none, or the process has ended.
        """
        await self._turn.acquire()
        if self._is_over:
            self._turn.release()
            raise EmbeddingError("the embedding process has ended")
        loop = asyncio.get_running_loop()
        self._number += 1
        answer: asyncio.Future[Vector | None] = loop.create_future()
        self._answer = answer
        self._hung = loop.call_later(self._hung_s, self.kill)
        stdin = self._process.stdin
        if stdin is not None:
            stdin.write(framed(Question(self._number, text)))
        return await answer

    def kill(self) -> None:
        """End it at once. What was asked fails; `ended` sees it."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """Wait until it has ended, for whatever reason; says what is known of it."""
        await asyncio.shield(self._follower)
        return _exit(self._process)

    async def _follow(self) -> None:
        """Take in answers until the process ends or says what makes no sense."""
        try:
            while isinstance(said := await _next(self._process), Answer):
                if not self._take(said):
                    break
        finally:
            self._is_over = True
            await _end(self._process)
            self._settle(EmbeddingError(f"the embedding process ended: {_exit(self._process)}"))

    def _take(self, said: Answer) -> bool:
        """Hand an answer to who waits for it; False where nobody can."""
        if said.number != self._number or self._answer is None:
            return False
        if said.reason is not None:
            self._settle(EmbeddingError(said.reason))
        elif said.vector is None:
            self._settle(None)
        elif len(said.vector) == 4 * self.ready.num_dims:
            self._settle(np.frombuffer(said.vector, np.dtype("<f4")))
        else:
            return False
        return True

    def _settle(self, outcome: Vector | EmbeddingError | None) -> None:
        """Answer the text that was asked, if one was, and let the next have its turn."""
        answer, self._answer = self._answer, None
        if self._hung is not None:
            self._hung.cancel()
            self._hung = None
        if answer is None:
            return
        self._turn.release()
        if answer.done():  # who asked has given up
            return
        if isinstance(outcome, EmbeddingError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


async def _next(process: asyncio.subprocess.Process) -> Said | None:
    """The next thing it says; None at its end, or where that is not our protocol."""
    stdout = process.stdout
    if stdout is None:
        return None
    try:
        length = length_of(await stdout.readexactly(HEAD.size))
        return _SAID.decode(await stdout.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError, EmbeddingError, msgspec.DecodeError):
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """See to its end, which its closed input asks of it.

    It is killed only where it does not end by itself: a signal to one that has just ended would take its exit code
    from asyncio, because `Popen.send_signal` collects it.
    """
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
        return
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _exit(process: asyncio.subprocess.Process) -> str:
    code = process.returncode
    if code is None:
        return "it is running"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
