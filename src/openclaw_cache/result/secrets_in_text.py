"""Secrets in prompts and replies: keys, tokens and passwords that have a shape or a name in front of them."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DETECTORS: Final = {
    "aws.AWSKeyDetector": ("AKIA", "ASIA", "ABIA", "ACCA", "A3T", "aws", "AWS", "Aws"),
    "basic_auth.BasicAuthDetector": ("://",),
    "discord.DiscordBotTokenDetector": (".",),
    "github_token.GitHubTokenDetector": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "mailchimp.MailchimpDetector": ("-us",),
    "npm.NpmDetector": ("npm_", "NPM", "_authToken"),
    "private_key.PrivateKeyDetector": ("PRIVATE KEY", "PuTTY"),
    "sendgrid.SendGridDetector": ("SG.",),
    "slack.SlackDetector": ("xox", "hooks.slack.com"),
    "square_oauth.SquareOAuthDetector": ("sq0csp-",),
    "stripe.StripeDetector": ("k_live_",),
    "twilio.TwilioKeyDetector": ("AC", "SK"),
}
"""The detectors of detect-secrets that can tell a secret from other text by its shape, in linear time, each with
the marks of which all its secrets have one: looking for those first makes the whole several times as fast.

Left out: the high-entropy ones (they take commit ids, hashes and ids for secrets: over 200 in a hundred real
requests of agents), Azure's (takes the checksums in a package-lock.json), keyword and Artifactory (2,000
characters of the wrong kind keep them busy for 0.8 s), JWT (quadratic) and IBM's four (half of the whole time).
What of these matters is among the shapes and assignments below.
"""

_SHAPE_MARKS: Final = (
    "sk-", "AIza", "hf_", "gsk_", "xai-", "r8_", "pplx-", "github_pat_", "gl", "pypi-", "xapp-", "eyJ", "earer",
)  # fmt: skip
_SHAPES: Final = re.compile(
    r"""
    (?<![A-Za-z0-9_-]) (?:
        sk- (?=[A-Za-z_-]{0,60}[0-9]) [A-Za-z0-9_-]{20}                 # OpenAI, Anthropic and many that copied it
      | AIza [A-Za-z0-9_-]{35}                                          # Google
      | hf_ [A-Za-z0-9]{30}                                             # Hugging Face
      | gsk_ [A-Za-z0-9]{40} | xai- [A-Za-z0-9]{40} | r8_ [A-Za-z0-9]{36} | pplx- [A-Za-z0-9]{40}
      | github_pat_ [A-Za-z0-9_]{22}
      | gl(?:pat|dt|rt|ft|cbt|ptt|soat)- [A-Za-z0-9_-]{20}              # GitLab
      | pypi-AgE [A-Za-z0-9_-]{50}
      | xapp-[0-9]- [A-Za-z0-9-]{20}                                    # Slack, app level
      | eyJ[A-Za-z0-9_-]{8,}+ \. eyJ[A-Za-z0-9_-]{8}                    # JWT: two JSON objects
      | [Bb]earer\s{1,4} (?=[A-Za-z._~+/=-]{0,60}[0-9]) [A-Za-z0-9._~+/=-]{20}
    )
    """,
    re.VERBOSE,
)
_TELEGRAM: Final = re.compile(r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")

_VALUE: Final = re.compile(
    r"""(?: [=:：是为] >? \s{0,4} | s(?<=\sis)\s ) ["'`]? (?P<value> [^\s"'`,;|<>(){}\[\]\\$]{8,200}+ ) (?! [(\[{] )""",
    re.VERBOSE,
)
"""What is assigned to something. A call or an index is code, and `<…>`, `{…}`, `$…` is a template."""

_NAME_CHARS: Final = 60
_NAME: Final = re.compile(
    r"""
    (?i: api[_.-]?key | auth[_-]?key | access[_-]?key | account[_-]?key | private[_-]?key
       | secret | passw(?:or)?d | passphrase | pwd | token | credential | 密码 | 口令 | 密钥 | 令牌 )
    (?: [A-Z_-][A-Za-z0-9_-]{0,24} )? s? ["'\]`*]{0,3} (?: \s{1,4} is? )? \s{0,4} [:=]{0,2} \Z
    """,
    re.VERBOSE,
)
"""The name of a secret, at the end of what stands before a value."""

_NO_SECRET: Final = re.compile(r"https?://|[./~]|.*(?:\*\*\*|\.\.\.|xxx|XXX|example|EXAMPLE|your[_-])")


class Secrets:
    """Finds secrets. Every pattern is linear in the size of the text.

    Raises:
        ConfigError: detect-secrets is not installed.
    """

    def __init__(self) -> None:
        try:
            self._detectors = [(marks, _detector(name)) for name, marks in _DETECTORS.items()]
            from detect_secrets.filters.heuristic import is_sequential_string  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ConfigError(
                "result_cache.screen: secrets needs bc-detect-secrets: pip install 'openclaw-cache[screen]'"
            ) from error
        self._is_sequential: Callable[[str], bool] = is_sequential_string

    def are_in(self, text: str) -> bool:
        """Whether there is one. Cost: 0.05 ms per 1,000 characters."""
        if _TELEGRAM.search(text) or (_has_any(text, _SHAPE_MARKS) and _SHAPES.search(text)):
            return True
        if any(self._is_secret(match, text) for match in _VALUE.finditer(text)):
            return True
        return any(_has_any(text, marks) and any(True for _ in find(text)) for marks, find in self._detectors)

    def _is_secret(self, match: re.Match[str], text: str) -> bool:
        """Whether a value is one: prose and code seldom have a digit and a letter in one word of eight."""
        value = match["value"]
        return (
            any(map(str.isdigit, value))
            and any(map(str.isalpha, value))
            and _NAME.search(text[max(0, match.start() - _NAME_CHARS) : match.start()]) is not None
            and not _NO_SECRET.match(value)
            and not self._is_sequential(value)
        )


def _has_any(text: str, marks: tuple[str, ...]) -> bool:
    return any(mark in text for mark in marks)


def _detector(name: str) -> Callable[[str], Iterable[str]]:
    module, _, detector = name.partition(".")
    find: Callable[[str], Iterable[str]] = getattr(
        import_module(f"detect_secrets.plugins.{module}"), detector
    )().analyze_string
    return find
