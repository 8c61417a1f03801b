"""The retention of the series of topics."""

from __future__ import annotations

from django.conf import settings

from hbus_console.evidence.series_retention import SeriesRetention
from hbus_console.pipelines.models import SeriesPoint


def series_retention() -> SeriesRetention:
    """The duty of the keeper."""
    return SeriesRetention(
        "series-retention",
        SeriesPoint.objects.all(),
        settings.HBUS_SERIES_MINUTE_DAYS,
        settings.HBUS_SERIES_HOUR_DAYS,
    )
