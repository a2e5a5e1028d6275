"""Runs the gateway as a process: listens, says where, and drains on a signal."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import signal
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson
import structlog
import uvicorn

from openclaw_cache.api.connection import BoundedConnection
from openclaw_cache.app import App
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe import logs
from openclaw_cache.settings import Server as ServerSettings
from openclaw_cache.settings import Settings

SERVER_FILE = "server.json"

_log = structlog.get_logger()


async def serve(settings: Settings, say: Callable[[str], None], env: Mapping[str, str] | None = None) -> None:
    """Run the gateway until SIGTERM or SIGINT, then drain: in-flight replies finish, writes are flushed.

    Raises:
        ConfigError: naming the setting at fault.
    """
    logs.configure()
    server_settings = settings.server
    _check_tls(server_settings)
    app = App(settings, say, os.environ if env is None else env)
    server_file = server_settings.data_dir / SERVER_FILE
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None  # noqa: S101 - always inside a task
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, main.cancel)  # until the server takes over
    try:
        await app.start()
        server = _Server(_config(app, server_settings), app)
        announcing = asyncio.create_task(_announce(app, server, server_file, say))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.handle_exit, number, None)
        try:
            await server.serve()
        finally:
            announcing.cancel()
        if not server.started:
            raise ConfigError(
                f"server.port: cannot listen on {server_settings.host}:{server_settings.port} "
                "(is it in use?): choose another with --port, 0 for any free one"
            )
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: None)  # a second one must not cut off the stop
        _withdraw(server_file)
        await app.stop()
        if app.draining:
            _log.info("stopped")
        logs.flush()


def _config(app: App, settings: ServerSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        app.asgi,
        host=settings.host,
        port=settings.port,
        loop="none",
        http=functools.partial(  # type: ignore[arg-type] # called like the class it stands for
            BoundedConnection, write_timeout_s=settings.write_timeout
        ),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
    )
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = (
            ssl.TLSVersion.TLSv1_2
        )  # the default is what a machine's OpenSSL was set to
    return config


def _check_tls(server: ServerSettings) -> None:
    """Try the files of the listener before anything is started. Raises ConfigError."""
    if server.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            server.tls_cert, server.tls_key, password=b""
        )  # without it, OpenSSL would ask at the terminal
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(
            f"server.tls_cert, server.tls_key: {server.tls_cert} and {server.tls_key} are not a certificate (PEM, with "
            f"its chain) and its own, unencrypted key: {e.strerror or e}"
        ) from None


class _Server(uvicorn.Server):
    """Uvicorn, telling the app when draining begins, and leaving signals to us.

    Uvicorn raises a caught signal again when it returns, which would end the process before writes are flushed.
    """

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app
        self.listening = asyncio.Event()

    def handle_exit(self, sig: int, frame: object) -> None:
        if not self._app.draining:
            self._app.draining = True
            _log.info("draining", signal=signal.Signals(sig).name, effect="replies in flight finish")
        super().handle_exit(sig, None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        try:
            await super().startup()
            self.listening.set()
        except SystemExit:  # uvicorn exits the process when it cannot bind; we name the setting instead
            self.should_exit = True


async def _announce(app: App, server: _Server, server_file: Path, say: Callable[[str], None]) -> None:
    """Write where we listen for the CLI, and print it with a line to try once the models answer."""
    await server.listening.wait()
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    if ipaddress.ip_address(host).is_unspecified:
        shown = "127.0.0.1"
    tls_cert = app.settings.server.tls_cert
    url = f"{'https' if tls_cert else 'http'}://{shown}:{port}"
    draft = server_file.with_suffix(".tmp")
    try:
        draft.write_bytes(
            orjson.dumps({"url": url, "pid": os.getpid(), "certificate": str(tls_cert) if tls_cert else None})
        )
        draft.replace(server_file)
    except OSError as e:  # a full disk: we serve all the same
        _log.warning("not announced", reason=f"{server_file}: {e.strerror}", effect="the CLI needs --url")
    say(f"listening on {url}")
    for name, pod in app.pods.items():
        say(f"{name}: loading {pod.model_ids[0]} …")
        await pod.wait_ready(float("inf"))
    for upstream in app.settings.upstreams:
        served = [app.pods[upstream.name].model_ids[0]] if upstream.name in app.pods else []
        say(f"upstream {upstream.name}: {', '.join(served or [u.url for u in upstream.urls])}")
    model = next((p.model_ids[0] for p in app.pods.values()), "MODEL")
    say(f"dashboard: {url}/dashboard")
    say("ready; try:")
    body = orjson.dumps(
        {"model": model, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    ).decode()
    key = (
        '-H "authorization: Bearer $KEY" '
        if app.settings.server.keys or app.settings.server.keys_file
        else ""
    )
    say(f"  curl -i {url}/v1/chat/completions {key}-H 'content-type: application/json' -d '{body}'")


def _withdraw(server_file: Path) -> None:
    """Remove the note of where we listen, unless it is another gateway's."""
    try:
        if orjson.loads(server_file.read_bytes())["pid"] == os.getpid():
            server_file.unlink()
    except (OSError, ValueError, KeyError):
        pass  # there is none, or it is not ours
