"""The tables of the series of jobs, in the ledger database."""

from __future__ import annotations

from django.db import models

from engine.core.resolution import Resolution
from engine.core.subject import Subject
from engine.cron.subjects import job_subject


class JobSeriesPoint(models.Model):
    """What became of the runs of one job whose slots lie in one minute, hour or day. A span without a slot has none."""

    job = models.CharField(max_length=200)
    resolution = models.CharField(max_length=6, choices=[(each.value, each.value) for each in Resolution])
    #: When it begins, in seconds since the epoch.
    at = models.BigIntegerField()
    #: Of whatever kind. Each of them is open, or over in one of the six ways that follow.
    runs = models.BigIntegerField(default=0)
    #: Of these, whose first attempt began.
    begun = models.BigIntegerField(default=0)
    done = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    lost = models.BigIntegerField(default=0)
    abandoned = models.BigIntegerField(default=0)
    cancelled = models.BigIntegerField(default=0)
    #: Of which something may still become: they wait, or run.
    open = models.BigIntegerField(default=0)
    #: Attempts beyond the first of each run.
    retried = models.BigIntegerField(default=0)
    #: How long after it was to begin the first attempt of a run did, and how long the last attempt of one that is over
    #: took, milliseconds; ``None``: there is none to measure. See :mod:`engine.core.bins`.
    late_p50_ms = models.FloatField(null=True)
    late_p99_ms = models.FloatField(null=True)
    late_longest_ms = models.FloatField(null=True)
    p50_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    longest_ms = models.FloatField(null=True)
    #: What these are made of: see :mod:`hbus_console.jobs.series.tally`.
    late_bins = models.BinaryField(default=b"")
    took_bins = models.BinaryField(default=b"")
    #: Of a minute: the last change of its runs, as :attr:`JobsRolledUp.changed_us` counts.
    changed_us = models.BigIntegerField(default=0)

    class Meta:
        db_table = "ledger_job_series"
        constraints = [models.UniqueConstraint(fields=["job", "resolution", "at"], name="one_job_point_of_a_span")]
        indexes = [models.Index(fields=["resolution", "at"], name="job_series_by_age")]

    @property
    def subject(self) -> Subject:
        """Its job."""
        return job_subject(self.job)


class JobsRolledUp(models.Model):
    """How far the changes of runs were rolled up: one row, which whoever rolls up locks first."""

    #: What changed up to then is in the series, in microseconds since the epoch, by the database's clock.
    changed_us = models.BigIntegerField(default=0)
    #: Whether the runs of before the first roll-up are in the series too.
    whole = models.BooleanField(default=False)
    #: When that was said last, in epoch milliseconds.
    at_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "ledger_job_series_reach"
