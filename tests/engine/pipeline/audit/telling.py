"""A lake of one topic with all that the ledger tells of it, and the faults that are planted into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from engine.bus import Message
from engine.bus.message import encode
from engine.core.clock import ManualClock, to_rfc3339
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.schema import DELIVERIES, KEY_HASH, PUBLISHED, READ, in_key_order
from engine.pipeline.lake.state import Act, Commit, Kind, LakeFile, LakeState, TopicCommit
from engine.pipeline.lake.writing import PortionFiles, date_of, path_of, write_file
from engine.pipeline.source.columns import INSTANT, Columns, Rows
from engine.pipeline.source.planning import Loss
from engine.pipeline.source.reached import LogReached

TOPIC = "booking.created"
SOURCE = "/hotel/bookings"
SUBSCRIPTIONS = ("billing", "housekeeping")
MINUTE_MS = 60_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Delivery:
    """A row of the ledger on what became of a message."""

    id: str
    source: str | None
    subscription: str | None
    kind: str
    at_ms: int
    attempt: int = 1


@dataclass(frozen=True)
class Booking:
    """One message, as it is stored, published, and what became of it."""

    id: str
    key: str
    sequence: str
    stored_ms: int
    log: str
    source: str = SOURCE
    data: object = None
    #: As its producer says; ``None``: not at all.
    time_ms: int | None = None
    replay: str = ""
    #: Of a copy: what it is one of.
    causation: str = ""
    due_ms: int | None = None
    target: str = ""
    body: bytes = b""

    @property
    def envelope(self) -> bytes:
        return self.body or encode(
            Message(
                id=self.id,
                source=self.source,
                type=TOPIC,
                partitionkey=self.key,
                sequence=self.sequence,
                time="" if self.time_ms is None else to_rfc3339(self.time_ms),
                data={"booking": self.id} if self.data is None else self.data,
                datacontenttype="application/json",
                causationid=self.causation,
                hbusreplay=self.replay,
                hbusdue="" if self.due_ms is None else to_rfc3339(self.due_ms),
                hbustarget=self.target,
            )
        )


@dataclass
class Told:
    """Everything of one topic, before it is written."""

    stored: list[Booking]
    published: list[Booking]
    deliveries: list[Delivery]

    def without(self, ids: Iterable[str]) -> None:
        """Nowhere."""
        gone = set(ids)
        self.stored = [each for each in self.stored if each.id not in gone]
        self.published = [each for each in self.published if each.id not in gone]
        self.deliveries = [each for each in self.deliveries if each.id not in gone]


def season(
    number: int, start_ms: int, *, keys: int = 40, logs: Sequence[str] = ("-", "p1", "p2"), every_ms: int = 40_000
) -> Told:
    """Bookings of some guests, each guest's in its order and in one log, all of them handled by everybody."""
    stored: list[Booking] = []
    counts = [0] * keys
    for index in range(number):
        guest = (index * index + index // 7) % keys
        counts[guest] += 1
        stored_ms = start_ms + index * every_ms
        stored.append(
            Booking(
                id=f"01J{index:010d}",
                key=f"guest-{guest}",
                sequence=str(counts[guest]),
                stored_ms=stored_ms,
                log=logs[guest % len(logs)],
                time_ms=stored_ms - 1 - index % 900,
            )
        )
    deliveries = [
        Delivery(each.id, each.source, name, "settled", each.stored_ms + 5 + (index * 37) % 4_000)
        for index, each in enumerate(stored)
        for name in SUBSCRIPTIONS
    ]
    return Told(stored, list(stored), deliveries)


@dataclass
class Hotel:
    """Writes it into a lake, by a clock of the test's own."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    topic: str = TOPIC
    _row: int = 0
    _files: int = 0

    def __post_init__(self) -> None:
        self.lake = Lake(self.root, self.clock)

    @property
    def start_ms(self) -> int:
        """Of a day, a while ago."""
        return self.clock.now_ms() // DAY_MS * DAY_MS - 20 * DAY_MS

    def archive(self, told: Told, rounds: int = 3, lag_ms: int = 30_000) -> None:
        """All of it, in so many rounds one after the other, of the ledger likewise."""
        stored, published = told.stored, sorted(told.published, key=lambda each: each.stored_ms)
        deliveries = sorted(told.deliveries, key=lambda each: each.at_ms)
        for number in range(rounds):
            self.archive_messages(_piece(stored, number, rounds), lag_ms=lag_ms)
            self.archive_ledger(_piece(published, number, rounds), _piece(deliveries, number, rounds))

    def archive_messages(
        self,
        bookings: Sequence[Booking],
        *,
        lag_ms: int = 30_000,
        losses: Sequence[Loss] = (),
        at_ms: int | None = None,
    ) -> list[LakeFile]:
        """In the order given, of each log; archived so long after the last was stored."""
        made: list[LakeFile] = []
        reached: dict[str, LogReached] = dict(self.lake.state().reached(self.topic))
        last_ms = max((each.stored_ms for each in bookings), default=self.clock.now_ms())
        with self.lake.run() as run:
            for log in dict.fromkeys(each.log for each in bookings):
                of_log = [each for each in bookings if each.log == log]
                self._files += 1
                files = PortionFiles(self.root, self.topic, log, f"{run}-{self._files}")
                at = [each.stored_ms for each in of_log]
                positions = [f"{ms}-{index}" for index, ms in enumerate(at)]
                rows = Rows(self.topic, log, positions, at, [each.envelope for each in of_log])
                files.add(Columns(READ).table(rows), at)
                made += files.close()
                reached[log] = LogReached(positions[-1], None, "", at[-1])
            self._commit(run, made, TopicCommit(reached, losses), (last_ms + lag_ms) if at_ms is None else at_ms)
        return made

    def archive_ledger(self, published: Sequence[Booking], deliveries: Sequence[Delivery]) -> list[LakeFile]:
        """One file a day of each kind."""
        made: list[LakeFile] = []
        with self.lake.run() as run:
            made += self._rows(run, Kind.PUBLISHED, [(each.stored_ms, self._published(each)) for each in published])
            made += self._rows(run, Kind.DELIVERIES, [(each.at_ms, self._delivered(each)) for each in deliveries])
            booked = {Kind.PUBLISHED: self._row, Kind.DELIVERIES: self._row}
            self._commit(run, made, TopicCommit(booked=booked), self.clock.now_ms())
        return made

    def commit_losses(self, run: str, losses: Sequence[Loss]) -> None:
        """As whoever archives tells them."""
        self._commit(run, [], TopicCommit(losses=losses), self.clock.now_ms())

    def _published(self, each: Booking) -> dict[str, object]:
        return {
            "message_id": each.id,
            "type": TOPIC,
            "source": each.source,
            "key": each.key,
            "size": len(each.envelope),
            "published_at": each.stored_ms * 1000,
        }

    def _delivered(self, each: Delivery) -> dict[str, object]:
        return {
            "message_id": each.id,
            "source": each.source,
            "subscription": each.subscription,
            "kind": each.kind,
            "at": each.at_ms * 1000,
            "attempt": each.attempt,
            "duration_us": 1_000,
        }

    def _rows(self, run: str, kind: Kind, rows: Sequence[tuple[int, dict[str, object]]]) -> list[LakeFile]:
        schema = {Kind.PUBLISHED: PUBLISHED, Kind.DELIVERIES: DELIVERIES}[kind]
        made: list[LakeFile] = []
        for day in sorted({at_ms // DAY_MS for at_ms, _ in rows}):
            of_day = [(at_ms, row) for at_ms, row in rows if at_ms // DAY_MS == day]
            numbers = range(self._row + 1, self._row + 1 + len(of_day))
            self._row += len(of_day)
            self._files += 1
            plain = [
                {"row_id": number, "topic": self.topic, **row} for number, (_, row) in zip(numbers, of_day, strict=True)
            ]
            fields = [each for each in schema if each.name != KEY_HASH]
            table = pa.Table.from_arrays(
                [_array([row.get(each.name) for row in plain], each.type) for each in fields], schema=pa.schema(fields)
            )
            made.append(
                write_file(
                    self.root,
                    in_key_order(table, kind),
                    LakeFile(
                        path=path_of(kind, self.topic, date_of(of_day[0][0]), f"{run}-{self._files}"),
                        kind=kind,
                        topic=self.topic,
                        log=kind,
                        date=date_of(of_day[0][0]),
                        rows=len(plain),
                        bytes=0,
                        weight=0,
                        sha256="",
                        first_ms=min(at_ms for at_ms, _ in of_day),
                        last_ms=max(at_ms for at_ms, _ in of_day),
                        first=str(numbers[0]),
                        last=str(numbers[-1]),
                    ),
                )
            )
        return made

    def _commit(self, run: str, files: Sequence[LakeFile], said: TopicCommit, at_ms: int) -> None:
        def make(state: LakeState) -> Commit:
            return Commit(
                version=state.version + 1,
                act=Act.ARCHIVE,
                run=run,
                at_ms=at_ms,
                before=state.digest,
                topics={self.topic: said},
                added=files,
            )

        self.lake.publish(make)


def changed(told: Told, ids: Iterable[str], change: Callable[[Booking], Booking]) -> None:
    """Of what is stored."""
    wanted = set(ids)
    told.stored = [change(each) if each.id in wanted else each for each in told.stored]


def copy_of(each: Booking, **attributes: object) -> Booking:
    return replace(each, **attributes)  # type: ignore[arg-type]


def _piece(rows: Sequence[object], number: int, pieces: int) -> list:  # type: ignore[type-arg]
    size = -(-len(rows) // pieces)
    return list(rows[number * size : (number + 1) * size])


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    if kind == INSTANT:
        return pa.array(values, pa.int64()).cast(INSTANT)
    return pa.array(values, kind)
