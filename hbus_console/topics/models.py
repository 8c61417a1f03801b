"""Topics, and what the store still has to forget."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from engine.bus.subjects import subject_of, topic_subject
from engine.core.subject import Subject
from hbus_console.teams.models import Team


def carriers_of(transport: str, leaving: str) -> tuple[str, ...]:
    """:attr:`Topic.carriers` of a topic with these two columns."""
    carrier = transport or str(settings.HBUS_TRANSPORT)
    return (carrier, leaving) if leaving else (carrier,)


class Topic(models.Model):
    """A named stream with an owner, a schema and rules."""

    class Classification(models.TextChoices):
        PUBLIC = "public"
        INTERNAL = "internal"
        CONFIDENTIAL = "confidential"
        PERSONAL = "personal"

    class Compatibility(models.TextChoices):
        NONE = "none"
        BACKWARD = "backward"
        FORWARD = "forward"
        FULL = "full"

    class Ordering(models.TextChoices):
        NONE = "none"
        KEY = "key"

    name = models.CharField(max_length=200, unique=True)
    #: NULL means ownerless: every publish is refused until somebody takes it over.
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="topics")
    description = models.TextField(blank=True)
    classification = models.CharField(max_length=16, choices=Classification, default=Classification.INTERNAL)
    #: Dotted paths into the payload, e.g. ``guest.name``; shown only to who may reveal them, and each time audited.
    masked_fields = models.JSONField(default=list, blank=True)
    #: Somebody has looked and said that nothing in a personal payload needs masking.
    nothing_to_mask = models.BooleanField(default=False)
    compatibility = models.CharField(max_length=16, choices=Compatibility, default=Compatibility.BACKWARD)
    ordering = models.CharField(max_length=8, choices=Ordering, default=Ordering.NONE)
    #: Into how many parts keys are spread; only with order by key. Never fewer, and more only while it is empty.
    partitions = models.PositiveIntegerField(default=1)
    #: Whether messages may jump the queue; excludes ordering by key.
    priorities = models.BooleanField(default=True)
    retention_hours = models.PositiveIntegerField(default=168)
    #: 0: no bound by number.
    retention_messages = models.PositiveBigIntegerField(default=0)
    max_bytes = models.PositiveIntegerField(default=1024 * 1024)
    idempotency_window_s = models.PositiveIntegerField(default=24 * 3600)
    #: How long a message is wanted when its producer does not say; 0: for ever.
    ttl_s = models.PositiveIntegerField(default=0)
    #: Name of the transport; empty: the installation's default.
    transport = models.CharField(max_length=32, blank=True)
    #: The transport it is moving away from: still read, no longer published to. Empty unless it moves.
    leaving = models.CharField(max_length=32, blank=True)
    #: When its transport was last another. What was stored there before, this one does not know.
    moved_at = models.DateTimeField(null=True, blank=True)
    #: Holds the deliveries of every subscription; publishing goes on.
    paused = models.BooleanField(default=False)
    pause_reason = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    #: Grows with every change; consumers and catalogs notice a change by it.
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return topic_subject(self.name)

    @property
    def carriers(self) -> tuple[str, ...]:
        """The transports that hold messages of it: where it is published to and, while it moves, where it leaves."""
        return carriers_of(self.transport, self.leaving)

    @property
    def retention(self) -> int:
        """Retention in microseconds, as pages say durations."""
        return self.retention_hours * 3_600_000_000

    @property
    def ttl(self) -> int:
        """The default time to live, likewise."""
        return self.ttl_s * 1_000_000

    @property
    def window(self) -> int:
        """The idempotency window, likewise."""
        return self.idempotency_window_s * 1_000_000


class StoreRemoval(models.Model):
    """Something deleted here that the store may still hold: written with the deletion, gone once the store obeyed."""

    topic = models.CharField(max_length=200)
    #: Empty: the whole topic.
    group = models.CharField(max_length=100, blank=True)
    transport = models.CharField(max_length=32, blank=True)
    #: Names of those that read the topic beside its subscriptions when this was decided, with blanks between.
    read_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    @property
    def subject(self) -> Subject:
        """The subscription, or the topic."""
        return subject_of(self.topic, self.group)
