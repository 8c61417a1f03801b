"""Endpoints that do one thing to what the address names, and want to know why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.api.answers import read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.idempotency import Repeat
from hbus_console.api.views import ApiView


def reason_act(
    do: Callable[..., Any],
    *,
    operation_id: str,
    summary: str,
    tag: str,
    gives: dict[Any, Any],
    description: str | None = None,
    shown: Callable[[Any], Any] = lambda done: done,
    body: dict[str, Any] | None = None,
    base: type[ApiView] = ApiView,
    repeated: Repeat = Repeat.TOLD_BY_THE_AUDIT_LOG,
) -> type[ApiView]:
    """An endpoint that calls ``do(actor, …, reason)`` and answers with ``shown`` of what it returns.

    Between actor and reason stands what the address names, in its order. ``gives`` describes the answers,
    ``body`` what is taken where that is narrower than a reason that may be empty, ``repeated`` what tells a repeat
    whether the first try was done.
    """

    class Act(base):  # type: ignore[valid-type,misc]
        def repeat(self, first_tried: datetime) -> Repeat:
            return repeated

        @extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=description,
            tags=[tag],
            request=body or takes(ReasonBody),
            responses=gives,
        )
        def post(self, request: Request, **named: Any) -> Response:
            return Response(shown(do(self.actor, *named.values(), read(request, ReasonBody).reason)))

    return Act
