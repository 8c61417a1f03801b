"""The settings of a job, each said once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from engine.core.errors import BadInput
from engine.cron.exclusions import NONE_AHEAD, kept
from engine.cron.expression import FoldPolicy, GapPolicy
from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, Overlap
from engine.cron.slots.parts import MOST_SHARDS
from hbus_console.drafts.setting import Choice, JsonObject, Lines, Owner, Text, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.jobs.calendars import left_out, lines_of
from hbus_console.jobs.columns import Division, ManualRuns, OverlapOn
from hbus_console.jobs.feature import JOB_EDIT, JOB_GOVERN
from hbus_console.jobs.kinds.elsewhere import DONE_HERE
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.known import exclusions_said, schedule_said
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.texts import (
    AfterText,
    CalendarsText,
    ExcludedText,
    ScheduleText,
    TagsText,
    ZoneName,
)

#: The parts of a job's pages: what it does, when it runs, what becomes of what does not go as planned, and who answers.
WORK, TIMES, TROUBLE, GOVERNANCE = "work", "times", "trouble", "governance"
#: The most that is kept of what may hold secrets, in bytes.
MOST_KEPT = 1_000_000
#: What each kind of work is.
KIND_WORDS = {kind.name: kind.words for kind in KINDS.values()}
GAPS = {
    GapPolicy.END.value: "once, when the gap ends",
    GapPolicy.SKIP.value: "not at all",
}
FOLDS = {
    FoldPolicy.FIRST.value: "at the first",
    FoldPolicy.BOTH.value: "at both",
    FoldPolicy.LAST.value: "at the last",
}
CATCH_UPS = {
    CatchUp.NONE.value: "none of them runs",
    CatchUp.LAST.value: "the newest runs, unless a later one is in time",
    CatchUp.ALL.value: "all run, the oldest first",
}
OVERLAPS = {
    Overlap.RUN.value: "it runs as well",
    Overlap.SKIP.value: "it is skipped",
    Overlap.QUEUE.value: "it waits for its end; a further one is skipped",
    Overlap.CANCEL.value: "the other is stopped, and it runs after that",
}
OVERLAPS_ON = {
    OverlapOn.CLUSTER.value: "on any node",
    OverlapOn.NODE.value: "on the same node",
}
DIVISIONS = {
    Division.WHOLE.value: "in one run",
    Division.SHARDS.value: "in shards side by side, each knows its number",
    Division.NODES.value: "on every node that does jobs, once on each",
}
MANUAL_RUNS = {
    ManualRuns.BOUND.value: "meets the others as a slot's run does",
    ManualRuns.FREE.value: "begins at once, and the others do not count it",
}
AFTER_LOSSES = {
    AfterLoss.END.value: "it stays lost, and a person decides",
    AfterLoss.RETRY.value: "it is tried again: for work that may be done twice",
}
AFTER_FAILURES = {
    AfterFailure.END.value: "it stays failed",
    AfterFailure.RETRY.value: "it is tried again, after a pause that doubles",
}
DAY_S = 86_400


@dataclass(frozen=True)
class JobDraft:
    """A job as somebody wants it; ``owner`` names a team. Who answers for it is governance."""

    name: str
    owner: Annotated[str, Owner(act=JOB_GOVERN, part=GOVERNANCE)]
    kind: Annotated[str, Choice(KIND_WORDS, label="What it is", act=JOB_EDIT, part=WORK)]
    target: Annotated[
        str,
        Text(
            1_000,
            label="Which",
            placeholder="hotel.close-of-day",
            help="The function's name, the topic, the address, the program with its arguments, the Spark application's"
            " file, or the Celery task. Of what runs elsewhere: where, as db1:/etc/cron.d/backup.",
            required=True,
            act=JOB_EDIT,
            part=WORK,
        ),
    ]
    schedule: Annotated[
        str,
        ScheduleText(
            500,
            label="Schedule",
            placeholder="0 3 * * *",
            help="Minute, hour, day, month, weekday; seconds may stand in front. @every 90s, @daily, H spreads.",
            required=True,
            act=JOB_EDIT,
            part=TIMES,
        ),
    ]
    options: Annotated[
        dict[str, Any],
        JsonObject(
            10_000,
            kept=MOST_KEPT,
            label="Options",
            help="A message: type, key. A call: method, headers. A program: folder, environment. "
            "A Spark application: conf, args, py_files. "
            "A Celery task: queue, args, expires, priority, time_limit, soft_time_limit.",
            example='For example {"method": "PUT"}.',
            act=JOB_EDIT,
            part=WORK,
        ),
    ] = field(default_factory=dict)
    parameters: Annotated[
        dict[str, Any],
        JsonObject(
            64_000,
            kept=MOST_KEPT,
            label="Parameters",
            help="What every run is given, unless it is triggered with others: a JSON object.",
            act=JOB_EDIT,
            part=WORK,
        ),
    ] = field(default_factory=dict)
    parameters_schema: Annotated[
        dict[str, Any] | None,
        JsonObject(
            64_000,
            label="Their JSON Schema",
            help="What they must fit. A function knows its own.",
            may_be_none=True,
            act=JOB_EDIT,
            part=WORK,
        ),
    ] = None
    timeout_s: Annotated[
        int,
        Whole(
            0,
            30 * 86_400,
            "seconds",
            label="Stopped after, in seconds",
            help="0: it may take as long as it does. Elsewhere: failed, where no end is told by then.",
            act=JOB_EDIT,
            part=WORK,
        ),
    ] = 3_600
    description: Annotated[
        str, Lines(2_000, label="What it does", placeholder="Closes the day of every hotel.", act=JOB_EDIT, part=WORK)
    ] = ""
    zone: Annotated[
        str, ZoneName(64, label="Time zone", placeholder="Europe/Lisbon", required=True, act=JOB_EDIT, part=TIMES)
    ] = "UTC"
    gap: Annotated[str, Choice(GAPS, label="A time that the clocks leave out", act=JOB_EDIT, part=TIMES)] = (
        GapPolicy.END.value
    )
    fold: Annotated[str, Choice(FOLDS, label="A time that comes twice", act=JOB_EDIT, part=TIMES)] = (
        FoldPolicy.FIRST.value
    )
    after: Annotated[
        str,
        AfterText(
            5_000,
            label="Also after other jobs",
            placeholder="hotel.close-of-day success",
            help="A job and success, failure or any, a line each. With the schedule @never, after these alone.",
            act=JOB_EDIT,
            part=TIMES,
        ),
    ] = ""
    excluded: Annotated[
        str,
        ExcludedText(
            20_000,
            label="Not on these days",
            placeholder="2026-12-25 Christmas",
            help="A line each: 12-25, 2026-12-24..2027-01-02, Sat,Sun, 22:00..06:00. Such slots are skipped.",
            act=JOB_EDIT,
            part=TIMES,
        ),
    ] = ""
    calendars: Annotated[
        str,
        CalendarsText(
            500,
            label="Nor on those of calendars",
            placeholder="holidays-pt freezes",
            help="Names of calendars that jobs share; the page Calendars keeps them.",
            act=JOB_EDIT,
            part=TIMES,
        ),
    ] = ""
    division: Annotated[str, Choice(DIVISIONS, label="Each slot is done", act=JOB_EDIT, part=TIMES)] = (
        Division.WHOLE.value
    )
    shards: Annotated[
        int,
        Whole(
            1,
            MOST_SHARDS,
            label="Shards",
            help="In so many runs: HBUS_SHARD of HBUS_SHARDS says which, from 0 on. 1 where it is not divided so.",
            act=JOB_EDIT,
            part=TIMES,
        ),
    ] = 1
    jitter_s: Annotated[
        int,
        Whole(
            0,
            DAY_S,
            "seconds",
            label="Begins later by up to, in seconds",
            help="A share that follows from the slot spreads the load; it stays the run of its slot.",
            act=JOB_EDIT,
            part=TIMES,
        ),
    ] = 0
    grace_s: Annotated[
        int,
        Whole(
            1,
            DAY_S,
            "seconds",
            label="Late is missed, after seconds",
            help="What nobody has scheduled by then is caught up with, or not. Elsewhere: a ping may take so long.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = 30
    catch_up: Annotated[str, Choice(CATCH_UPS, label="Of what was missed", act=JOB_EDIT, part=TROUBLE)] = (
        CatchUp.LAST.value
    )
    catch_up_window_s: Annotated[
        int,
        Whole(
            1,
            366 * DAY_S,
            "seconds",
            label="Caught up with for, in seconds",
            help="What was missed longer ago never runs; what no worker has begun by then is abandoned.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = DAY_S
    catch_up_most: Annotated[
        int, Whole(1, 10_000, label="Caught up with at most, in runs", act=JOB_EDIT, part=TROUBLE)
    ] = 100
    overlap: Annotated[
        str, Choice(OVERLAPS, label="A run that comes while another runs", act=JOB_EDIT, part=TROUBLE)
    ] = Overlap.RUN.value
    most_at_once: Annotated[
        int,
        Whole(
            0,
            10_000,
            label="Runs at the same time, at most",
            help="Where it runs as well; what comes beyond that waits. 0: any number.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = 0
    tags: Annotated[
        str,
        TagsText(
            500,
            label="Tags",
            placeholder="database nightly",
            help="Jobs that share one share its limit, if it has one: beyond that runs wait. The page Tags sets it.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = ""
    overlap_on: Annotated[
        str, Choice(OVERLAPS_ON, label="Another run that counts is one", act=JOB_EDIT, part=TROUBLE)
    ] = OverlapOn.CLUSTER.value
    manual_runs: Annotated[
        str, Choice(MANUAL_RUNS, label="A run that somebody triggers", act=JOB_EDIT, part=TROUBLE)
    ] = ManualRuns.BOUND.value
    lease_s: Annotated[
        int,
        Whole(
            3,
            3_600,
            "seconds",
            label="The lease of a run, in seconds",
            help="Its worker renews it at half of that. A dead one's run is lost after one and a half to two leases.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = 30
    after_loss: Annotated[str, Choice(AFTER_LOSSES, label="A run whose worker is gone", act=JOB_EDIT, part=TROUBLE)] = (
        AfterLoss.END.value
    )
    after_failure: Annotated[
        str, Choice(AFTER_FAILURES, label="A run whose work failed", act=JOB_EDIT, part=TROUBLE)
    ] = AfterFailure.END.value
    attempts: Annotated[
        int,
        Whole(
            1,
            20,
            label="Attempts",
            help="Of a run that is tried again; losses and failures count alike.",
            act=JOB_EDIT,
            part=TROUBLE,
        ),
    ] = 1
    backoff_s: Annotated[
        int,
        Whole(0, DAY_S, "seconds", label="First pause after a failure, in seconds", act=JOB_EDIT, part=TROUBLE),
    ] = 10
    backoff_most_s: Annotated[
        int,
        Whole(0, DAY_S, "seconds", label="Longest pause after a failure, in seconds", act=JOB_EDIT, part=TROUBLE),
    ] = 600


SETTINGS = Settings(JobDraft)


def snapshot(row: Job) -> dict[str, Any]:
    """A job's settings as the audit log and its versions have them."""
    kept_beside = {"acts_as": row.acts_as, "paused": row.paused, "calendar_lines": row.calendar_lines}
    return {**SETTINGS.snapshot(row), **kept_beside}


