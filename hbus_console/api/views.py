"""The base of every endpoint."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engine.core.errors import BadInput
from hbus_console.access.permissions import ANONYMOUS, Actor
from hbus_console.access.web import actor
from hbus_console.api import idempotency, query
from hbus_console.api.models import IdempotencyRecord
from hbus_console.api.pagination import CursorPages
from hbus_console.api.problems import IF_MATCH

_UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}


class _AnsweredBefore(Exception):
    """Leaves ``initial`` with the first answer to this idempotency key."""

    def __init__(self, record: IdempotencyRecord) -> None:
        super().__init__(record.key)
        self.record = record


class ApiView(APIView):
    """An endpoint with an actor, idempotency keys on every change, and keyset pages.

    Subclasses call services with ``self.actor``; the services decide what the actor may do.
    """

    #: Methods that heed ``If-Match``.
    conditional: ClassVar[frozenset[str]] = frozenset()
    #: Whether its answers show what a mask may hide later: none is kept for a key, and a repeat is answered anew. Only
    #: for what changes nothing the second time.
    answers_anew: ClassVar[bool] = False
    #: Whether a repeat is to get this answer. Without it the key stays open, and the repeat is tried again.
    final = True
    #: Whether it is certain that nothing was done, although the answer is a 5xx: then the key is free.
    undone = False
    _record: IdempotencyRecord | None = None

    @property
    def actor(self) -> Actor:
        """Who is calling."""
        if not getattr(self.request, "user", None):
            return ANONYMOUS
        return actor(self.request._request)

    def page(self, rows: Any, serialize: Any, *, ordering: str = "-pk") -> Response:
        """One keyset page of a queryset, each row through ``serialize``."""
        pages = CursorPages()
        pages.ordering = ordering
        found: list[Any] = pages.paginate_queryset(rows, self.request, view=self) or []
        return pages.get_paginated_response([serialize(row) for row in found])

    def repeat(self, first_tried: datetime) -> idempotency.Repeat:
        """What tells a repeat whether the first try, made then, was done, when its answer was lost."""
        return idempotency.Repeat.TOLD_BY_THE_AUDIT_LOG

    def shown_again(self, kept: Any) -> Any:
        """What a ``kept`` answer said, as its caller may see it by now."""
        return kept

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        if handler := getattr(self, method, None):
            query.check(request.GET, query.declared_by(self, handler))
        if IF_MATCH in request.headers and request.method in _UNSAFE - self.conditional:
            raise BadInput(f"{IF_MATCH} is not heeded here.", remedy="Leave it out.", field=IF_MATCH)
        if request.method in _UNSAFE and not self.answers_anew:
            record = idempotency.claim(request, self.actor, self.repeat)
            if record is not None and record.status:
                raise _AnsweredBefore(record)
            self._record = record

    def handle_exception(self, exc: Exception) -> Response | HttpResponse:  # type: ignore[override]
        if isinstance(exc, _AnsweredBefore):
            again = HttpResponse(self._again(exc.record), status=exc.record.status)
            again["Content-Type"] = exc.record.content_type
            again["Idempotent-Replayed"] = "true"
            return again
        try:
            return super().handle_exception(exc)
        except Exception:
            # An unforeseen error leaves through Django's 500; the key must not stay claimed for it.
            if self._record is not None:
                idempotency.leave_open(self._record)
            raise

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        final = super().finalize_response(request, response, *args, **kwargs)
        record = self._record
        if record is not None and isinstance(final, Response):
            final.add_post_render_callback(lambda done: self._keep(record, done))
        return final

    def _again(self, record: IdempotencyRecord) -> bytes:
        content = bytes(record.response)
        try:
            kept = json.loads(content)
        except ValueError:
            return content
        shown = self.shown_again(kept)
        # As it was rendered, where it may still be seen as it was.
        return content if shown == kept else json.dumps(shown, ensure_ascii=False).encode()

    def _keep(self, record: IdempotencyRecord, done: Any) -> None:
        if self.undone:
            idempotency.free(record)
        elif self.final:
            idempotency.answer(record, done.status_code, done.content, done.headers["Content-Type"])
        else:
            idempotency.leave_open(record)
