"""Which topics are archived, what was audited and queried of them, and the series that the lake was rolled up into."""

from __future__ import annotations

from django.db import models

from engine.bus.subjects import subscription_subject, topic_subject
from engine.core.resolution import Resolution
from engine.core.subject import NAMESPACE_LIMIT, TEXT_LIMIT, Subject
from engine.core.verdicts import AuditVerdict
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic


class ArchivedTopic(models.Model):
    """A topic that is put into the lake. What it holds of a topic stays when this row goes, or the topic does."""

    topic = models.OneToOneField(Topic, on_delete=models.CASCADE, related_name="archived")
    started_at = models.DateTimeField(auto_now_add=True)
    started_by = models.CharField(max_length=150)
    #: All that had happened on it by then is in the lake, epoch milliseconds; 0: nobody knows.
    archived_upto_ms = models.BigIntegerField(default=0)
    #: And by then is in its series, likewise.
    rolled_upto_ms = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["topic__name"]

    @property
    def subject(self) -> Subject:
        """Its topic."""
        return self.topic.subject


class LakeBegun(models.Model):
    """That something was put into the lake: one row, or none. Without it an empty folder is a lake to begin."""

    at = models.DateTimeField(auto_now_add=True)


class BusAudit(models.Model):
    """One audit of what the lake has, as it ended. Its verdict is that of whoever looks: the worst of what they may
    see of it."""

    at = models.DateTimeField(db_index=True)
    took_ms = models.PositiveIntegerField()
    #: Who asked; empty: the schedule of the job.
    asked_by = models.CharField(max_length=150, blank=True)
    #: The run of the job that made it; ``None``: a command did.
    run = models.BigIntegerField(null=True)
    #: The span that was asked for; ``None``: from the first message, and to the last that could be judged.
    from_ms = models.BigIntegerField(null=True)
    to_ms = models.BigIntegerField(null=True)
    #: Which commit of the lake was looked at, how many files were compared, and of how many the side was computed.
    version = models.BigIntegerField()
    files = models.PositiveIntegerField()
    computed = models.PositiveIntegerField()
    #: All findings as Parquet, for whoever may see every topic of it.
    findings = models.BinaryField()

    class Meta:
        ordering = ["-pk"]

    @property
    def took_us(self) -> int:
        """For those who tell of durations."""
        return self.took_ms * 1000


