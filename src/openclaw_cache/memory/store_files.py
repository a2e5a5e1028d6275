"""Where the stores of agents are: a file for each, under a name that tells nobody whose it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from openclaw_cache.errors import MemoryStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_SUFFIX: Final = ".db"
_NAMES: Final = "openclaw-cache 2026-11 names of memory stores"
_KEYS: Final = "openclaw-cache 2026-11 encryption keys of memory stores"


class StoreFiles:
    """Names, places and keys of stores. Neither its repr nor its errors show a key.

    Args:
        folder: holds all of them, in 256 folders.
        secret: the server's; names derive from it, so another server's files are not found here.
        encryption_key: 32 bytes, from which each file's own key derives; None where files are not encrypted.
    """

    def __init__(self, folder: Path, secret: bytes, encryption_key: bytes | None) -> None:
        self._folder = folder
        self._naming = blake3(secret, derive_key_context=_NAMES).digest()
        self._encryption_key = encryption_key

    @property
    def index_path(self) -> Path:
        """Where the list of agents is."""
        return self._folder / f"index{_SUFFIX}"

    @property
    def index_key(self) -> bytes | None:
        """What it is encrypted with."""
        return self.key("index")

    def name(self, namespace: str, agent: str) -> str:
        """The name of an agent's file: 32 hex digits, a keyed hash."""
        return blake3(_framed(namespace) + _framed(agent), key=self._naming).hexdigest()[:32]

    def path(self, name: str) -> Path:
        """Where the file of this name is."""
        return self._folder / name[:2] / f"{name}{_SUFFIX}"

    def is_there(self, name: str) -> bool:
        """Whether there is a file of this name. Raises MemoryStoreError where that cannot be seen."""
        try:
            return self.path(name).exists()
        except OSError as error:
            raise MemoryStoreError(
                f"memory store {self.path(name)} cannot be seen: {error.strerror}", code="read_only"
            ) from None

    def key(self, name: str) -> bytes | None:
        """What the file of this name is encrypted with."""
        if self._encryption_key is None:
            return None
        material = _framed(self._encryption_key) + _framed(name)
        return blake3(material, derive_key_context=_KEYS).digest()

    def names(self) -> Iterator[str]:
        """The names of all files that are there. Cost: lists all folders, 10 ms for 1,000 files.

        Raises:
            MemoryStoreError: the folder cannot be listed.
        """
        try:
            for path in self._folder.glob(f"[0-9a-f][0-9a-f]/*{_SUFFIX}"):
                if _NAME.fullmatch(path.stem) and path.parent.name == path.stem[:2]:
                    yield path.stem
        except OSError as error:
            raise MemoryStoreError(
                f"memory stores in {self._folder} cannot be listed: {error.strerror}", code="read_only"
            ) from None


def _framed(part: str | bytes) -> bytes:
    data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
    return len(data).to_bytes(8, "big") + data
