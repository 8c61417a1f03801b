"""How far the Spark application of a run is: one row for each run that has told, with what it told last."""

from __future__ import annotations

from django.db import models


class RunProgress(models.Model):
    """Of the newest attempt that has told anything. In the ledger database, as the log is."""

    run = models.BigIntegerField(primary_key=True)
    #: Of the attempt; what is written under an older one than is there is refused.
    epoch = models.PositiveBigIntegerField()
    attempt = models.PositiveIntegerField()
    #: When it was told, in microseconds since the epoch, by the worker's clock.
    at_us = models.BigIntegerField()
    #: As :class:`~engine.cron.work.spark.progress.SparkProgress` says: checked, and cleaned as a log is.
    said = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["-at_us"], name="run_progress_newest")]
