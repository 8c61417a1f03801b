"""Tags of jobs, and their limits."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.pagination import only_page
from hbus_console.api.views import ApiView
from hbus_console.jobs.services.tags import set_limit, standing_tags


class TagOut(msgspec.Struct):
    """A tag: how many jobs have it, how many of all runs may run at the same time (0: any number), run, and wait.

    Jobs and runs are those that you may see.
    """

    tag: str
    jobs: int
    most_at_once: int
    running: int
    waiting: int


class TagLimitOut(msgspec.Struct):
    """How many runs may run at the same time; 0: any number."""

    tag: str
    most_at_once: int


class TagLimitBody(ReasonBody, kw_only=True):
    """How many runs of jobs with the tag may run at the same time; 0: any number."""

    most_at_once: int


class Tags(ApiView):
    @extend_schema(
        operation_id="job_tags_list",
        summary="The tags of jobs you may see, with their limits",
        tags=["jobs"],
        responses={(200, "application/json"): page_of(described(TagOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        found = standing_tags(self.actor)
        return only_page([plain(TagOut(it.tag, it.jobs, it.most_at_once, it.running, it.waiting)) for it in found])


class OneTag(ApiView):
    @extend_schema(
        operation_id="job_tags_limit",
        summary="Limit the runs of all jobs that have a tag",
        description="What is beyond the limit waits; what runs goes on. Needs a reason.",
        tags=["jobs"],
        request=takes(TagLimitBody),
        responses=answers(TagLimitOut),
    )
    def put(self, request: Request, tag: str) -> Response:
        body = read(request, TagLimitBody)
        return Response(plain(TagLimitOut(tag, set_limit(self.actor, tag, body.most_at_once, body.reason))))
