"""Passages of a store: what its full text index and its vectors are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.passages import split
from openclaw_cache.memory.record import Passage
from openclaw_cache.memory.sqlite import full_text
from openclaw_cache.memory.sqlite.filtering import OF_PASSAGE, marks, of_passages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.record import Filter
    from openclaw_cache.memory.sqlite.database import Database, Row
    from openclaw_cache.memory.terms import TextQuery

_WAITING: Final = 0
_BATCH: Final = 4096
_PASSAGE: Final = (
    "p.number, coalesce(m.id, g.id), p.memory IS NOT NULL, p.text, p.at, coalesce(s.name, m.session), g.role"
)


class SqlitePassages:
    """`store.Passages` in SQLite."""

    _db: Database

    def match(self, query: TextQuery, limit: int, within: Filter) -> list[tuple[int, float]]:
        """See `store.Passages`. Cost: grows with the passages that have one of the terms."""
        expression = full_text.expression(query)
        if not expression:
            return []
        condition, values = of_passages(within)
        # A row of a virtual table that gives its rows best first: the filter stops it at `limit`.
        found = self._db.rows(
            f"SELECT f.rowid, -f.rank FROM full_text f CROSS JOIN passage p ON p.number = f.rowid{OF_PASSAGE}"  # noqa: S608
            f" WHERE f.full_text MATCH ? AND {condition} ORDER BY f.rank LIMIT ?",
            (expression, *values, max(limit, 0)),
        )
        return [(number, score) for number, score in found]

    def recent(self, limit: int, within: Filter) -> list[int]:
        """See `store.Passages`. Cost: grows with the passages that the filter refuses before it has enough."""
        condition, values = of_passages(within)
        found = self._db.rows(
            f"SELECT p.number FROM passage p{OF_PASSAGE} WHERE {condition}"  # noqa: S608
            " ORDER BY p.at DESC, p.number DESC LIMIT ?",
            (*values, max(limit, 0)),
        )
        return [number for (number,) in found]

    def admitted(self, numbers: Sequence[int], within: Filter) -> list[Passage]:
        """See `store.Passages`."""
        condition, values = of_passages(within)
        found: dict[int, Passage] = {}
        for start in range(0, len(numbers), _BATCH):
            some = numbers[start : start + _BATCH]
            rows = self._db.rows(
                f"SELECT {_PASSAGE} FROM passage p{OF_PASSAGE}"  # noqa: S608
                f" WHERE p.number IN ({marks(len(some))}) AND {condition}",
                (*some, *values),
            )
            found |= {row[0]: _passage(row) for row in rows}
        return [found[number] for number in numbers if number in found]

    def numbers_of(self, owners: Sequence[str]) -> list[int]:
        """See `store.Passages`."""
        found: list[int] = []
        for start in range(0, len(owners), _BATCH):
            some = owners[start : start + _BATCH]
            for of in ("memory", "message"):
                found += (
                    number
                    for (number,) in self._db.rows(
                        f"SELECT p.number FROM {of} o JOIN passage p ON p.{of} = o.number"  # noqa: S608
                        f" WHERE o.id IN ({marks(len(some))})",
                        some,
                    )
                )
        return sorted(found)

    def without_vector(self, fingerprint: str, limit: int) -> list[Passage]:
        """See `store.Passages`. Cost: O(limit)."""
        # One by one, for then each is a walk along the index: together they would all be sorted.
        found: list[Row] = []
        for embedder in self._other_embedders(fingerprint):
            found += self._db.rows(
                f"SELECT {_PASSAGE} FROM passage p{OF_PASSAGE} WHERE p.embedder = ?"  # noqa: S608
                " ORDER BY p.at DESC, p.number DESC LIMIT ?",
                (embedder, max(limit, 0)),
            )
        passages = sorted(
            map(_passage, found), key=lambda passage: (passage.at, passage.number), reverse=True
        )
        return passages[: max(limit, 0)]

    def put_vectors(self, fingerprint: str, vectors: Sequence[tuple[int, Vector | None]]) -> None:
        """See `store.Passages`."""
        import numpy as np  # noqa: PLC0415 - a store without vectors works without numpy

        if not vectors:
            return
        with self._db.writing():
            for number, vector in vectors:
                embedder = self._embedder(fingerprint, None if vector is None else len(vector))
                if not self._db.run(
                    "UPDATE passage SET embedder = ? WHERE number = ? AND embedder IS NOT NULL",
                    (embedder, number),
                ):
                    continue
                if vector is None:
                    self._db.run("DELETE FROM vector WHERE passage = ?", (number,))
                else:
                    self._db.run(
                        "INSERT OR REPLACE INTO vector (passage, embedder, vector) VALUES (?, ?, ?)",
                        (number, embedder, np.asarray(vector, dtype="<f2").tobytes()),
                    )

    def vectors(self, fingerprint: str) -> Iterator[tuple[list[int], npt.NDArray[np.float16]]]:
        """See `store.Passages`. Each batch is a query of its own, so other calls may come between."""
        import numpy as np  # noqa: PLC0415 - a store without vectors works without numpy

        embedder = self._db.first(
            "SELECT number, num_dims FROM embedder WHERE fingerprint = ?", (fingerprint,)
        )
        last = 0
        while embedder and (
            rows := self._db.rows(
                "SELECT passage, vector FROM vector WHERE passage > ? AND embedder = ? ORDER BY passage LIMIT ?",
                (last, embedder[0], _BATCH),
            )
        ):
            last = rows[-1][0]
            flat = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f2")
            yield [number for number, _ in rows], flat.reshape(len(rows), embedder[1])

    def vectors_of(
        self, fingerprint: str, numbers: Sequence[int]
    ) -> tuple[list[int], npt.NDArray[np.float16]]:
        """See `store.Passages`."""
        import numpy as np  # noqa: PLC0415 - a store without vectors works without numpy

        embedder = self._db.first(
            "SELECT number, num_dims FROM embedder WHERE fingerprint = ?", (fingerprint,)
        )
        rows: list[Row] = []
        for start in range(0, len(numbers) if embedder else 0, _BATCH):
            some = numbers[start : start + _BATCH]
            rows += self._db.rows(
                f"SELECT passage, vector FROM vector WHERE passage IN ({marks(len(some))}) AND embedder = ?"  # noqa: S608
                " ORDER BY passage",
                (*some, embedder[0] if embedder else 0),
            )
        flat = np.frombuffer(b"".join(vector for _, vector in rows), dtype="<f2")
        return [number for number, _ in rows], flat.reshape(len(rows), embedder[1] if embedder else 0)

    def _num_without_vector(self, fingerprint: str) -> int:
        others = self._other_embedders(fingerprint)
        return int(
            self._db.one(f"SELECT count(*) FROM passage WHERE embedder IN ({marks(len(others))})", others)[0]  # noqa: S608
        )

    def _other_embedders(self, fingerprint: str) -> list[int]:
        """Those whose vectors do not count for this one, and the mark of those that wait."""
        rows = self._db.rows("SELECT number FROM embedder WHERE fingerprint <> ?", (fingerprint,))
        return [_WAITING, *(number for (number,) in rows)]

    def _embedder(self, fingerprint: str, num_dims: int | None) -> int:
        row = self._db.first("SELECT number, num_dims FROM embedder WHERE fingerprint = ?", (fingerprint,))
        if row is None:
            statement = "INSERT INTO embedder (fingerprint, num_dims) VALUES (?, ?)"
            return self._db.add(statement, (fingerprint, num_dims or 0))
        number, known_dims = row
        if num_dims is not None and known_dims != num_dims:
            if known_dims:
                raise MemoryStoreError(
                    f"a vector has {num_dims} numbers where those of its embedder have {known_dims}"
                )
            self._db.run("UPDATE embedder SET num_dims = ? WHERE number = ?", (num_dims, number))
        return int(number)


def add_passages(
    database: Database,
    of: Literal["memory", "message"],
    owner: int,
    text: str,
    at: float,
    *,
    is_embedded: bool,
) -> None:
    """Make a memory or a message findable, by its number in its own table."""
    for passage in split(full_text.readable(text)):
        number = database.add(
            f"INSERT INTO passage ({of}, text, at, embedder) VALUES (?, ?, ?, ?)",  # noqa: S608
            (owner, passage, at, _WAITING if is_embedded else None),
        )
        full_text.add(database, number, passage)


def remove_passages(database: Database, of: Literal["memory", "message"], owner: int) -> None:
    """Take a memory or a message out of the index, with its vectors."""
    for number, text in database.rows(f"SELECT number, text FROM passage WHERE {of} = ?", (owner,)):  # noqa: S608
        full_text.remove(database, number, text)
    database.run(f"DELETE FROM passage WHERE {of} = ?", (owner,))  # noqa: S608


def _passage(row: Row) -> Passage:
    number, owner, is_memory, text, at, session, role = row
    of: Any = "memory" if is_memory else "message"
    return Passage(number=number, of=of, owner=owner, text=text, at=at, session=session, role=role)
