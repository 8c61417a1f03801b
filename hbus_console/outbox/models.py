"""The transactional outbox and inbox: what makes effects and messages agree."""

from __future__ import annotations

from django.db import models

from engine.bus.subjects import MESSAGE
from engine.core.subject import Subject
from hbus_console.subjects import readable


class OutboxMessage(models.Model):
    """A message written in the transaction of the change that causes it; the relay publishes and removes it."""

    id = models.BigAutoField(primary_key=True)
    topic = models.CharField(max_length=200)
    #: Which topic of that name it is for; empty in rows of releases that did not ask.
    incarnation = models.CharField(max_length=40, blank=True, default="")
    key = models.CharField(max_length=200, blank=True)
    message_id = models.CharField(max_length=64)
    #: Under which the relay publishes, so that a repeat after a crash is not stored twice.
    idempotency_key = models.CharField(max_length=512)
    body = models.BinaryField()
    priority = models.CharField(max_length=8, default="normal")
    due_ms = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    attempts = models.PositiveIntegerField(default=0)
    last_error = models.CharField(max_length=500, blank=True)
    #: Set when the bus refused it for good: it stays for a person to see and lets the others of its key pass.
    refused_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        # One event may leave for several topics under its one id.
        constraints = [models.UniqueConstraint(fields=["topic", "message_id"], name="outbox_identity")]
        indexes = [models.Index(fields=["refused_at", "id"], name="outbox_pending")]

    @property
    def subject(self) -> Subject:
        """The message to be."""
        return readable(MESSAGE, self.topic, self.message_id)


class InboxEntry(models.Model):
    """A delivery whose effects are committed: a second one of the same message does nothing."""

    subscription = models.CharField(max_length=300)
    source = models.CharField(max_length=300)
    message_id = models.CharField(max_length=64)
    at_ms = models.BigIntegerField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscription", "source", "message_id"], name="handled_once")]
