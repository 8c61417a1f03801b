"""The transport contract: four verbs, an admin side, and honest capabilities.

A transport moves opaque envelopes. It publishes batches, hands out leased deliveries, settles and extends them, and
keeps dead letters until somebody takes them over. Everything else (envelope, retries policy, delay, inbox, ledger)
is the business of the layer above. :mod:`engine.bus.conformance` holds every promise made here to account, and those of
:mod:`engine.bus.optional`, which a transport need not make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True)
class Capabilities:
    """What a transport does natively. The layer above supplies the rest or refuses when a topic is configured."""

    #: Keeps messages over a restart of the store.
    durable: bool
    #: Reads messages back without consuming them, by position and time.
    browse: bool
    #: Moves a group to an earlier or later position, and makes one that begins at such. If not, ``seek`` and
    #: ``create_group`` know the end alone (and ``beginning``, which is then what lies there unclaimed).
    seek: bool
    #: Delivers higher priorities first under backlog.
    priority: bool
    #: Checks an idempotency key atomically with the append.
    idempotent_publish: bool
    #: Delivers to one consumer in the order of publishing while nothing fails.
    ordered: bool
    #: Stops deliveries of a group for the whole cluster at once.
    pause: bool
    #: Splits an ordered topic, and gives each partition of a group one owner: see :mod:`engine.bus.partitions`.
    partitions: bool = False
    #: The largest envelope in bytes.
    max_bytes: int = 16 * 1024 * 1024
    #: The smallest.
    min_bytes: int = 0
    #: The longest name of a topic, in characters.
    longest_topic: int = 200
    #: An idempotency key is checked in the act of appending. If not, it is reserved before and confirmed after: who
    #: dies or loses the answer in between leaves it open, and a repeat may be stored twice.
    exact_keys: bool = True
    #: Which of the promises a store beside the transport keeps: names of fields above, or ``leases``, ``retries``
    #: (attempts with their history and due times) and ``dead`` (dead letters), which every transport promises.
    beside: frozenset[str] = frozenset()


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One envelope on its way into a topic."""

    message_id: str
    body: bytes
    priority: Priority = Priority.NORMAL
    #: Empty: not idempotent. Otherwise a repeat inside the window is not stored again.
    idempotency_key: str = ""
    #: Digest of what the key stands for; another digest under the same key is a conflict.
    idempotency_digest: str = ""
    idempotency_window_ms: int = 0
    #: Where it goes; 0 on a topic of one partition.
    partition: int = 0
    #: Of a claim alone, see :class:`~engine.bus.optional.Claiming`: when its message is due, epoch milliseconds.
    due_ms: int = 0


