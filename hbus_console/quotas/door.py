"""The gate of this process: whoever does something for somebody asks it first.

A process becomes a node of the quotas with the first that asks. What it then tells: facts of what was admitted and
refused, and a report of its limiters in the database.
"""

from __future__ import annotations

import logging
import threading

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, HbusError
from engine.core.facts import Emitter
from engine.quota import QuotaNode
from engine.quota.book import Book
from engine.quota.facts import cut_off_fact
from engine.quota.gate import QuotaGate
from engine.quota.plane import ControlPlane
from engine.quota.seating import SeatRules
from engine.quota.seats import SeatKeeper, SeatPlane
from engine.quota.uses import Uses, facts_of
from hbus_console.quotas.reports import keep_report, report_of
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.rules import policy_of
from hbus_console.wiring import fact_log, quota, store
from hbus_console.wiring.store import Closing, once

#: Seconds between two tellings, and of a process that does nothing. That it goes by newer rules, or is cut off, is
#: looked for more often and told at once: whoever changed a limit wants to see that it holds.
TELL_S, IDLE_S, LOOK_S = 2.0, 10.0, 0.25

#: Not looked up with each request.
_CLOSING = Closing.WORK
_log = logging.getLogger(__name__)


class QuotaDoor:
    """A node of the quotas with its gate, and what tells of it. :meth:`tell` is called by its own thread, or a test."""

    def __init__(
        self,
        name: str,
        plane: ControlPlane,
        facts: Emitter,
        *,
        clock: Clock | None = None,
        book: Book | None = None,
        seats: SeatPlane | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._facts = facts
        self._name = name
        self._uses = Uses()
        self._away_ms = 0
        self._busy = False
        self.node = QuotaNode(name, plane, clock=self._clock, book=book, changed=self._changed)
        self._keeper = None if seats is None else SeatKeeper(name, seats, clock=self._clock)
        seating = None if self._keeper is None else (self._keeper, SeatRules(lambda: self.node.book))
        self.gate = QuotaGate(self.node, self._uses, now_ms=self._clock.now_ms, seats=seating)
        self._told_at = self._clock.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to carry and to tell, each in a thread of its own."""
        self.node.start()
        if self._keeper is not None:
            self._keeper.start()
        self._thread = threading.Thread(target=self._run, name="quota-report", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give back what is prepaid, and tell what is left to be told."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._keeper is not None:
            self._keeper.stop()
        self.node.stop()

    def tell(self) -> None:
        """What was admitted and refused since it last told, and how its limiters stand. Raises what a database does."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        over_s, self._told_at = max(0.001, now - self._told_at), now
        uses = self._uses.drain()
        # Once more after the last: its rates fall.
        self._busy = bool(uses)
        statuses = self.node.statuses()
        policies = {
            (name.service, name.resource, name.tenant): policy_of(status.rule)
            for name, status in statuses
            if not name.shadow
        }
        self._facts.emit(list(facts_of(uses, policies, now_ms, self._name)))
        keep_report(self._name, now_ms, report_of(self.node.version, self._away_ms, statuses, uses, over_s))

    def _changed(self, away: bool) -> None:
        now_ms = self._clock.now_ms()
        self._away_ms = now_ms if away else 0
        self._facts.emit([cut_off_fact(away, now_ms, self._name)])

    def _run(self) -> None:
        while True:
            ends = self.wait()
            try:
                close_old_connections()
                self.tell()
            except (DatabaseError, HbusError) as error:
                # The next one tells all of it anew; what was used went its own way.
                _log.warning("what this process's limits do cannot be told: %s", error)
            except Exception:  # noqa: BLE001 - a mistake of ours: nobody would hear of this process any more
                _log.exception("what this process's limits do cannot be told; it goes on")
            if ends:
                connections.close_all()
                return

    def wait(self) -> bool:
        """Until there is something to be told; whether it ends."""
        since, told = self._clock.monotonic(), self._stands()
        while not self._clock.wait(self._stop, LOOK_S):
            passed = self._clock.monotonic() - since
            # Whoever looks at a node that is cut off looks for how long.
            often = self._busy or self._uses or self.node.away_since is not None
            if self._stands() != told or passed >= (TELL_S if often else IDLE_S):
                return False
        return True

    def _stands(self) -> tuple[int, bool]:
        return self.node.version, self.node.away_since is None


def door() -> QuotaDoor:
    """That of this process. Thread-safe."""
    return once("quota door", _open, _close, _CLOSING)


def kept() -> bool:
    """Whether this installation keeps quotas."""
    return bool(settings.HBUS_QUOTAS)


def present() -> QuotaDoor | None:
    """Likewise; ``None`` where this installation keeps no quotas."""
    return door() if kept() else None


def _close(made: QuotaDoor, _: float) -> None:
    made.close()


def _open() -> QuotaDoor:
    try:
        book = newest_book()
    except (DatabaseError, BadInput) as error:
        # The control plane has it too.
        _log.warning("the quota policies cannot be read from the database: %s", error)
        book = None
    made = QuotaDoor(store.node_name(), quota.control_plane(), fact_log.emitter(), book=book, seats=quota.seat_plane())
    made.open()
    return made
