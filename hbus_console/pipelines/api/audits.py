"""Audits of the bus over HTTP: made, listed, and read whole."""

from __future__ import annotations

from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import Body
from hbus_console.api.views import ApiView
from hbus_console.pipelines.audits import exporting, reading
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.audits.reading import ListedAudit
from hbus_console.pipelines.audits.signing import key_id, public_key
from hbus_console.pipelines.feature import AUDIT_RUN
from hbus_console.ui.formats import epoch_ms


class AuditBody(Body):
    """What to audit: these topics, or all that one may have audited with jobs and quotas; from and to an RFC 3339
    instant, where said. Under the same ``key`` it is one audit."""

    topics: list[str] = []
    since: str = ""
    until: str = ""
    key: str = ""
    reason: str = ""


class AuditAskedOut(msgspec.Struct):
    """The run of the job ``hbus.audit`` that makes it."""

    run: int


class BusAuditOut(msgspec.Struct):
    """One audit, as far as one may see what it is of. ``verdict`` is ``clean``, ``explained``, ``open`` (not all is
    there yet) or ``wrong``: the worst of all; of so many topics something is ``wrong``. ``subjects`` are jobs and quota
    policies, ``wrong_subjects`` those of which something is."""

    id: int
    at: str
    verdict: str
    topics: int
    wrong: int
    subjects: int
    wrong_subjects: int
    archived: int
    since: str
    until: str
    asked_by: str
    run: int | None
    took_ms: int


class SigningKeyOut(msgspec.Struct):
    """What exported audits are signed by: an Ed25519 public key, 32 bytes in hexadecimal."""

    key_id: str
    public_key: str


def shape(line: ListedAudit) -> dict[str, Any]:
    it = line.audit
    return plain(
        BusAuditOut(
            id=it.pk,
            at=to_rfc3339(epoch_ms(it.at)),
            verdict=line.verdict,
            topics=line.topics,
            wrong=line.wrong,
            subjects=line.subjects,
            wrong_subjects=line.wrong_subjects,
            archived=line.archived,
            since=to_rfc3339(line.from_ms),
            until=to_rfc3339(line.to_ms),
            asked_by=it.asked_by,
            run=it.run,
            took_ms=it.took_ms,
        )
    )


class Audits(ApiView):
    @extend_schema(
        operation_id="audits_list",
        summary="Audits of the bus, the newest first",
        tags=["audits"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(BusAuditOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        answer = self.page(reading.listed(self.actor), lambda row: row)
        # How they stand is asked for all of the page together.
        answer.data["results"] = [shape(line) for line in reading.lines(self.actor, answer.data["results"])]
        return answer

    @extend_schema(
        operation_id="audits_run",
        summary="Have what is archived audited",
        description="The job `hbus.audit` makes it; once its run has ended the audit is in the list.",
        tags=["audits"],
        request=takes(AuditBody),
        responses=answers(AuditAskedOut, 202),
    )
    def post(self, request: Request) -> Response:
        require(self.actor, AUDIT_RUN, SOMEWHERE)
        body = read(request, AuditBody)
        run = ask_audit(self.actor, WantedAudit(body.topics, body.since, body.until, body.reason, body.key))
        return Response(plain(AuditAskedOut(run.pk)), status=status.HTTP_202_ACCEPTED)


class AuditOfTopics(ApiView):
    @extend_schema(
        operation_id="audits_read",
        summary="One audit whole: the report of each topic, and of each job and quota policy",
        description="Those that one may see, the latter under `judged`; `of` says whether these are all, and `files` "
        "and `computed` are null where they are not. What `manage.py audit_bus --json` tells, and who asked for it "
        "when; `bytes` are null for a topic that masks what one may not reveal.",
        tags=["audits"],
        responses={(200, "application/json"): OpenApiTypes.OBJECT, **REFUSED},
    )
    def get(self, request: Request, audit_id: int) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        it = reading.seen_audit(self.actor, audit_id)
        return Response(exporting.content(it, self.actor))


class SigningKey(ApiView):
    @extend_schema(
        operation_id="audits_key",
        summary="The public key that exported audits are signed by",
        tags=["audits"],
        responses=answers(SigningKeyOut),
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        public = public_key()
        return Response(plain(SigningKeyOut(key_id(public), public)))


urlpatterns = [
    path("audits", Audits.as_view(), name="audits"),
    path("audits/key", SigningKey.as_view(), name="audits-key"),
    path("audits/<int:audit_id>", AuditOfTopics.as_view(), name="audit-of-topics"),
]
