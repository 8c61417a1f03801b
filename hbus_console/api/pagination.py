"""Keyset pages: as fast on the last page of a million rows as on the first."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.cursors import no_page


class CursorPages(CursorPagination):
    """Newest first by primary key; ``?cursor=`` from ``next`` and ``previous``, ``?limit=`` up to 500.

    Raises ``BadInput`` for a cursor that no page gave.
    """

    ordering = "-pk"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        name = self.ordering.removeprefix("-")
        self._ordered_by = queryset.model._meta.pk if name == "pk" else queryset.model._meta.get_field(name)
        found: list[Any] | None = super().paginate_queryset(queryset, request, view)
        return found

    def decode_cursor(self, request: Request) -> Any:
        try:
            found = super().decode_cursor(request)
            if found is not None and found.position is not None:
                if "\x00" in str(found.position):
                    raise no_page()
                self._ordered_by.to_python(found.position)
        except (NotFound, ValidationError):
            raise no_page() from None
        return found


def page_size(request: Request, usual: int, most: int) -> int:
    """``?limit=``; raises ``BadInput`` for what is no number in bounds."""
    text = request.GET.get("limit", "")
    if not text:
        return usual
    number = whole(text)
    if number is None or not 1 <= number <= most:
        raise BadInput(f"limit is not a whole number from 1 to {most}.", remedy=f"{usual} is usual.", field="limit")
    return number


def forward_page(request: Request, cursor: str, results: list[Any], **more: Any) -> Response:
    """One page of a list that only goes on; ``cursor`` leads to the next, empty on the last."""
    return Response({"next": next_page(request, cursor), "previous": None, "results": results, **more})


def only_page(results: list[Any], **more: Any) -> Response:
    """A list that has one page: all there is."""
    return Response({"next": None, "previous": None, "results": results, **more})


def next_page(request: Request, cursor: str) -> str | None:
    """The address of the page after ``cursor``; ``None`` on the last."""
    if not cursor:
        return None
    query = request.GET.copy()
    query["cursor"] = cursor
    return str(request.build_absolute_uri(f"{request.path}?{query.urlencode()}"))
