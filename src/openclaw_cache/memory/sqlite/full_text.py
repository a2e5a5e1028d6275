"""The full text index of a store.

It keeps terms (`memory.terms`), not texts. FTS5 offers two kinds of table without texts: one that deletes by number
(`contentless_delete`) leaves the terms of what was deleted in the file until it happens to merge them; the other must
be told the terms again and takes them out at once (`secure-delete`). Forgetting must be real, so this is the other one.
A store remembers what our terms looked like when they were written; when that changes, the index is made anew.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from openclaw_cache.memory.terms import terms

if TYPE_CHECKING:
    from openclaw_cache.memory.sqlite.database import Database
    from openclaw_cache.memory.terms import TextQuery

_PROBE: Final = (
    "The running dogs' foo_bar.baz v2.3.1 café ÀÉ naïve don't C++ C# e-mail@example.org /usr/lib/x camelCase 12,345.67 "
    "我们决定用Python写的繁體 東京タワー ひらがな 한국어 ภาษาไทย हिन्दी Straße ﬁ ½ ① 🙂 stories studied better children"
)
_TRAIT: Final = "terms"


def add(database: Database, number: int, text: str) -> None:
    """Make a passage findable."""
    database.run("INSERT INTO full_text (rowid, terms) VALUES (?, ?)", (number, _line(text)))


def remove(database: Database, number: int, text: str) -> None:
    """Take a passage out; `text` is what it was added with."""
    database.run(
        "INSERT INTO full_text (full_text, rowid, terms) VALUES ('delete', ?, ?)", (number, _line(text))
    )


def expression(query: TextQuery) -> str:
    """A query in FTS5's language: any of the terms, each quoted, so that none is taken for an operator."""
    terms = (readable(_clean(term)).replace('"', '""') for term in query.terms)
    return " OR ".join(f'"{term}"' for term in terms if term)


def has_our_terms(database: Database) -> bool:
    """Whether the index was written with terms like ours."""
    statement = "SELECT 1 FROM trait WHERE name = ? AND value = ?"
    return database.first(statement, (_TRAIT, _look_of_terms())) is not None


def renew(database: Database) -> None:
    """Make the index anew, within a transaction of the caller's. Cost: reads all passages."""
    database.run("INSERT INTO full_text (full_text) VALUES ('delete-all')")
    last = 0
    while passages := database.rows(
        "SELECT number, text FROM passage WHERE number > ? ORDER BY number LIMIT 1000", (last,)
    ):
        for number, text in passages:
            add(database, number, text)
        last = passages[-1][0]
    database.run("INSERT OR REPLACE INTO trait (name, value) VALUES (?, ?)", (_TRAIT, _look_of_terms()))


@cache
def _look_of_terms() -> str:
    """Names how texts become terms here; another version of Python may know other characters."""
    return blake3(" ".join([unicodedata.unidata_version, *terms(_PROBE)]).encode()).hexdigest(16)


def readable(text: str) -> str:
    """A text without halves of surrogate pairs, which are no characters to search for."""
    return text.encode("utf-8", "replace").decode()


def _line(text: str) -> str:
    return " ".join(map(_clean, terms(text)))


def _clean(term: str) -> str:
    """SQLite reads a text up to its first NUL."""
    return term.replace("\0", "")
