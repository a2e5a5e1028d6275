"""What a configured client key must be, wherever it is configured."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import ApiKey

_WEAK_KEYS = frozenset({
    "sk-1234", "sk-12345", "sk-xxx", "changeme", "change-me", "password", "secret", "admin", "test", "key",
    "1234", "12345", "123456", "token", "default", "example", "master", "masterkey",
})  # fmt: skip
"""Keys that stand in tutorials and so are tried first."""
_WEAK_DIGESTS = frozenset(hashlib.sha256(key.encode()).digest() for key in _WEAK_KEYS)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def from_env(env: Mapping[str, str], setting: str, variable: str | None) -> str | None:
    """The secret that the environment variable holds, without white space around it; None where none is named.

    Raises:
        ConfigError: naming the setting and the variable, where that is unset or empty, or holds what no header can.
    """
    if variable is None:
        return None
    # Who writes the key itself where its variable belongs does not find it in the log.
    shown = variable if _VARIABLE.fullmatch(variable) else "named there"
    value = env.get(variable, "").strip()  # a file that a key was read from ends its line
    if not value:
        raise ConfigError(f"{setting}: the environment variable {shown} is not set")
    if not value.isprintable():
        raise ConfigError(
            f"{setting}: the environment variable {shown} has more than one line, or is no text"
        )
    return value


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How keys become digests, and which are refused.

    Args:
        env: Where `key_env` looks.
        refuses_weak: Whether other machines can knock; then a key that everybody knows is refused.
    """

    env: Mapping[str, str] = field(repr=False)
    refuses_weak: bool

    def digest(self, key: ApiKey, setting: str) -> bytes:
        """The SHA-256 of a key.

        Raises:
            ConfigError: naming `setting`, where its variable is not set or everybody knows the key.
        """
        text = key.key or from_env(self.env, f"{setting}.key_env", key.key_env)
        if text:
            self.check(text, setting)
            return hashlib.sha256(text.encode()).digest()
        digest = bytes.fromhex(key.key_sha256 or "")
        if digest in _WEAK_DIGESTS:
            self._refuse(setting)
        return digest

    def check(self, text: str, setting: str) -> None:
        """Raises ConfigError where everybody knows the key `text`."""
        if text.lower() in _WEAK_KEYS:
            self._refuse(setting)

    def _refuse(self, setting: str) -> None:
        if self.refuses_weak:
            raise ConfigError(f"{setting}: a key that everybody knows protects nothing: make a random one")
