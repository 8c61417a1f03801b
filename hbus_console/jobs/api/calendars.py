"""Calendars of jobs: days that several leave out together."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import NotThere
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import DeleteBody, ReasonBody
from hbus_console.api.pagination import only_page
from hbus_console.api.views import ApiView
from hbus_console.jobs.services import calendars as kept


class CalendarOut(msgspec.Struct):
    """A calendar: its lines as docs/jobs.md says them, and the jobs that have it, as far as you may see them."""

    name: str
    description: str
    lines: str
    version: int
    jobs: list[str]


class CalendarBody(ReasonBody, kw_only=True):
    """All of a calendar. With ``version`` it is changed only where it still has that one."""

    lines: str
    description: str = ""
    version: int | None = None


def _out(it: kept.CalendarStanding) -> object:
    row = it.row
    return plain(CalendarOut(row.name, row.description, row.lines, row.version, [job.name for job in it.jobs]))


class Calendars(ApiView):
    @extend_schema(
        operation_id="job_calendars_list",
        summary="The calendars of jobs",
        tags=["jobs"],
        responses={(200, "application/json"): page_of(described(CalendarOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return only_page([_out(it) for it in kept.standing_calendars(self.actor)])


class OneCalendar(ApiView):
    @extend_schema(operation_id="job_calendar", summary="One calendar", tags=["jobs"], responses=answers(CalendarOut))
    def get(self, request: Request, calendar: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return Response(_out(kept.standing_calendar(self.actor, kept.calendar(calendar))))

    @extend_schema(
        operation_id="job_calendars_keep",
        summary="Make a calendar, or change it and each job that has it",
        description="Each job that has it gets a version; slots that were decided stay. Needs a reason.",
        tags=["jobs"],
        request=takes(CalendarBody),
        responses=answers(CalendarOut),
    )
    def put(self, request: Request, calendar: str) -> Response:
        body = read(request, CalendarBody)
        more = {"description": body.description}
        try:
            row = kept.change_calendar(self.actor, calendar, body.lines, body.reason, version=body.version, **more).row
        except NotThere:
            if body.version is not None:
                raise
            row = kept.create_calendar(self.actor, calendar, body.lines, body.reason, **more)
        return Response(_out(kept.standing_calendar(self.actor, row)))

    @extend_schema(
        operation_id="job_calendars_delete",
        summary="Delete a calendar that no job has",
        tags=["jobs"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, calendar: str) -> Response:
        body = read(request, DeleteBody)
        kept.delete_calendar(self.actor, calendar, body.typed_name, body.reason)
        return Response(status=status.HTTP_204_NO_CONTENT)
