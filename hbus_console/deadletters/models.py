"""Dead letters: messages that ran out of attempts, kept until a person decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import models

from engine.bus.subjects import MESSAGE
from engine.core.subject import Subject
from hbus_console import cursors
from hbus_console.subjects import readable
from hbus_console.topics.handler_errors import told_error
from hbus_console.ui.formats import epoch_ms


def place_of(died_at: datetime, *number: int) -> str:
    """Where what died then stands among the newest first, as cursors and lists have it; ``number`` tells those of one
    instant apart."""
    return cursors.written(round(died_at.timestamp() * 1_000_000), *number)


class DeadLetter(models.Model):
    """One delivery that died. Nothing here is ever trimmed by itself."""

    class State(models.TextChoices):
        DEAD = "dead"
        REDRIVEN = "redriven"
        DISCARDED = "discarded"

    topic = models.CharField(max_length=200)
    subscription = models.CharField(max_length=100)
    message_id = models.CharField(max_length=64)
    source = models.CharField(max_length=300)
    #: Position of the original in the topic.
    position = models.CharField(max_length=64)
    key = models.CharField(max_length=200, blank=True)
    correlation_id = models.CharField(max_length=128, blank=True)
    #: The whole envelope, byte for byte.
    body = models.BinaryField()
    #: Error class, then its message without what differs from case to case.
    cause = models.CharField(max_length=500)
    error = models.TextField()
    #: What may be told of it, and of :attr:`history`; nothing until :meth:`tell_errors` has said so.
    shown_error: str = ""
    shown_history: Sequence[Mapping[str, Any]] = ()
    #: Digest of subscription, error class and normalised message: what groups letters of one cause.
    fingerprint = models.CharField(max_length=16)
    attempts = models.PositiveIntegerField()
    #: List of {number, at_ms, duration_us, consumer, error}.
    history = models.JSONField(default=list)
    first_failed_at = models.DateTimeField()
    died_at = models.DateTimeField(db_index=True)
    state = models.CharField(max_length=10, choices=State, default=State.DEAD)
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    redriven_as = models.CharField(max_length=64, blank=True)
    #: Digest of its entry in the transport's own store, by which the collector knows that it has taken it over: of
    #: several letters even id, source and instant may be the same. NULL: taken over before there was any; so it can be
    #: added to a table of many envelopes without filling it.
    entry_digest = models.CharField(max_length=32, null=True, blank=True)

    class Meta:
        ordering = ["-died_at", "-id"]
        # Of expressions, so that SQLite makes an index of it: one of fields it can only add by copying the table.
        constraints = [
            models.UniqueConstraint("topic", "subscription", "entry_digest", name="one_dead_letter_per_entry")
        ]
        indexes = [
            # Covers the list of groups, so that it reads no letters' bodies; the id is for PostgreSQL, which keeps none
            # in an index by itself.
            models.Index(
                fields=["state", "fingerprint", "topic", "subscription", "-died_at", "-id"], name="dead_group"
            ),
            # The newest of all, a page at a time.
            models.Index(fields=["state", "-died_at", "-id"], name="dead_newest"),
            models.Index(fields=["state", "topic", "subscription", "-died_at"], name="dead_subscription"),
            models.Index(fields=["message_id"], name="dead_message"),
        ]

    @property
    def subject(self) -> Subject:
        """The message that died. One whose envelope is unreadable goes by its position."""
        return readable(MESSAGE, self.topic, self.message_id)

    @property
    def place(self) -> str:
        """See :func:`place_of`."""
        return place_of(self.died_at, self.pk)

    @property
    def copy(self) -> Subject | None:
        """The message that it was redriven as."""
        return readable(MESSAGE, self.topic, self.redriven_as) if self.redriven_as else None

    def tell_errors(self, told_from: int | None) -> None:
        """Have it know what may be told of what it died of, and of the attempts before; see
        :func:`~hbus_console.topics.handler_errors.told_whole_from`."""
        died_ms = epoch_ms(self.died_at)
        self.shown_error = told_error(self.error, died_ms, told_from)
        self.shown_history = [
            {**attempt, "error": told_error(str(attempt.get("error", "")), died_ms, told_from)}
            for attempt in self.history
        ]
