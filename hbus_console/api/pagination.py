"""Keyset pages: as fast on the last page of a million rows as on the first."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class CursorPages(CursorPagination):
    """Newest first by primary key; ``?cursor=`` from ``next`` and ``previous``, ``?limit=`` up to 500."""

    ordering = "-pk"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 500
