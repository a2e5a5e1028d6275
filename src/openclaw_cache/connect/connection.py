"""OpenClaw on this machine and our server, put together: what there is, what to change, what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from openclaw_cache.admin_client import AdminClient, RefusedError, UnreachableError
from openclaw_cache.connect import checks, config_files, place, plugin_files
from openclaw_cache.connect.checks import Finding
from openclaw_cache.connect.choosing import choose
from openclaw_cache.connect.config_files import ConfigFiles
from openclaw_cache.connect.openclaw_cli import INSTALL, OpenClawCli, OpenClawError, is_old
from openclaw_cache.connect.server import Listed, Seen, Server
from openclaw_cache.connect.wish import NAME, PROVIDER, ApiKind, Wish
from openclaw_cache.errors import ConfigError
from openclaw_cache.types import Json

_VARIABLE: Final = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for; None or nothing = as it is already, else our choice."""

    models: Sequence[str] = ()
    window: int | None = None
    api: ApiKind | None = None
    key_env: str | None = None
    with_plugin: bool = True
    with_default: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    """One OpenClaw, found by `find`, and its config as it was then."""

    env: Mapping[str, str] = field(repr=False)
    cli: OpenClawCli | None
    files: ConfigFiles

    @classmethod
    def find(cls, env: Mapping[str, str], config: Path | None, *, needs_cli: bool = True) -> Self:
        """The OpenClaw of this user.

        Args:
            env: The environment that it runs in.
            config: Its config file, where that is not the one it chooses itself.
            needs_cli: Whether its command line must be there.

        Raises:
            ConfigError: it is not installed, does not run, or its config cannot be read.
        """
        cli = None
        try:
            cli = OpenClawCli.find(env, config)
            root = config or cli.config_path()
        except (ConfigError, OpenClawError) as e:
            if needs_cli:
                raise ConfigError(str(e)) from None
            root = config or place.config_path(env)
        return cls(env, cli, config_files.read(root, env))

    @property
    def provider(self) -> dict[str, Json]:
        """Our provider as the config has it; empty where it has none."""
        found = self.files.at(PROVIDER)
        return found if isinstance(found, dict) else {}

    def key_env(self) -> str | None:
        """The variable that our provider's key comes from."""
        found = _VARIABLE.fullmatch(str(self.provider.get("apiKey")))
        return found[1] if found is not None else None

    def variable(self, name: str) -> str | None:
        """A variable as OpenClaw would read it: its environment, or the file .env of its state directory."""
        return self.env.get(name) or _from_env_file(place.state_dir(self.env) / ".env", name)

    def key(self, key_env: str | None) -> str | None:
        """The key that OpenClaw sends to our server."""
        name = key_env or self.key_env()
        if name is not None:
            return self.variable(name)
        written = self.provider.get("apiKey")
        return written if isinstance(written, str) else None

    def server(self, admin: AdminClient, key_env: str | None) -> Server:
        """Our server, asked with the key that OpenClaw sends.

        Raises:
            ConfigError: the key's variable is not set.
        """
        if key_env is not None and self.variable(key_env) is None:
            raise ConfigError(
                f"--key-env {key_env}: it is not set: export it, or write {key_env}=KEY into "
                f"{place.state_dir(self.env) / '.env'}, where OpenClaw's gateway reads it too"
            )
        return Server(admin, self.key(key_env))

    def wish(self, choice: Choice, server: Server, plugin: Path) -> tuple[Wish, list[str]]:
        """What is to be connected, and what there is to say about it.

        Raises:
            ConfigError, UnreachableError, RefusedError.
        """
        models, notes = choose(server.models(), choice.models, choice.window, self._windows())
        api = choice.api or self.provider.get("api") or "openai-completions"
        return Wish(
            url=server.url,
            models=models,
            api=api,
            key_env=choice.key_env or self.key_env(),
            plugin=str(plugin) if choice.with_plugin else None,
            default=models[0].id if choice.with_default else None,
        ), notes

    def _windows(self) -> dict[str, int]:
        models = self.provider.get("models")
        return {
            str(model["id"]): int(model["contextWindow"])
            for model in (models if isinstance(models, list) else [])
            if isinstance(model, dict)
            and model.get("id")
            and isinstance(model.get("contextWindow"), (int, float))
        }


