"""The fleet secret: one random value from which all keys, salts and checksums derive."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from openclaw_cache.errors import ConfigError

SECRET_BYTES = 32


def load_or_create(path: Path) -> bytes:
    """The secret in `path` (64 hex digits); created with mode 0600 where the file does not exist.

    The new file appears whole or not at all, so two processes that start together agree on one secret.

    Raises:
        ConfigError: the file cannot be read or written, is readable by others, or holds something else.
    """
    try:
        if not path.exists():
            _create(path)
        mode = path.stat().st_mode & 0o777
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"server.secret_file: cannot use {path}: {e}") from None
    if mode & 0o077:
        raise ConfigError(f"server.secret_file: {path} is open to others (mode {mode:o}): chmod 600 {path}")
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"server.secret_file: {path} must hold {SECRET_BYTES} bytes as {2 * SECRET_BYTES} hex digits "
            "(copy it from another node of the fleet, or remove it to have a new one made)"
        )
    return secret


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not our process id: in a container it is the same at each start, and a draft may have been left by a crash.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(SECRET_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first: its secret is the one
    finally:
        draft.unlink()
