"""Where OpenClaw keeps its config: the rules of OpenClaw 2026.9, for when its command line is not there to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

FILE_NAME: Final = "openclaw.json"
READ_ONLY: Final = ("OPENCLAW_CONFIG_READONLY", "OPENCLAW_NIX_MODE")


def config_path(env: Mapping[str, str]) -> Path:
    """The config file, whether it exists or not. Looks at the file system only for which directory there is."""
    if named := env.get("OPENCLAW_CONFIG_PATH", "").strip():
        return from_home(named, env)
    return state_dir(env) / FILE_NAME


def state_dir(env: Mapping[str, str]) -> Path:
    """Where it keeps its state."""
    if named := env.get("OPENCLAW_STATE_DIR", "").strip():
        return from_home(named, env)
    usual, former = home(env) / ".openclaw", home(env) / ".clawdbot"
    return former if former.exists() and not usual.exists() else usual


def home(env: Mapping[str, str]) -> Path:
    """The home directory that it goes by."""
    for name in ("OPENCLAW_HOME", "HOME"):
        if named := env.get(name, "").strip():
            return Path(named).expanduser()
    return Path.home()


def from_home(path: str, env: Mapping[str, str]) -> Path:
    """An absolute path; `~` is OpenClaw's idea of a home directory."""
    if path == "~" or path.startswith("~/"):
        return home(env) / path[2:]
    return Path(path).absolute()


def require_writable(env: Mapping[str, str]) -> None:
    """Raises ConfigError where a deployment system owns the config."""
    for name in READ_ONLY:
        if env.get(name) == "1":
            raise ConfigError(
                f"OpenClaw's config is managed by something else here ({name}=1): make the changes there "
                "(--print-patch shows them), or unset the variable"
            )
