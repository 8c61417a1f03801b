"""A ledger store in SQLite: the embedded default, for a shard whose owners share a file system.

One database file a shard: an append takes SQLite's one write lock, so shards in one file would wait for each other, and
a shard is moved or dropped as one file. One batch is one transaction, whatever number of ledgers it goes to: one
``fsync``, by ``WAL`` with ``synchronous=FULL``, so that what is acknowledged survives a power cut as far as the disk
keeps its word. Any number of processes at once; one that is killed leaves nothing that another has to mend. A file
never shrinks, but what is deleted makes room for what comes.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from engine.core.error_text import text_of, words_of
from engine.core.errors import OutcomeUnknown, StateLost, Unavailable
from engine.core.prepared import prepared
from engine.delay.errors import NoSuchLedger, no_more, not_there
from engine.delay.ledgers.contract import PAGE_BYTES, AppendOutcome, LedgerAbout, LedgerInfo
from engine.delay.ledgers.metadata import (
    LedgerRef,
    Refs,
    ShardChange,
    ShardMetadata,
    changed,
    insist_current,
    insist_newer,
)
from engine.delay.levels import Watermarks, bucket_at

#: How long a process waits for another's transaction before it says that the store is away, in seconds.
BUSY_S = 5.0
PAGE_SIZE = 16_384
#: An entry's key is its ledger's number and its own, so that a ledger lies together and in order.
_NUMBER_BITS = 32
_OPEN, _CLOSED, _FENCED = 0, 1, 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    id INTEGER PRIMARY KEY AUTOINCREMENT, about BLOB NOT NULL, state INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT -1, length INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS entry (place INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS bucket (
    level INTEGER NOT NULL, number INTEGER NOT NULL, refs BLOB NOT NULL, PRIMARY KEY (level, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shard (
    one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, version INTEGER NOT NULL, marks BLOB NOT NULL);
INSERT OR IGNORE INTO shard VALUES (1, 0, 0, x'c0');
"""

_encode = msgspec.msgpack.encode
_about = msgspec.msgpack.Decoder(prepared(LedgerAbout))
_refs = msgspec.msgpack.Decoder(prepared(tuple[LedgerRef, ...]))
_marks = msgspec.msgpack.Decoder(prepared(Watermarks | None))


