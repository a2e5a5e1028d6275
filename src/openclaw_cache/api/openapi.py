"""The description of our HTTP surface (OpenAPI 3.1), kept as data beside this file."""

from __future__ import annotations

import functools
from importlib import resources

import orjson

from openclaw_cache import __version__


@functools.cache
def document() -> bytes:
    """The document as JSON, with this version's number."""
    text = resources.files(__package__).joinpath("openapi.json").read_bytes()
    described = orjson.loads(text)
    described["info"]["version"] = __version__
    return orjson.dumps(described)
