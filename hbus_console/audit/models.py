"""The audit log: one unchangeable, hash-chained row per act."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import BooleanField, Func, QuerySet

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, TEXT_LIMIT, Subject
from hbus_console.audit.legible_fields import LegibleChars, LegibleInstant, LegibleJSON, LegibleText
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
    at = LegibleInstant(db_index=True)
    actor = LegibleChars(max_length=150)
    actor_kind = LegibleChars(max_length=16)
    #: ``topic.pause``, ``payload.reveal`` …; refused acts end in :data:`REFUSED`.
    action = LegibleChars(max_length=64)
    #: These three hold the subject, see :mod:`hbus_console.audit.subjects`.
    target_type = LegibleChars(max_length=KIND_LIMIT)
    target = LegibleChars(max_length=NAMESPACE_LIMIT + 1 + NAME_LIMIT)
    #: Under the hash, in the API and in exports it has the name of its column.
    namespace = LegibleChars(max_length=NAMESPACE_LIMIT, blank=True, db_column="topic")
    reason = LegibleText(blank=True)
    before = LegibleJSON(null=True)
    after = LegibleJSON(null=True)
    request_id = LegibleChars(max_length=64, blank=True)
    correlation_id = LegibleChars(max_length=128, blank=True)
    address = LegibleChars(max_length=64, blank=True)
    previous_hash = LegibleChars(max_length=64)
    hash = LegibleChars(max_length=64)

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


class RefusalCount(models.Model):
    """How often one person was refused something, or anybody about one subject. See :mod:`~.refusal_counts`."""

    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16)
    #: What alone is counted, as its text; empty: all that this person was refused.
    subject = models.CharField(max_length=TEXT_LIMIT, blank=True)
    #: Since when ``entries`` counts those that have one.
    since = models.DateTimeField()
    entries = models.PositiveIntegerField(default=0)
    #: What no entry tells of yet: action → how many ``times``, and about what ``last``.
    more = models.JSONField(default=dict)
    more_since = models.DateTimeField(null=True, db_index=True)
    more_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "actor_kind", "subject"], name="one_refusal_count")]


class _IsNumbered(Func):
    """Whether an entry has a number that an entry can have. No index is chosen by it."""

    template = f"(%(expressions)s + 0 BETWEEN 0 AND {BEYOND - 1})"
    output_field = BooleanField()

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = f"(typeof(%(expressions)s) = 'integer' AND +%(expressions)s BETWEEN 0 AND {BEYOND - 1})"
        return self.as_sql(compiler, connection, template=template, **more)


def numbered() -> QuerySet[AuditEntry]:
    """The log. SQLite lets stand where a number should whatever it was given, and no page can lead to that."""
    return AuditEntry.objects.filter(_IsNumbered("seq"))


def misnumbered() -> QuerySet[AuditEntry]:
    """What :func:`numbered` leaves out."""
    return AuditEntry.objects.exclude(_IsNumbered("seq"))


def newest() -> QuerySet[AuditEntry]:
    """The log from its end."""
    return numbered().filter(seq__lt=BEYOND).order_by("-seq")
