"""Runs: those of a job, those of all, one with its log, and one more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.cron.slots.steps import RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import ANONYMOUS, SOMEWHERE, Actor, require
from hbus_console.access.scopes import namespace_q
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.idempotency import Repeat
from hbus_console.api.views import ApiView
from hbus_console.jobs.api import bodies, shapes
from hbus_console.jobs.api.again import JobsView
from hbus_console.jobs.models import JobAttempt, JobRun, JobVersion, LogPiece
from hbus_console.jobs.narrowing import narrowed
from hbus_console.jobs.progress import progress_of
from hbus_console.jobs.services import triggering
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.leases import release_lease
from hbus_console.jobs.services.secrecy import Secrecy, secrecies
from hbus_console.jobs.services.triggering import Trigger

_FILTERS = [
    OpenApiParameter("state", enum=[state.value for state in RunState]),
    OpenApiParameter("kind", enum=JobRun.Kind.values),
]


class TriggerJob(JobsView):
    @extend_schema(
        operation_id="jobs_trigger",
        summary="Have a job run now",
        description="Also one that is paused, and beside its slots: it takes the place of none. 200 instead of 201 "
        "where the key has made the run before. Needs a reason.",
        tags=["jobs"],
        request=takes(bodies.TriggerBody),
        responses={**answers(shapes.TriggeredOut, 201), (200, "application/json"): described(shapes.TriggeredOut)},
    )
    def post(self, request: Request, job: str) -> Response:
        body = read(request, bodies.TriggerBody)
        made = triggering.trigger(self.actor, job, Trigger(body.parameters, body.reason, body.key, body.part))
        (shown,) = _shown([made.run], self.actor)
        code = status.HTTP_201_CREATED if made.new else status.HTTP_200_OK
        return Response({"new": made.new, "run": shown, "others": [run.pk for run in made.others]}, status=code)


class ForeseeTrigger(ApiView):
    @extend_schema(
        operation_id="jobs_trigger_dry_run",
        summary="What a run would meet if it were asked for now",
        description="The dry run of a trigger, with the same body: nothing is written, and nothing done. A reason may "
        "be left out.",
        tags=["jobs"],
        request=takes(bodies.TriggerBody),
        responses=answers(shapes.ForesightOut),
    )
    def post(self, request: Request, job: str) -> Response:
        body = read(request, bodies.TriggerBody)
        found = foresee(self.actor, job, Trigger(body.parameters, body.reason, body.key, body.part))
        lines = [shapes.ForeseenOut(each.label, each.said, each.tone) for each in found]
        return Response(plain(shapes.ForesightOut(lines)))


class Runs(ApiView):
    @extend_schema(
        operation_id="runs_list",
        summary="Runs of all jobs you may see, the newest first",
        tags=["jobs"],
        parameters=[*_FILTERS, *PAGES],
        responses={(200, "application/json"): page_of(described(shapes.RunOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return _page(self, request, JobRun.objects.filter(namespace_q(self.actor, "job")))


class RunsOfJob(ApiView):
    @extend_schema(
        operation_id="jobs_runs",
        summary="Runs of a job, the newest first",
        description="Also of a job that was deleted: its runs are kept.",
        tags=["jobs"],
        parameters=[*_FILTERS, *PAGES],
        responses={(200, "application/json"): page_of(described(shapes.RunOut)), **REFUSED},
    )
    def get(self, request: Request, job: str) -> Response:
        require(self.actor, VIEW, job)
        return _page(self, request, JobRun.objects.all(), job)


class OneRun(ApiView):
    @extend_schema(operation_id="jobs_run", summary="One run", tags=["jobs"], responses=answers(shapes.OneRunOut))
    def get(self, request: Request, job: str, run_id: int) -> Response:
        require(self.actor, VIEW, job)
        (shown,) = _shown([triggering.run_of(job, run_id)], self.actor)
        return Response({**shown, "progress": shapes.progress(progress_of(run_id))})


class AttemptsOfRun(ApiView):
    @extend_schema(
        operation_id="jobs_run_attempts",
        summary="The attempts of a run, the first first",
        tags=["jobs"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(shapes.RunAttemptOut)), **REFUSED},
    )
    def get(self, request: Request, job: str, run_id: int) -> Response:
        require(self.actor, VIEW, job)
        run = triggering.run_of(job, run_id)
        return self.page(JobAttempt.objects.filter(run=run.pk), shapes.attempt, ordering="number")


class LogOfRun(ApiView):
    @extend_schema(
        operation_id="jobs_run_log",
        summary="The log of a run, the oldest piece first",
        tags=["jobs"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(shapes.LogOut)), **REFUSED},
    )
    def get(self, request: Request, job: str, run_id: int) -> Response:
        require(self.actor, VIEW, job)
        run = triggering.run_of(job, run_id)
        return self.page(LogPiece.objects.filter(run=run.pk), _piece, ordering="seq")


CancelRun = reason_act(
    triggering.cancel_run,
    operation_id="jobs_run_cancel",
    summary="Have a run stopped",
    description="One that waits never begins. One that runs is asked to end, and ended where it does not listen; it is "
    "cancelled once its worker has heard of it. Needs a reason.",
    tag="jobs",
    gives=answers(shapes.RunOut),
    shown=lambda run: _shown([run])[0],
    base=JobsView,
)


ReleaseLease = reason_act(
    release_lease,
    operation_id="jobs_run_release",
    summary="Take the lease of a run from its worker",
    description="For one that is stuck: its worker stops when it renews, and the run is lost. Needs a governor and a "
    "reason.",
    tag="jobs",
    gives=answers(shapes.RunOut),
    shown=lambda run: _shown([run])[0],
    base=JobsView,
    repeated=Repeat.KNOWN_BY_ITS_EFFECT,
)


def _page(view: ApiView, request: Request, rows: QuerySet[JobRun], job: str = "") -> Response:
    rows = narrowed(rows, job=job, state=request.GET.get("state", ""), kind=request.GET.get("kind", ""))
    answer = view.page(rows, lambda row: row)
    answer.data["results"] = _shown(answer.data["results"], view.actor)
    return answer


def _shown(rows: Iterable[JobRun], who: Actor = ANONYMOUS) -> list[dict[str, Any]]:
    """The versions of all of them are asked for together: they say what of the parameters is secret."""
    rows = list(rows)
    manual = [row for row in rows if row.parameters is not None]
    versions = JobVersion.objects.filter(job__name__in={row.job for row in manual}).select_related("job")
    known = {
        (each.job.name, each.number): each.settings
        for each in (versions.filter(number__in={row.version for row in manual}) if manual else ())
    }
    secrecy = secrecies({row.job for row in manual})
    return [
        plain(shapes.run(row, who, secrecy.get(row.job, Secrecy()), known.get((row.job, row.version)))) for row in rows
    ]


def _piece(row: LogPiece) -> dict[str, Any]:
    return plain(shapes.LogOut(row.seq, row.attempt, shapes.moment(row.at_us), row.text, row.left_bytes))
