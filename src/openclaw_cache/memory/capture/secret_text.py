"""Whether a text holds a secret: such a one is never remembered by itself."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from openclaw_cache.memory.capture.phrases.language import chinese, english

_NAMED: Final = re.compile(
    rf"\b{english().any_of('secret')}s?\b[^.\n。]{{0,40}}?(?:\b(?:is|are|to|was)\b|[=:：是为])\s*\S"
    rf"|\b{english().any_of('secret')}s?\b[^.\n。]{{1,12}}?\b(?=[\w-]{{0,20}}\d)[\w-]{{4,}}"
    rf"|{chinese().any_of('secret')}[^。\n]{{0,20}}?(?:(?:[是为=:：叫]|改成|换成)\s*\S|[A-Za-z0-9_-]{{0,40}}\d[A-Za-z0-9_-]{{3,}})",
    re.IGNORECASE,
)
_SHAPED: Final = re.compile(
    r"""(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16}|gh[oprsu]_[A-Za-z0-9]{20}|github_pat_\w{20}|glpat-[\w-]{16}|xox[abprs]-[\w-]{10}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30}|hf_[A-Za-z0-9]{20}|npm_[A-Za-z0-9]{20}|pypi-[\w-]{20}
      |eyJ[\w-]{8,}\.eyJ[\w-]{8}|[0-9]{8,10}:AA[\w-]{30})
    | (?<!\d)\d{3}-\d{2}-\d{4}(?!\d)                                  # US social security number
    | \b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){3,7}(?:[ ]?[A-Z0-9]{1,3})?\b  # IBAN (ISO 13616)
    | -----BEGIN[ ] | ://[^\s/:@]{1,60}:[^\s/@]{1,100}@""",
    re.VERBOSE,
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_DIGITS: Final = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")


def has_secret(text: str) -> bool:
    """Whether a text holds what looks like a password, a key, a code that opens something, or a card number.

    Wide on purpose: what it takes for a secret by mistake can still be stored by hand. Cost: linear.
    """
    if _NAMED.search(text) or _SHAPED.search(text):
        return True
    if any(_is_random(match[0]) for match in _TOKEN.finditer(text)):
        return True
    return any(_is_card_number(match[0]) for match in _DIGITS.finditer(text))


def _is_random(token: str) -> bool:
    """Whether a long run mixes letters and digits as no word, path or name does."""
    changes = sum(left.isdigit() != right.isdigit() for left, right in pairwise(token))
    return changes * 6 >= len(token)


def _is_card_number(digits: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1)."""
    total = 0
    for place, digit in enumerate(int(char) for char in reversed(digits) if char.isdigit()):
        doubled = digit * 2
        total += digit if place % 2 == 0 else doubled - 9 * (doubled > 9)
    return total % 10 == 0
