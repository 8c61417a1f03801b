"""What every series over HTTP is asked for: a time, and the spans in which it is told."""

from __future__ import annotations

from collections.abc import Callable

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from engine.core.clock import Clock, SystemClock
from engine.core.resolution import Resolution
from hbus_console.ui.spans import resolution_named, steps_of
from hbus_console.ui.timerange import read_range

#: The parameters that :func:`asked_spans` reads.
SPANS = [
    OpenApiParameter("resolution", OpenApiTypes.STR, enum=[each.value for each in Resolution]),
    OpenApiParameter("range", OpenApiTypes.STR),
    OpenApiParameter("from", OpenApiTypes.STR),
    OpenApiParameter("to", OpenApiTypes.STR),
]

_clock = SystemClock()


def asked_spans(
    request: Request, usual: Callable[[int, int], Resolution], clock: Clock = _clock
) -> tuple[Resolution, range]:
    """The resolution, and when each span begins, seconds since the epoch. ``usual`` gives the one that is taken of a
    time unless said. Raises :class:`~engine.core.errors.BadInput`."""
    span = read_range(request._request, clock, zoned=True)
    start_s, end_s = span.start_ms // 1000, span.end_ms // 1000
    resolution = resolution_named(request.GET.get("resolution", ""), usual(start_s, end_s))
    return resolution, steps_of(start_s, end_s, resolution)
