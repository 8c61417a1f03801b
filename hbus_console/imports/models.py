"""Where each import of a file stands, so that it can go on after whatever stopped it."""

from __future__ import annotations

from django.db import models

from engine.bus.subjects import topic_subject
from engine.core.subject import Subject


class ImportRun(models.Model):
    """One file into one topic with one mapping. Counts and resume point are written together, batch by batch."""

    #: SHA-256 of the file as it lies on disk.
    file_digest = models.CharField(max_length=64)
    topic = models.CharField(max_length=200)
    #: SHA-256 of everything else that shapes the messages.
    mapping_digest = models.CharField(max_length=64)
    file_name = models.CharField(max_length=500)
    started_by = models.CharField(max_length=150)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    #: Rows of the file that are accounted for; the next run goes on behind them.
    read = models.PositiveBigIntegerField(default=0)
    published = models.PositiveBigIntegerField(default=0)
    deduplicated = models.PositiveBigIntegerField(default=0)
    rejected = models.PositiveBigIntegerField(default=0)
    #: Length of the rejects file that belongs to the rows accounted for, in bytes.
    rejects_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["file_digest", "topic", "mapping_digest"], name="one_import_per_file")
        ]

    @property
    def subject(self) -> Subject:
        """The topic that it fills."""
        return topic_subject(self.topic)