def checked(job: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the job of that name but its owner, cleaned.

    Raises :class:`BadInput` at the first that does not fit.
    What the kind of its work has to say is asked by :mod:`~hbus_console.jobs.services.work`.
    """
    # Where it says H, the name is a part of the schedule.
    clean = SETTINGS.checked(values, {"name": job})
    tried_again = clean["after_loss"] == AfterLoss.RETRY or clean["after_failure"] == AfterFailure.RETRY
    if tried_again and clean["attempts"] < 2:
        raise BadInput(
            "A run that is tried again needs two attempts at least.",
            remedy="Allow more attempts, or let it stay lost and failed.",
            field="attempts",
        )
    if clean["backoff_most_s"] < clean["backoff_s"]:
        raise BadInput(
            "The longest pause is not shorter than the first.",
            remedy="Make it as long at least.",
            field="backoff_most_s",
        )
    if clean["most_at_once"] > 1 and clean["overlap"] != Overlap.RUN:
        raise BadInput(
            "One run at a time is what that overlap means.",
            remedy="Let runs run beside each other, or leave the number at 0.",
            field="most_at_once",
        )
    if clean["kind"] == WorkName.ELSEWHERE:
        _refuse_done_here(clean)
    _check_division(clean)
    refuse_nothing_left(job, clean, lines_of(clean["calendars"].split()))
    return clean


def _check_division(clean: Mapping[str, Any]) -> None:
    division = clean["division"]
    if (division == Division.SHARDS) != (clean["shards"] > 1):
        raise BadInput(
            "Shards are two or more." if division == Division.SHARDS else "What is not done in shards has one.",
            remedy="Say how many." if division == Division.SHARDS else "Set it to 1, or have slots done in shards.",
            field="shards",
        )
    if division != Division.WHOLE and clean["kind"] in (WorkName.PUBLISH, WorkName.CELERY):
        raise BadInput(
            "A message and a task of Celery do not know which part they are.",
            remedy="Let a function, a program or a call do it, or leave it whole.",
            field="division",
        )
    if division == Division.NODES and clean["after"]:
        raise BadInput(
            "What runs on every node runs by its schedule and by hand alone.",
            remedy="Leave out what it runs after, or let shards do it.",
            field="after",
        )


def refuse_nothing_left(job: str, clean: Mapping[str, Any], calendars: str) -> None:
    """Raises ``BadInput`` where its own lines and those of its ``calendars`` leave no slot that can be foreseen."""
    schedule = schedule_said(job, clean)
    exclusions = exclusions_said(left_out(clean["excluded"], calendars), schedule.zone)
    now = int(time.time())
    if exclusions is None or schedule.after(now) is None or any(kept(schedule, exclusions, now)):
        return
    raise BadInput(
        f"What is left out leaves nothing of the schedule: {NONE_AHEAD}.",
        remedy="Leave it a time, or pause the job with a note.",
        field="excluded" if clean["excluded"] else "calendars",
    )


def refuse_another_place(before: Mapping[str, Any], clean: Mapping[str, Any]) -> None:
    """What runs here and what runs elsewhere are not made of each other: their open runs are ended by others."""
    if clean["kind"] != before["kind"] and WorkName.ELSEWHERE in (before["kind"], clean["kind"]):
        raise BadInput(
            "A job that runs elsewhere stays one, and no other becomes one.",
            remedy="Make another job, and delete this one.",
            field="kind",
        )


def _refuse_done_here(clean: Mapping[str, Any]) -> None:
    for name in DONE_HERE:
        if clean[name] != SETTINGS[name].default:
            raise BadInput(
                f"{SETTINGS[name].label!r} means nothing to a job that runs elsewhere.",
                remedy=f"Leave {name} out: hbus only hears of its runs.",
                field=name,
            )
