"""From a transport into a spool: a message is finished there only once it is on disk here.

The spool reads as a group of its own, so that nobody who handles the topic notices, and what is not spooled yet waits
in the transport. Who is killed between disk and finishing gets the message again, and knows it by its place and bytes.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.bus import GroupLost, Receiver, Rereads, Settlement, TellsVanished, Transport, Verdict
from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.writer import SpoolWriter

#: The group: no subscription can be called so.
GROUP = "_archive"
#: How long a message is reserved. What takes longer to reach the disk comes again, and is known.
LEASE_MS = 10_000
#: How many messages are taken at once: at first, at most, and about how many bytes.
FIRST_LOOK, AT_ONCE = 16, 500
ROOM_BYTES = 8 * 1024 * 1024

_log = logging.getLogger(__name__)


def make_group(transport: Transport, topic: str) -> None:
    """From here on what comes waits for the spool; nothing happens where it does. Raises ``Unavailable``."""
    transport.admin.create_group(topic, GROUP)


def can_be_spooled(transport: Transport) -> bool:
    """Whether it keeps what nobody has settled, and nothing of what somebody has."""
    return transport.capabilities.durable and not isinstance(transport.admin, Rereads)


@dataclass(slots=True)
class Moved:
    """What came of a turn."""

    #: Messages that are on disk now and were not before.
    messages: int = 0
    #: Those that came again.
    repeats: int = 0
    #: Those that the transport says it has lost before they came.
    lost: int = 0
    #: Whether there is more to be had, as it seems.
    more: bool = False


class Spooler:
    """Of one topic. Not thread-safe; whoever makes one closes it."""

    def __init__(
        self,
        transport: Transport,
        topic: str,
        root: Path,
        *,
        consumer: str,
        lease_ms: int = LEASE_MS,
        clock: Clock | None = None,
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._clock = clock or SystemClock()
        self._writer = SpoolWriter(root, topic, self._clock)
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._receiver: Receiver | None = None
        self._limit = FIRST_LOOK

    def turn(self, budget_s: float) -> Moved:
        """Move what waits, for about so many seconds at most.

        Raises :class:`~engine.pipeline.spool.errors.SpoolBusy` where another process does it,
        :class:`~engine.pipeline.spool.errors.SpoolDamaged`, ``Unavailable`` and ``OSError``: nothing is lost by any of
        these, for what was not finished comes again. Raises ``GroupLost`` where the group is not there (any more).
        """
        deadline = self._clock.monotonic() + budget_s
        moved = Moved(more=True)
        with self._writer.held():
            receiver = self._opened()
            try:
                while moved.more and self._clock.monotonic() < deadline:
                    self._step(receiver, moved)
            except GroupLost:
                self.close()
                raise
        return moved

    def close(self) -> None:
        """What it was sent and has not finished goes back. Idempotent; a later turn begins anew."""
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
        self._writer.close()

    def _opened(self) -> Receiver:
        if self._receiver is None:
            if GROUP not in self._transport.admin.groups(self._topic):
                # To read as a group that is not there makes its channel, which nobody would remove.
                raise GroupLost(
                    f"{self._topic} has no group {GROUP}.", remedy="It is made while the topic is archived."
                )
            self._receiver = self._transport.receiver(
                self._topic, GROUP, consumer=self._consumer, lease_ms=self._lease_ms
            )
        return self._receiver

    def _step(self, receiver: Receiver, moved: Moved) -> None:
        found = receiver.receive(self._limit, 0.0)
        if isinstance(receiver, TellsVanished) and (lost := len(receiver.take_vanished())):
            _log.error("%d messages of %s were lost before they were spooled", lost, self._topic)
            self._writer.pass_over(lost)
            moved.lost += lost
        moved.more = bool(found)
        if not found:
            return
        try:
            new = self._writer.append([Spooled(each.position, each.body) for each in found])
        except OSError:
            # A full disk may stay full: these are the first to come again, and no others are taken meanwhile.
            with suppress(Unavailable):
                receiver.settle([Settlement(each.receipt, Verdict.RELEASE) for each in found])
            raise
        moved.messages += new
        moved.repeats += len(found) - new
        # It is on disk: from here on the transport may forget it.
        receiver.settle([Settlement(each.receipt) for each in found])
        longest = max(len(each.body) for each in found)
        self._limit = max(1, min(AT_ONCE, 2 * self._limit, ROOM_BYTES // max(1, longest)))
