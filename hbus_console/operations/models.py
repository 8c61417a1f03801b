"""Operations: work on many things that a person started, with its progress and a result for each of them."""

from __future__ import annotations

from django.db import models

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, TEXT_LIMIT, Subject
from hbus_console.subjects import of_text, readable

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

    #: Name of a declared :class:`~hbus_console.operations.kinds.OperationKind`.
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    #: Digest of what was asked for: a second start of the same finds the first.
    digest = models.CharField(max_length=32)
    #: The namespace in which all of it lies; empty when it spans several.
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True)
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

    #: Things a second; 0: as fast as it goes.
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
        """How many things have a result."""
        return self.done + self.skipped + self.failed

    @property
    def percent(self) -> int | None:
        """How far it is; ``None`` when nobody knows how much there is."""
        if self.state == self.State.DONE:
            return 100
        return min(100, 100 * self.handled // self.total) if self.total else None

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return Subject("operation", self.namespace, str(self.pk))


class OperationItem(models.Model):
    """What became of one thing that an operation worked on."""

    class Result(models.TextChoices):
        DONE = "done"
        SKIPPED = "skipped"
        FAILED = "failed"

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="items")
    #: What tells it apart inside the operation: nothing is worked on twice.
    key = models.CharField(max_length=200)
    #: These three are its subject.
    kind = models.CharField(max_length=KIND_LIMIT)
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True)
    name = models.CharField(max_length=NAME_LIMIT, blank=True)
    result = models.CharField(max_length=8, choices=Result)
    detail = models.CharField(max_length=500, blank=True)
    #: What else its kind of operation tells of it, by the names of :attr:`.kinds.OperationKind.facets`.
    facets = models.JSONField(default=dict)
    #: What was made of it, such as a copy, as the text of a subject; empty when nothing was.
    became = models.CharField(max_length=TEXT_LIMIT, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["operation", "key"], name="one_result_per_message")]
        indexes = [
            models.Index(fields=["name"], name="operation_item_name"),
            models.Index(fields=["became"], name="operation_item_became"),
            models.Index(fields=["operation", "result", "id"], name="operation_item_result"),
            # Who sees some namespaces only pages through the results in those.
            models.Index(fields=["operation", "namespace", "id"], name="operation_item_namespace"),
        ]

    @property
    def subject(self) -> Subject:
        """What was worked on."""
        return readable(self.kind, self.namespace, self.name)

    @property
    def made(self) -> Subject | None:
        """What was made of it."""
        return of_text(self.became) if self.became else None
