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
    #: How much of it there was, in bytes; 0 where that was not noted yet.
    file_bytes = models.PositiveBigIntegerField(default=0)
    #: Names the rows' identities: the digest of the first file of which this one is a continuation, or its own.
    origin = models.CharField(max_length=64, blank=True)
    file_name = models.CharField(max_length=500)
    started_by = models.CharField(max_length=150)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    #: Rows of the file that are accounted for; the next run goes on behind them.
    read = models.PositiveBigIntegerField(default=0)
    #: Those of them that an import of a shorter file with the same beginning accounts for.
    taken_over = models.PositiveBigIntegerField(default=0)
    #: Where the last of them begins, and the SHA-256 of what it held: by this a row that was torn is known.
    last_line = models.PositiveBigIntegerField(default=0)
    last_row = models.CharField(max_length=64, blank=True)
    published = models.PositiveBigIntegerField(default=0)
    deduplicated = models.PositiveBigIntegerField(default=0)
    rejected = models.PositiveBigIntegerField(default=0)
    #: The file of rejects, which is nobody else's: absolute path, and empty until there is one.
    rejects_file = models.TextField(blank=True)
    #: Length of it that belongs to the rows accounted for, in bytes.
    rejects_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["file_digest", "topic", "mapping_digest"], name="one_import_per_file")
        ]

    @property
    def subject(self) -> Subject:
        """The topic that it fills."""
        return topic_subject(self.topic)
