"""What must never be of a history: told by a client who remembers every answer, and by the bus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from engine.delay.near import TakenMessage
from engine.delay.outcomes import AddStatus, CancelStatus
from engine.delay.search import DelayHandle


@dataclass(slots=True)
class AskedMessage:
    """A message as its client knows it."""

    id: str
    #: When it may be handed over; more than one where an answer was lost.
    dues: set[int]
    status: AddStatus = AddStatus.UNKNOWN
    handle: DelayHandle | None = None
    #: The last definite answer to a cancellation.
    cancel: CancelStatus | None = None
    #: Nobody knows what became of an act on it: it may or may not be handed over.
    in_doubt: bool = False

    @property
    def is_sure_to_wait(self) -> bool:
        """Unless it was handed over."""
        return self.status is AddStatus.KEPT and self.cancel is not CancelStatus.CANCELLED and not self.in_doubt

    @property
    def may_be_two(self) -> bool:
        """Whether it may be there at more than one time."""
        return len(self.dues) > 1

    @property
    def may_be_touched(self) -> bool:
        return self.handle is not None and self.is_sure_to_wait and self.cancel is None


@dataclass(slots=True)
class JudgedBus:
    """Where messages are published; it refuses epochs that are over, and knows messages by their ids."""

    epoch: int = 0
    #: For which due times each was published, and under which epoch last.
    published: dict[str, set[int]] = field(default_factory=dict)
    under: dict[str, int] = field(default_factory=dict)
    #: Those of which it is noted durably that they were handed over.
    noted: set[str] = field(default_factory=set)

    def fence(self, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)


class DelayJudge:
    """Collects what must not be. ``found`` is in the order in which it happened."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.asked: dict[str, AskedMessage] = {}
        self.bus = JudgedBus()

    def say(self, what: str) -> None:
        self.found.append(what)

    def publish(self, epoch: int, taken: Iterable[TakenMessage], clock_ms: int) -> None:
        """They come to the bus, whose owner's clock would say ``clock_ms`` if nobody had put it forward or back."""
        for record, _ in taken:
            name = record.message().message_id
            asked = self.asked[name]
            if clock_ms < min(asked.dues):
                self.say(f"{name} came {min(asked.dues) - clock_ms} ms early")
            if record.due_ms not in asked.dues:
                self.say(f"{name} came for a time from which it had been rescheduled")
            # An owner that died while it rescheduled has left both, as it says; the bus lets the first through.
            if name in self.bus.noted and not asked.may_be_two:
                self.say(f"{name} came again though that it had come was noted")
            if self.bus.under.get(name) == epoch and not asked.may_be_two:
                self.say(f"{name} came twice from one owner")
            if asked.cancel is CancelStatus.CANCELLED:
                self.say(f"{name} came, and was cancelled")
            if asked.status is AddStatus.FAILED:
                self.say(f"{name} came, and had not been taken")
            self.bus.published.setdefault(name, set()).add(record.due_ms)
            self.bus.under[name] = epoch

    def take(self, taken: Iterable[TakenMessage], in_flight: Iterable[str]) -> None:
        """An owner hands these over: none that waits may be due before them."""
        names = {record.message().message_id: record.due_ms for record, _ in taken}
        if not names:
            return
        last = max(names.values())
        left_out = names.keys() | set(in_flight)
        for name, asked in self.asked.items():
            waits = asked.is_sure_to_wait and name not in left_out and name not in self.bus.published
            if waits and max(asked.dues) < last:
                self.say(f"{name} waits, {last - max(asked.dues)} ms before one that was handed over")

    def cancelled(self, asked: AskedMessage, status: CancelStatus) -> None:
        """A definite answer, or none, to a cancellation of a message that waited, or had been handed over."""
        if status is CancelStatus.IN_DOUBT:
            asked.in_doubt = True
            return
        if status is CancelStatus.UNKNOWN and asked.id not in self.bus.published:
            self.say(f"{asked.id} was not found, and had not come")
        if status is CancelStatus.CANCELLED and asked.id in self.bus.published:
            self.say(f"{asked.id} was cancelled after it had come")
        asked.cancel = status

    def rescheduled(self, asked: AskedMessage, due_ms: int) -> None:
        """It was told that it will come then. It may have come meanwhile, but for no other time."""
        if self.bus.published.get(asked.id, set()) - {due_ms}:
            self.say(f"{asked.id} was rescheduled after it had come")
        asked.dues = {due_ms}

    def at_the_end(self) -> Iterator[str]:
        """Once everything must have come."""
        yield from self.found
        for name, asked in self.asked.items():
            if asked.is_sure_to_wait and name not in self.bus.published:
                yield f"{name} never came"
