"""The audit log: one unchangeable, hash-chained row per act."""

from __future__ import annotations

from django.db import models
from django.db.models import QuerySet

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, Subject
from hbus_console.audit.legible_json import LegibleJSON
from hbus_console.audit.subjects import Stored, read

#: The last part of what a refused act is called.
REFUSED = ".refused"
#: Likewise of the outcome of a decision that was written down before it was carried out: it was not done; nobody knows
#: whether it was; it was found to have been done after all. See :mod:`hbus_console.audit.decisions`.
CAME_TO_NOTHING = ".failed"
OUTCOME_UNKNOWN = ".unknown"
FOUND_DONE = ".done"


#: No entry has this number.
BEYOND = 2**62


class AuditEntry(models.Model):
    """Who did what to which thing, when, why, before and after. Database triggers refuse UPDATE and DELETE."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16)
    #: ``topic.pause``, ``payload.reveal`` …; refused acts end in :data:`REFUSED`.
    action = models.CharField(max_length=64)
    #: These three hold the subject, see :mod:`hbus_console.audit.subjects`.
    target_type = models.CharField(max_length=KIND_LIMIT)
    target = models.CharField(max_length=NAMESPACE_LIMIT + 1 + NAME_LIMIT)
    #: Under the hash, in the API and in exports it has the name of its column.
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True, db_column="topic")
    reason = models.TextField(blank=True)
    before = LegibleJSON(null=True)
    after = LegibleJSON(null=True)
    request_id = models.CharField(max_length=64, blank=True)
    correlation_id = models.CharField(max_length=128, blank=True)
    address = models.CharField(max_length=64, blank=True)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["-seq"]
        indexes = [
            models.Index(fields=["actor", "-seq"], name="audit_actor"),
            models.Index(fields=["action", "-seq"], name="audit_action"),
            # Charts ask for a few actions within a span of time.
            models.Index(fields=["action", "at"], name="audit_action_time"),
            models.Index(fields=["target_type", "target", "-seq"], name="audit_target"),
            models.Index(fields=["namespace", "-seq"], name="audit_topic"),
            # Filters name a target without its type.
            models.Index(fields=["target", "-seq"], name="audit_target_alone"),
            models.Index(fields=["correlation_id"], name="audit_correlation"),
        ]

    @property
    def subject(self) -> Subject:
        """What was acted upon."""
        return read(Stored(self.target_type, self.target, self.namespace))


class OpenDecision(models.Model):
    """A decision that is being carried out: its entry is written, and what came of it is not told yet.

    Beside the log, which cannot be changed: a row for as long as it takes. See :mod:`~.decisions`.
    """

    #: Of its entry.
    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()


def newest() -> QuerySet[AuditEntry]:
    """The log from its end. SQLite lets text stand where a number should, behind all numbers: that is left out."""
    return AuditEntry.objects.filter(seq__lt=BEYOND).order_by("-seq")
