"""Personal data in prompts and replies: what has a checksum, a number plan or an @ to know it by."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _standing_alone(pattern: str) -> re.Pattern[str]:
    """The pattern between other characters than those of a word, a decimal number or a longer row of digits."""
    # Not \b: a Chinese character may stand right before or after, and it counts as one of a word.
    return re.compile(rf"(?<![A-Za-z0-9_])(?<![0-9][.-])(?:{pattern})(?![A-Za-z0-9_]|-[0-9])")


_EMAIL: Final = re.compile(
    r"@(?<=[A-Za-z0-9_%+-]@)(?<!git@)(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"
    r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
)
_RESERVED_DOMAIN: Final = re.compile(
    r"(?i)(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local|internal)|users\.noreply\..*"
)
_NUMBER: Final = re.compile(r"[0-9](?:[ ().-]{0,2}[0-9]){8,}+")
"""A row of at least nine digits: the other patterns look at these only, which spares nearly all of their time."""

_CARD: Final = _standing_alone(
    r"(?:[3-6][0-9]|2[2-7])[0-9]{2}(?:[0-9]{9,15}|([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}|([ -])[0-9]{6}\2[0-9]{4,5})"
)
_ISSUED: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}"  # UnionPay
)
_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9_.].)[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9_])"
)
_CHINESE_ID: Final = _standing_alone(r"[1-9][0-9]{5}(?:19|20)[0-9]{9}[0-9Xx]")
_US_SOCIAL_SECURITY: Final = _standing_alone(r"[0-9]{3}-[0-9]{2}-[0-9]{4}")
_PHONES: Final = (
    (None, _standing_alone(r"\+[1-9][0-9]{0,3}(?:[ ().-]{0,2}[0-9]){6,13}")),
    ("CN", _standing_alone(r"1[3-9][0-9](?:[ -]?[0-9]{4}){2}")),
    ("US", _standing_alone(r"(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-. ])[0-9]{3}[-. ][0-9]{4}")),
)
"""Candidates, by the region whose number plan decides. A number without any mark of one is not looked at: ids and
times look the same, except for Chinese mobile numbers, which are seldom written otherwise."""


class PersonalData:
    """Finds e-mail addresses, phone numbers, payment cards, IBANs, Chinese ID and US social security numbers.

    Patterns only propose: number plans (phonenumbers) and checksums (python-stdnum) decide. Domains that are
    reserved for examples are nobody's. Not looked for: names, addresses of streets, and IP addresses, of which
    the text of agents is full. Every pattern is linear in the size of the text.

    Raises:
        ConfigError: one of the two libraries is not installed.
    """

    def __init__(self) -> None:
        try:
            import phonenumbers  # noqa: PLC0415 - an extra
            from stdnum import iban, luhn  # noqa: PLC0415
            from stdnum.cn import ric  # noqa: PLC0415
            from stdnum.us import ssn  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                "result_cache.screen: personal needs phonenumberslite and python-stdnum: "
                "pip install 'openclaw-cache[screen]'"
            ) from error
        self._phonenumbers = phonenumbers
        self._is_iban: Callable[[str], bool] = iban.is_valid
        self._is_luhn: Callable[[str], bool] = luhn.is_valid
        self._checked: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
            (_CHINESE_ID, ric.is_valid),
            (_US_SOCIAL_SECURITY, ssn.is_valid),
            (_CARD, self._is_card),
            *((pattern, partial(self._begins_with_phone, region)) for region, pattern in _PHONES),
        )

    def is_in(self, text: str) -> bool:
        """Whether there is any. Cost: 0.1 ms per 1,000 characters."""
        if any(not _RESERVED_DOMAIN.fullmatch(match["domain"]) for match in _EMAIL.finditer(text)):
            return True
        if any(self._begins_with_iban(match[0]) for match in _IBAN.finditer(text)):
            return True
        return any(self._is_personal(text, number.span()) for number in _NUMBER.finditer(text))

    def _is_personal(self, text: str, span: tuple[int, int]) -> bool:
        """Whether there is personal data in a row of digits: with a sign before it, a letter behind it."""
        start, end = max(0, span[0] - 2), span[1] + 2
        return any(
            is_valid(match[0])
            for pattern, is_valid in self._checked
            for match in pattern.finditer(text, start, end)
        )

    def _is_card(self, candidate: str) -> bool:
        digits = candidate.replace(" ", "").replace("-", "")
        return _ISSUED.fullmatch(digits) is not None and self._is_luhn(digits)

    def _begins_with_iban(self, candidate: str) -> bool:
        return any(map(self._is_iban, _shortened(candidate)))

    def _begins_with_phone(self, region: str | None, candidate: str) -> bool:
        return any(self._is_phone(region, shorter) for shorter in _shortened(candidate))

    def _is_phone(self, region: str | None, candidate: str) -> bool:
        try:
            number = self._phonenumbers.parse(candidate, region)
        except self._phonenumbers.NumberParseException:
            return False
        return self._phonenumbers.is_valid_number(number)


def _shortened(candidate: str) -> Iterator[str]:
    """The candidate, and what is left without its last groups: a number or a word in capitals may follow it."""
    groups = candidate.split(" ")
    for end in range(len(groups), 0, -1):
        yield " ".join(groups[:end])
