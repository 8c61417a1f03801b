"""The message ledger: bounded evidence of what became of every message, written in bulk from facts."""

from __future__ import annotations

from django.db import models
from django.db.models.expressions import RawSQL

from engine.bus.subjects import MESSAGE, subject_of, subscription_subject, topic_subject
from engine.core.subject import Subject
from hbus_console.subjects import readable
from hbus_console.topics.handler_errors import told_error

#: What is longer of an id is cut off, as a column takes it.
LONGEST_ID = 64
#: And of its source.
LONGEST_SOURCE = 300
LONGEST_STACK_ID = 16

#: Of a message: its topic, its id, and the source that gave it the id.
Identity = tuple[str, str, str]


class LedgerCheck(models.Model):
    """How far a topic has been compared with the ledger; see :mod:`~hbus_console.messages.checking`."""

    topic = models.CharField(max_length=200, unique=True)
    #: All that was published before, epoch milliseconds, was looked at.
    until_ms = models.BigIntegerField()
    #: Where to go on within a millisecond of many messages; empty: at :attr:`until_ms`.
    position = models.CharField(max_length=2_000, blank=True)
    #: How many messages were looked at, and how many of these the ledger did not have.
    checked = models.BigIntegerField(default=0)
    found = models.BigIntegerField(default=0)
    #: How much time was passed over: before anybody looked the ledger had let go of it, or the topic had begun anew.
    skipped_ms = models.BigIntegerField(default=0)
    #: How many waited for their time, and were lost before it came.
    lost = models.BigIntegerField(default=0)
    #: How many of those that were looked at could not be read, or not be named: nothing was compared of them.
    unreadable = models.BigIntegerField(default=0)
    #: How many bear a time that had not come. They are looked at in the order of their positions: up to
    #: :attr:`ahead_until`, and next up to :attr:`ahead_next`, which was the last one at :attr:`ahead_next_ms`.
    ahead = models.BigIntegerField(default=0)
    ahead_until = models.CharField(max_length=2_000, blank=True)
    ahead_next = models.CharField(max_length=2_000, blank=True)
    ahead_next_ms = models.BigIntegerField(default=0)

    @property
    def skipped_us(self) -> int:
        """The same as pages show durations."""
        return self.skipped_ms * 1000

    @property
    def subject(self) -> Subject:
        """The topic."""
        return topic_subject(self.topic)


class DeliveryCheck(models.Model):
    """How far what a subscription is past has been compared with what was told of it; see
    :mod:`~hbus_console.messages.delivery_checking`."""

    topic = models.CharField(max_length=200)
    subscription = models.CharField(max_length=100)
    #: All that was published before, epoch milliseconds, was looked at, and of that very moment what was booked up to
    #: the row :attr:`after_id`.
    until_ms = models.BigIntegerField()
    after_id = models.BigIntegerField(default=0)
    #: How many of its messages were looked at, and of how many of these nobody had told.
    checked = models.BigIntegerField(default=0)
    found = models.BigIntegerField(default=0)
    #: How many of these the store no longer had, before the subscription was done with them.
    lost = models.BigIntegerField(default=0)
    #: How many were not looked at, because the ledger let go of them first; and how much time was passed over for that.
    skipped = models.BigIntegerField(default=0)
    skipped_ms = models.BigIntegerField(default=0)
    #: Rows up to this one were there when it was last looked for those that are booked late.
    booked_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["topic", "subscription"], name="one_delivery_check_each")]

    @property
    def skipped_us(self) -> int:
        """The same as pages show durations."""
        return self.skipped_ms * 1000

    @property
    def subject(self) -> Subject:
        """The subscription."""
        return subscription_subject(self.topic, self.subscription)


class DeliveryAside(models.Model):
    """A message that a search for lost outcomes is past, and which it looks at again."""

    check_of = models.ForeignKey(DeliveryCheck, on_delete=models.CASCADE, related_name="aside")
    #: Its :class:`LedgerMessage`, which may be trimmed meanwhile.
    row_id = models.BigIntegerField()
    #: When the store was asked about it last, epoch milliseconds.
    asked_ms = models.BigIntegerField()
    #: When it first answered that the message is no longer open; 0: it is.
    over_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["check_of", "row_id"], name="one_delivery_aside_each")]


#: Accepted for later, and nothing has told that it was published.
WAITS = models.Q(due_ms__gt=0, position="", stored_us=0)


#: Kinds of what is told of one that waited for its time and will not come.
NEVER_COME = frozenset(("lost", "cancelled"))


