"""The key file: client keys as hashes, which may change while the server runs."""

from __future__ import annotations

import asyncio
import difflib
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from openclaw_cache.api.key_rules import KeyRules
from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import ApiKey, Budgets
from openclaw_cache.yaml_text import load_yaml

LOOK_INTERVAL_S = 1.0
MOST_BYTES = 8 * 10**6
HOW_TO_HASH = """printf %s "$KEY" | sha256sum"""

Stamp = tuple[int, ...]

_log = structlog.get_logger()


class KeysFile:
    """A file that is read at start and whenever it changed.

    A changed file is taken when two looks in a row see the same, so that one which is just being written is not
    taken for a short one. What cannot be used changes nothing: the keys that were read before stay.

    Args:
        path: YAML or JSON: a list of keys, or a mapping with `keys`. It may be a symbolic link, or lie behind one.
        rules: What a key must be.
        taken: SHA-256 of each key that stands elsewhere → where; they may not stand in the file too.
    """

    def __init__(self, path: Path, rules: KeyRules, taken: Mapping[bytes, str]) -> None:
        self._path = path
        self._rules = rules
        self._taken = taken
        self._seen: Stamp | None = None
        self._read: Stamp | None = None
        self._num_keys = 0
        self._loaded_at = 0.0
        self._reload_error: str | None = None

    def load(self) -> dict[bytes, ApiKey]:
        """Its keys by their SHA-256. About 1 s for 10,000 keys.

        Raises:
            ConfigError: naming the file, the entry and the field; never what stands there.
        """
        self._seen = self._read = _stamp(self._path)
        keys = self._parse(_text(self._path))
        self._num_keys, self._loaded_at = len(keys), time.time()
        return keys

    async def watch(
        self, on_change: Callable[[dict[bytes, ApiKey]], None], interval_s: float = LOOK_INTERVAL_S
    ) -> None:
        """Look again and again, until cancelled; `on_change` gets all keys of a file that has changed."""
        while True:
            await asyncio.sleep(interval_s)
            keys = await self.look()
            if keys is not None:
                on_change(keys)

    async def look(self) -> dict[bytes, ApiKey] | None:
        """All keys where the file has changed and is as it was at the last look; else None."""
        stamp = await asyncio.to_thread(_stamp, self._path)
        if stamp != self._seen:
            self._seen = stamp
            return None
        if stamp is not None and stamp == self._read:
            return None
        self._read = None  # a file that cannot be read is tried again at each look, one that is wrong is not
        try:
            text = await asyncio.to_thread(_text, self._path)
            self._read = stamp
            keys = await asyncio.to_thread(self._parse, text)
        except ConfigError as e:
            if str(e) != self._reload_error:
                self._reload_error = str(e)
                _log.error("the key file cannot be used", reason=str(e), effect="the keys read before stay")
            return None
        self._num_keys, self._loaded_at, self._reload_error = len(keys), time.time(), None
        _log.info("the key file was read again", file=str(self._path), num_keys=len(keys))
        return keys

    def state(self) -> dict[str, Any]:
        """For `status`: which keys are in force, and why not those that stand there now."""
        return {
            "path": str(self._path),
            "num_keys": self._num_keys,
            "loaded_at": self._loaded_at,
            "reload_error": self._reload_error,
        }

    def _parse(self, text: str) -> dict[bytes, ApiKey]:
        source = f"server.keys_file: {self._path}"
        value = load_yaml(text, source)
        if isinstance(value, dict):
            if set(value) != {"keys"}:
                raise ConfigError(f"{source}: must be a list of keys, or a mapping with `keys` alone")
            value = value["keys"]
        if value is None:
            return {}
        if not isinstance(value, list):
            raise ConfigError(f"{source}: must be a list of keys, or a mapping with `keys` alone")
        keys: dict[bytes, ApiKey] = {}
        places = dict(self._taken)
        for number, entry in enumerate(value, 1):
            place = f"{source}: entry {number}"
            key = _key(entry, place)
            digest = self._rules.digest(key, place)
            if digest in places:
                raise ConfigError(f"{place}: the same key stands in {places[digest]} too")
            keys[digest], places[digest] = key, f"entry {number}"
        return keys


def _stamp(path: Path) -> Stamp | None:
    """What tells one state of the file from another, behind all symbolic links; None where it cannot be seen."""
    try:
        s = path.stat()
    except OSError:
        return None
    return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_mode)


def _text(path: Path) -> str:
    source = f"server.keys_file: {path}"
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{source} is not a file")
        if found.st_size > MOST_BYTES:
            raise ConfigError(f"{source} is larger than {MOST_BYTES} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"{source}: cannot read it: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{source} is not UTF-8 text") from None


def _key(entry: object, place: str) -> ApiKey:
    if not isinstance(entry, dict):
        raise ConfigError(f"{place}: must be a mapping: {{key_sha256: …, namespace: …}}")
    if "key" in entry:
        raise ConfigError(
            f"{place}.key: a key file holds hashes only: write key_sha256, the hash that {HOW_TO_HASH} prints"
        )
    try:
        return ApiKey.model_validate(entry)
    except ValidationError as e:
        problem = e.errors(include_url=False, include_input=False, include_context=False)[0]
        path = [str(part) for part in problem["loc"]]
        if problem["type"] in ("extra_forbidden", "invalid_key"):
            raise ConfigError(f"{place}: unknown field: {_hint(path[-1])}") from None
        message = problem["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{'.'.join([place, *path])}: {message}") from None


def _hint(wrong: str) -> str:
    """What to write instead. What stands there is not repeated: it may be a key."""
    known = [name for name in (*ApiKey.model_fields, *Budgets.model_fields) if name != "key"]
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
