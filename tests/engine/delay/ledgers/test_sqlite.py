"""What SQLite's ledgers add to the contract: processes that are killed, files that are in use or damaged."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import OutcomeUnknown, StateLost, Unavailable
from engine.delay.errors import LedgerFenced
from engine.delay.ledgers import sqlite
from engine.delay.ledgers.conformance import ABOUT, HOUR, MARKS, MINUTE, made, whole
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, ShardChange
from engine.delay.ledgers.sqlite import SqliteEngine, SqliteLedgers

#: Appends until it is killed, and says what was acknowledged.
_WRITER = """
import sys
from pathlib import Path
from typing import Any
from engine.delay.ledgers.conformance import ABOUT
from engine.delay.ledgers.sqlite import SqliteEngine

store = SqliteEngine(Path(sys.argv[1])).open("a")
(ledger,) = store.create([ABOUT])
print(ledger, flush=True)
number = 0
while True:
    batch = [(ledger, b"%d" % (number + offset)) for offset in range(3)]
    assert store.append(batch) == [number, number + 1, number + 2]
    number += 3
    print(number, flush=True)
"""

#: Commits a change of two buckets, and is killed when it comes to the statement, or after the commit.
_COMMITTER = """
import os, signal, sys
from pathlib import Path
from typing import Any
from engine.delay.ledgers.conformance import HOUR, MARKS, MINUTE
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, ShardChange
from engine.delay.ledgers.sqlite import SqliteEngine, SqliteLedgers

store = SqliteEngine(Path(sys.argv[1])).open("a")
held = store.metadata()
put, left = SqliteLedgers._put, int(sys.argv[2])

def dying(self, *arguments):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    put(self, *arguments)

SqliteLedgers._put = dying
refs = (LedgerRef(9, LedgerKind.RUN, True),)
store.commit(1, held.version, ShardChange(MARKS, {HOUR: refs, MINUTE: refs}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path)


def test_a_writer_that_is_killed_leaves_all_it_had_acknowledged(engine: SqliteEngine, tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    ledger = int(writer.stdout.readline())
    for _ in range(20):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    told = [int(line) for line in writer.stdout.read().split()]
    writer.wait(60)
    writer.stdout.close()

    store = engine.open("a")
    (info,) = store.recover([ledger])
    # Batches are whole, and the last may have been stored without anybody having been told.
    assert info.last + 1 in (told[-1] if told else 60, (told[-1] if told else 60) + 3)
    assert whole(store, ledger) == [b"%d" % number for number in range(info.last + 1)]
    assert isinstance(store.append([(ledger, b"more")])[0], LedgerFenced)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_change_is_whole_or_not_at_all_whenever_its_process_is_killed(
    engine: SqliteEngine, tmp_path: Path, after: int
) -> None:
    store = engine.open("a")
    before = store.claim(1)
    died = subprocess.run([sys.executable, "-c", _COMMITTER, str(tmp_path), str(after)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    refs = (LedgerRef(9, LedgerKind.RUN, True),)
    found = store.metadata()
    if after < 2:
        assert found == before
    else:
        assert (found.version, found.marks, found.buckets) == (before.version + 1, MARKS, {HOUR: refs, MINUTE: refs})
    # Nobody has to mend anything.
    assert store.commit(1, found.version, ShardChange(MARKS)).version == found.version + 1


def test_an_answer_waits_for_the_disk(engine: SqliteEngine) -> None:
    store = engine.open("a")
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    # FULL: a commit is in the log, and the log on the disk, before it is answered.
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_file_that_another_process_has_is_away_and_nothing_is_changed(
    engine: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.01)
    store = engine.open("a")
    ledger = made(store, 1)
    other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as raised:
        store.append([(ledger, b"1")])
    assert not isinstance(raised.value, OutcomeUnknown)
    other.execute("ROLLBACK")
    other.close()
    assert store.append([(ledger, b"1")]) == [1]


def test_a_commit_that_fails_may_have_been_made(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = engine.open("a")
    ledger = made(store, 1)

    class Failing:
        """Its disk goes when it is asked to commit."""

        def __getattr__(self, name: str) -> object:
            return getattr(db, name)

        def execute(self, statement: str, *arguments: Any) -> object:
            if statement == "COMMIT":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
                raise error
            return db.execute(statement, *arguments)

    db = store._db
    monkeypatch.setattr(store, "_db", Failing())
    with pytest.raises(OutcomeUnknown, match="disk I/O error"):
        store.append([(ledger, b"1")])
    monkeypatch.setattr(store, "_db", db)
    assert whole(store, ledger) == [b"0"]
    assert store.append([(ledger, b"1")]) == [1]


def test_what_is_no_database_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"something else altogether" * 100)
    with pytest.raises(StateLost, match="damaged"):
        SqliteLedgers(path, "a")


@pytest.mark.parametrize("shard", ["../up", "a/b", "A", "a.hashed", "", "ä" * 300])
def test_any_name_of_a_shard_is_a_file_in_the_folder(engine: SqliteEngine, tmp_path: Path, shard: str) -> None:
    store, other = engine.open(shard), engine.open("a")
    store.create([ABOUT])
    assert other.ledgers() == []
    files = [path.name for path in tmp_path.iterdir() if path.suffix == ".sqlite"]
    assert len(files) == 2


def test_the_folder_is_its_users_alone(tmp_path: Path) -> None:
    SqliteEngine(tmp_path / "new" / "ledgers").open("a")
    assert (tmp_path / "new" / "ledgers").stat().st_mode & 0o777 == 0o700
