"""The description of our HTTP surface (OpenAPI 3.1): data beside this file, and what agents' part says of itself."""

from __future__ import annotations

import functools
from importlib import resources

import orjson

from openclaw_cache import __version__
from openclaw_cache.api.agents import described


@functools.cache
def document() -> bytes:
    """The document as JSON, with this version's number."""
    text = resources.files(__package__).joinpath("openapi.json").read_bytes()
    told = orjson.loads(text)
    told["info"]["version"] = __version__
    told["tags"].append(described.TAG)
    told["paths"] |= described.paths()
    components = told["components"]
    components["schemas"] |= described.schemas()
    components["parameters"] |= described.parameters()
    components["responses"] |= described.responses()
    return orjson.dumps(told)
