"""A new client key, and the line that lets it in."""

from __future__ import annotations

import hashlib
import re
import secrets

import yaml

from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import NAME_PATTERN

KEY_PREFIX = "oc-"
KEY_BYTES = 32


def new_key(namespace: str) -> tuple[str, str]:
    """A random key of 256 bits, and the line of the key file (or of `server.keys`) that lets it in.

    Only the line is to be kept by the server; the key is for its user and cannot be found from the line.

    Raises:
        ConfigError: `namespace` is no name of a namespace.
    """
    if not re.fullmatch(NAME_PATTERN, namespace):
        raise ConfigError(
            "namespace: 1-128 letters, digits and . _ : @ / -, beginning with a letter or digit"
        )
    key = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    entry = {"key_sha256": hashlib.sha256(key.encode()).hexdigest(), "namespace": namespace}
    # Through YAML's own writer: a namespace such as 12 or true needs quotes.
    line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=10**6).strip()
    return key, f"- {line}"
