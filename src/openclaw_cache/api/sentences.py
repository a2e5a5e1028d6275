"""Sentences as data: a code and its values, so that a client can say them in its reader's language. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from openclaw_cache.types import Json

BETWEEN: Final = "; "
"""Stands between the sentences of one text."""


class Sentence(NamedTuple):
    """What is said, in no language yet."""

    code: str
    """Names a template."""
    values: Mapping[str, Any] = {}
    """Numbers; names, which are data and not words of ours; lists of names; sentences, and lists of them."""

    def shown(self) -> Json:
        """As JSON: `{"code": …, "values": {…}}`, sentences in the values too."""
        return {"code": self.code, "values": {name: _shown(value) for name, value in self.values.items()}}


def said(code: str, **values: Any) -> Sentence:
    """A sentence."""
    return Sentence(code, values)


def spoken(sentence: Sentence, templates: Mapping[str, str]) -> str:
    """A sentence by the templates of a language.

    A template is a format string over the values. The one whose code ends in `.one` is for an `n` of one.

    Raises:
        KeyError: a code has no template, or a template names a value that is not given.
    """
    code, values = sentence
    one = templates.get(f"{code}.one") if values.get("n") == 1 else None
    template = templates[code] if one is None else one
    return template.format(**{name: _spoken(value, templates) for name, value in values.items()})


def all_spoken(sentences: Iterable[Sentence], templates: Mapping[str, str]) -> str:
    """Sentences as one text. Raises KeyError as `spoken`."""
    return BETWEEN.join(spoken(sentence, templates) for sentence in sentences)


def all_shown(sentences: Iterable[Sentence]) -> list[Json]:
    """Sentences as JSON."""
    return [sentence.shown() for sentence in sentences]


def _shown(value: Any) -> Json:
    if isinstance(value, Sentence):
        return value.shown()
    return [_shown(one) for one in value] if isinstance(value, list) else value


def _spoken(value: Any, templates: Mapping[str, str]) -> Any:
    if isinstance(value, Sentence):
        return spoken(value, templates)
    if isinstance(value, list):
        return ", ".join(f'"{one}"' if isinstance(one, str) else spoken(one, templates) for one in value)
    return value
