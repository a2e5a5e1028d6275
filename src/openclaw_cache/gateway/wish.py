"""What a request says of the semantic cache: whether it may answer, and in which domain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from openclaw_cache.errors import RequestError
from openclaw_cache.settings import DOMAIN_PATTERN
from openclaw_cache.types import Headers

Mode = Literal["off", "on", "strict"]

_DOMAIN: Final = re.compile(DOMAIN_PATTERN)
_STRICTEST_FIRST: Final[tuple[Mode, ...]] = ("off", "strict", "on")


@dataclass(frozen=True, slots=True)
class Wish:
    """A caller's own choice; it can only make things stricter than the operator has them."""

    mode: Mode
    domain: str | None = None
    """As the caller names it; None = it is found out."""

    @classmethod
    def parse(cls, headers: Headers, *, by_default: bool) -> Wish:
        """Read `x-openclaw-semantic` and `x-openclaw-domain`. Of several wishes the strictest counts.

        Args:
            headers: The request's.
            by_default: Whether a request that says nothing takes part.

        Raises:
            RequestError: 400, naming the header, for a value that means nothing, or for two domains.
        """
        modes = [_mode(value) for name, value in headers if name == b"x-openclaw-semantic"]
        domains = {_domain(value) for name, value in headers if name == b"x-openclaw-domain"}
        if len(domains) > 1:
            raise _bad("x-openclaw-domain", "name one domain")
        mode: Mode = min(modes, key=_STRICTEST_FIRST.index, default="on" if by_default else "off")
        return cls(mode, next(iter(domains), None))


def _mode(value: bytes) -> Mode:
    match value.strip().lower():
        case b"off":
            return "off"
        case b"on":
            return "on"
        case b"strict":
            return "strict"
    raise _bad("x-openclaw-semantic", "write off, on or strict")


def _domain(value: bytes) -> str:
    name = value.decode("latin-1").strip().lower()
    if not _DOMAIN.fullmatch(name):
        raise _bad(
            "x-openclaw-domain", "1-64 lower-case letters, digits and _ . -, beginning with a letter or digit"
        )
    return name


def _bad(header: str, remedy: str) -> RequestError:
    return RequestError(400, f"{header}: {remedy}", param=header, code="bad_header")
