"""What a ping makes of the runs of its job. It stands in a transaction that has the job locked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from engine.core.clock import SystemClock
from engine.core.facts import FactBatch
from engine.cron.facts import begun_fact, ended_fact
from engine.cron.slots.steps import Offer, RunRow, RunState
from engine.cron.slots.watching import overdue
from hbus_console.jobs.following import open_followers
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.pings.expected import missed_run, waiting_run, why_none
from hbus_console.jobs.pings.ping import Ping, PingWord
from hbus_console.jobs.services.triggering import offer_soon
from hbus_console.ui import formats
from hbus_console.wiring import store

#: What is sent for the log so soon after the end of a run still belongs to it, in seconds.
AFTERWARDS_S = 60
NOTHING_BUT_A_LOG = "nothing but a log came, and there was no run to add it to"

_clock = SystemClock()


@dataclass
class PingBooking:
    """One ping, booked on the runs of its job."""

    job: Job
    ping: Ping
    now_us: int
    facts: list[FactBatch] = field(default_factory=list)
    #: What is to be said of it besides what it says itself.
    note: str = ""

    def book(self) -> JobRun:
        """The run that it belongs to, as it is from now on."""
        bound = self._bound()
        if self.ping.word is PingWord.LOG:
            return bound or self._of_log()
        if bound is not None and bound.state != RunState.RUNNING:
            self.note = f"the run was {bound.state} before, and stays so"
            return bound
        return self._start(bound) if self.ping.word is PingWord.START else self._end(bound)

    @property
    def line(self) -> str:
        """What the log of the run says of it."""
        at = datetime.fromtimestamp(self.now_us // 1_000_000, UTC)
        said = f"hbus: {at:%Y-%m-%dT%H:%M:%SZ} {self.ping.says}"
        said += f" from {self.ping.sender}" if self.ping.sender else ""
        return f"{said}; {self.note}\n" if self.note else f"{said}\n"

    def _start(self, bound: JobRun | None) -> JobRun:
        if bound is not None:
            self.note = "it had begun before"
            return bound
        run = waiting_run(self.job, self.now_us, begins=True)
        if run is None and not self.ping.rid and (running := self._running(key="").first()) is not None:
            self.note = "it had begun before, and no slot waited for another"
            return running
        run = run or self._beside()
        self._write(run, state=RunState.RUNNING, begun_us=self.now_us)
        late_us = self.now_us - run.slot * 1_000_000
        self.facts.append(begun_fact(run.job, _clock, store.node_name(), late_us))
        return run

    def _end(self, bound: JobRun | None) -> JobRun:
        run = bound
        if run is None and not self.ping.rid:
            run = self._running(key="").first()
        run = run or waiting_run(self.job, self.now_us, begins=False) or self._beside()
        state, reason = (RunState.FAILED, self.ping.why) if self.ping.why else (RunState.DONE, "")
        late = overdue(_row(run), policy_of(self.job), self.now_us / 1_000_000) if run.begun_us is not None else None
        if late is not None:
            # As who looks after the runs would have said by now.
            state, reason, self.note = late.state, late.reason, "after its time"
        self._write(run, state=state, reason=reason, ended_us=self.now_us)
        for follower in open_followers(run, state, self.now_us):
            transaction.on_commit(partial(offer_soon, Offer((follower,))))
        took_us = 0 if run.begun_us is None else self.now_us - run.begun_us
        ended = ended_fact(run.job, state, _clock, store.node_name(), took_us)
        self.facts += [ended] if ended else []
        return run

    def _of_log(self) -> JobRun:
        if self.ping.rid:
            found = waiting_run(self.job, self.now_us, begins=False)
        else:
            found = self._running().first() or waiting_run(self.job, self.now_us, begins=False) or self._just_over()
        if found is not None:
            return found
        run = self._beside()
        self._write(run, state=RunState.SKIPPED, reason=NOTHING_BUT_A_LOG, ended_us=self.now_us)
        return run

    def _bound(self) -> JobRun | None:
        """The run that an earlier ping of the same ``rid`` belongs to."""
        if not self.ping.rid:
            return None
        # Spelt as the index is.
        rows = JobRun.objects.filter(job=self.job.name, key=self.ping.rid).exclude(kind=JobRun.Kind.MANUAL)
        return rows.exclude(key="").select_for_update().first()

    def _running(self, **which: str) -> QuerySet[JobRun]:
        """Those that go on, the newest first: one that is never heard of again takes the end of no other."""
        rows = JobRun.objects.filter(job=self.job.name, ended_us=None, state=RunState.RUNNING, **which)
        return rows.select_for_update().order_by("-begun_us", "-pk")

    def _just_over(self) -> JobRun | None:
        since_us = self.now_us - AFTERWARDS_S * 1_000_000
        rows = JobRun.objects.filter(job=self.job.name, changed_us__gte=since_us, ended_us__gte=since_us)
        return rows.filter(state__in=(RunState.DONE, RunState.FAILED)).order_by("-ended_us", "-pk").first()

    def _beside(self) -> JobRun:
        """A run of its own, with why no slot has it."""
        held = why_none(self.job)
        missed = None if held else missed_run(self.job, self.now_us)
        why = "no slot waited for it"
        if held:
            why = f"its slots are skipped: {held}"
        elif missed is not None:
            why = f"late: it came {self._after(missed)} after a slot that waited {self.job.grace_s:,} s for a ping"
        made = JobRun.objects.create(
            job=self.job.name,
            version=self.job.version,
            slot=self.now_us // 1_000_000,
            kind=JobRun.Kind.PING,
            state=RunState.CLAIMED,
            node=store.node_name(),
            decided_us=self.now_us,
            changed_us=self.now_us,
            asked_why=why,
        )
        if missed is not None:
            missed.summary = f"{self.ping.says} came {self._after(missed)} after the slot, as run {made.pk}"
            missed.save(update_fields=["summary"])
        return made

    def _after(self, run: JobRun) -> str:
        return formats.duration(self.now_us - run.slot * 1_000_000)

    def _write(self, run: JobRun, **columns: object) -> None:
        written = {**columns, "owner": self.job.target, "changed_us": self.now_us}
        # What nothing but a log made is no run that could go on.
        if self.ping.rid and self.ping.word is not PingWord.LOG:
            written["key"] = self.ping.rid
        for name, value in written.items():
            setattr(run, name, value)
        run.save(update_fields=list(written))


def _row(run: JobRun) -> RunRow:
    begun_s = (run.begun_us or 0) / 1_000_000
    return RunRow(run.pk, run.job, run.slot, RunState(run.state), run.epoch, run.attempt, begun_s)
