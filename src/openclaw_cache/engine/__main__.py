"""The engine's process: `python -m openclaw_cache.engine --model smollm2-135m --data-dir DIR`.

Under a parent (`--ready-fd`), it writes one JSON object per line to that descriptor, first
`{"event": "listening", "port": …}`, then `{"event": "ready", "model": …, "fingerprint": …, "window": …}`,
and it ends when its standard input does, so that no orphan is left even if the parent is killed. Alone, `--json`
writes the same to stdout.
Exit codes: 0 stopped, 1 failed (worth another try), 2 the configuration is wrong (not worth one).
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from openclaw_cache.engine.kv_settings import KvSettings
from openclaw_cache.engine.server import EngineApp
from openclaw_cache.engine.source import require_extras, resolve
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openclaw_cache.engine.engine import Engine
    from openclaw_cache.engine.source import ModelSource

SAY_PREFIX = (
    "engine: "  # a line of ours on stderr, made to be shown to people; others may come from libraries
)


def say(line: str) -> None:
    """Tell whoever watches about progress or failure."""
    sys.stderr.write(f"{SAY_PREFIX}{line}\n")
    sys.stderr.flush()


def default_num_threads() -> int:
    """All the cores that we may use, but at most 4: a small model gains nothing from more."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), 4)
    return min(os.cpu_count() or 1, 4)


def main(argv: list[str] | None = None) -> int:
    """Run the engine until it is told to stop; returns the exit code."""
    options = _parser().parse_args(argv)
    num_threads = options.threads or default_num_threads()
    _prepare_environment(num_threads)
    if options.ready_fd is not None:
        threading.Thread(target=_end_with_parent, name="lifeline", daemon=True).start()
    try:
        require_extras()
        source = resolve(options.model)
        settings = KvSettings.parse(options.kv)
        return asyncio.run(_serve(options, source, settings, num_threads))
    except ConfigError as exc:
        say(str(exc))
        return 2
    except OSError as exc:
        say(f"cannot listen on {options.host}:{options.port}: {exc.strerror or exc}")
        return 1
    except KeyboardInterrupt:
        return 0


async def _serve(
    options: argparse.Namespace, source: ModelSource, settings: KvSettings, num_threads: int
) -> int:
    is_alone = options.ready_fd is None
    tell = _teller(1 if is_alone and options.json else options.ready_fd)
    app = EngineApp(source, say=say)
    listener = _listen(options.host, options.port)
    port = listener.getsockname()[1]
    server = _Server(
        uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=3)
    )
    url = _url(*listener.getsockname()[:2])
    say(f"listening on {url}" if is_alone else f"its engine listens on port {port}")
    tell({"event": "listening", "port": port})
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    exit_code = 0

    def fail(reason: str) -> None:
        nonlocal exit_code
        say(reason if is_alone else f"{reason}; a new process takes over")
        exit_code, server.should_exit = 1, True

    loading = _load_in_thread(options, source, settings, num_threads, fail)
    first: set[asyncio.Future[Any]] = {serving, loading}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            engine = loading.result()
            from openclaw_cache.engine.kv_routes import KvRoutes  # noqa: PLC0415 - imports torch

            app.ready(engine, KvRoutes(engine))
            say(f"{source.model_id} is ready ({num_threads} threads)")
            if is_alone:
                sys.stderr.write(_invitation(url, source.model_id))
            tell(
                {
                    "event": "ready",
                    "model": source.model_id,
                    "fingerprint": engine.fingerprint,
                    "window": engine.window,
                }
            )
    except ConfigError as exc:
        say(str(exc))
        server.should_exit, exit_code = True, 2
    try:
        await serving
    finally:
        app.close()
    return exit_code


class _Server(uvicorn.Server):
    """Uvicorn, leaving signals to us: it raises a caught one again, which would end us before KV is on disk."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change no handler."""
        yield


def _load_in_thread(
    options: argparse.Namespace,
    source: ModelSource,
    settings: KvSettings,
    num_threads: int,
    on_fault: Callable[[str], None],
) -> asyncio.Future[Engine]:
    """Load the model on a daemon thread: loading cannot be interrupted, and must not delay our end."""
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Engine] = loop.create_future()

    def settle(set_result: Callable[..., None], value: object) -> None:
        if not loaded.cancelled():
            set_result(value)

    def report(reason: str) -> None:
        loop.call_soon_threadsafe(on_fault, reason)

    def load() -> None:
        try:
            from openclaw_cache.engine import engine, model  # noqa: PLC0415 - import torch: after the environment

            weights = model.load(source, options.data_dir, num_threads, say, options.device)
            result = engine.Engine(
                weights,
                settings,
                options.data_dir,
                max_waiting=options.max_waiting,
                say=say,
                on_fault=report,
            )
        except Exception as exc:  # noqa: BLE001 - every failure goes to the waiting future
            loop.call_soon_threadsafe(settle, loaded.set_exception, exc)
        else:
            loop.call_soon_threadsafe(settle, loaded.set_result, result)

    threading.Thread(target=load, name="engine-loader", daemon=True).start()
    return loaded


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m openclaw_cache.engine", description="One embedded model, over HTTP."
    )
    parser.add_argument(
        "--model", required=True, help="a registered name, a Hugging Face folder or a .gguf file"
    )
    parser.add_argument("--data-dir", required=True, type=Path, help="where converted models are kept")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--threads", type=int, help="threads of the model (default: the cores, at most 4)")
    parser.add_argument(
        "--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model computes"
    )
    parser.add_argument("--kv", default="{}", help="settings of the KV cache, one JSON object")
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=32,
        help="requests that may wait besides those that run; more get 429",
    )
    parser.add_argument("--json", action="store_true", help="the parent's events on stdout")
    parser.add_argument(
        "--ready-fd", type=int, help="descriptor for the parent's events; ends with stdin then"
    )
    return parser


def _prepare_environment(num_threads: int) -> None:
    """What must be set before torch and transformers are imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["OMP_NUM_THREADS"] = str(num_threads)
    os.environ["HF_HUB_OFFLINE"] = "1"  # everything is local: never ask a hub, not even for an update
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(128)
    return listener


def _url(host: str, port: int) -> str:
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _invitation(url: str, model_id: str) -> str:
    """Lines to try, for one who runs an engine alone."""
    body = json.dumps(
        {"model": model_id, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    )
    return (
        f"try:\n  curl -i {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'\n"
        f"  curl {url}/kv/status\n"
        f"behind a gateway: upstreams: [{{name: pods, kind: openai, urls: [{url}]}}]\n"
    )


def _teller(fd: int | None) -> Callable[[dict[str, object]], None]:
    def tell(event: dict[str, object]) -> None:
        if fd is not None:
            os.write(fd, json.dumps(event).encode() + b"\n")

    return tell


def _end_with_parent() -> None:
    """Wait for the end of stdin, whose other end only our parent holds, and end the process with it."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