class SqliteLedgers:
    """A :class:`~engine.delay.ledgers.contract.LedgerStore` in one file. Thread-safe: one call at a time."""

    def __init__(self, path: Path, shard: str) -> None:
        self._shard = shard
        self._lock = threading.Lock()
        with _told(OutcomeUnknown):
            # Transactions are begun and ended here, not by the driver.
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            # Entries are long: fewer pages, fewer links between them. It counts for a new file alone.
            self._db.execute(f"PRAGMA page_size={PAGE_SIZE}")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
        with self._transaction():
            for statement in _SCHEMA.split(";\n"):
                self._db.execute(statement)

    @property
    def shard(self) -> str:
        return self._shard

    def create(self, abouts: Sequence[LedgerAbout]) -> list[int]:
        insert = "INSERT INTO ledger (about) VALUES (?) RETURNING id"
        with self._transaction():
            return [int(self._db.execute(insert, (_encode(about),)).fetchone()[0]) for about in abouts]

    def append(self, batch: Sequence[tuple[int, bytes]]) -> list[AppendOutcome]:
        ends: dict[int, tuple[int, int, int]] = {}
        outcomes: list[AppendOutcome] = []
        rows: list[tuple[int, bytes]] = []
        with self._transaction():
            for ledger, entry in batch:
                try:
                    state, last, length = ends.get(ledger) or self._end_of(ledger)
                except NoSuchLedger as error:
                    outcomes.append(error)
                    continue
                if state != _OPEN:
                    outcomes.append(no_more(ledger, fenced=state == _FENCED))
                    continue
                rows.append((_place(ledger, last + 1), entry))
                ends[ledger] = state, last + 1, length + len(entry)
                outcomes.append(last + 1)
            self._db.executemany("INSERT INTO entry VALUES (?, ?)", rows)
            told = [(last, length, ledger) for ledger, (_, last, length) in ends.items()]
            self._db.executemany("UPDATE ledger SET last = ?, length = ? WHERE id = ?", told)
        return outcomes

    def read(self, ledger: int, first: int = 0) -> list[bytes]:
        page: list[bytes] = []
        size = 0
        with self._asking():
            rows = self._db.execute(
                "SELECT data FROM entry WHERE place BETWEEN ? AND ? ORDER BY place",
                (_place(ledger, first), _place(ledger + 1, 0) - 1),
            )
            for (entry,) in rows:
                size += len(entry)
                if page and size > PAGE_BYTES:
                    break
                page.append(entry)
            rows.close()
            if not page:
                # An end, or a ledger that is gone.
                self._end_of(ledger)
        return page

    def recover(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._ended(ledgers, _FENCED)

    def close(self, ledgers: Sequence[int]) -> list[LedgerInfo]:
        return self._ended(ledgers, _CLOSED)

    def _ended(self, ledgers: Sequence[int], state: int) -> list[LedgerInfo]:
        with self._transaction():
            told = [(state, ledger, _OPEN) for ledger in ledgers]
            self._db.executemany("UPDATE ledger SET state = ? WHERE id = ? AND state = ?", told)
            return [self._info(ledger) for ledger in ledgers]

    def delete(self, ledgers: Sequence[int]) -> None:
        with self._transaction():
            spans = [(_place(ledger, 0), _place(ledger + 1, 0) - 1) for ledger in ledgers]
            self._db.executemany("DELETE FROM entry WHERE place BETWEEN ? AND ?", spans)
            self._db.executemany("DELETE FROM ledger WHERE id = ?", [(ledger,) for ledger in ledgers])

    def ledgers(self) -> list[LedgerInfo]:
        with self._asking():
            rows = self._db.execute("SELECT id, about, state, last, length FROM ledger").fetchall()
        return [_told_info(row) for row in rows]

    def metadata(self) -> ShardMetadata:
        # A transaction, so that buckets and version are of one moment.
        with self._transaction("DEFERRED"):
            return self._metadata()

    def claim(self, epoch: int) -> ShardMetadata:
        with self._transaction():
            insist_newer(self._metadata(), epoch)
            self._db.execute("UPDATE shard SET epoch = ?, version = version + 1", (epoch,))
            return self._metadata()

    def commit(self, epoch: int, version: int, change: ShardChange) -> ShardMetadata:
        with self._transaction():
            held = self._metadata()
            insist_current(held, epoch, version)
            after = changed(held, change)
            self._db.execute("UPDATE shard SET version = ?, marks = ?", (after.version, _encode(after.marks)))
            for bucket, refs in change.buckets.items():
                self._put(bucket.level, bucket.number, refs)
            return after

    def _put(self, level: int, number: int, refs: Refs) -> None:
        if refs:
            self._db.execute("INSERT OR REPLACE INTO bucket VALUES (?, ?, ?)", (level, number, _encode(refs)))
        else:
            self._db.execute("DELETE FROM bucket WHERE level = ? AND number = ?", (level, number))

    def close_store(self) -> None:
        with self._lock:
            self._db.close()

    def _metadata(self) -> ShardMetadata:
        epoch, version, marks = self._db.execute("SELECT epoch, version, marks FROM shard").fetchone()
        rows = self._db.execute("SELECT level, number, refs FROM bucket")
        buckets = {bucket_at(level, number): _refs.decode(refs) for level, number, refs in rows}
        return ShardMetadata(epoch, version, _marks.decode(marks), buckets)

    def _end_of(self, ledger: int) -> tuple[int, int, int]:
        row = self._db.execute("SELECT state, last, length FROM ledger WHERE id = ?", (ledger,)).fetchone()
        if row is None:
            raise not_there(ledger)
        return row[0], row[1], row[2]

    def _info(self, ledger: int) -> LedgerInfo:
        row = self._db.execute("SELECT id, about, state, last, length FROM ledger WHERE id = ?", (ledger,)).fetchone()
        if row is None:
            raise not_there(ledger)
        return _told_info(row)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with self._lock, _told(Unavailable):
            yield

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """All of what is done meanwhile, or nothing where something is raised."""
        with self._lock:
            with _told(Unavailable):
                self._db.execute(f"BEGIN {kind}")
            try:
                with _told(Unavailable):
                    yield
            except BaseException:
                self._undo()
                raise
            try:
                # From here on nobody knows, unless SQLite says that it waits for somebody else still.
                with _told(OutcomeUnknown):
                    self._db.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        # SQLite has ended the transaction by itself after some errors, and has nothing to undo.
        if self._db.in_transaction:
            with _told(Unavailable):
                self._db.execute("ROLLBACK")


class SqliteEngine:
    """A :class:`~engine.delay.ledgers.contract.LedgerEngine`: a folder for its user alone, one file a shard."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, shard: str) -> SqliteLedgers:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SqliteLedgers(self._folder / _file_name(shard), shard)


def _file_name(shard: str) -> str:
    """Readable where a shard's name can be a file's; no two shards have one."""
    plain = re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,60}", shard)
    return f"{shard}.sqlite" if plain else f"{blake2b(shard.encode(), digest_size=20).hexdigest()}.hashed.sqlite"


def _place(ledger: int, number: int) -> int:
    return ledger << _NUMBER_BITS | number


def _told_info(row: tuple[int, bytes, int, int, int]) -> LedgerInfo:
    number, about, state, last, length = row
    return LedgerInfo(number, _about.decode(about), state != _OPEN, last, length)


@contextmanager
def _told(otherwise: Callable[[str], Unavailable]) -> Iterator[None]:
    """What SQLite raises, in the contract's words; ``otherwise`` is what its errors mean here."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Unavailable(
                f"Another process has had the delay ledgers' file for {BUSY_S:g} s.", remedy="Try again."
            ) from error
        raise otherwise(f"The delay ledgers' file cannot be used: {words_of(error)}.") from error
    except sqlite3.DatabaseError as error:
        raise StateLost(
            f"The delay ledgers' file is damaged: {text_of(error)}.", remedy="Restore it from a copy."
        ) from error