def findings(
    connection: Connection, server: Server | None, agent: str, plugin: Path | None, now: float
) -> list[Finding]:
    """Every check, in the order in which one would mend them. Takes some seconds.

    Args:
        connection: The OpenClaw.
        server: Ours; None = none runs.
        agent: The OpenClaw agent whose turns are looked for.
        plugin: Where our plugin's copy should be; None = not to be looked at.
        now: Unix time.

    Raises:
        ConfigError: this installation lacks the plugin.
    """
    config = connection.files
    found = [*_of_openclaw(connection.cli), _of_file(connection)]
    listed, seen, server_finding = _of_server(server, agent)
    found.append(server_finding)
    if server is not None:
        found += checks.of_tls(server.url, server.admin.ca_file, connection.env.get("NODE_EXTRA_CA_CERTS"))
        names = [name] if (name := connection.key_env()) else []
        is_set = {name: connection.variable(name) is not None for name in names}
        found += checks.of_provider(config.value, server.url, is_set)
    found += checks.of_models(config.value, listed)
    if plugin is not None:
        is_current = plugin_files.is_same(plugin_files.packaged(), plugin)
        found += checks.of_plugin(config.value, str(plugin), is_current)
        if connection.cli is not None:
            found += checks.of_runtime(*_runtime(connection.cli))
        if seen is not None:
            found += checks.of_calls(seen.num_turns, seen.newest_turn_at, now)
    if seen is not None:
        found += checks.of_saving(seen.num_cached_tokens)
    return [*found, *checks.of_habits(config.value)]


def _of_openclaw(cli: OpenClawCli | None) -> list[Finding]:
    if cli is None:
        return [Finding("OpenClaw", "fail", "it is not installed", INSTALL)]
    try:
        version = cli.version()
        state, remedy = ("fail", INSTALL) if is_old(version) else ("ok", "")
        found = [Finding("OpenClaw", "fail" if state == "fail" else "ok", version, remedy)]
        faults = cli.faults_of_config()
    except OpenClawError as e:
        return [Finding("OpenClaw", "fail", str(e), f"Node.js 24.16 or newer, then {INSTALL}")]
    if faults:
        return [*found, Finding("config is valid", "fail", "; ".join(faults[:3]), "openclaw doctor --fix")]
    return [*found, Finding("config is valid", "ok", "OpenClaw accepts it")]


def _of_file(connection: Connection) -> Finding:
    root = connection.files.root
    try:
        place.require_writable(connection.env)
    except ConfigError:
        return Finding("config file", "warn", f"{root}: others manage it", "connect openclaw --print-patch")
    if root not in connection.files.texts:
        return Finding("config file", "fail", f"{root} does not exist", "openclaw onboard")
    return Finding("config file", "ok", str(root))


def _of_server(server: Server | None, agent: str) -> tuple[list[Listed] | None, Seen | None, Finding]:
    if server is None:
        return None, None, Finding("server", "fail", "none runs here", "openclaw-cache serve")
    try:
        listed, seen = server.models(), server.seen(agent)
    except UnreachableError as e:
        return None, None, Finding("server", "fail", str(e), "openclaw-cache serve")
    except RefusedError as e:
        remedy = "the key that OpenClaw sends is not one of this server's: connect again with --key-env NAME"
        return None, None, Finding("server", "fail", str(e), remedy)
    finding = Finding("server", "ok", f"{server.url}, {len(listed)} models")
    return listed, seen, finding


def _runtime(cli: OpenClawCli) -> tuple[Json, Json]:
    answers: list[Json] = []
    for args in (
        ["plugins", "inspect", NAME, "--runtime", "--json"],
        ["health", "--json", "--timeout", "5000"],
    ):
        try:
            shown = cli.json(args)
        except OpenClawError:
            shown = None
        answers.append(shown if isinstance(shown, dict) else None)
    inspected, health = answers
    return inspected, health if health is not None and health.get("ok") is True else None


def _from_env_file(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in reversed(lines):
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and key.strip() == name:
            return value.strip().strip("'\"") or None
    return None
