"""Partners that search for free rooms, each with a plan: so many searches a second, over all the desks that answer.

Two of them keep to their plan and come again when they are told to. The third floods, and does not listen. What each
may is a policy of the console, so it can be changed there while they search.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle

import msgspec
from django.db import connections
from django.db.models import Max

from engine.core.clock import Clock, SystemClock
from engine.core.pacing import Pace
from engine.quota import Book
from engine.quota.gate import QuotaGate
from engine.quota.terms import Name, Terms
from examples.hotel.bookings import Booking, Feed
from examples.hotel.models import RoomNights
from examples.hotel.seed import DISTRIBUTION
from hbus_console.access.permissions import Actor
from hbus_console.quotas.door import QuotaDoor
from hbus_console.quotas.models import QuotaPolicy, TenantPlan
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.services.policies import create_policy
from hbus_console.wiring import fact_log, quota, store

SERVICE, RESOURCE = "hotel", "availability.search"
#: Processes that answer searches in an installation of any size; here they share one.
DESKS = 2
#: Who keeps to the rules comes again so often, no sooner than after so many seconds, and then gives up. A limit that
#: was only just made has nothing saved up.
MOST_TRIES, LEAST_PAUSE_S = 5, 0.1
_REASON = "The hotel example"


@dataclass(frozen=True)
class Partner:
    """A booking site. ``searches_s``: how many it sends a second."""

    name: str
    plan: str
    searches_s: float
    listens: bool = True


PARTNERS = (
    Partner("globetrek", "gold", 50),
    Partner("sunways", "partner", 15),
    Partner("lastminute", "partner", 400, listens=False),
)
#: Searches a second of each plan, and how many go at once after a pause.
_PLANS = {"gold": (80.0, 160.0), "partner": (20.0, 40.0)}


class Share(msgspec.Struct):
    """What one partner asked for and got. Times are in seconds."""

    partner: str
    plan: str
    searches: int = 0
    answered: int = 0
    refused: int = 0
    given_up: int = 0
    slowest_s: float = 0.0
    #: What the policies let through in the time that it searched, one burst included; where they were changed
    #: meanwhile, by the wider of the first and the last.
    allowed: float = 0.0
    #: The most rooms that were sold in any night that it asked for.
    fullest: int = 0

    @property
    def holds(self) -> bool:
        return self.answered <= self.allowed


class SearchOutcome(msgspec.Struct, frozen=True):
    """``shares`` are as the gates counted them, in the order of :data:`PARTNERS`."""

    took_s: float
    shares: list[Share]

    @property
    def holds(self) -> bool:
        """Whether nobody got more than its plan."""
        return all(share.holds for share in self.shares)

    @property
    def served(self) -> bool:
        """Whether everybody got something, and who listens got all that it waited for."""
        return all(share.answered and not share.given_up for share in self.shares)


def seed_policies(actor: Actor) -> bool:
    """Make what is missing; what a person has changed of it is theirs. ``True`` when anything was made."""
    made = False
    for plan, (limit, burst) in _PLANS.items():
        name = f"hotel-search-{plan}"
        if QuotaPolicy.objects.filter(name=name).exists():
            continue
        description = f"Searches of partners with the plan {plan}."
        draft = PolicyDraft(
            name, DISTRIBUTION, limit, burst, description=description, service=SERVICE, resource=RESOURCE, plan=plan
        )
        create_policy(actor, draft, _REASON)
        made = True
    known = set(TenantPlan.objects.filter(until__isnull=True).values_list("tenant", flat=True))
    for partner in PARTNERS:
        if partner.name not in known:
            set_plan(actor, partner.name, partner.plan, _REASON)
            made = True
    return made


def play(feed: Feed, seconds: float, stop: threading.Event, *, clock: Clock | None = None) -> SearchOutcome:
    """Let every partner search for the arrivals of ``feed``, on :data:`DESKS` nodes of the quotas, and judge.

    Raises what the store and the database do.
    """
    clock, ended = clock or SystemClock(), threading.Event()
    begun, before = clock.monotonic(), newest_book()
    with ExitStack() as open_desks:
        desks = [open_desks.enter_context(_desk(number, clock)) for number in range(1, DESKS + 1)]
        searchers = [_Searcher(partner, feed, desks, clock, ended) for partner in PARTNERS]
        threads = [threading.Thread(target=searcher.run, name=searcher.partner.name) for searcher in searchers]
        for thread in threads:
            thread.start()
        clock.wait(stop, seconds)
        ended.set()
        for thread in threads:
            thread.join()
        for searcher in searchers:
            if searcher.failed is not None:
                raise searcher.failed
    after = newest_book()
    for searcher in searchers:
        searcher.share.allowed = max(searcher.may(book, clock.now_ms()) for book in (before, after))
    return SearchOutcome(round(clock.monotonic() - begun, 3), [searcher.share for searcher in searchers])


@contextmanager
def _desk(number: int, clock: Clock) -> Iterator[QuotaGate]:
    """One node that answers searches."""
    name = f"{store.node_name()}-desk-{number}"
    made = QuotaDoor(name, quota.control_plane(), fact_log.emitter(), clock=clock, book=newest_book())
    made.open()
    try:
        yield made.gate
    finally:
        made.close()


@dataclass
class _Searcher:
    """One partner at work, in a thread of its own."""

    partner: Partner
    feed: Feed
    desks: Sequence[QuotaGate]
    clock: Clock
    ended: threading.Event
    failed: Exception | None = None
    took_s: float = 0.0
    share: Share = field(init=False)

    def __post_init__(self) -> None:
        self.share = Share(self.partner.name, self.partner.plan)

    def run(self) -> None:
        pace, desks = Pace(self.partner.searches_s, self.clock), cycle(self.desks)
        since = self.clock.monotonic()
        try:
            for booking in cycle(self.feed.bookings):
                pace.admit(1, self.ended)
                if self.ended.is_set():
                    break
                self._search(desks, booking)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits for this thread
            self.failed = error
        finally:
            self.took_s = self.clock.monotonic() - since
            connections.close_all()

    def may(self, book: Book | None, at_ms: int) -> float:
        """Searches that a book lets through in the time that it searched: as many as come in, and one burst."""
        terms = book.resolve(Name(SERVICE, RESOURCE, self.partner.name), at_ms) if book else Terms()
        return terms.limit * self.took_s + terms.burst

    def _search(self, desks: Iterator[QuotaGate], booking: Booking) -> None:
        share, began = self.share, self.clock.monotonic()
        share.searches += 1
        for _ in range(MOST_TRIES):
            admission = next(desks).admit(SERVICE, RESOURCE, self.partner.name)
            if admission.ok:
                share.answered += 1
                share.fullest = max(share.fullest, _fullest(self.feed.source, booking))
                share.slowest_s = max(share.slowest_s, round(self.clock.monotonic() - began, 3))
                return
            share.refused += 1
            if not self.partner.listens:
                return
            if self.clock.wait(self.ended, max(LEAST_PAUSE_S, admission.again_s)):
                # The play is over, and not this one's patience.
                share.searches -= 1
                return
        share.given_up += 1


def _fullest(source: str, booking: Booking) -> int:
    """The most rooms that are sold in a night of the stay."""
    nights = RoomNights.objects.filter(source=source, hotel=booking.hotel, night__in=list(booking.stay.dates()))
    return nights.aggregate(most=Max("sold"))["most"] or 0