class LedgerMessage(models.Model):
    """One message in its topic. The payload stays in the transport; ``position`` leads to it, where there is one: some
    transports tell none.

    Publishers choose ids, and one that forwards an event keeps its id: only topic, id and source together name a
    message, in this table and in all that speaks of its rows.
    """

    message_id = models.CharField(max_length=LONGEST_ID)
    topic = models.CharField(max_length=200)
    type = models.CharField(max_length=200)
    source = models.CharField(max_length=LONGEST_SOURCE)
    key = models.CharField(max_length=200)
    correlation_id = models.CharField(max_length=128)
    causation_id = models.CharField(max_length=64)
    trace_id = models.CharField(max_length=32)
    position = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    #: When it was appended to its topic; while it is delayed, when it was accepted.
    published_ms = models.BigIntegerField()
    #: 0 unless it was delayed.
    due_ms = models.BigIntegerField(default=0)
    #: How long the store took to append it; 0 when unknown, and while it is delayed.
    stored_us = models.BigIntegerField(default=0)
    #: What may be told of :attr:`size`; ``None`` until :func:`~hbus_console.messages.sizes.tell_sizes` has said so.
    shown_size: int | None = None

    class Meta:
        # Of expressions, so that SQLite makes an index of it: one of fields it can only add by copying the table.
        constraints = [models.UniqueConstraint("message_id", "topic", "source", name="ledger_identity")]
        indexes = [
            models.Index(fields=["topic", "published_ms"], name="ledger_topic_time"),
            models.Index(fields=["type", "published_ms"], name="ledger_type_time"),
            models.Index(fields=["published_ms"], name="ledger_time"),
            models.Index(fields=["key", "published_ms"], name="ledger_key"),
            models.Index(fields=["correlation_id", "published_ms"], name="ledger_correlation"),
            models.Index(fields=["causation_id"], name="ledger_causation"),
            models.Index(fields=["id"], condition=WAITS, name="ledger_waits"),
        ]

    @property
    def subject(self) -> Subject:
        """The message."""
        return readable(MESSAGE, self.topic, self.message_id)

    @property
    def waits(self) -> bool:
        """Whether it was accepted for later, and nothing has told that it was published."""
        return self.due_ms > 0 and not self.position and not self.stored_us

    @property
    def identity(self) -> Identity:
        """Just as it is: what its events and dead letters have too."""
        return self.topic, self.message_id, self.source


class LedgerRelease(models.Model):
    """That a message which waited is published: its row keeps its number, so whoever reads rows by their numbers would
    pass it by. A trigger of the database adds it, see :mod:`~hbus_console.messages.releases`.
    """

    #: Its :class:`LedgerMessage`; when that is trimmed this goes, too.
    row_id = models.BigIntegerField(unique=True)


class LedgerPlace(models.Model):
    """How far somebody has come, or may have, who takes rows of the ledger by their numbers; see
    :mod:`~hbus_console.messages.places`."""

    #: Of which rows: the name of their model, as Django spells it.
    table = models.CharField(max_length=40)
    #: Past the rows up to this one, those that wait left aside, and past so many releases.
    row_id = models.BigIntegerField()
    release_id = models.BigIntegerField(default=0)
    #: By topic, how many rows beyond it the ledger has let go of.
    let_go = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["table", "row_id", "release_id"], name="one_ledger_place_each")]


#: Failed attempts, as a condition. The kinds stand in the SQL itself: SQLite uses the partial index on failures only
#: when it can read them there, not when they come as parameters.
FAILED = RawSQL("kind IN ('retried', 'dead')", (), output_field=models.BooleanField())
#: Repetitions that had no effect, as a condition; spelled out for the same reason.
DEDUPLICATED = RawSQL("kind = 'deduplicated'", (), output_field=models.BooleanField())
#: Deliveries that the store is done with and of which nobody told, likewise.
PASSED = RawSQL("kind = 'passed'", (), output_field=models.BooleanField())

#: What the store no longer has and nobody told the outcome of, likewise.
LOST = RawSQL("kind = 'lost'", (), output_field=models.BooleanField())


