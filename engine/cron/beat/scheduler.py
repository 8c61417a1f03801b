"""``celery beat -S engine.cron.beat:SlotScheduler``: any number of beats beside each other, and none of them leads.

Every beat computes the same slots of each entry. They share in Redis how far each entry is sent: a beat claims the slot
behind that, sends it, and says so. docs/beat.md says what is promised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4, uuid5

from celery.beat import Scheduler, SchedulingError
from kombu.exceptions import OperationalError

from engine.core.clock import Clock, SystemClock, to_rfc3339
from engine.core.error_text import words_of
from engine.core.errors import BadInput, ConfigurationError, Unavailable
from engine.core.store import open_client
from engine.cron.beat.publishing import ClaimLost, SlotPublisher
from engine.cron.beat.rules import rule_of, zone_of
from engine.cron.beat.settings import settings_of
from engine.cron.beat.store import BeatStore, SlotClaim
from engine.cron.slots.job import CatchUp, CronJob, JobPolicy
from engine.cron.slots.planning import Decision, decide
from engine.cron.slots.steps import Cursor
from engine.cron.slots.store import STORE_TIMEOUT_S
from engine.cron.slots.timetable import LOOK_AGAIN_S, Timetable

#: Entries that are claimed in one go: what a beat that dies keeps from the others for the length of a lease.
AT_ONCE = 50
#: How often the store's clock is read, and how long to sleep at most, at least, and when something does not answer.
CLOCK_S, LONGEST_S, SHORTEST_S, AWAY_S = 5.0, 1.0, 0.002, 0.5
_TASKS = UUID("0c0a7b0e-6a55-5f0c-8d2e-3b1f2f0b9d11")

_log = logging.getLogger(__name__)


def task_id_of(name: str, entry: str, slot: int) -> str:
    """The id of a slot's task: the same whichever beat sends it. ``name`` is that of the beats."""
    return str(uuid5(_TASKS, f"{name}\0{entry}\0{slot}"))


class _DueSlot(NamedTuple):
    """A slot that has come, and what is passed over with it."""

    entry: str
    claim: SlotClaim
    missed: tuple[Decision, ...]
    #: Or passed over itself.
    is_sent: bool


