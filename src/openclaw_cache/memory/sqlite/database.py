"""An SQLite file, encrypted or not: how it is opened, asked and written."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.sqlite.faults import NO_SPACE, described

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

Row = tuple[Any, ...]
"""A row as SQLite gives it; the statement beside it says what its columns are."""

KEY_BYTES: Final = 32
BUSY_TIMEOUT_S: Final = 10.0
"""How long a write waits for another process that writes the same file."""
CACHE_BYTES: Final = 2 << 20
"""Most memory that one open file keeps of its pages."""
_MAX_WAL_BYTES: Final = 4 << 20
_RETRY_S: Final = 0.01


class Database:
    """One connection. Whatever SQLite complains of is raised as MemoryStoreError.

    A commit is on the disk when it returns (write-ahead log, synchronous=FULL). What is deleted is overwritten with
    zeros; `scrub` takes it out of the log as well.

    The cipher is ChaCha20 with a Poly1305 tag on every page (SQLite3 Multiple Ciphers): unlike AES in CBC mode it
    notices a changed page, it is fast on processors without AES instructions, and a random key of 32 bytes needs no
    slow derivation. Pages, log and journal are encrypted alike; temporary tables stay in memory.
    """

    def __init__(self, connection: apsw.Connection, path: Path | None) -> None:
        self._connection = connection
        self._path = path
        self._place = str(path) if path else "in memory"
        self._is_open = True
        self._is_to_scrub = False

    @classmethod
    def open(cls, path: Path | None, key: bytes | None) -> Database:
        """Open a file (created with mode 0600 where it is not there), or a database in memory.

        Raises:
            MemoryStoreError: it cannot be opened, or read with this key.
            ValueError: the key is not 32 bytes.
        """
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        if path is not None:
            _create(path)
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                return cls._open_once(path, key)
            except MemoryStoreError as error:
                # SQLite itself does not wait where two make one new file ready.
                if error.code != "busy" or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)

    @classmethod
    def _open_once(cls, path: Path | None, key: bytes | None) -> Database:
        if path is None:
            database, key = cls(apsw.Connection(":memory:"), None), None
        else:
            try:
                database = cls(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE), path)
            except apsw.Error as error:
                raise described(error, str(path)) from None
        try:
            database._prepare(key)
        except MemoryStoreError as error:
            database.close()
            if path is not None and key is not None and error.code == "wrong_key" and _is_plain(path):
                raise MemoryStoreError(
                    f"memory store {path} is not encrypted, but memory.encryption_key_env is set: "
                    "export it without the key and import it with the key",
                    code="wrong_key",
                ) from None
            raise
        return database

    def _prepare(self, key: bytes | None) -> None:
        with self._described():
            self._connection.set_busy_timeout(int(BUSY_TIMEOUT_S * 1000))
        if key is not None:
            self.run("PRAGMA cipher = 'chacha20'")
            self.run(f"PRAGMA key = 'raw:{key.hex()}'")
        self.rows("SELECT count(*) FROM sqlite_schema")  # the first read: a wrong key is found here
        for pragma in (
            "auto_vacuum = INCREMENTAL",  # of a new file only
            "journal_mode = WAL",
            "synchronous = FULL",
            "secure_delete = ON",
            "foreign_keys = ON",
            "temp_store = MEMORY",
            "trusted_schema = OFF",
            f"cache_size = -{CACHE_BYTES >> 10}",
            f"journal_size_limit = {_MAX_WAL_BYTES}",
        ):
            self.rows(f"PRAGMA {pragma}")

    @property
    def place(self) -> str:
        """What error messages call it."""
        return self._place

    @property
    def size_bytes(self) -> int:
        """What the file and its log take on the disk; of one in memory what it takes there."""
        if self._path is None:
            return int(self.one("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0])
        return size_on_disk(self._path)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows of a query."""
        with self._described():
            return self._connection.execute(statement, values).fetchall()

    def first(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of a query."""
        with self._described():
            return self._connection.execute(statement, values).fetchone()

    def one(self, statement: str, values: Sequence[Any] = ()) -> Row:
        """The row of a query that always has one."""
        row = self.first(statement, values)
        if row is None:
            raise MemoryStoreError(
                f"memory store {self._place} gives no answer where it must", code="damaged"
            )
        return row

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; how many rows it changed."""
        with self._described():
            self._connection.execute(statement, values)
            return self._connection.changes()

    def run_for_each(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of the values."""
        with self._described():
            self._connection.executemany(statement, values)

    def add(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Insert a row; its number."""
        with self._described():
            self._connection.execute(statement, values)
            return self._connection.last_insert_rowid()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All that is done inside is done or, where it raises, nothing of it; it is on the disk afterwards.

        Within another one it is a part of that: it can be undone alone, and is on the disk with the whole.
        """
        is_part = self._is_in_transaction()
        self.run("SAVEPOINT part" if is_part else "BEGIN IMMEDIATE")
        try:
            yield
            self.run("RELEASE part" if is_part else "COMMIT")
        except BaseException:  # an interrupt too: whatever ends it, nothing of it may stay; raised again
            if self._is_in_transaction():  # a full disk may have ended it already
                for statement in ("ROLLBACK TO part", "RELEASE part") if is_part else ("ROLLBACK",):
                    self.run(statement)
            raise
        if self._is_to_scrub:
            self.scrub()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All queries inside see the same state, whatever another process writes meanwhile."""
        if self._is_in_transaction():
            yield
            return
        self.run("BEGIN")
        try:
            yield
        finally:
            if self._is_in_transaction():
                self.run("COMMIT")

    def scrub(self) -> None:
        """Empty the log, so that nothing deleted is left in it; within a transaction when that has ended.

        A file that is free by more than a quarter is made smaller, too.
        Where another process reads at this moment, the log keeps it until the next time, or until the last one closes.
        """
        self._is_to_scrub = self._is_in_transaction()
        if not self._is_to_scrub:
            num_free, num_pages = self.one(
                "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count"
            )
            if num_free * 4 > num_pages:
                self.rows("PRAGMA incremental_vacuum")
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file; the last one to do so removes the log. Idempotent."""
        self._is_open = False
        with self._described():
            self._connection.close()

    def _is_in_transaction(self) -> bool:
        return self._is_open and self._connection.in_transaction

    @contextmanager
    def _described(self) -> Iterator[None]:
        try:
            yield
        except (apsw.Error, UnicodeError) as error:
            system_error = self._connection.system_errno if self._is_open else 0
            raise described(error, self._place, system_error) from None


def files_of(path: Path) -> tuple[Path, ...]:
    """The file of a database, and those that SQLite keeps beside it while it is open."""
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def size_on_disk(path: Path) -> int:
    """What the file of a database and its log take; 0 where they are not there."""
    return sum(map(_size_bytes, files_of(path)[:2]))


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # the log goes when the last one closes the file
        return 0


def _create(path: Path) -> None:
    """Make the file and its folders where they are not there, for their owner only; SQLite syncs their names."""
    # Under another name first. To close a file takes away the locks that anybody in this process has on it, SQLite's
    # too: nobody but SQLite may open a database, not even to look.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        if path.exists():
            return
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.link(draft, path)
        finally:
            draft.unlink()
    except FileExistsError:
        pass  # another was first
    except OSError as error:
        raise MemoryStoreError(
            f"memory store {path} cannot be created: {error.strerror}",
            code="full" if error.errno in NO_SPACE else "read_only",
        ) from None


def _is_plain(path: Path) -> bool:
    """Whether a file is an SQLite database without a key."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error:
        return False
    try:
        return connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() is not None
    except apsw.Error:
        return False
    finally:
        connection.close()