class LedgerEvent(models.Model):
    """One thing that happened to a message: an attempt settled, failed, or died; a redrive, a discard …

    Its topic is the message's, and so is its source.
    """

    message_id = models.CharField(max_length=LONGEST_ID)
    #: A fact's kind, see :data:`engine.bus.fact_kinds.KINDS`.
    kind = models.CharField(max_length=20)
    topic = models.CharField(max_length=200)
    subscription = models.CharField(max_length=100)
    at_ms = models.BigIntegerField()
    attempt = models.PositiveIntegerField(default=0)
    duration_us = models.BigIntegerField(default=0)
    due_ms = models.BigIntegerField(default=0)
    node = models.CharField(max_length=100, blank=True)
    error = models.CharField(max_length=500, blank=True)
    #: What may be told of it; nothing until :meth:`tell_error` has said so.
    shown_error: str = ""
    fingerprint = models.CharField(max_length=16, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    #: Of a failed attempt: its :class:`LedgerStack`, where one was told. NULL: booked before there were any; so it can
    #: be added to a table of millions without copying it.
    stack_id = models.CharField(max_length=LONGEST_STACK_ID, null=True, blank=True)
    #: NULL: nobody told whose the message is, and any of that id may be meant. So it is of what was booked before there
    #: was any, and of a repeated publish: who repeats a key knows the id that it stands for, and not its source.
    source = models.CharField(max_length=LONGEST_SOURCE, null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["message_id", "at_ms"], name="ledger_event_message"),
            # Failures are few among millions of settlements: an index of their own finds them cheaply.
            models.Index(
                fields=["topic", "subscription", "at_ms"],
                condition=models.Q(kind__in=("retried", "dead")),
                name="ledger_event_failures",
            ),
            models.Index(
                fields=["kind", "at_ms"], condition=models.Q(kind__in=("retried", "dead")), name="ledger_event_failed"
            ),
            models.Index(
                fields=["topic", "kind", "at_ms"],
                condition=models.Q(kind__in=("retried", "dead")),
                name="ledger_event_topic_failed",
            ),
            models.Index(fields=["at_ms"], condition=models.Q(kind="deduplicated"), name="ledger_event_repeats"),
            models.Index(
                fields=["topic", "at_ms"], condition=models.Q(kind="deduplicated"), name="ledger_event_topic_repeats"
            ),
            models.Index(fields=["at_ms"], condition=models.Q(kind="passed"), name="ledger_event_passed"),
            models.Index(
                fields=["topic", "at_ms"], condition=models.Q(kind="passed"), name="ledger_event_topic_passed"
            ),
            models.Index(fields=["at_ms"], condition=models.Q(kind="lost"), name="ledger_event_lost"),
            models.Index(fields=["topic", "at_ms"], condition=models.Q(kind="lost"), name="ledger_event_topic_lost"),
        ]

    @property
    def subject(self) -> Subject:
        """The subscription in which it happened, or the topic: what the fact was about that it was booked from."""
        return subject_of(self.topic, self.subscription)

    def tell_error(self, told_from: int | None) -> None:
        """Have it know the error that may be told of it; see
        :func:`~hbus_console.topics.handler_errors.told_whole_from`."""
        # Of a message that is refused when it is due hbus itself says why, and no handler.
        ours = self.kind == "due_refused"
        self.shown_error = self.error if ours else told_error(self.error, self.at_ms, told_from)


class LedgerStack(models.Model):
    """A stack trace of failed attempts, once for all of them that have it."""

    stack_id = models.CharField(max_length=LONGEST_STACK_ID, primary_key=True)
    text = models.TextField()
    #: When it was told last: an attempt that has it was made at most a few minutes later.
    at_ms = models.BigIntegerField()


class Flow(models.Model):
    """What flowed through one topic (or one of its subscriptions) in one span of time."""

    bucket_ms = models.BigIntegerField()
    topic = models.CharField(max_length=200)
    #: Empty: the topic's own row, which counts what was published.
    subscription = models.CharField(max_length=100, blank=True)
    published = models.BigIntegerField(default=0)
    deduplicated = models.BigIntegerField(default=0)
    settled = models.BigIntegerField(default=0)
    #: Settled at the first attempt.
    settled_first = models.BigIntegerField(default=0)
    retried = models.BigIntegerField(default=0)
    dead = models.BigIntegerField(default=0)
    expired = models.BigIntegerField(default=0)
    #: Publishes that the store did not take, or not surely; the topic's own row counts them.
    failed = models.BigIntegerField(default=0)
    duration_us = models.BigIntegerField(default=0)

    class Meta:
        abstract = True

    @property
    def subject(self) -> Subject:
        """The subscription, or the topic for its own row."""
        return subject_of(self.topic, self.subscription)


#: Samples older than this are folded into coarse ones, so that two weeks stay as fast to draw as a day.
FINE_MS = 2 * 24 * 3_600_000


class FlowSample(Flow):
    """In ten seconds. Those beyond :data:`FINE_MS` are folded, see :mod:`hbus_console.messages.retention`."""

    BUCKET_S = 10

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic", "subscription", "bucket_ms"], name="one_flow_sample_per_bucket")
        ]
        indexes = [
            models.Index(fields=["bucket_ms"], name="flow_time"),
            # Failed publishes are rare: alert rules look for them every few seconds.
            models.Index(fields=["bucket_ms"], condition=models.Q(failed__gt=0), name="flow_failed"),
        ]


class FlowRollup(Flow):
    """In five minutes, booked together with the samples: what charts of many hours add up."""

    BUCKET_S = 300

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["topic", "subscription", "bucket_ms"], name="one_flow_rollup_per_bucket")
        ]
        indexes = [models.Index(fields=["bucket_ms"], name="flow_rollup_time")]


class LagSample(models.Model):
    """Where a subscription stood at one instant, read from the transport by the keeper."""

    at_ms = models.BigIntegerField()
    topic = models.CharField(max_length=200)
    subscription = models.CharField(max_length=100)
    #: NULL: the store could not tell.
    waiting = models.BigIntegerField(null=True)
    in_flight = models.BigIntegerField()
    retrying = models.BigIntegerField()
    #: Set aside with their keys, until somebody decides.
    parked = models.BigIntegerField(default=0)
    oldest_ms = models.BigIntegerField(null=True)
    #: Since when the store knew this life of the topic; 0: nobody knew.
    began_ms = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["topic", "subscription", "-at_ms"], name="lag_latest"),
            models.Index(fields=["at_ms"], name="lag_time"),
        ]

    @property
    def subject(self) -> Subject:
        """The subscription."""
        return subscription_subject(self.topic, self.subscription)
