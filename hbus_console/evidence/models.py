"""What hbus notes about itself, and how far its evidence is booked."""

from __future__ import annotations

from django.db import models

from engine.core.subject import NAMESPACE_LIMIT, TEXT_LIMIT, Subject
from hbus_console.subjects import of_text


class Notice(models.Model):
    """A fact that concerns no single message: a group lost, retention held back, evidence dropped …"""

    kind = models.CharField(max_length=20)
    at_ms = models.BigIntegerField()
    topic = models.CharField(max_length=200, blank=True)
    subscription = models.CharField(max_length=100, blank=True)
    node = models.CharField(max_length=100, blank=True)
    #: How many messages or facts it is about; 0 when that has no meaning.
    count = models.BigIntegerField(default=0)
    detail = models.CharField(max_length=500, blank=True)

    class Meta:
        db_table = "ledger_notice"
        indexes = [models.Index(fields=["-at_ms"], name="notice_time")]

    @property
    def subject(self) -> Subject | None:
        """Its subscription, or its topic; ``None`` when it concerns the installation as such."""
        if self.subscription:
            return Subject("subscription", self.topic, self.subscription)
        return Subject("topic", self.topic) if self.topic else None


class Evidence(models.Model):
    """A fact of an engine that keeps no ledger of its own."""

    #: A fact's kind, see :func:`hbus_console.evidence.kinds.kinds`.
    kind = models.CharField(max_length=40)
    #: The text form of an :class:`engine.core.subject.Subject`; empty for the installation as such.
    subject = models.CharField(max_length=TEXT_LIMIT, blank=True)
    #: The subject's, which scopes speak of. Keepers of the release before name none: ``/`` is no namespace, so that
    #: only who sees everything sees what these book.
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True, db_default="/")
    at_ms = models.BigIntegerField()
    node = models.CharField(max_length=100, blank=True)
    correlation_id = models.CharField(max_length=128, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    #: The fields that its engine declares, without those that do not apply.
    fields = models.JSONField(default=dict)

    class Meta:
        db_table = "ledger_evidence"
        indexes = [
            models.Index(fields=["subject", "at_ms"], name="evidence_subject"),
            models.Index(fields=["kind", "at_ms"], name="evidence_kind"),
            models.Index(fields=["correlation_id", "at_ms"], name="evidence_correlation"),
        ]

    @property
    def about(self) -> Subject | None:
        """Its subject; ``None`` when it concerns the installation as such."""
        return of_text(self.subject) if self.subject else None


class Cursor(models.Model):
    """How far the evidence of that name is booked, see :mod:`~hbus_console.evidence.freshness`.

    That of the fact stream moves in the transaction of the rows it stands for.
    """

    name = models.CharField(max_length=20, primary_key=True)
    #: Id of the last booked entry of the stream.
    entry = models.CharField(max_length=40, default="0-0")
    #: Running number of the last booked fact.
    facts = models.BigIntegerField(default=0)
    #: What happened before this is booked, if anybody told it.
    at_ms = models.BigIntegerField(default=0)

    class Meta:
        db_table = "ledger_cursor"