class Status(StrEnum):
    OK = "ok"
    #: The idempotency key was seen with the same body; ``message_id`` and ``position`` are the original's.
    DUPLICATE = "duplicate"
    #: The idempotency key was seen with another body; nothing was stored.
    CONFLICT = "conflict"
    #: The idempotency key was claimed with the same body for a message that waits for its due time, see
    #: :class:`~engine.bus.optional.Claiming`: ``message_id`` and ``due_ms`` are that message's; nothing was stored.
    HELD = "held"
    #: Certainly not stored.
    FAILED = "failed"
    #: The connection broke after sending: perhaps stored.
    UNKNOWN = "unknown"


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one :class:`Outgoing`; ``error`` says why when it was not stored."""

    status: Status
    message_id: str
    position: str = ""
    error: str = ""
    #: Epoch milliseconds, with ``HELD``; else 0.
    due_ms: int = 0
    #: What to do about ``FAILED`` where publishing it again cannot help.
    remedy: str = ""


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One finished attempt in a delivery's history."""

    number: int
    at_ms: int
    duration_us: int
    consumer: str
    error: str


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One leased attempt. ``receipt`` names it to :meth:`Receiver.settle` and is opaque to everybody else."""

    receipt: str
    position: str
    body: bytes
    #: 1 for the first.
    attempt: int
    #: Earlier attempts that failed, oldest first.
    history: tuple[Attempt, ...] = ()
    priority: Priority = Priority.NORMAL
    partition: int = 0


class Verdict(StrEnum):
    ACK = "ack"
    #: Hand it out again after ``after_ms``; counts as an attempt and adds ``attempt`` to the history.
    RETRY = "retry"
    #: Move it to the dead letters with ``dead`` as its record.
    DEAD = "dead"
    #: Hand it out again at once, in the order of publishing; does not count as an attempt. Where attempts before
    #: ``number`` were made (partitioned transports), they are counted; ``attempt`` is the last of them, if that failed
    #: here.
    RELEASE = "release"
    #: Set it aside with its key (partitioned transports). With a record in ``dead`` it parks the key; without one it
    #: follows a key that is parked. A key that is not, or no longer: released, and answered ``False``. ``number`` and
    #: ``attempt`` as for ``RELEASE``.
    PARK = "park"
    #: Attempt ``number``, 2 or later, is about to be made by its holder, who keeps it (partitioned transports). From
    #: now on it is counted, whatever becomes of them; ``attempt`` is the one before it, if that failed here. Said again
    #: it changes nothing.
    BEGIN = "begin"


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What shall become of one delivery."""

    receipt: str
    verdict: Verdict = Verdict.ACK
    after_ms: int = 0
    attempt: Attempt | None = None
    #: An opaque record of why it died (JSON), kept beside the envelope.
    dead: bytes = b""
    #: For ``PARK``: the key.
    key: str = ""
    #: Which attempt begins, or would have been the next; 0: nothing is said of it.
    number: int = 0


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One envelope as it lies in a topic."""

    position: str
    at_ms: int
    body: bytes
    priority: Priority = Priority.NORMAL


class DeadEntry(msgspec.Struct, frozen=True, gc=False):
    """One dead letter in the transport's own store, until the layer above has taken it over.

    What somebody else has written there is one, too, with what can be read of it: left out it would hold up the others.
    """

    entry: str
    position: str
    body: bytes
    record: bytes


@dataclass(frozen=True)
class Lag:
    """Where a group stands. ``waiting`` + ``in_flight`` + ``retrying`` + ``parked`` is what it has not settled."""

    #: Never handed out yet, or released unhandled; ``None`` when the store cannot tell.
    waiting: int | None
    #: Handed out under a live lease.
    in_flight: int
    #: Failed at least once (or their lease ran out) and waiting for the next attempt.
    retrying: int
    #: In the transport's dead store, not yet taken over.
    dead: int
    #: Wall time in ms at which the oldest unsettled message was published; ``None`` when all is settled.
    oldest_ms: int | None
    paused: bool = False
    #: Set aside with their keys, until somebody decides.
    parked: int = 0
    #: Since when the store knows this life of the topic: :meth:`~engine.bus.optional.TellsStanding.began_ms`.
    began_ms: int = 0

    @property
    def unsettled(self) -> int | None:
        return None if self.waiting is None else self.waiting + self.in_flight + self.retrying + self.parked


@dataclass(frozen=True)
class Depth:
    """How much a topic holds."""

    messages: int
    bytes: int | None
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True)
class TrimReport:
    """What retention did: ``removed`` messages; ``held`` groups kept more than the policy wanted."""

    removed: int
    held: tuple[str, ...] = ()
    #: How many messages the policy would have removed had those groups settled them; a store may stop counting.
    held_back: int = 0


@dataclass(frozen=True)
class Page:
    """A slice of a topic; ``next_position`` is empty at the end."""

    entries: list[Stored] = field(default_factory=list)
    next_position: str = ""


class Receiver(Protocol):
    """One consumer's end of one group. ``receive`` is called from one thread; ``settle``, ``extend`` from any."""

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        """Lease up to ``limit`` messages, waiting at most ``wait_s`` seconds of real time for the first.

        What was released, due retries and leases that ran out come before new messages; among new ones, higher
        priorities before lower ones. A lease that ran out counts as a failed attempt with the error ``lease ran out``,
        so a message whose consumers die may come with an attempt beyond its policy's last. While the group is
        paused nothing comes. Returns nothing once closed, also from a wait that is under way. Raises
        :class:`~engine.bus.errors.GroupLost` or :class:`~engine.core.errors.Unavailable`.
        """
        ...

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        """Apply all verdicts atomically; ``False`` for a delivery whose lease had passed to another.

        An ack of a delivery that was given away is honoured when nobody has settled it yet: its effect exists.
        Raises :class:`~engine.core.errors.Unavailable`; trying the same batch again is then safe. Unless that says
        ``untouched``, a refusal of the next try may be due to this one.
        """
        ...

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        """Renew leases to their full length from now; ``False`` where the lease had passed to another."""
        ...

    def close(self) -> None:
        """Free the connections. Leases run out by themselves. Idempotent."""
        ...