class AskedBusAudit(models.Model):
    """What somebody wants audited. The run that makes it has its number alone, for others read what a run was given."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    asked_by = models.CharField(max_length=150)
    topics = models.JSONField(default=list)
    #: As RFC 3339 says it; either may be empty.
    since = models.TextField(blank=True)
    until = models.TextField(blank=True)
    #: Whether also what is judged beside topics.
    beside = models.BooleanField(default=False)
    #: The run of the job that makes it; no other does.
    run = models.BigIntegerField(null=True, db_index=True)


class AuditedTopic(models.Model):
    """What one audit says of one topic."""

    audit = models.ForeignKey(BusAudit, on_delete=models.CASCADE, related_name="topics")
    topic = models.CharField(max_length=200)
    #: The team that answered for it then; empty: none.
    owner = models.CharField(max_length=100, blank=True)
    verdict = models.CharField(max_length=10)
    from_ms = models.BigIntegerField()
    to_ms = models.BigIntegerField()
    #: ``None``: the ledger's part is not in the lake.
    published = models.BigIntegerField(null=True)
    archived = models.BigIntegerField()
    replayed = models.BigIntegerField()
    #: What lists and sums need of the report: see :class:`~hbus_console.pipelines.audits.summary.TopicSummary`.
    summary = models.JSONField()
    #: The whole report, compressed: see :mod:`~hbus_console.pipelines.audits.keeping`.
    report = models.BinaryField()

    class Meta:
        ordering = ["topic"]
        constraints = [models.UniqueConstraint(fields=["audit", "topic"], name="pipelines_audited_topic_once")]
        # The pages of a topic and of its messages ask for its newest one.
        indexes = [models.Index(fields=["topic", "audit"], name="pipelines_newest_of_topic")]

    @property
    def is_judged(self) -> bool:
        """As :attr:`~engine.pipeline.audit.report.TopicAudit.is_judged` says."""
        return AuditVerdict(self.verdict).says_anything(self.archived + (self.published or 0))

    @property
    def subject(self) -> Subject:
        """Its topic."""
        return Subject("topic", self.topic)


class AuditedSubject(models.Model):
    """What one audit says of one thing that is no topic: as the feature whose it is judged it."""

    audit = models.ForeignKey(BusAudit, on_delete=models.CASCADE, related_name="subjects")
    #: See :attr:`~hbus_console.registry.judging.AuditCheck.name`.
    check_name = models.CharField(max_length=40)
    #: The text form of a :class:`engine.core.subject.Subject`.
    about = models.CharField(max_length=TEXT_LIMIT)
    #: See :attr:`~hbus_console.registry.judging.JudgedSubject.scope`.
    scope = models.CharField(max_length=NAMESPACE_LIMIT + 2)
    verdict = models.CharField(max_length=10)
    from_ms = models.BigIntegerField()
    to_ms = models.BigIntegerField()
    judged = models.BigIntegerField()
    #: All of them, compressed: see :mod:`~hbus_console.pipelines.audits.keeping`; empty: there is none.
    findings = models.BinaryField(default=b"")

    class Meta:
        ordering = ["check_name", "about"]
        constraints = [
            models.UniqueConstraint(fields=["audit", "check_name", "about"], name="pipelines_audited_subject_once")
        ]
        # Lists of audits count the verdicts of each.
        indexes = [models.Index(fields=["audit", "verdict", "scope"], name="pipelines_subject_verdicts")]

    @property
    def subject(self) -> Subject:
        """What it is about."""
        return Subject.parse(self.about)


class SeriesPoint(models.Model):
    """What happened in one minute, hour or day, to a topic or in one of its subscriptions; as
    :class:`~engine.pipeline.rollup.series.SeriesCounts` says. A span in which nothing happened has none."""

    topic = models.CharField(max_length=255)
    #: Empty: of the topic itself.
    subscription = models.CharField(max_length=255, default="")
    resolution = models.CharField(max_length=6, choices=[(each.value, each.value) for each in Resolution])
    #: When it begins, in seconds since the epoch.
    at = models.BigIntegerField()
    stored = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    published = models.BigIntegerField(default=0)
    settled = models.BigIntegerField(default=0)
    retried = models.BigIntegerField(default=0)
    dead = models.BigIntegerField(default=0)
    timed = models.BigIntegerField(default=0)
    p50_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    longest_ms = models.FloatField(null=True)
    late_p50_ms = models.FloatField(null=True)
    late_p99_ms = models.FloatField(null=True)
    skewed = models.BigIntegerField(default=0)

    class Meta:
        db_table = "ledger_series"
        constraints = [
            models.UniqueConstraint(fields=["topic", "subscription", "resolution", "at"], name="one_point_of_a_span")
        ]
        indexes = [models.Index(fields=["resolution", "at"], name="series_by_age")]

    @property
    def subject(self) -> Subject:
        """Its subscription, or its topic."""
        if self.subscription:
            return subscription_subject(self.topic, self.subscription)
        return topic_subject(self.topic)


class RolledUp(models.Model):
    """That the points of one day of a topic are those of what the lake had of it."""

    topic = models.CharField(max_length=255)
    #: UTC: ``2026-11-28``.
    date = models.CharField(max_length=10)
    #: See :attr:`engine.pipeline.rollup.days.TopicDay.digest`.
    digest = models.CharField(max_length=64)
    #: When, in epoch milliseconds.
    at_ms = models.BigIntegerField(db_index=True)

    class Meta:
        db_table = "ledger_series_days"
        constraints = [models.UniqueConstraint(fields=["topic", "date"], name="one_roll_up_of_a_day")]

    @property
    def subject(self) -> Subject:
        """Its topic."""
        return topic_subject(self.topic)


class LakeQuery(models.Model):
    """One query of the archive, and what came of it. It is its asker's own: nobody else reads what it asks."""

    class State(models.TextChoices):
        """How it stands; a run that ended without a word is told by the run."""

        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING, db_index=True)
    #: Who asked, as of :class:`~hbus_console.operations.models.Operation`: with what they may when it is run.
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16)
    user_id = models.BigIntegerField(null=True, db_index=True)
    limit_role = models.CharField(max_length=16, blank=True)
    limit_scope = models.CharField(max_length=200, blank=True)
    token_id = models.BigIntegerField(null=True)
    session_epoch = models.PositiveIntegerField(null=True)
    sql = models.TextField()
    #: Those it reads.
    topics = models.JSONField(default=list)
    #: Days, both included: ``2026-11-28``; empty: from the first, and to the last.
    from_day = models.CharField(max_length=10, blank=True)
    to_day = models.CharField(max_length=10, blank=True)
    reveal = models.BooleanField(default=False)
    most_rows = models.PositiveIntegerField()
    most_seconds = models.PositiveIntegerField()
    #: The run of the job that answers it.
    run = models.BigIntegerField(null=True)
    took_ms = models.PositiveIntegerField(null=True)
    #: How many rows were answered.
    rows = models.PositiveIntegerField(null=True)
    error = models.TextField(blank=True)
    #: What was to be shown of its topics when it was asked, and
    planned = models.CharField(max_length=64, blank=True)
    #: what was shown of its topics, as a digest: see :mod:`~hbus_console.pipelines.queries.planning`.
    shown = models.CharField(max_length=64, blank=True)
    #: Packed; ``None``: there is none so far.
    answer = models.BinaryField(null=True)

    class Meta:
        ordering = ["-pk"]

    @property
    def took_us(self) -> int | None:
        """For those who tell of durations."""
        return None if self.took_ms is None else self.took_ms * 1000

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in (self.State.WAITING, self.State.RUNNING)


class SavedQuery(models.Model):
    """A query that is kept under a name, which says in whose namespace it lies."""

    name = models.CharField(max_length=200, unique=True)
    description = models.CharField(max_length=500, blank=True)
    sql = models.TextField()
    #: Who answers for it: the team, or else whoever saved it last.
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, related_name="+")
    saved_by = models.CharField(max_length=150)
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """Itself."""
        return Subject("query", self.name)
