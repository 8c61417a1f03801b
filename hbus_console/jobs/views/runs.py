"""One run with its log, and one more run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput, NotThere
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.steps import RunState, SlotKey
from engine.cron.subjects import job_subject
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.scopes import namespace_q
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.drawing import tone_of_run
from hbus_console.jobs.feature import JOB_RELEASE, JOB_RUN
from hbus_console.jobs.following import followers_seen, key_after, parts_of, upstream_of
from hbus_console.jobs.holding import RunStanding, leases_of, words_of_lease
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.log_pieces import gap_before
from hbus_console.jobs.models import Job, JobAttempt, JobRun, LogPiece
from hbus_console.jobs.parameter_form import read_parameters
from hbus_console.jobs.progress import progress_of
from hbus_console.jobs.rights import words_of_identity
from hbus_console.jobs.services import jobs, triggering
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.secrets import target_for
from hbus_console.jobs.services.triggering import Trigger, run_of
from hbus_console.jobs.services.work import schema_of
from hbus_console.jobs.shown_progress import shown_progress
from hbus_console.jobs.told_runs import goes_on_after, stands
from hbus_console.jobs.unseen import Asked, asked
from hbus_console.jobs.views.trigger_sheet import trigger_sheet
from hbus_console.jobs.waiting import waits_for
from hbus_console.jobs.wall import on_wall
from hbus_console.ui import formats
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock, refuse_act
from hbus_console.wiring.cron import slot_store

#: Lines of a log that the page shows, the newest, or those with what is searched for; all of them are downloaded.
MOST_LINES = 2_000
#: And characters, where lines are long.
MOST_CHARACTERS = 400_000


@require_GET
@console_view(VIEW, resource="{job}")
def run(request: HttpRequest, job: str, run_id: int) -> HttpResponse:
    who, row, now_us = actor(request), run_of(job, run_id), clock.now_ms() * 1_000
    of = Job.objects.select_related("team").filter(name=job).first()
    version = of and of.versions.filter(number=row.version).first()
    said = version.settings if version else {}
    secrecy = secrecy_of(job)
    parameters = said.get("parameters", {}) if row.parameters is None else row.parameters
    # As its own version has them, whatever the job is by now.
    shown = secrecy.masked(parameters, said)
    elsewhere = row.kind == JobRun.Kind.PING or said.get("kind") == WorkName.ELSEWHERE
    wanted, zone = request.GET.get("q", ""), said.get("zone", "UTC")
    parts, slots = list(parts_of(row)), slot_store()
    upstream, told = upstream_of(row), asked(who, row)
    kept = progress_of(row.pk) if _is_of_spark(said) else None
    leases = leases_of([row, *parts])
    upstream = upstream if upstream and allows(who, VIEW, upstream.job) else None
    followers = JobRun.objects.filter(
        namespace_q(who, "job"), kind=JobRun.Kind.AFTER, key=key_after(parts[0].pk if parts else row.pk)
    ).order_by("job", "pk")
    context: dict[str, Any] = {
        "nav": "runs",
        "shows": " ".join(_shows(row, [each.job for each in (upstream, *followers) if each], who, said)),
        "run": row,
        "job": of,
        "name": job,
        "standing": leases.standing(row),
        "lease": row.pk in leases.asked and words_of_lease(row, leases, said.get("lease_s", JobPolicy().lease_s)),
        "tone": tone_of_run(row.state),
        "slot_ms": row.slot * 1_000,
        "slot_utc": f"{datetime.fromtimestamp(row.slot, UTC):%Y-%m-%d %H:%M:%S} UTC",
        "slot_wall": f"{on_wall(row.slot, zone):%-d %b %H:%M:%S}",
        "zone": zone,
        "took_us": row.took_us(now_us),
        "begun_ms": row.begun_us and row.begun_us // 1_000,
        "late_us": row.late_us,
        "before": _before(row),
        "parameters": shown,
        "asked": told,
        "moments": _moments(row, told),
        "attempts": _attempts(row, leases.standing(row), now_us),
        "elsewhere": elsewhere,
        "nothing_at_all": "It sent nothing" if elsewhere else "It printed nothing",
        "nothing_yet": "What its pings send stands here."
        if elsewhere
        else "What it prints stands here as it comes, within seconds.",
        "where": target_for(who, job, said) if elsewhere and said else "",
        "until_ms": (row.slot + said.get("grace_s", 0)) * 1_000,
        "moves": row.ended_us is None,
        "upstream": upstream,
        "upstream_stands": stands(upstream.state) if upstream else "",
        "parts": [(each, leases.standing(each)) for each in parts],
        "waits_for": None if elsewhere else waits_for(who, row, said, now_us),
        "followers": followers,
        "acts_as": words_of_identity(said.get("acts_as", "")),
        "lease_key": slots.lease_key(row.pk),
        "marker_key": slots.marker_key(SlotKey(job, row.version, row.slot)),
        "q": wanted,
        "progress": shown_progress(row, kept, said.get("timeout_s", 0), now_us),
        "failure": kept if kept and kept.said.failure else None,
        **_log_of(row, wanted),
        "may_run": of is not None and not elsewhere and allows(who, JOB_RUN, job),
        "may_release": not elsewhere and row.state == RunState.RUNNING and allows(who, JOB_RELEASE, job),
        "may_cancel": row.ended_us is None and allows(who, JOB_RUN, job),
        "cancel_curl": CurlRequest("POST", f"/api/v1/jobs/{job}/runs/{row.pk}/cancel", {"reason": "why"}),
    }
    if of is not None:
        context |= trigger_sheet(of, secrecy, shown)
    return render(request, "jobs/run.html", context)


@require_GET
@console_view(VIEW, resource="{job}")
def log(request: HttpRequest, job: str, run_id: int) -> HttpResponse:
    """All that is kept of the log, as text; of a Spark application that failed its Python error comes first."""
    row = run_of(job, run_id)
    parts = [part["text"] for part in _parts(list(LogPiece.objects.filter(run=row.pk)))]
    if (kept := progress_of(row.pk)) and kept.said.failure:
        parts.insert(0, f"— the Python error of attempt {kept.attempt} —\n{kept.said.failure}\n— the log —\n")
    answer = HttpResponse("".join(parts), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{job}-{row.pk}.log"'
    return answer


@require_POST
@console_view(VIEW, post=JOB_RUN, resource="{job}")
def cancel(request: HttpRequest, job: str, run_id: int) -> HttpResponse:
    def do() -> object:
        return triggering.cancel_run(actor(request), job, run_id, request.POST.get("reason", ""))

    return act(request, f"Run {run_id} is asked to end.", do, "jobs:run", job, run_id)


@require_POST
@console_view(VIEW, post=JOB_RUN, resource="{job}")
def trigger_job(request: HttpRequest, job: str) -> HttpResponse:
    form, row = request.POST, jobs.job(job)
    try:
        made = triggering.trigger(actor(request), job, _asked(form, _typed(form, row)))
    except NotThere:
        raise
    except BadInput as refused:
        return refuse_act(request, refused, "jobs:detail", job)
    if made.new:
        messages.success(request, f"{made.words} of {job} {'wait' if made.others else 'waits'} for a worker.")
    else:
        messages.info(request, f"This was asked for before: run {made.run.pk}.")
    return redirect("jobs:run", job, made.run.pk)


@require_POST
@console_view(VIEW, post=JOB_RUN, resource="{job}")
def foresee_trigger(request: HttpRequest, job: str) -> HttpResponse:
    """A fragment of the sheet: what the run would meet. Nothing is done."""
    form, row = request.POST, jobs.job(job)
    context: dict[str, Any]
    try:
        parameters = _typed(form, row)
        context = {"foreseen": foresee(actor(request), job, _asked(form, parameters))}
    except NotThere:
        raise
    except BadInput as refused:
        context = {"refused": refused}
    return render(request, "jobs/_foreseen.html", context)


def _shows(run: JobRun, told: Iterable[str], who: Actor, said: Mapping[str, Any]) -> list[str]:
    """What moves on its page: its own job, those ``told`` of on it, and those that will be, once it has ended."""
    jobs = {run.job, *told}
    if run.ended_us is None:
        jobs |= {each.job.name for each in followers_seen(who, run.job).seen}
    claimed = run.state == RunState.CLAIMED
    # Whether there is room is of all that run, under its tags and with its workers: of those that live.
    room = [*(["runs", "nodes"] if claimed else []), *(["tags"] if claimed and said.get("tags") else [])]
    moves = [f"log:{run.pk}", *([f"progress:{run.pk}"] if _is_of_spark(said) else [])]
    return [*(str(job_subject(job)) for job in sorted(jobs)), *moves, *room]


def _is_of_spark(said: Mapping[str, Any]) -> bool:
    """Whether its version is of that kind, or, once the job is deleted, may have been."""
    return bool(said.get("kind", WorkName.SPARK) == WorkName.SPARK)


def _typed(form: QueryDict, row: Job) -> dict[str, Any]:
    """The parameters of the sheet, with a mask for each secret of the job that it leaves. Raises ``BadInput``."""
    settings = snapshot(row)
    return secrecy_of(row.name).still_masked(read_parameters(form, schema_of(settings)), row.parameters, settings)


def _asked(form: QueryDict, parameters: Mapping[str, Any]) -> Trigger:
    return Trigger(parameters, *(form.get(name, "") for name in ("reason", "key", "part")))


@dataclass(frozen=True)
class AttemptLine:
    """One attempt, as the page shows it."""

    row: JobAttempt
    standing: RunStanding
    took_us: int

    @property
    def begun_ms(self) -> int:
        return self.row.begun_us // 1_000


def _attempts(run: JobRun, now: RunStanding, now_us: int) -> list[AttemptLine]:
    """``now``: how the run itself stands, and so the attempt that goes on."""
    rows = JobAttempt.objects.filter(run=run.pk).order_by("number", "pk")
    return [
        AttemptLine(
            row,
            now if row.ended_us is None and row.epoch == run.epoch else RunStanding(row.state, tone_of_run(row.state)),
            max(0, (row.ended_us or now_us) - row.begun_us),
        )
        for row in rows
    ]


def _before(run: JobRun) -> str:
    """How the attempt before ended, of a run that is tried again: what its reason tells of is not how it stands."""
    if not goes_on_after(run):
        return ""
    number = run.attempt - 1
    said = f"attempt {number} {stands(run.last_end)}"
    ended = JobAttempt.objects.filter(run=run.pk, number=number, ended_us__isnull=False).order_by("-pk").first()
    if ended is not None and ended.ended_us is not None:
        said += f" after {formats.duration(ended.ended_us - ended.begun_us)}"
    return f"{said}: {run.reason}" if run.reason else said


def _moments(run: JobRun, told: Asked) -> list[dict[str, Any]]:
    """What is known of its course, in its order."""
    begins = {
        JobRun.Kind.MANUAL: f"{told.by} asked for it",
        JobRun.Kind.AFTER: f"{told.by} ended",
        JobRun.Kind.PING: "a ping came beside the slots",
        JobRun.Kind.SCHEDULE: f"its slot was decided by {run.node}",
    }
    begun = begins[JobRun.Kind(run.kind)]
    moments: list[dict[str, Any]] = [
        {"at_ms": run.decided_us // 1_000, "tone": "info", "says": begun, "note": told.why}
    ]
    attempts = list(JobAttempt.objects.filter(run=run.pk).order_by("number", "pk"))
    for each in attempts:
        now = run.begun_us is not None and each.epoch == run.epoch
        note = f"attempt {each.number}, epoch {each.epoch}"
        note = f"{note}: older ones may write nothing any more" if now else note
        moments.append({"at_ms": each.begun_us // 1_000, "tone": "info", "says": f"{each.owner} began", "note": note})
        if each.ended_us is not None and not (now and run.ended_us is not None):
            says, tone = f"attempt {each.number} {stands(each.state)}", tone_of_run(each.state)
            moments.append({"at_ms": each.ended_us // 1_000, "tone": tone, "says": says, "note": each.reason})
    if run.begun_us is not None and not attempts:
        # What runs elsewhere has none.
        moments.append({"at_ms": run.begun_us // 1_000, "tone": "info", "says": f"{run.shown_owner} began", "note": ""})
    if run.cancel_us is not None:
        said = {
            "at_ms": run.cancel_us // 1_000,
            "tone": "warn",
            "says": "it was asked to end",
            "note": run.cancel_reason,
        }
        moments.append(said)
    if run.ended_us is not None:
        moments.append(
            {
                "at_ms": run.ended_us // 1_000,
                "tone": tone_of_run(run.state),
                "says": f"it {stands(run.state)}",
                "note": run.reason or run.summary,
            }
        )
    # Of the same millisecond as they were told.
    return sorted(moments, key=lambda each: each["at_ms"])


def _log_of(run: JobRun, wanted: str) -> dict[str, Any]:
    """The newest pieces; with ``wanted`` the lines that have it, of all that is kept."""
    newest = LogPiece.objects.filter(run=run.pk).order_by("-seq")
    pieces, earlier = (list(newest), False) if wanted else _newest(newest)
    parts = _parts(pieces[::-1])
    lines, more = 0, False
    if wanted:
        parts, lines, more = _lines_with(wanted.lower(), parts)
    shown = 1
    for part in parts:
        part["begins"], shown = part["attempt"] != shown, part["attempt"]
    return {"log": parts, "earlier": earlier, "lines": lines, "more_lines": more}


def _newest(pieces: QuerySet[LogPiece]) -> tuple[list[LogPiece], bool]:
    """As many as the page has room for, the newest first, and whether there are earlier ones.

    However little a piece holds: what writes a line a second makes a piece of each.
    """
    shown: list[LogPiece] = []
    lines = characters = 0
    for piece in pieces.iterator(chunk_size=16):
        lines += piece.text.count("\n")
        characters += len(piece.text)
        if shown and (lines > MOST_LINES or characters > MOST_CHARACTERS):
            return shown, True
        shown.append(piece)
    return shown, False


def _lines_with(wanted: str, parts: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int, bool]:
    """The parts with those of their lines that have it, how many these are, and whether there are more.

    A line may begin in one piece and end in the next: pieces of one attempt are read as one text.
    """
    found: list[dict[str, Any]] = []
    count = 0
    for _, each in groupby(parts, key=lambda part: (part["attempt"], part["left_out"])):
        same = list(each)
        text = "".join(part["text"] for part in same)
        kept = [line for line in text.splitlines(keepends=True) if wanted in line.lower()]
        if kept and not same[0]["left_out"]:
            room = MOST_LINES - count
            found.append({**same[0], "text": "".join(kept[:room])})
            count += len(kept)
            if count > MOST_LINES:
                return found, MOST_LINES, True
    return found, count, False


def _parts(pieces: list[LogPiece]) -> list[dict[str, Any]]:
    """The pieces' texts; what is missing before one of them is said in its place."""
    parts: list[dict[str, Any]] = []
    for before, piece in pairwise([None, *pieces]):
        assert piece is not None
        part = {"at_ms": piece.at_us // 1_000, "attempt": piece.attempt}
        if gap_before(piece, before):
            parts.append({**part, "text": _left_out(piece), "left_out": True})
        parts.append({**part, "text": piece.text, "left_out": False})
    return parts


def _left_out(piece: LogPiece) -> str:
    """The line that stands for what was left out before ``piece``."""
    why = "of a long log the beginning of each attempt and its end are kept"
    if not piece.left_bytes:
        return f"… a part of the log was left out here: {why}\n"
    lines = formats.counted(piece.left_lines, "line")
    # Both times: a plain text has no day above it.
    since, until = (formats.exact_text(at_us // 1_000) for at_us in (piece.left_since_us, piece.since_us))
    return f"… {lines} ({formats.size(piece.left_bytes)}), from {since} to {until}, were left out here: {why}\n"
