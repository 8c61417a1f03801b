"""The simulated night: the hotels' jobs from a month's last evening to the next morning, played in seconds.

It is the last such night that is over, so the store's own clock has come to each of its slots. Its jobs have names of
their own, ``hotel.night.…``, and stay paused: no node of the installation decides them. Three nodes share the night and
three get killed, two of them nodes; how that is done on a clock of its own, and what of it is not the real thing, says
:mod:`hbus_console.jobs.rehearsing`. Played again, every slot finds the row that it has, and nothing is done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from django.conf import settings
from django.utils import timezone

from examples.hotel import books, slots
from examples.hotel.closing import TOPIC
from examples.hotel.models import BookLine, HeardClose, PlayedNight
from examples.hotel.seed import job_drafts, subscriptions
from examples.hotel.slots import AT_NIGHT, BY_DAY, SlotVerdict
from hbus_console.access.permissions import Actor
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.rehearsing.apart import PlayedSpan, give_back, set_apart
from hbus_console.jobs.rehearsing.mishaps import Death, Mishap
from hbus_console.jobs.rehearsing.rehearsal import Rehearsal
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import WHEN
from hbus_console.wiring import store

_FROM_H, _TO_H = 20, 8
#: Seconds without any progress after which the broadcast is not waited for any more, and between two looks.
STUCK_S, LOOK_S = 60.0, 0.2
CLOSE, PARITY, INVOICE = (f"{AT_NIGHT}{name}" for name in ("nightly-close", "rate-parity", "month-end-invoice"))

_H = 3_600


class NightOutcome(msgspec.Struct, frozen=True):
    """What became of the night, as its rows tell it. Times are those of the hotels."""

    begin: str
    end: str
    finished: bool
    #: Slots that this play has decided; the others had their rows.
    decided: int
    verdict: SlotVerdict
    #: Invoices that each hotel has for the month.
    invoices: dict[str, int]
    #: Closes published, and how often they were heard, of how often that should be.
    closes: int
    heard: int
    to_hear: int
    #: Who was killed, and when.
    happened: list[str]
    took_s: float

    @property
    def holds(self) -> bool:
        once = all(count == 1 for count in self.invoices.values()) and len(self.invoices) == len(books.HOTELS)
        return self.finished and self.verdict.equal and once and self.heard == self.to_hear


def last_night(now: datetime) -> PlayedSpan:
    """The last night that is over in which a month ended."""
    zone = ZoneInfo(books.ZONE)
    morning = now.astimezone(zone).replace(day=1, hour=_TO_H, minute=0, second=0, microsecond=0)
    if morning > now:
        morning = (morning - timedelta(days=1)).replace(day=1)
    evening = (morning - timedelta(days=1)).replace(hour=_FROM_H)
    return PlayedSpan(int(evening.timestamp()), int(morning.timestamp()))


def drafts(span: PlayedSpan) -> list[JobDraft]:
    """The hotels' jobs as the night has them: the same but for their names, and that their schedules name that night.

    The days are named and no year can be: what stays paused would leave a row for each slot of any other night.
    """
    evening, morning = _on_wall(span.begin_s), _on_wall(span.end_s)
    days, months = f"{morning.day},{evening.day}", ",".join(str(it) for it in sorted({morning.month, evening.month}))
    schedules = {
        PARITY: f"*/5 0-{_TO_H - 1},{_FROM_H}-23 {days} {months} *",
        CLOSE: f"30 1 {morning.day} {morning.month} *",
        INVOICE: f"0 3 {morning.day} {morning.month} *",
    }
    named = {AT_NIGHT + draft.name.removeprefix(BY_DAY): draft for draft in job_drafts()}
    return [
        replace(named[name], name=name, schedule=schedule, description=f"{_words(span)} {named[name].description}")
        for name, schedule in schedules.items()
    ]


def play(actor: Actor, now: datetime, progress: Callable[[float], None], stop: threading.Event) -> NightOutcome:
    """Play the last night to its end, wait until all teams have heard of it, and judge. Raises as its parts do."""
    span, begun = last_night(now), timezone.now()
    jobs = set_apart(actor, drafts(span), span, _words(span))
    when = {draft.name: {name: getattr(draft, name) for name in WHEN} for draft in drafts(span)}
    night, _ = PlayedNight.objects.update_or_create(
        begin_s=span.begin_s, defaults={"end_s": span.end_s, "when": when, "finished_at": None}
    )
    before = _rows(span)
    rehearsal = Rehearsal(jobs, span, store.client(), settings.HBUS_PREFIX, mishaps=_mishaps(span))
    if rehearsal.play(progress, stop):
        give_back(jobs)
        night.finished_at = timezone.now()
        night.save(update_fields=["finished_at"])
    lines = BookLine.objects.filter(slot__gte=span.begin_s, slot__lt=span.end_s)
    closes = lines.filter(job=CLOSE).count()
    to_hear = closes * len(_groups())
    heard = _await_heard(span, to_hear, stop)
    return NightOutcome(
        begin=_told(span.begin_s),
        end=_told(span.end_s),
        finished=night.finished_at is not None,
        decided=_rows(span) - before,
        verdict=slots.judge_night(night),
        invoices={hotel: lines.filter(job=INVOICE, hotel=hotel).count() for hotel in books.HOTELS},
        closes=closes,
        heard=heard,
        to_hear=to_hear,
        happened=[f"{_on_wall(int(each.at_s)):%H:%M:%S} {each.says}" for each in rehearsal.happened],
        took_s=round((timezone.now() - begun).total_seconds(), 3),
    )


def _mishaps(span: PlayedSpan) -> list[Mishap]:
    return [
        Mishap(span.begin_s + 2 * _H, Death.CLAIMED, PARITY),
        Mishap(span.begin_s + 5 * _H, Death.DECIDED, CLOSE),
        Mishap(span.begin_s + 6 * _H, Death.AT_WORK, INVOICE),
    ]


def _rows(span: PlayedSpan) -> int:
    names = (CLOSE, PARITY, INVOICE)
    return JobRun.objects.filter(job__in=names, slot__gte=span.begin_s, slot__lt=span.end_s).count()


def _groups() -> list[str]:
    return [group for topic, group in subscriptions() if topic == TOPIC]


def _heard(span: PlayedSpan) -> int:
    """How often the closes of the night were heard, each time counted."""
    days = BookLine.objects.filter(job=CLOSE, slot__gte=span.begin_s, slot__lt=span.end_s).values("period")
    return sum(HeardClose.objects.filter(job=CLOSE, day__in=days).values_list("times", flat=True))


def _await_heard(span: PlayedSpan, to_hear: int, stop: threading.Event) -> int:
    """The relay publishes what was entered, and the consumers hear of it: how often they have."""
    best, moved = -1, time.monotonic()
    while (heard := _heard(span)) < to_hear:
        if heard > best:
            best, moved = heard, time.monotonic()
        if time.monotonic() - moved > STUCK_S or stop.wait(LOOK_S):
            break
    return heard


def _words(span: PlayedSpan) -> str:
    return f"Simulated night of {_on_wall(span.begin_s):%-d %B %Y}: played by the demonstration."


def _on_wall(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, tz=ZoneInfo(books.ZONE))


def _told(at_s: int) -> str:
    return f"{_on_wall(at_s):%Y-%m-%d %H:%M}"
