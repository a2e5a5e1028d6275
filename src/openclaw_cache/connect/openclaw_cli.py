"""OpenClaw's own command line, run as its user would run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from openclaw_cache.errors import ConfigError, OpenClawCacheError
from openclaw_cache.types import Json

INSTALL: Final = "npm install -g openclaw@latest"
MIN_VERSION: Final = (2026, 9, 0)
"""The first whose Context Engine contract our plugin speaks."""
QUICK_S: Final = 60.0
TURN_S: Final = 600.0


class OpenClawError(OpenClawCacheError):
    """OpenClaw's command line failed; the message is the end of what it said."""


@dataclass(frozen=True, slots=True)
class OpenClawCli:
    """Runs `openclaw`. Blocking; each call starts Node and takes a second or more."""

    program: str
    env: Mapping[str, str] = field(repr=False)

    @classmethod
    def find(cls, env: Mapping[str, str], config: Path | None = None) -> Self:
        """The `openclaw` of the PATH.

        Args:
            env: The environment it runs in.
            config: The config it is to use, where it is not its own choice.

        Raises:
            ConfigError: it is not installed; the message says how to install it.
        """
        program = shutil.which("openclaw", path=env.get("PATH"))
        if program is None:
            raise ConfigError(
                f"openclaw is not installed (not on the PATH): install it with `{INSTALL}`; it needs Node.js 24.16"
            )
        chosen = {} if config is None else {"OPENCLAW_CONFIG_PATH": str(config)}
        return cls(program, {**env, **chosen, "NO_COLOR": "1"})

    def version(self) -> str:
        """Its version, `2026.9.6`. Raises OpenClawError, for example where Node is too old for it."""
        said = self.run(["--version"])
        found = re.search(r"\d+\.\d+\.\d+\S*", said)
        return found[0] if found is not None else said.strip()[:40]

    def config_path(self) -> Path:
        """The config that it uses. Raises OpenClawError."""
        shown = self.json(["config", "file", "--json"])
        if not isinstance(shown, dict) or not isinstance(shown.get("path"), str):
            raise OpenClawError("openclaw config file --json names no path")
        return Path(os.path.expanduser(shown["path"]))

    def faults_of_config(self) -> list[str]:
        """What `openclaw config validate` finds wrong; empty = valid. Raises OpenClawError."""
        shown = self.json(["config", "validate", "--json"], is_answer_on_failure=True)
        if not isinstance(shown, dict) or shown.get("valid") is True:
            return []
        issues = [i for i in shown.get("issues") or [] if isinstance(i, dict)]
        error = shown.get("error")
        told = str(error.get("message") if isinstance(error, dict) else error)
        return [f"{i.get('path') or 'config'}: {i.get('message')}" for i in issues] or [told]

    def json(
        self, args: Sequence[str], *, timeout_s: float = QUICK_S, is_answer_on_failure: bool = False
    ) -> Json:
        """Run it and decode what it prints. Raises OpenClawError."""
        done = self._run(args, timeout_s)
        if done.returncode and not is_answer_on_failure:
            raise OpenClawError(_failure(args, done))
        try:
            return json.loads(_from_brace(done.stdout))
        except ValueError:
            raise OpenClawError(_failure(args, done)) from None

    def run(self, args: Sequence[str], *, timeout_s: float = QUICK_S) -> str:
        """Run it; returns what it prints. Raises OpenClawError."""
        done = self._run(args, timeout_s)
        if done.returncode:
            raise OpenClawError(_failure(args, done))
        return done.stdout

    def _run(self, args: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(  # noqa: S603 - its own arguments, no shell
                [self.program, *args],
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OpenClawError(f"openclaw {args[0]} did not end within {timeout_s:.0f} s") from None
        except OSError as e:
            raise OpenClawError(f"{self.program} cannot be run: {e.strerror}") from None


def is_old(version: str) -> bool:
    """Whether a version is before the first that we work with. One that cannot be read is not."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) < MIN_VERSION


def _from_brace(text: str) -> str:
    """Its JSON, behind lines that some commands print before it."""
    found = re.search(r"^[\[{]", text, re.MULTILINE)
    return text[found.start() :] if found is not None else text


def _failure(args: Sequence[str], done: subprocess.CompletedProcess[str]) -> str:
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    told = said if len(said) < 4 else [said[0], *said[-2:]]  # the reason comes first, or last
    return f"openclaw {' '.join(args[:2])} failed ({done.returncode}): {' '.join(told)[:500]}"
