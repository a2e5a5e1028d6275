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
    return re.compile(rf"(?<![A-Za-z0-9_])(?<![0-9]\.)(?<![A-Za-z0-9]-)(?:{pattern})(?![A-Za-z0-9_]|-[0-9])")


_EMAIL: Final = re.compile(
    r"@(?<=[A-Za-z0-9_%+-]@)(?<!git@)(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"
    r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
)
_RESERVED_DOMAIN: Final = re.compile(
    r"(?i)(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local|internal)|users\.noreply\..*"
)
_USER_OF_URL: Final = re.compile(r"//[^\s/@]{1,64}@\Z")
_NUMBER: Final = re.compile(r"[0-9](?:[ ().-]{0,2}[0-9]){8,}+")
"""A row of at least nine digits: the other patterns look at these only, which spares nearly all of their time."""

_ISSUED: Final = (
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"  # Mastercard
    r"|3[47][0-9]{13}"  # American Express
    r"|3(?:0[0-5]|[689][0-9])[0-9]{11}"  # Diners Club
    r"|(?:6011|64[4-9][0-9]|65[0-9]{2})[0-9]{12}"  # Discover
    r"|35(?:2[89]|[3-8][0-9])[0-9]{12}"  # JCB
    r"|62[0-9]{14,17}"  # UnionPay
)
_CARD: Final = _standing_alone(
    rf"{_ISSUED}|[2-6][0-9]{{3}}([ -])(?:[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}|[0-9]{{6}}\1[0-9]{{4,5}})"
)
_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9_.].)[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9_])"
)
_CHINESE_ID: Final = _standing_alone(r"[1-9][0-9]{5}(?:19|20)[0-9]{9}[0-9Xx]")
_US_SOCIAL_SECURITY: Final = _standing_alone(r"[0-9]{3}-[0-9]{2}-[0-9]{4}")
_PHONES: Final = (
    (None, _standing_alone(r"\+[1-9][0-9]{0,3}(?:[ ().-]{0,2}[0-9]){6,13}")),
    ("CN", _standing_alone(r"1[3-9][0-9](?:[ -]?[0-9]{4}){2}")),
    ("US", _standing_alone(r"(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-. ])[2-9][0-9]{2}[-. ][0-9]{4}")),
)
"""Candidates, by the region whose number plan decides. A number without any mark of one is not looked at: ids and
times look the same, except for Chinese mobile numbers, which are seldom written otherwise."""

_MAX_CHECKS: Final = 100
"""Numbers that are checked in one text: a check takes up to 0.1 ms, so a text made of near misses must have an end."""


class PersonalData:
    """Finds e-mail addresses, phone numbers, payment cards, IBANs, Chinese ID and US social security numbers.

    Patterns only propose: number plans (phonenumbers) and checksums (python-stdnum) decide. Domains that are
    reserved for examples are nobody's, and a user's name in a URL is no address. Not looked for: names, addresses
    of streets, and IP addresses, of which the text of agents is full. Every pattern is linear in the size of the
    text.

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
        """Whether there is any; so many near misses that not all were checked count as well.

        Cost: 0.03 ms per 1,000 characters, at worst 1 ms.
        """
        if any(_is_email(match, text) for match in _EMAIL.finditer(text)):
            return True
        for num_checks, (candidate, is_valid) in enumerate(self._candidates(text)):
            if num_checks == _MAX_CHECKS or is_valid(candidate):
                return True
        return False

    def _candidates(self, text: str) -> Iterator[tuple[str, Callable[[str], bool]]]:
        """What looks like personal data, and what decides."""
        for match in _IBAN.finditer(text):
            yield match[0], self._begins_with_iban
        for number in _NUMBER.finditer(text):
            start, end = max(0, number.start() - 2), number.end() + 2  # a sign before it, a letter behind it
            for pattern, is_valid in self._checked:
                for match in pattern.finditer(text, start, end):
                    yield match[0], is_valid

    def _is_card(self, candidate: str) -> bool:
        digits = candidate.replace(" ", "").replace("-", "")
        return re.fullmatch(_ISSUED, digits) is not None and self._is_luhn(digits)

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


def _is_email(match: re.Match[str], text: str) -> bool:
    """Whether the domain is somebody's, and the @ not that of `https://user@host`."""
    at = match.start() + 1
    return not _RESERVED_DOMAIN.fullmatch(match["domain"]) and not _USER_OF_URL.search(
        text[max(0, at - 67) : at]
    )


def _shortened(candidate: str) -> Iterator[str]:
    """The candidate, and what is left without its last groups: a number or a word in capitals may follow it."""
    groups = candidate.split(" ")
    for end in range(len(groups), 0, -1):
        yield " ".join(groups[:end])