class SlotScheduler(Scheduler):
    """Reads the entries once, when it starts. One thread."""

    def __init__(self, app: Any, *args: Any, clock: Clock | None = None, **options: Any) -> None:
        self._clock = clock or SystemClock()
        self._settings = settings_of(app)
        client = open_client(
            self._settings.url,
            field="hbus_beat_url",
            answer_timeout_s=STORE_TIMEOUT_S,
            connect_timeout_s=STORE_TIMEOUT_S,
        )
        self._store = BeatStore(client, self._settings.prefix)
        self._holder = uuid4().hex
        self._publisher = SlotPublisher()
        self._table = Timetable()
        self._jobs: dict[str, CronJob] = {}
        #: Where the state of each entry lies.
        self._keys: dict[str, str] = {}
        self._unopened: list[str] = []
        self._clock_at = float("-inf")
        self._offset_s = 0.0
        self._trouble = ""
        super().__init__(app, *args, **options)

    @property
    def info(self) -> str:
        return f"    . slots -> {self._settings.name}, lease {self._settings.lease_s:g} s"

    def setup_schedule(self) -> None:
        super().setup_schedule()
        zone, wrong = zone_of(self.app), 0
        settings = self._settings
        policy = JobPolicy(settings.grace_s, CatchUp.LAST, settings.window_s)
        for name, entry in self.schedule.items():
            try:
                if "task_id" in (entry.options or {}):
                    raise BadInput("Its option task_id would be that of every slot.", remedy="Leave it out.")
                rule = rule_of(entry.schedule, False, zone)
            except BadInput as error:
                wrong += 1
                _log.critical("beat: the entry %r has no slots: %s", name, error)
                continue
            self._jobs[name] = CronJob(name, 1, rule.slots, policy)
            self._keys[name] = self._store.key(name, rule.identity)
        if wrong:
            raise ConfigurationError(
                f"{wrong} of {len(self.schedule)} entries have no slots that beats could share.",
                remedy="The log says why, for each.",
                field="beat_schedule",
            )
        self._unopened = list(self._jobs)

    @property
    def connection(self) -> Any:
        """That of the producer, which outlives what breaks beneath it."""
        if "connection" not in self.__dict__:
            made = self.app.connection_for_write()
            self.__dict__["connection"] = self._publisher.behind(made) if self._settings.in_broker else made
        return self.__dict__["connection"]

    def tick(self, *_: Any, **__: Any) -> float:
        """Send what has come; after how many seconds to call it again."""
        try:
            more = self._tick()
        except (Unavailable, SchedulingError) as error:
            self._tell(words_of(error))
            return AWAY_S
        self._tell("")
        next_at = self._table.next_at()
        if more or next_at is None:
            return 0.0 if more else LONGEST_S
        return min(LONGEST_S, self.max_interval or LONGEST_S, max(SHORTEST_S, next_at - self._now_s()))

    def close(self) -> None:
        super().close()
        self._store.close()

    def _tick(self) -> bool:
        now = self._clock.monotonic()
        if now >= self._clock_at:
            self._offset_s = self._store.time() - self._clock.monotonic()
            self._clock_at = now + CLOCK_S
        if self._unopened:
            self._open()
        due = self._table.due(self._now_s(), AT_ONCE)
        if due:
            # It may wait for its broker, and nothing is to be claimed meanwhile.
            producer, began = self.producer, self._clock.monotonic()
            for each in self._claimed(due):
                # What takes so long is claimed anew, if it is still to be had.
                if self._clock.monotonic() - began > self._settings.lease_s / 2:
                    return True
                self._settle(each, producer)
        return len(due) == AT_ONCE

    def _open(self) -> None:
        cursors = self._store.open([(self._keys[name], name) for name in self._unopened])
        for name, cursor in zip(self._unopened, cursors, strict=True):
            self._table.put(self._jobs[name], cursor)
        self._unopened = []

    def _claimed(self, due: Sequence[str]) -> list[_DueSlot]:
        """The slots among those that are due which are this beat's now."""
        asked = [
            self._due_slot(job, decide(job, slots, self._now_s()))
            for name in due
            for job, slots in self._table.come(name, self._now_s())
        ]
        won: list[_DueSlot] = []
        answers = self._store.claim([each.claim for each in asked], self._settings.lease_s)
        for each, answer in zip(asked, answers, strict=True):
            if answer.won:
                won.append(each)
            elif answer.cursor < 0:
                _log.error("beat: the store has forgotten how far %r is sent; it goes on from now", each.entry)
                self._table.put_off(each.entry, self._now_s() + AWAY_S)
                self._unopened.append(each.entry)
            elif answer.cursor != each.claim.cursor:
                self._learn(each.entry, answer.cursor)
            else:
                wait_s = min(LOOK_AGAIN_S, max(SHORTEST_S, answer.wait_s))
                self._table.put_off(each.entry, self._now_s() + wait_s)
        return won

    def _due_slot(self, job: CronJob, decided: Sequence[Decision]) -> _DueSlot:
        """The first of them that is to be sent, or the last: what is before it is passed over with it."""
        of_this = next((each for each in decided if not each.skipped), decided[-1])
        claim = SlotClaim(self._keys[job.name], self._holder, self._table.cursor(job.name).at, of_this.slot)
        missed = tuple(each for each in decided if each.skipped and each.slot <= of_this.slot)
        return _DueSlot(job.name, claim, missed, not of_this.skipped)

    def _settle(self, due: _DueSlot, producer: Any) -> None:
        """Send a claimed slot, or pass it over. Raises ``Unavailable`` and what a broker that is away raises."""
        if missed := due.missed:
            said = (len(missed), due.entry, _instant(missed[0].slot), _instant(missed[-1].slot), missed[-1].skipped)
            _log.warning("beat: %d slots of %r from %s to %s are not sent: %s", *said)
        self._publisher.expect(due.claim if self._settings.in_broker else None)
        if due.is_sent:
            try:
                self.apply_async(self._of_slot(due.entry, due.claim.slot), producer=producer, advance=False)
            except SchedulingError as error:
                self._judge(due, error)
            else:
                _log.info("beat: %r of %s is sent", due.entry, _instant(due.claim.slot))
        if self._publisher.sent or self._store.sent(due.claim):
            self._learn(due.entry, due.claim.slot)
        else:
            self._lost(due)

    def _judge(self, due: _DueSlot, error: SchedulingError) -> None:
        """Raises again what passes by itself. Any other mistake is the entry's: its slot is passed over."""
        cause = error.__context__
        theirs = self.connection.connection_errors + self.connection.channel_errors
        if isinstance(cause, (OperationalError, OSError, *theirs)):
            raise error
        if not isinstance(cause, ClaimLost):
            _log.error("beat: %r of %s cannot be sent: %s", due.entry, _instant(due.claim.slot), words_of(error))

    def _lost(self, due: _DueSlot) -> None:
        _log.warning("beat: another beat has taken %r of %s over", due.entry, _instant(due.claim.slot))
        self._table.put_off(due.entry, self._now_s() + SHORTEST_S)

    def _of_slot(self, name: str, slot: int) -> Any:
        """The entry as it is sent for a slot."""
        entry = self.schedule[name]
        options = dict(entry.options or {})
        headers = {**(options.get("headers") or {}), "hbus_entry": name, "hbus_slot": _instant(slot)}
        options.update(task_id=task_id_of(self._settings.name, name, slot), headers=headers)
        return self.Entry(
            name=name,
            task=entry.task,
            schedule=entry.schedule,
            args=entry.args or (),
            kwargs=entry.kwargs,
            options=options,
            app=self.app,
        )

    def _learn(self, name: str, cursor: int) -> None:
        self._table.learn([name], [Cursor(name, 1, cursor)])

    def _now_s(self) -> float:
        return self._clock.monotonic() + self._offset_s

    def _tell(self, trouble: str) -> None:
        """Once, and when it is over."""
        if trouble != self._trouble:
            _log.error("beat: nothing is sent: %s", trouble) if trouble else _log.warning("beat: it sends again")
        self._trouble = trouble


def _instant(slot: int) -> str:
    return to_rfc3339(slot * 1000)
