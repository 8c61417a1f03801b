"""What the endpoints of jobs give."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, overload

import msgspec

from engine.core.clock import to_rfc3339
from engine.cron.work.spark.progress import SparkProgress
from hbus_console.access.permissions import ANONYMOUS, Actor
from hbus_console.api.answers import fields_of, plain
from hbus_console.api.drafts import answer, answered
from hbus_console.jobs.models import Job, JobAttempt, JobRun, JobVersion
from hbus_console.jobs.progress import KeptProgress
from hbus_console.jobs.services.draft import SETTINGS, snapshot
from hbus_console.jobs.services.secrecy import Secrecy, secrecy_of
from hbus_console.jobs.services.secrets import schema_for, shown_to
from hbus_console.jobs.services.work import schema_of
from hbus_console.jobs.unseen import asked

#: The largest schema that a list tells, in bytes: a page has up to 500 jobs, and a function's own has any size.
MOST_LISTED = 2_000
_LAST: list[tuple[str, Any]] = [
    ("schema", dict[str, Any] | None),
    ("acts_as", str),
    ("paused", bool),
    ("pause_reason", str),
    ("created_at", datetime),
    ("updated_at", datetime),
    ("revision", int),
]
JobOut = answer(
    SETTINGS,
    "JobOut",
    "A job as it is configured; what of its parameters is secret is masked, and to who may not "
    "change the job also the keys in its address and among its options. ``owner`` is null where nobody answers for "
    "it; ``acts_as`` is by whose rights it is done; ``schema`` is what parameters must fit, also where the work itself "
    "knows it.",
    first=[("name", str)],
    after={"owner": [("contact", str | None)]},
    last=_LAST,
)
ListedJobOut = answer(
    SETTINGS,
    "ListedJobOut",
    f"A job as a list has it. A schema of more than {MOST_LISTED:,} bytes is null there, and ``left_out`` names the "
    "field: the job by itself has it whole.",
    first=[("name", str)],
    after={"owner": [("contact", str | None)]},
    last=[*_LAST, ("left_out", list[str])],
)


class VersionOut(msgspec.Struct):
    """One version of a job. ``audit_seq`` is the entry of the audit log that says who made it and why."""

    number: int
    settings: dict[str, Any]
    audit_seq: int
    made_at: datetime


class SlotOut(msgspec.Struct):
    """A slot to come: on the wall with its offset, in UTC, and what a change of the clocks made of it."""

    local: str
    utc: str
    dst: str


class RunOut(msgspec.Struct):
    """A run. ``part`` is empty where it does the whole of its slot, else a shard (``3/8``, from 0) or a node
    (``@web-1``). ``slot`` is its planned instant, or when it was triggered, or pinged beside all slots; ``epoch`` that
    of the worker that began it last, under which alone anything may be written of it. ``late_s`` is counted from when
    it was to begin (its slot, or the very moment at which it was triggered, or later by its jitter) to the beginning of
    its first attempt. ``asked_by``, ``asked_why`` and ``key`` are those of a manual one, or why a ping stands beside
    the slots, and its ``rid``; ``parameters`` are null where the job's own are meant, and masked where they are secret.
    """

    id: int
    subject: str
    job: str
    version: int
    slot: str
    kind: str
    part: str
    state: str
    reason: str
    summary: str
    epoch: int
    attempt: int
    node: str
    owner: str
    decided_at: datetime
    begun_at: datetime | None
    ended_at: datetime | None
    took_s: float | None
    late_s: float | None
    asked_by: str
    asked_why: str
    key: str
    parameters: dict[str, Any] | None
    correlation_id: str


class ProgressOut(SparkProgress, frozen=True, kw_only=True):
    """How far the Spark application of a run is, as an attempt told last, and when. Of stages and streaming queries the
    newest, and how many more there were; times are in milliseconds since the epoch, by the worker's clock. Texts are
    the application's own, cleaned as its log is. ``failure`` is the Python error that ended it.
    """

    attempt: int
    at: datetime


class OneRunOut(RunOut):
    """A run by itself. ``progress`` is null where no Spark application has told of any."""

    progress: ProgressOut | None


class RunAttemptOut(msgspec.Struct):
    """One attempt of a run; under its epoch alone its worker might write. ``ended_at`` is null while it runs."""

    number: int
    epoch: int
    owner: str
    begun_at: datetime
    ended_at: datetime | None
    state: str
    reason: str


class TriggeredOut(msgspec.Struct):
    """``new`` is false where the key has made this run before. ``others`` are the runs of its further parts."""

    new: bool
    run: RunOut
    others: list[int]


class ForeseenOut(msgspec.Struct):
    """One thing to know beforehand; ``tone`` is empty, ``warn`` or ``bad``."""

    label: str
    said: str
    tone: str


class ForesightOut(msgspec.Struct):
    """What a run would meet."""

    foreseen: list[ForeseenOut]


class LogOut(msgspec.Struct):
    """A piece of a log: some lines. Numbers grow and leave some out, for pieces are joined later on. A log is bounded:
    so many bytes of it were left out before this piece.
    """

    seq: int
    attempt: int
    at: datetime
    text: str
    left_out_bytes: int


def job(row: Job, who: Actor | None = None, secrecy: Secrecy | None = None) -> dict[str, Any]:
    """A job, as ``who`` may see it; without one as anybody may who may look at it. ``secrecy``: where it is known."""
    who, secrecy = who or ANONYMOUS, secrecy or secrecy_of(row.name)
    told = {**_told(row, who, secrecy), "schema": schema_for(who, row.name, snapshot(row), secrecy)}
    return plain(JobOut(**told, **fields_of(row, JobOut, *told)))


def listed_job(row: Job, who: Actor, secrecy: Secrecy) -> dict[str, Any]:
    """A job in a list, likewise: without schemas of more than :data:`MOST_LISTED` bytes."""
    known = snapshot(row)
    schemas = {"parameters_schema": known["parameters_schema"], "schema": schema_of(known)}
    left_out = [name for name, schema in schemas.items() if len(msgspec.json.encode(schema)) > MOST_LISTED]
    told = _told(row, who, secrecy)
    # Of what is left out nobody need look for secrets.
    told["schema"] = None if "schema" in left_out else schema_for(who, row.name, known, secrecy)
    told |= {"left_out": left_out} | dict.fromkeys(left_out)
    return plain(ListedJobOut(**told, **fields_of(row, ListedJobOut, *told)))


def _told(row: Job, who: Actor, secrecy: Secrecy) -> dict[str, Any]:
    shown = shown_to(who, row.name, snapshot(row), secrecy)
    return {
        **answered(SETTINGS, row),
        **{name: shown[name] for name in ("parameters", "parameters_schema", "options", "target", "after")},
        "contact": row.team.contact if row.team else None,
        "revision": row.version,
    }


def version(row: JobVersion, who: Actor, secrecy: Secrecy) -> dict[str, Any]:
    """A version, likewise."""
    shown = shown_to(who, row.job.name, row.settings, secrecy)
    return plain(VersionOut(row.number, shown, row.audit_seq, row.made_at))


def run(row: JobRun, who: Actor, secrecy: Secrecy, settings: Mapping[str, Any] | None) -> RunOut:
    """A run as ``who`` may see it, of a job of this ``secrecy``.

    ``settings`` are those of the job's version, where there still are any.
    """
    parameters = None if row.parameters is None else secrecy.masked(row.parameters, settings)
    why = asked(who, row)
    told: dict[str, Any] = {
        "subject": str(row.subject),
        "owner": row.shown_owner,
        "slot": to_rfc3339(row.slot * 1000),
        "decided_at": moment(row.decided_us),
        "begun_at": moment(row.begun_us),
        "ended_at": moment(row.ended_us),
        "took_s": None if row.ended_us is None else _seconds(row.took_us(row.ended_us)),
        "late_s": _seconds(row.late_us),
        "parameters": parameters,
        "asked_by": why.by,
        "asked_why": why.why,
    }
    return RunOut(**told, **fields_of(row, RunOut, *told))


def progress(kept: KeptProgress | None) -> dict[str, Any] | None:
    """What was told of a run last."""
    if kept is None:
        return None
    told = fields_of(kept.said, SparkProgress)
    return plain(ProgressOut(**told, attempt=kept.attempt, at=moment(kept.at_us)))


def attempt(row: JobAttempt) -> dict[str, Any]:
    """One attempt."""
    told: dict[str, Any] = {"begun_at": moment(row.begun_us), "ended_at": moment(row.ended_us)}
    return plain(RunAttemptOut(**told, **fields_of(row, RunAttemptOut, *told)))


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1_000_000


@overload
def moment(at_us: int) -> datetime: ...
@overload
def moment(at_us: int | None) -> datetime | None: ...
def moment(at_us: int | None) -> datetime | None:
    """What rows have in microseconds since the epoch."""
    return None if at_us is None else datetime.fromtimestamp(at_us / 1_000_000, UTC)
