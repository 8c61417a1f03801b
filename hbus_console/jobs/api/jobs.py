"""Jobs, their versions and their slots to come."""

from __future__ import annotations

import time
from itertools import islice

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import DeleteBody, ReasonBody
from hbus_console.api.pagination import only_page, page_size
from hbus_console.api.query import PAGE_SIZE
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView
from hbus_console.jobs.api import bodies, shapes
from hbus_console.jobs.api.again import JobsView
from hbus_console.jobs.known import coming
from hbus_console.jobs.models import Job
from hbus_console.jobs.services import jobs
from hbus_console.jobs.services.draft import KIND_WORDS, JobDraft
from hbus_console.jobs.services.secrecy import Secrecy, secrecies, secrecy_of
from hbus_console.jobs.standing import STATES, JobFilters, found_jobs
from hbus_console.ui.rows import NOBODY, read_filters

_FILTERS = [
    OpenApiParameter("owner", description="Name of a team; empty for jobs nobody owns."),
    OpenApiParameter("kind", enum=list(KIND_WORDS)),
    OpenApiParameter("tag", description="One of its tags."),
    OpenApiParameter("state", enum=list(STATES), description="How it stands; failing: its newest end was no success."),
    OpenApiParameter("q", description="Part of the name or of the description, in any case."),
]


def _visible(actor: Actor, request: Request) -> QuerySet[Job]:
    """Those that the page lists with the same filters, where nobody has a name of its own."""
    require(actor, VIEW, SOMEWHERE)
    asked = request.GET.dict()
    if asked.get("owner") == "":
        asked["owner"] = NOBODY
    return found_jobs(actor, read_filters(JobFilters, asked))


class Jobs(JobsView):
    @extend_schema(
        operation_id="jobs_list",
        summary="Jobs",
        tags=["jobs"],
        parameters=[*_FILTERS, *PAGES],
        responses={(200, "application/json"): page_of(described(shapes.ListedJobOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        answer = self.page(_visible(self.actor, request), lambda row: row, ordering="name")
        rows: list[Job] = answer.data["results"]
        secrecy = secrecies(row.name for row in rows if row.parameters)
        shown = [shapes.listed_job(row, self.actor, secrecy.get(row.name, Secrecy())) for row in rows]
        answer.data["results"] = shown
        return answer

    @extend_schema(
        operation_id="jobs_create",
        summary="Create a job with its owner",
        description="Its slots count from now on. It acts by the rights of whoever makes it, as they are at each run.",
        tags=["jobs"],
        request=takes(bodies.NewJob),
        responses=answers(shapes.JobOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, bodies.NewJob)
        made = jobs.create_job(self.actor, JobDraft(**body.settings()), body.reason)
        return Response(shapes.job(made, self.actor), status=status.HTTP_201_CREATED)


class OneJob(JobsView, RevisedView):
    @extend_schema(
        operation_id="jobs_read",
        summary="One job",
        tags=["jobs"],
        parameters=TAGGED,
        responses=answers(shapes.JobOut),
    )
    def get(self, request: Request, job: str) -> Response:
        require(self.actor, VIEW, job)
        row = jobs.job(job)
        return self.tagged(shapes.job(row, self.actor), row.version)

    @extend_schema(
        operation_id="jobs_change",
        summary="Change a job, which makes a version",
        description="What it does is done by the rights of whoever changed that last. The owner takes a governor.",
        tags=["jobs"],
        parameters=CONDITIONAL,
        request=takes(bodies.JobChange),
        responses=answers(shapes.JobOut),
    )
    def patch(self, request: Request, job: str) -> Response:
        body, revision = self.change(request, bodies.JobChange)
        changed = jobs.change_job(self.actor, job, body.changes(), body.reason, version=revision)
        return self.tagged(shapes.job(changed, self.actor), changed.version)

    @extend_schema(
        operation_id="jobs_delete",
        summary="Delete a job",
        description="What waits for a worker never runs, and says so; what runs goes on. Its runs are kept.",
        tags=["jobs"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, job: str) -> Response:
        body = read(request, DeleteBody)
        jobs.delete_job(self.actor, job, body.typed_name, body.reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


PauseJob = reason_act(
    jobs.pause_job,
    operation_id="jobs_pause",
    summary="Skip the slots of a job from now on",
    description="Each leaves a row that says so; what runs goes on. Needs a reason.",
    tag="jobs",
    gives=answers(shapes.JobOut),
    shown=shapes.job,
    base=JobsView,
)
ResumeJob = reason_act(
    jobs.resume_job,
    operation_id="jobs_resume",
    summary="Run the slots of a job again, from the next one on",
    tag="jobs",
    gives=answers(shapes.JobOut),
    shown=shapes.job,
    base=JobsView,
)


class Versions(ApiView):
    @extend_schema(
        operation_id="jobs_versions",
        summary="What a job was, the newest version first",
        tags=["jobs"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(shapes.VersionOut)), **REFUSED},
    )
    def get(self, request: Request, job: str) -> Response:
        require(self.actor, VIEW, job)
        rows, secrecy = jobs.job(job).versions.select_related("job"), secrecy_of(job)
        return self.page(rows, lambda row: shapes.version(row, self.actor, secrecy))


class Restore(JobsView):
    @extend_schema(
        operation_id="jobs_restore",
        summary="Make a job what it was in a version, as a new one",
        description="Whether it is paused stays as it is. Needs a reason.",
        tags=["jobs"],
        request=takes(ReasonBody),
        responses=answers(shapes.JobOut),
    )
    def post(self, request: Request, job: str, version: int) -> Response:
        body = read(request, ReasonBody)
        restored = jobs.restore_version(self.actor, job, version, body.reason)
        return Response(shapes.job(restored, self.actor))


class NextSlots(ApiView):
    @extend_schema(
        operation_id="jobs_slots",
        summary="The slots of a job to come",
        tags=["jobs"],
        parameters=[OpenApiParameter("limit", PAGE_SIZE, description="10 when left out.")],
        responses={(200, "application/json"): page_of(described(shapes.SlotOut)), **REFUSED},
    )
    def get(self, request: Request, job: str) -> Response:
        require(self.actor, VIEW, job)
        most = page_size(request, 10, 500)
        found = coming(jobs.job(job), int(time.time()))
        return only_page([plain(shapes.SlotOut(slot.local, slot.utc, slot.mark)) for slot in islice(found, most)])
