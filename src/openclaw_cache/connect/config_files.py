"""OpenClaw's config as its author wrote it: one file, or several joined by `$include`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from openclaw_cache.connect.json5_text import Json5Error, Node, parse
from openclaw_cache.connect.place import from_home
from openclaw_cache.errors import ConfigError
from openclaw_cache.types import Json

INCLUDE: Final = "$include"
MAX_INCLUDE_DEPTH: Final = 10
MAX_FILE_BYTES: Final = 2 * 2**20


@dataclass(frozen=True, slots=True)
class Owned:
    """The file in which a key is written, and the key's path inside it."""

    file: Path
    path: tuple[str, ...]


@dataclass(slots=True)
class ConfigFiles:
    """The texts of all files, and what they say together. Made by `read`."""

    root: Path
    texts: dict[Path, str] = field(default_factory=dict, repr=False)
    """By file. The root is missing where there is no config yet."""
    value: dict[str, Json] = field(default_factory=dict, repr=False)
    """Includes resolved, `${VARIABLES}` as they are written."""

    def at(self, path: Sequence[str]) -> Json | None:
        """What the config says at a path of object keys; None where it says nothing."""
        value: Json = self.value
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def owner(self, path: Sequence[str]) -> Owned:
        """Where a key is, or would be, written.

        A part that is nothing but one included file belongs into that file, as OpenClaw's own writes do it. Anywhere
        else the key goes beside the `$include`: what stands there overrides what was included.
        """
        file, rest = self.root, tuple(path)
        node = self._parsed(file)
        inside: tuple[str, ...] = ()
        while rest:
            member = node.member(rest[0]) if node is not None else None
            inside, rest = (*inside, rest[0]), rest[1:]
            node = member.value if member is not None else None
            if rest and node is not None and (included := self._only_include(node, file)) is not None:
                file, inside, node = included, (), self._parsed(included)
        return Owned(file, inside)

    def raw(self, owned: Owned) -> str | None:
        """The text of a key's value as it is written there; None where it is not."""
        node = self._parsed(owned.file)
        found = node.find(owned.path) if node is not None else None
        return None if found is None else self.texts[owned.file][found.start : found.end]

    def _parsed(self, file: Path) -> Node | None:
        return parse(self.texts[file]) if file in self.texts else None

    def _only_include(self, node: Node, file: Path) -> Path | None:
        if node.members is None or {m.key for m in node.members} != {INCLUDE}:
            return None
        name = node.members[-1].value.scalar
        included = _included_path(name, file) if isinstance(name, str) else None
        # A file elsewhere may be shared with other machines: OpenClaw does not write it either.
        is_inside = included is not None and included.resolve().is_relative_to(self.root.parent.resolve())
        return included if included in self.texts and is_inside else None


def read(root: Path, env: Mapping[str, str]) -> ConfigFiles:
    """Read a config with everything it includes; one that does not exist is empty.

    Raises:
        ConfigError: a file cannot be read or is no JSON5, or an `$include` cannot be followed.
    """
    files = ConfigFiles(root)
    if not root.exists():
        if root.is_symlink():
            raise ConfigError(f"{root} points to {os.readlink(root)}, which is not there")
        return files
    allowed = [root.parent, *_include_roots(env)]
    value = _Includes(files, allowed).load(root, ())
    if not isinstance(value, dict):
        raise ConfigError(f"{root} must hold one object")
    files.value = value
    return files


class _Includes:
    def __init__(self, files: ConfigFiles, allowed: Sequence[Path]) -> None:
        self._files = files
        self._allowed = [real for path in allowed for real in {path.absolute(), path.resolve()}]

    def load(self, file: Path, above: tuple[Path, ...]) -> Json:
        if file in above:
            raise ConfigError(f"{above[-1]}: {INCLUDE} goes round in a circle: {file}")
        if len(above) > MAX_INCLUDE_DEPTH:
            raise ConfigError(f"{above[-1]}: {INCLUDE} goes more than {MAX_INCLUDE_DEPTH} files deep")
        text = _text(file)
        try:
            value = parse(text).value()
        except Json5Error as e:
            raise ConfigError(f"{file} is no JSON5: {e}") from None
        self._files.texts[file] = text
        return self._resolved(value, file, (*above, file))

    def _resolved(self, value: Json, file: Path, above: tuple[Path, ...]) -> Json:
        if isinstance(value, list):
            return [self._resolved(item, file, above) for item in value]
        if not isinstance(value, dict):
            return value
        own = {key: self._resolved(item, file, above) for key, item in value.items() if key != INCLUDE}
        if INCLUDE not in value:
            return own
        names = value[INCLUDE] if isinstance(value[INCLUDE], list) else [value[INCLUDE]]
        merged: Json = {}
        for i, name in enumerate(names):
            if not isinstance(name, str):
                raise ConfigError(f"{file}: {INCLUDE} must name a file, or a list of files")
            included = self.load(self._allowed_path(name, file), above)
            merged = merge(merged, included) if i else included
        if own and not isinstance(merged, dict):
            raise ConfigError(
                f"{file}: beside {INCLUDE} of {names[0]} no other keys can stand: it is no object"
            )
        return merge(merged, own) if own else merged

    def _allowed_path(self, name: str, file: Path) -> Path:
        path = _included_path(name, file)
        for candidate in (path, path.resolve()):
            if not any(candidate.is_relative_to(root) for root in self._allowed):
                raise ConfigError(
                    f"{file}: {INCLUDE} {name} leads out of the config's directory: OpenClaw refuses that too, "
                    "unless OPENCLAW_INCLUDE_ROOTS names the place"
                )
        return path


def merge(under: Json, over: Json) -> Json:
    """Two parts of a config joined as OpenClaw does: objects key by key, arrays one after the other."""
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {k: merge(under[k], v) if k in under else v for k, v in over.items()}
    if isinstance(under, list) and isinstance(over, list):
        return [*under, *over]
    return over


def _included_path(name: str, file: Path) -> Path:
    return Path(os.path.normpath(file.parent / name))


def _include_roots(env: Mapping[str, str]) -> list[Path]:
    named = env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    return [from_home(root.strip(), env) for root in named if root.strip()]


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as e:
        raise ConfigError(f"{file} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{file} is larger than OpenClaw reads: {MAX_FILE_BYTES} bytes")
    return text
