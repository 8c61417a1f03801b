"""The kinds of facts that the cron engine declares. Each run has its row; these are what runs add up to."""

from __future__ import annotations

import logging

from engine.core.fact_kinds import QUIET, FactCatalog, FactCounter, FactKind, FactTimer, Tone
from engine.cron.facts import RunFields

_JOB = ("job",)
_ERROR = logging.ERROR


def _kind(
    name: str, sentence: str, tone: Tone, says: str, *, level: int = QUIET, timer: FactTimer | None = None
) -> FactKind:
    # The rows of runs are the evidence: none of these is booked beside them.
    return FactKind(name, sentence, tone, level, FactCounter(says, _JOB), timer=timer, booked=False)


KINDS = (
    _kind(
        "run_begun",
        "a worker began a run",
        Tone.INFO,
        "Runs that a worker began, each attempt by itself.",
        timer=FactTimer(
            "hbus_run_lateness_seconds",
            "From when a run was to begin to its beginning, of first attempts.",
            "late_us",
            # A further attempt waited for the one before.
            without_zeros=True,
        ),
    ),
    _kind(
        "run_done",
        "a run is done",
        Tone.OK,
        "Runs that were done.",
        timer=FactTimer(
            "hbus_run_duration_seconds",
            "From a run's beginning to its end, of those that were done.",
            "duration_us",
            # A job elsewhere may tell of its end alone.
            without_zeros=True,
        ),
    ),
    _kind("run_failed", "a run failed", Tone.BAD, "Runs that failed for good.", level=_ERROR),
    _kind(
        "run_tried_again",
        "an attempt failed and there is another",
        Tone.WARN,
        "Attempts after which there was another.",
    ),
    _kind("run_lost", "a run's worker lost its lease", Tone.BAD, "Runs whose worker lost its lease.", level=_ERROR),
    _kind("run_abandoned", "nobody began a run in time", Tone.BAD, "Runs that nobody began in time.", level=_ERROR),
    _kind("run_cancelled", "a run was cancelled", Tone.WARN, "Runs that were cancelled."),
    _kind("slot_skipped", "a slot was skipped", Tone.WARN, "Slots that were skipped, each with its reason in a row."),
)
CATALOG = FactCatalog("cron", KINDS, fields=RunFields, labels=_JOB)
