"""Operations: work on many things that a person started, with its progress and a result for each of them."""

from __future__ import annotations

from django.db import models

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, TEXT_LIMIT, Subject
from hbus_console.subjects import of_text, readable

#: States in which anything will still be done, or may after a resume.
ACTIVE = ("queued", "running", "paused")


class Operation(models.Model):
    """One audited, rate-limited, cancellable piece of work. Every write goes by ``revision``: see the runner."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        PAUSED = "paused"
        #: All is done, and not all that it published is decided.
        SETTLING = "settling"
        DONE = "done"
        CANCELLED = "cancelled"
        FAILED = "failed"

    #: Name of a declared :class:`~hbus_console.operations.kinds.OperationKind`.
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=300)
    spec = models.JSONField()
    #: What of all that ``spec`` asks about was hidden from some when it began; see :mod:`~.guarded`.
    guarded = models.JSONField(default=list)
    #: Digest of what was asked for: a second start of the same finds the first.
    digest = models.CharField(max_length=32)
    #: The namespace in which all of it lies; empty when it spans several.
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True)
    #: The scopes in which its starter might do it when it began; empty where it was started before these were kept.
    scopes = models.JSONField(default=list)
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
    #: Which token started it, and under which epoch of the account's sessions: with either it ends. ``None`` where
    #: there is none, or where it was started before these were kept.
    token_id = models.BigIntegerField(null=True)
    session_epoch = models.PositiveIntegerField(null=True)
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
    #: After so many results it holds itself, so that a person can look at what became of them; 0: it does not.
    first = models.PositiveIntegerField(default=0)

    #: What it made that has an outcome of its own, such as copies of messages. The four below say of how many of these
    #: it is known; what is not in them waits, and of that ``retrying`` have failed before.
    copies = models.PositiveBigIntegerField(default=0)
    settled = models.PositiveBigIntegerField(default=0)
    died = models.PositiveBigIntegerField(default=0)
    unhandled = models.PositiveBigIntegerField(default=0)
    unknown = models.PositiveBigIntegerField(default=0)
    retrying = models.PositiveBigIntegerField(default=0)
    #: When the watcher began its last whole look at what waits.
    looked_at = models.DateTimeField(null=True)
    #: When the last outcome was known, or no longer waited for.
    decided_at = models.DateTimeField(null=True)

    #: Where the next step goes on; the kind's own.
    cursor = models.JSONField(default=dict)
    note = models.CharField(max_length=500, blank=True)
    last_error = models.TextField(blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    #: When the last thing was done, or it was cancelled or failed.
    ended_at = models.DateTimeField(null=True)
    #: When a step was last committed.
    moved_at = models.DateTimeField(null=True)
    #: When the first step was committed since it was begun or resumed, and how many things had a result with that: its
    #: speed is counted from there. ``None`` where it was begun before these were kept.
    went_at = models.DateTimeField(null=True)
    went_from = models.PositiveBigIntegerField(default=0)

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
    def waiting(self) -> int:
        """How many of its copies have no outcome yet; once it is decided, how many it gave up waiting for."""
        return max(0, self.copies - self.settled - self.died - self.unhandled - self.unknown)

    @property
    def moves(self) -> bool:
        """Whether anything that is shown of it may still change."""
        return self.active or (self.copies > 0 and self.decided_at is None)

    @property
    def percent(self) -> int | None:
        """How much of it is decided; ``None`` when nobody knows how much there is. 100 only once all is."""
        if self.state == self.State.DONE:
            return 100
        total = max(self.total, self.handled) if self.state == self.State.SETTLING else self.total
        return min(99 if self.moves else 100, 100 * (self.handled - self.waiting) // total) if total else None

    @property
    def tone(self) -> str:
        """The colour of its state, where that is not the word's own: "done" is no success of what died again."""
        if self.state != self.State.DONE or not (self.died or self.failed or self.unknown):
            return ""
        return "warn" if self.settled or (self.done and not self.copies) else "bad"

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

    class Outcome(models.TextChoices):
        """What became of what was made of it."""

        WAITING = "waiting"
        #: It failed before, and will be tried again.
        RETRYING = "retrying"
        SETTLED = "settled"
        DEAD = "dead"
        #: It ended without a handler's success or failure: expired, skipped by a person, refused, wanted by nobody.
        UNHANDLED = "unhandled"
        #: There is no evidence of it, or none any more.
        UNKNOWN = "unknown"

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="items")
    #: What tells it apart inside the operation: nothing is worked on twice.
    key = models.CharField(max_length=200)
    #: These three are its subject.
    kind = models.CharField(max_length=KIND_LIMIT)
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True)
    name = models.CharField(max_length=NAME_LIMIT, blank=True)
    result = models.CharField(max_length=8, choices=Result)
    detail = models.CharField(max_length=500, blank=True)
    #: What else its kind of operation tells of it, by the names of :attr:`.kinds.OperationKind.facets`; and the
    #: ``source`` of a message that was made of it, which others may publish under the same id.
    facets = models.JSONField(default=dict)
    #: What was made of it, such as a copy, as the text of a subject; empty when nothing was.
    became = models.CharField(max_length=TEXT_LIMIT, blank=True)
    #: Empty where nothing was made, or nothing that has an outcome.
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    #: What else is known of the outcome.
    outcome_detail = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["operation", "key"], name="one_result_per_message")]
        indexes = [
            models.Index(fields=["name"], name="operation_item_name"),
            models.Index(fields=["became"], name="operation_item_became"),
            models.Index(fields=["operation", "result", "id"], name="operation_item_result"),
            models.Index(fields=["operation", "outcome", "id"], name="operation_item_outcome"),
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


#: Outcomes that may still change.
UNDECIDED = (OperationItem.Outcome.RETRYING, OperationItem.Outcome.WAITING)


class OperationPlace(models.Model):
    """Something that an operation reached, such as a subscription, and what waits there of what it published."""

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="places")
    #: The text of a subject.
    place = models.CharField(max_length=TEXT_LIMIT)
    waiting = models.PositiveBigIntegerField(default=0)
    retrying = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["operation", "place"], name="one_row_per_place")]
        indexes = [models.Index(fields=["place", "operation"], name="operation_place")]

    @property
    def subject(self) -> Subject:
        """What was reached."""
        return of_text(self.place)
