"""Operations: work on many messages that a person started, with its progress and a result for each message."""

from __future__ import annotations

from django.db import models

#: States in which anything will still happen, or may after a resume.
ACTIVE = ("queued", "running", "paused")


class Operation(models.Model):
    """One audited, rate-limited, cancellable piece of work. Every write goes by ``revision``: see the runner."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        PAUSED = "paused"
        DONE = "done"
        CANCELLED = "cancelled"
        FAILED = "failed"

    #: Name of a declared :class:`~hbus_console.operations.kinds.Kind`.
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    #: Digest of what was asked for: a second start of the same finds the first.
    digest = models.CharField(max_length=32)
    #: The topic in whose namespace all of it lies; empty when it spans several.
    topic = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    #: Grows with every write; a runner that lost its lease writes under an old one, and is refused.
    revision = models.PositiveBigIntegerField(default=1)

    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16)
    #: Whose grants are asked anew at every step.
    user_id = models.BigIntegerField(null=True)
    #: The ceiling of the token that started it; empty for people.
    limit_role = models.CharField(max_length=16, blank=True)
    limit_scope = models.CharField(max_length=200, blank=True)
    reason = models.TextField()
    audit_seq = models.BigIntegerField()
    correlation_id = models.CharField(max_length=128, blank=True)

    #: Messages a second; 0: as fast as it goes.
    rate_per_s = models.PositiveIntegerField(default=0)
    #: What the plan counted; 0 when it cannot be told before.
    total = models.PositiveBigIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)
    skipped = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    #: Looked at, whether it matched or not.
    scanned = models.PositiveBigIntegerField(default=0)
    #: Where the next step goes on; the kind's own.
    cursor = models.JSONField(default=dict)
    note = models.CharField(max_length=500, blank=True)
    last_error = models.TextField(blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    #: When a step was last committed.
    moved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["state", "id"], name="operation_state"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["digest"], condition=models.Q(state__in=ACTIVE), name="one_operation_of_the_same_work"
            )
        ]

    @property
    def active(self) -> bool:
        """Whether it is in one of :data:`ACTIVE`."""
        return self.state in ACTIVE

    @property
    def handled(self) -> int:
        """How many messages have a result."""
        return self.done + self.skipped + self.failed

    @property
    def percent(self) -> int | None:
        """How far it is; ``None`` when nobody knows how much there is."""
        if self.state == self.State.DONE:
            return 100
        return min(100, 100 * self.handled // self.total) if self.total else None


class OperationItem(models.Model):
    """What became of one message of an operation."""

    class Result(models.TextChoices):
        DONE = "done"
        SKIPPED = "skipped"
        FAILED = "failed"

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="items")
    #: What tells it apart inside the operation: no message is worked on twice.
    key = models.CharField(max_length=200)
    topic = models.CharField(max_length=200)
    subscription = models.CharField(max_length=100, blank=True)
    message_id = models.CharField(max_length=64)
    result = models.CharField(max_length=8, choices=Result)
    detail = models.CharField(max_length=500, blank=True)
    #: The copy that was published, where one was.
    new_message_id = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["operation", "key"], name="one_result_per_message")]
        indexes = [
            models.Index(fields=["message_id"], name="operation_item_message"),
            models.Index(fields=["new_message_id"], name="operation_item_copy"),
            models.Index(fields=["operation", "result", "id"], name="operation_item_result"),
        ]