class Admin(Protocol):
    """Everything an operator's tool asks of a store. Thread-safe. All methods raise ``Unavailable``."""

    def create_topic(self, topic: str) -> None:
        """Make the topic if it is not there."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Remove the topic with its messages and its groups, each as :meth:`delete_group` does.

        Of a topic with partitions, take over what lies dead before: only the first one's letters are found afterwards.
        """
        ...

    def create_group(self, topic: str, group: str, start: str = "beginning") -> bool:
        """Make the group unless it exists; ``True`` if made, or if a part of it that was lost was made anew.

        ``start`` is ``beginning``, ``end``, a position, a checkpoint, or ``@<epoch ms>``: what lies after it (or not
        before that instant) will be delivered.
        """
        ...

    def delete_group(self, topic: str, group: str) -> None:
        """Remove the group; nothing happens when it is not there.

        Nothing dies in it from then on. What lies dead stays, for :meth:`dead` and :meth:`forget_dead`.
        """
        ...

    def groups(self, topic: str) -> list[str]: ...

    def depth(self, topic: str) -> Depth: ...

    def lag(self, topic: str, group: str) -> Lag:
        """Raises :class:`~engine.bus.errors.GroupLost` when the group is not there."""
        ...

    def checkpoint(self, topic: str, group: str) -> str:
        """The position after which everything not settled lies: what to give ``create_group`` after a loss."""
        ...

    def counts(self, topic: str, group: str = "") -> dict[str, int]:
        """Totals since the topic or group was made; what never happened may be missing.

        Of a topic: ``published``, ``deduplicated``. Of a group: ``settled``, ``retried``, ``dead``, ``released``,
        ``lapsed`` (leases that ran out) and ``vanished`` (messages that were gone from the store before they were
        settled).
        """
        ...

    def browse(self, topic: str, *, after: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        """Read without consuming. ``after`` is a position of an earlier page, or ``@<epoch ms>`` for a time. A page is
        shorter than ``limit`` where it would come to more than :data:`engine.bus.bounds.PAGE_BYTES`.

        With ``newest_first`` the page goes back from there; an instant includes itself in both directions. Raises
        ``BadInput`` for what is no position.
        """
        ...

    def read(self, topic: str, position: str) -> Stored | None:
        """One message by position; ``None`` when it was trimmed."""
        ...

    def seek(self, topic: str, group: str, position: str) -> None:
        """Move a group so that exactly what lies after ``position`` is unsettled: it is delivered (again).

        ``position`` as for ``create_group``. Leases and retries of before are dropped. Raises
        :class:`~engine.bus.errors.GroupLost`.
        """
        ...

    def pause(self, topic: str, group: str) -> None:
        """Stop handing out; what is in flight may still be settled. Raises ``GroupLost``."""
        ...

    def resume(self, topic: str, group: str) -> None:
        """Hand out again, at once. Raises ``GroupLost``."""
        ...

    def dead(self, topic: str, group: str, limit: int = 100) -> list[DeadEntry]:
        """The oldest dead letters, left in place, also of a group that is not there any more: as many as
        :data:`engine.bus.bounds.DEAD_BYTES` has room for, and one that is larger alone. None is what there is no more
        of."""
        ...

    def forget_dead(self, topic: str, group: str, entries: Sequence[str]) -> int:
        """Drop dead letters that have found another home; returns how many were there. Nothing else drops one."""
        ...

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> TrimReport:
        """Apply retention, never beyond what some group has not settled. ``older_than_ms`` is an age."""
        ...


class Transport(Protocol):
    """A backend. Thread-safe. Made by :func:`engine.bus.registry.open_transport` from configuration alone."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def admin(self) -> Admin: ...

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        """Append ``batch`` in order, one outcome each. Never raises for the store's sake: see :class:`Status`."""
        ...

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        """Open one consumer's end. ``consumer`` is a stable name; ``lease_ms`` how long a delivery is reserved.

        It reads one partition and writes under no epoch: ordered reading of all is
        :meth:`engine.bus.partitions.Partitioned.partitioned_receiver`.
        """
        ...

    def ping(self) -> float:
        """Round trip to the store in seconds; raises ``Unavailable``."""
        ...

    def close(self) -> None:
        """Free the connections. Idempotent."""
        ...


@runtime_checkable
class Overlapping(Protocol):
    """What a transport may offer beside :class:`Transport`: storing one chunk while the caller builds the next."""

    def publish_chunks(self, topic: str, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
        """Append chunk after chunk, in order; the answers come in the same order, one list a chunk.

        A chunk may be asked of ``chunks`` and sent before the one ahead of it is answered. Each holds at most 500
        messages and 4 MiB. Never raises for the store's sake; once the store was lost, later chunks are not sent.
        """
        ...
