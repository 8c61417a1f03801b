"""Who reads a topic."""

from __future__ import annotations

from django.db import models

from engine.bus.subjects import subscription_subject
from engine.core.subject import Subject
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic


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
        db_table = "topics_subscription"
        ordering = ["topic__name", "group"]
        constraints = [models.UniqueConstraint(fields=["topic", "group"], name="one_group_per_topic")]

    @property
    def subject(self) -> Subject:
        """As others speak of it. Reads the topic's row."""
        return subscription_subject(self.topic.name, self.group)

    @property
    def label(self) -> str:
        return f"{self.group} on {self.topic.name}"
