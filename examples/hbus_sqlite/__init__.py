"""A transport on one SQLite file: what a stranger writes to bring a store of their own to hbus.

``HBUS_TRANSPORT=sqlite`` finds it by its entry point; ``config.url`` is the file's path. Like a queue, it keeps a
message until every group has settled it: no reading back, no past to go to, no priority, no partitions; it says so.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from engine.bus import bounds
from engine.bus import transport as bus
from engine.bus.config import BusConfig
from engine.bus.errors import GroupLost
from engine.bus.not_browsable import NotBrowsable, no_history
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.room import fitting

from . import sql

POLL_S = 0.01
COUNTED = {"ack": "settled", "retry": "retried", "dead": "dead", "release": "released"}
decode_history = msgspec.json.Decoder(list[bus.Attempt]).decode


class Work(NamedTuple):
    """One transaction on a topic, or on a group of it."""

    db: sqlite3.Connection
    topic: str
    now_ms: int
    group: int = 0
    name: str = ""
    paused: bool = False

    def ask(self, statement: str, *values: Any) -> Any:
        return self.db.execute(statement, values).fetchone()

    def tell(self, statement: str, *values: Any) -> int:
        return self.db.execute(statement, values).rowcount

    def note(self, what: str) -> None:
        self.tell(sql.COUNT, self.topic, self.name, what)


class SqliteTransport(NotBrowsable):
    """Thread-safe, and safe with other processes on the same file. It is its own admin side."""

    name = "sqlite"
    capabilities = bus.Capabilities(
        durable=True, browse=False, seek=False, priority=False, idempotent_publish=True, ordered=True, pause=True
    )

    def __init__(self, config: BusConfig, clock: Clock | None = None) -> None:
        self.admin, self._clock, self._prefix = self, clock or SystemClock(), config.prefix
        self._lock = threading.RLock()
        self._db = sqlite3.connect(config.url, timeout=20, isolation_level=None, check_same_thread=False)
        self._db.executescript(sql.SCHEMA)

    @contextmanager
    def at(self, topic: str, group: str = "") -> Iterator[Work]:
        """All or nothing. Raises ``Unavailable``, and ``GroupLost`` for a group that is not there."""
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                with self._db:
                    work = Work(self._db, f"{self._prefix}/{topic}", self._clock.now_ms())
                    if group:
                        found = work.ask(sql.GROUP, work.topic, group)
                        if found is None:
                            raise GroupLost(f"The group {group} is not in the store.", remedy="Make it again.")
                        work = Work(*work[:3], *found)
                    yield work
        except sqlite3.Error as error:
            raise Unavailable(f"SQLite: {words_of(error)}") from error

    def publish(self, topic: str, batch: Sequence[bus.Outgoing]) -> list[bus.Outcome]:
        try:
            with self.at(topic) as work:
                return [self._append(work, one) for one in batch]
        except Unavailable as error:
            return [bus.Outcome(bus.Status.FAILED, one.message_id, error=str(error)) for one in batch]

    def _append(self, work: Work, one: bus.Outgoing) -> bus.Outcome:
        if len(one.body) > self.capabilities.max_bytes:
            why = f"more than {self.capabilities.max_bytes} bytes"
            return bus.Outcome(bus.Status.FAILED, one.message_id, error=why)
        if one.idempotency_key and (seen := work.ask(sql.SEEN, work.topic, one.idempotency_key, work.now_ms)):
            if seen[0] != one.idempotency_digest:
                return bus.Outcome(bus.Status.CONFLICT, seen[1], seen[2], "the key was used for another message")
            work.note("deduplicated")
            return bus.Outcome(bus.Status.DUPLICATE, seen[1], seen[2])
        (number,) = work.ask(sql.APPEND, work.topic, one.body, work.now_ms)
        if one.idempotency_key:
            until_ms, key, digest = work.now_ms + one.idempotency_window_ms, one.idempotency_key, one.idempotency_digest
            work.tell(sql.REMEMBER, work.topic, key, digest, one.message_id, str(number), until_ms)
        work.tell(sql.FAN_OUT, number, work.topic)
        work.note("published")
        return bus.Outcome(bus.Status.OK, one.message_id, str(number))

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> SqliteReceiver:
        return SqliteReceiver(self, topic, group, consumer, lease_ms)

    def ping(self) -> float:
        began = time.perf_counter()
        with self.at(""):
            return time.perf_counter() - began

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def create_topic(self, topic: str) -> None:
        """A topic is there as soon as something is in it."""

    def delete_topic(self, topic: str) -> None:
        with self.at(topic) as work:
            for table in ("grp", "message", "idem", "tally"):
                work.tell(f"DELETE FROM {table} WHERE topic=?", work.topic)  # noqa: S608 - four names

    def create_group(self, topic: str, group: str, start: str = "beginning") -> bool:
        if start not in ("beginning", "end"):
            no_history(f"{start!r} cannot be the start of a group", "start")
        with self.at(topic) as work:
            first = not work.ask("SELECT 1 FROM grp WHERE topic=?", work.topic)
            made = work.ask(sql.MAKE, work.topic, group)
            if made and first and start == "beginning":
                work.tell(sql.CLAIM, *made, work.topic)
            return made is not None

    def delete_group(self, topic: str, group: str) -> None:
        with self.at(topic) as work:
            work.tell("DELETE FROM grp WHERE topic=? AND name=?", work.topic, group)
            work.tell("DELETE FROM tally WHERE topic=? AND grp=?", work.topic, group)

    def groups(self, topic: str) -> list[str]:
        with self.at(topic) as work:
            return [row[0] for row in work.db.execute(sql.GROUPS, (work.topic,))]

    def depth(self, topic: str) -> bus.Depth:
        with self.at(topic) as work:
            return bus.Depth(*work.ask(sql.DEPTH, work.topic))

    def lag(self, topic: str, group: str) -> bus.Lag:
        with self.at(topic, group) as work:
            waiting, in_flight, retrying, dead, oldest_ms = work.ask(
                sql.LAG, work.now_ms, work.group, work.topic, work.name
            )
            return bus.Lag(waiting, in_flight, retrying, dead, oldest_ms, bool(work.paused))

    def checkpoint(self, topic: str, group: str) -> str:
        with self.at(topic, group):
            return "end"

    def counts(self, topic: str, group: str = "") -> dict[str, int]:
        with self.at(topic) as work:
            return dict(work.db.execute(sql.COUNTS, (work.topic, group)).fetchall())

    def seek(self, topic: str, group: str, position: str) -> None:
        with self.at(topic, group) as work:
            if position != "end":
                no_history(f"{group} cannot go to {position!r}", "position")
            work.tell("DELETE FROM delivery WHERE grp=?", work.group)

    def pause(self, topic: str, group: str, paused: bool = True) -> None:
        with self.at(topic, group) as work:
            work.tell("UPDATE grp SET paused=? WHERE id=?", paused, work.group)

    def resume(self, topic: str, group: str) -> None:
        self.pause(topic, group, False)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[bus.DeadEntry]:
        with self.at(topic) as work:
            rows = work.db.execute(sql.LETTERS, (work.topic, group, limit))
            letters = [bus.DeadEntry(str(row[0]), *row[1:]) for row in rows]
            return letters[: fitting((len(each.body) + len(each.record) for each in letters), bounds.DEAD_BYTES)]

    def forget_dead(self, topic: str, group: str, entries: Sequence[str]) -> int:
        with self.at(topic) as work:
            return sum(work.tell("DELETE FROM letter WHERE id=?", entry) for entry in entries)

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> bus.TrimReport:
        return bus.TrimReport(removed=0)


class SqliteReceiver:
    def __init__(self, transport: SqliteTransport, topic: str, group: str, consumer: str, lease_ms: int) -> None:
        self._at, self._topic, self._group = transport.at, topic, group
        self._consumer, self._lease_ms, self._closed = consumer, lease_ms, threading.Event()

    def receive(self, limit: int, wait_s: float) -> list[bus.Delivery]:
        deadline = time.monotonic() + wait_s
        while not self._closed.is_set():
            with self._at(self._topic, self._group) as work:
                rows = work.db.execute(sql.TAKE, (work.group, work.now_ms, work.paused, limit)).fetchall()
                taken = [self._lease(work, *row) for row in rows]
            if taken or time.monotonic() >= deadline:
                return taken
            self._closed.wait(POLL_S)
        return []

    def _lease(self, work: Work, number: int, *was: Any) -> bus.Delivery:
        state, consumer, since_ms, failed, packed, body = was
        history, token = decode_history(packed), secrets.token_hex(8)
        if state == "leased":
            failed += 1
            history.append(bus.Attempt(failed, since_ms, (work.now_ms - since_ms) * 1000, consumer, "lease ran out"))
            work.note("lapsed")
        mine = (work.now_ms + self._lease_ms, token, self._consumer, work.now_ms)
        work.tell(sql.LEASE, *mine, failed, msgspec.json.encode(history), work.group, number)
        return bus.Delivery(f"{work.group}:{number}:{token}", str(number), body, failed + 1, tuple(history))

    def settle(self, batch: Sequence[bus.Settlement]) -> list[bool]:
        with self._at(self._topic) as work:
            return [self._settle(work._replace(name=self._group), one) for one in batch]

    def _settle(self, work: Work, one: bus.Settlement) -> bool:
        *place, token = one.receipt.split(":")
        held = work.ask(sql.HELD, *place, one.verdict is bus.Verdict.ACK, token)
        if held is None or one.verdict is bus.Verdict.PARK:
            return False
        if one.verdict is bus.Verdict.RELEASE:
            work.tell(sql.CHANGE, "released", 0, 0, held[1], *place)
        elif one.verdict is bus.Verdict.RETRY:
            history = decode_history(held[1]) + ([one.attempt] if one.attempt else [])
            work.tell(sql.CHANGE, "retry", work.now_ms + one.after_ms, 1, msgspec.json.encode(history), *place)
        else:
            if one.verdict is bus.Verdict.DEAD:
                work.tell(sql.BURY, work.topic, work.name, place[1], held[2], one.dead)
            work.tell("DELETE FROM delivery WHERE grp=? AND message=?", *place)
        work.note(COUNTED[one.verdict])
        return True

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        with self._at(self._topic) as work:
            until_ms = work.now_ms + self._lease_ms
            return [work.tell(sql.EXTEND, until_ms, *receipt.split(":")) > 0 for receipt in receipts]

    def close(self) -> None:
        self._closed.set()


open_transport = SqliteTransport
