"""Topics, their owners and schemas, and the subscriptions that read them."""

from __future__ import annotations

from django.db import models


class Team(models.Model):
    """Who answers for a topic or a subscription."""

    name = models.CharField(max_length=80, unique=True)
    contact = models.CharField(max_length=200, help_text="Where they are reached: mail address, channel or pager.")
    created_at = models.DateTimeField(auto_now_add=True)

    @property
    def initials(self) -> str:
        words = self.name.split()
        return ("".join(word[0] for word in words[:2]) if len(words) > 1 else self.name[:2]).upper()


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


class SchemaVersion(models.Model):
    """One immutable version of a topic's JSON Schema (draft 2020-12)."""

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="schemas")
    version = models.PositiveIntegerField()
    body = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["-version"]
        constraints = [models.UniqueConstraint(fields=["topic", "version"], name="one_schema_per_version")]


class Subscription(models.Model):
    """A consumer group on a topic: a handler, its policies and an owner."""

    class Handler(models.TextChoices):
        CODE = "code"
        WEBHOOK = "webhook"

    class FailedHead(models.TextChoices):
        BLOCK = "block"
        PARK = "park"
        PASS = "pass"  # noqa: S105 - a policy

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="subscriptions")
    group = models.CharField(max_length=100)
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="subscriptions")
    description = models.TextField(blank=True)
    handler = models.CharField(max_length=8, choices=Handler, default=Handler.CODE)
    #: For code: the dotted name it was registered under; filled by the worker that hosts it.
    handler_name = models.CharField(max_length=200, blank=True)
    webhook_url = models.URLField(max_length=500, blank=True)
    #: Signs webhook calls; never shown again, never logged.
    webhook_secret = models.CharField(max_length=200, blank=True)
    webhook_timeout_s = models.PositiveIntegerField(default=10)
    concurrency = models.PositiveIntegerField(default=4)
    max_attempts = models.PositiveIntegerField(default=5)
    backoff_s = models.JSONField(default=list, blank=True)
    lease_s = models.PositiveIntegerField(default=30)
    transactional = models.BooleanField(default=False)
    #: On a topic ordered by key: what a message that fails does to those of its key behind it.
    on_failed_head = models.CharField(max_length=8, choices=FailedHead, default=FailedHead.BLOCK)
    #: Seconds a handler may take before its message is given up; 0: no limit.
    max_handler_s = models.PositiveIntegerField(default=0)
    #: When the breaker opens: different messages that failed (0: never), their share of all in percent, over how many
    #: seconds; and for how many seconds it stays open, at first and at most.
    breaker_failures = models.PositiveIntegerField(default=20)
    breaker_share = models.PositiveIntegerField(default=80)
    breaker_window_s = models.PositiveIntegerField(default=30)
    breaker_open_s = models.PositiveIntegerField(default=10)
    breaker_longest_open_s = models.PositiveIntegerField(default=300)
    #: Policies a person has set: the declaration in code no longer moves them.
    held_fields = models.JSONField(default=list, blank=True)
    paused = models.BooleanField(default=False)
    pause_reason = models.CharField(max_length=300, blank=True)
    #: The last position known to be safe to restart from when the store has lost the group.
    checkpoint = models.TextField(blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["topic__name", "group"]
        constraints = [models.UniqueConstraint(fields=["topic", "group"], name="one_group_per_topic")]

    @property
    def label(self) -> str:
        return f"{self.group} on {self.topic.name}"


class StoreRemoval(models.Model):
    """Something deleted here that the store may still hold: written with the deletion, gone once the store obeyed."""

    topic = models.CharField(max_length=200)
    #: Empty: the whole topic.
    group = models.CharField(max_length=100, blank=True)
    transport = models.CharField(max_length=32, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
