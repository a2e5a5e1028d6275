"""What a request is refused with before any upstream is asked."""

from __future__ import annotations

from openclaw_cache.errors import RequestError


def ambiguous(how: str) -> RequestError:
    """What a key that is limited to certain models gets for a body that names its model in two ways."""
    return RequestError(
        400,
        f"this API key is limited to certain models, and the body can be read in two ways ({how})",
        code="ambiguous_body",
    )


def not_cached() -> RequestError:
    """What `only-if-cached` gets where no stored reply can answer."""
    message = "only-if-cached: no stored reply can answer this request"
    return RequestError(504, message, kind="api_error", code="not_cached")
