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
from engine.cron.slots.watching import NO_END, Overdue, overdue
from hbus_console.jobs.following import open_followers
from hbus_console.jobs.kinds.elsewhere import LONGEST_TARGET
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.models import FormerJob, Job, JobRun
from hbus_console.jobs.pings.expected import come_since, missed_run, waiting_run, why_none
from hbus_console.jobs.pings.ping import Ping, PingWord
from hbus_console.jobs.services.secrets import shown_target
from hbus_console.jobs.services.triggering import offer_soon
from hbus_console.ui import formats
from hbus_console.wiring import store

#: What is sent for the log so soon after the end of a run still belongs to it, in seconds.
AFTERWARDS_S = 60
#: Of the runs that began without a ``rid`` the one that did so last is among so many of the job's, by their slots.
_LOOKED_AT = 100
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
        if bound is not None and bound.ended_us is not None:
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
        if bound is not None and bound.state == RunState.RUNNING:
            self.note = "it had begun before"
            return bound
        run = bound or self._waiting(begins=True)
        if run is None and not self.ping.rid and (running := self._running(key="").first()) is not None:
            self.note = "it had begun before, and no slot waited for another"
            return running
        run = run or self._beside()
        self._write(run, state=RunState.RUNNING, begun_us=self.now_us)
        self.facts.append(begun_fact(run.job, _clock, store.node_name(), run.late_us))
        return run

    def _end(self, bound: JobRun | None) -> JobRun:
        run = bound
        if run is None and not self.ping.rid:
            run = self._without_rid()
        if run is not None and run.ended_us is not None:
            self.note = f"the run was {run.state} before, and stays so"
            self._note_end(run)
            return run
        run = run or self._waiting(begins=False) or self._beside()
        state, reason = (RunState.FAILED, self.ping.why) if self.ping.why else (RunState.DONE, "")
        late = self._overdue(run)
        if late is not None:
            state, reason, self.note = late.state, late.reason, "after its time"
            self._note_end(run)
        self._write(run, state=state, reason=reason, ended_us=self.now_us)
        for follower in open_followers(run, state, self.now_us):
            transaction.on_commit(partial(offer_soon, Offer((follower,))))
        ended = ended_fact(run.job, state, _clock, store.node_name(), run.took_us(self.now_us) or 0)
        self.facts += [ended] if ended else []
        return run

    def _without_rid(self) -> JobRun | None:
        """Whose end this is: the run's that began last, unless its time is over and a slot that came since waits. The
        start of that may have been lost, and the run before it have died."""
        run = self._running(key="").first()
        if run is None:
            run = self._given_up()
        elif self._overdue(run) is None:
            return run
        return run and (come_since(self.job, self.now_us, run.begun_us or 0) or run)

    def _overdue(self, run: JobRun) -> Overdue | None:
        """What whoever looks after the runs would say of it by now."""
        return None if run.begun_us is None else overdue(_row(run), policy_of(self.job), self.now_us / 1_000_000)

    def _of_log(self) -> JobRun:
        if self.ping.rid:
            found = self._waiting(begins=False)
        else:
            found = self._running().first() or self._waiting(begins=False) or self._just_over()
        if found is not None:
            if self.ping.rid:
                self._write(found, key=self.ping.rid)
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

    def _waiting(self, *, begins: bool) -> JobRun | None:
        return waiting_run(self.job, self.now_us, begins=begins, rid=self.ping.rid)

    def _running(self, **which: str) -> QuerySet[JobRun]:
        """Those that go on, the newest first: one that is never heard of again takes the end of no other."""
        rows = JobRun.objects.filter(job=self.job.name, ended_us=None, state=RunState.RUNNING, **which)
        return rows.select_for_update().order_by("-begun_us", "-pk")

    def _given_up(self) -> JobRun | None:
        """The run that began last without a ``rid``, where its end was waited for no longer, and has not come since."""
        rows = JobRun.objects.filter(job=self.job.name)
        newest = rows.defer("parameters").order_by("-slot", "-pk")[:_LOOKED_AT]
        # Not by the database: where a job tells of its ends alone none ever began, and it would look through them all.
        begun = [run for run in newest if run.begun_us and not run.key and run.kind != JobRun.Kind.MANUAL]
        last = max(begun, key=lambda run: (run.begun_us or 0, run.pk), default=None)
        if last is None or last.summary or FormerJob.objects.filter(name=last.job, version__gte=last.version).exists():
            return None
        given_up = last.state == RunState.CANCELLED or (
            last.state == RunState.FAILED and last.reason.startswith(NO_END)
        )
        return rows.select_for_update().get(pk=last.pk) if given_up else None

    def _note_end(self, run: JobRun) -> None:
        """That its end has come after all: the next one is another's."""
        began_us = self.now_us if run.begun_us is None else run.begun_us
        run.summary = f"{self.ping.says} came {formats.duration(self.now_us - began_us)} after it began"
        run.save(update_fields=["summary"])

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
        # The row is evidence, for all who may see the job.
        where = shown_target({"kind": self.job.kind, "target": self.job.target})[:LONGEST_TARGET]
        written = {**columns, "owner": where, "changed_us": self.now_us}
        # What nothing but a log made is no run that could go on.
        if self.ping.rid and self.ping.word is not PingWord.LOG:
            written["key"] = self.ping.rid
        for name, value in written.items():
            setattr(run, name, value)
        run.save(update_fields=list(written))


def _row(run: JobRun) -> RunRow:
    begun_s = (run.begun_us or 0) / 1_000_000
    return RunRow(run.pk, run.job, run.slot, RunState(run.state), run.epoch, run.attempt, begun_s)
