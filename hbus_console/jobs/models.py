"""Jobs with their versions, how far their slots are decided, and what became of each slot."""

from __future__ import annotations

from django.db import models

from engine.core.redaction import redact_text
from engine.core.signing import new_secret
from engine.core.subject import Subject
from engine.cron.expression import FoldPolicy, GapPolicy
from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, Overlap
from engine.cron.slots.parts import node_of
from engine.cron.slots.steps import RunState
from engine.cron.subjects import calendar_subject, job_subject, run_subject, tag_subject
from hbus_console.jobs.columns import REASON_LIMIT, Division, ManualRuns, OverlapOn, choices
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.part_words import part_words
from hbus_console.jobs.pings.code import new_code
from hbus_console.jobs.run_progress import RunProgress  # noqa: F401 - a model of this app, which Django finds by it
from hbus_console.jobs.series import rows as _rows  # noqa: F401 - Django finds the tables of series from here
from hbus_console.teams.models import Team


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs, and those among them of which something is said apart."""

    def elsewhere(self) -> JobQuerySet:
        """Those that others run, and that are only heard of here."""
        return self.filter(kind=WorkName.ELSEWHERE)


class Job(models.Model):
    """Work that is to be done at planned instants, with an owner and rules for what does not go as planned."""

    name = models.CharField(max_length=200, unique=True)
    #: NULL means ownerless: its slots are skipped until somebody takes it over.
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="jobs")
    description = models.TextField(blank=True)
    #: As docs/cron-semantics.md reads it.
    schedule = models.CharField(max_length=500)
    zone = models.CharField(max_length=64, default="UTC")
    #: What is done, by the name of its kind, and to what: the name of a function, a topic, an address, a program, a
    #: Spark application, a task of Celery.
    kind = models.CharField(max_length=20, choices=choices(WorkName))
    target = models.CharField(max_length=1_000)
    #: What the kind wants to know besides.
    options = models.JSONField(default=dict)
    #: What every run is given unless it is triggered with others, and the JSON Schema that both must fit; null: any.
    parameters = models.JSONField(default=dict)
    parameters_schema = models.JSONField(null=True)
    #: By whose rights it is done, see :mod:`~hbus_console.jobs.rights`: whoever said last what is done.
    acts_as = models.CharField(max_length=160, blank=True)
    #: What calls to others are signed with.
    secret = models.CharField(max_length=100, default=new_secret)
    #: How long a run may take, in seconds; 0: as long as it does.
    timeout_s = models.PositiveIntegerField(default=3_600)
    gap = models.CharField(max_length=4, choices=choices(GapPolicy), default=GapPolicy.END.value)
    fold = models.CharField(max_length=5, choices=choices(FoldPolicy), default=FoldPolicy.FIRST.value)
    #: From here on in seconds, as :class:`~engine.cron.slots.job.JobPolicy` says.
    grace_s = models.PositiveIntegerField(default=30)
    catch_up = models.CharField(max_length=4, choices=choices(CatchUp), default=CatchUp.LAST.value)
    catch_up_window_s = models.PositiveIntegerField(default=86_400)
    catch_up_most = models.PositiveIntegerField(default=100)
    overlap = models.CharField(max_length=6, choices=choices(Overlap), default=Overlap.RUN.value)
    most_at_once = models.PositiveIntegerField(default=0)
    lease_s = models.PositiveIntegerField(default=30)
    after_loss = models.CharField(max_length=5, choices=choices(AfterLoss), default=AfterLoss.END.value)
    after_failure = models.CharField(max_length=5, choices=choices(AfterFailure), default=AfterFailure.END.value)
    attempts = models.PositiveIntegerField(default=1)
    backoff_s = models.PositiveIntegerField(default=10)
    backoff_most_s = models.PositiveIntegerField(default=600)
    #: A run begins so much later than its slot at most, in seconds.
    jitter_s = models.PositiveIntegerField(default=0)
    #: Whether runs meet those on the same node alone, and whether triggered ones meet any.
    overlap_on = models.CharField(max_length=7, choices=choices(OverlapOn), default=OverlapOn.CLUSTER.value)
    manual_runs = models.CharField(max_length=5, choices=choices(ManualRuns), default=ManualRuns.BOUND.value)
    #: Whether a slot is one run, so many shards, or a run on each node that has workers.
    division = models.CharField(max_length=6, choices=choices(Division), default=Division.WHOLE.value)
    shards = models.PositiveIntegerField(default=1)
    #: Words that it shares with other jobs, by which the runs of all of them are limited, with spaces between them.
    tags = models.CharField(max_length=500, blank=True)
    #: Lines of days and times at which nothing of it runs, as :mod:`engine.cron.exclusions` reads them.
    excluded = models.TextField(blank=True)
    #: Names of calendars whose days it leaves out too, with spaces between them, and what they said when this version
    #: was made: lines as above, each of which names its calendar.
    calendars = models.CharField(max_length=500, blank=True)
    calendar_lines = models.TextField(blank=True)
    #: Lines of jobs that it runs after, as :mod:`hbus_console.jobs.following` reads them.
    after = models.TextField(blank=True)
    #: Its slots are skipped meanwhile, each with a row.
    paused = models.BooleanField(default=False)
    pause_reason = models.CharField(max_length=300, blank=True)
    #: Grows with every change; nodes notice a change by it, and markers of slots hold it.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return job_subject(self.name)

    @property
    def elsewhere(self) -> bool:
        """Whether others run it, and it is only heard of here."""
        return self.kind == WorkName.ELSEWHERE

    @property
    def held(self) -> str:
        """Why none of its runs that nobody asked for begins; empty: they do."""
        if self.paused:
            return f"paused: {self.pause_reason}" if self.pause_reason else "paused"
        return "nobody owns the job" if self.team_id is None else ""


class FormerJob(models.Model):
    """The last version of a job that was deleted: one that is made anew under its name goes on from there.

    Whoever knew the old one, a node or a row of a run, takes no version of the new one for it. The rows are numbered in
    the order of the deletions: nodes hear of these by that.
    """

    name = models.CharField(max_length=200, unique=True)
    version = models.PositiveIntegerField()


class JobAfter(models.Model):
    """That one job runs after another, to be found by the other. What says so is :attr:`Job.after`."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs_after")
    upstream = models.CharField(max_length=200, db_index=True)
    #: As :class:`~hbus_console.jobs.following.EndedAs` says.
    ended = models.CharField(max_length=7)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "upstream"], name="one_after_each")]


class JobTag(models.Model):
    """That a job has a tag, to be found by it. What says so is :attr:`Job.tags`."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tagged")
    tag = models.CharField(max_length=40, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "tag"], name="one_of_each_tag")]


class TagLimit(models.Model):
    """How many runs may run at the same time of all jobs that have a tag; 0: any number."""

    tag = models.CharField(max_length=40, primary_key=True)
    most_at_once = models.PositiveIntegerField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["tag"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return tag_subject(self.tag)


class JobCalendar(models.Model):
    """Days and times that jobs leave out together: holidays, freezes. Jobs hold a copy of it, in each version."""

    name = models.CharField(max_length=40, primary_key=True)
    description = models.CharField(max_length=500, blank=True)
    #: As :mod:`engine.cron.exclusions` reads them.
    lines = models.TextField()
    #: Grows with every change.
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return calendar_subject(self.name)


class JobVersion(models.Model):
    """What a job was from one change to the next."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    #: Its settings, as the audit log has them.
    settings = models.JSONField()
    #: The entry of the audit log that says who made it and why.
    audit_seq = models.BigIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_version_of_a_number")]
        indexes = [models.Index(fields=["-made_at"], name="version_newest")]


class JobCursor(models.Model):
    """How far the slots of a job are decided. Apart from the job: it moves with each slot, and the job does not."""

    job = models.CharField(max_length=200, primary_key=True)
    #: That of the job: a node that knows another one decides nothing.
    version = models.PositiveIntegerField()
    #: Seconds since the epoch.
    at = models.BigIntegerField()


#: Of runs, as indexes and those who look by them say it alike: SQLite takes an index of a part of the rows only where
#: the question names that part in its words.
ENDED = models.Q(ended_us__isnull=False)
UNPLANNED = ~models.Q(kind="schedule")


class JobRun(models.Model):
    """What became of one slot, or of one trigger. Kept when its job is deleted: it names it and does not refer to it.

    One row for each slot, whoever and however many decide it: this is the judge of "exactly once". Likewise one for
    each key of a trigger, however often that is asked for, and one for each end of a run that it follows. Where the job
    is divided, each of these is one row for each part.
    """

    class Kind(models.TextChoices):
        #: Its slot is a planned instant.
        SCHEDULE = "schedule"
        #: Somebody triggered it; its slot is when.
        MANUAL = "manual"
        #: A run of another job ended, which its key names; its slot is when.
        AFTER = "after"
        #: A ping told of it that no slot waited for; its slot is when that came.
        PING = "ping"

    job = models.CharField(max_length=200)
    #: Of the job, when it was decided.
    version = models.PositiveIntegerField()
    #: Seconds since the epoch.
    slot = models.BigIntegerField()
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.SCHEDULE)
    #: Which part of it this does, as :mod:`engine.cron.slots.parts` calls them; empty: the whole.
    part = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=10, choices=choices(RunState))
    #: Why it was skipped, abandoned, cancelled or lost, or how it failed; while tried again, of the time before.
    reason = models.CharField(max_length=REASON_LIMIT, blank=True)
    #: Of the worker that began it last; 0 before. What is written under an older one is refused.
    epoch = models.PositiveBigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    #: How the attempt before ended; empty at the first.
    last_end = models.CharField(max_length=10, choices=choices(RunState), blank=True)
    #: Before this it is not to be begun, by the clock of the times below; 0: at once.
    not_before_us = models.BigIntegerField(default=0)
    #: Whether it was told to wait until another run of the job has ended.
    waits = models.BooleanField(default=False)
    #: When it was asked to stop while it ran, and why; by the clock of the times below.
    cancel_us = models.BigIntegerField(null=True)
    cancel_reason = models.CharField(max_length=REASON_LIMIT, blank=True)
    #: The node that decided it, if one did, and the worker that began it last.
    node = models.CharField(max_length=200, blank=True)
    owner = models.CharField(max_length=200, blank=True)
    #: These in microseconds since the epoch, by the database's clock.
    decided_us = models.BigIntegerField()
    begun_us = models.BigIntegerField(null=True)
    #: How long after it was to begin its first attempt did; empty before that, and in rows of before this was kept.
    first_late_us = models.BigIntegerField(null=True)
    #: Empty as long as anything may become of it.
    ended_us = models.BigIntegerField(null=True)
    changed_us = models.BigIntegerField()
    #: Of a manual one: who asked for it, why, under which key, and with which parameters. Of one that pings tell of the
    #: key is what its pings bear to find each other, and beside the slots the why says how it came there.
    asked_by = models.CharField(max_length=200, blank=True)
    asked_why = models.CharField(max_length=500, blank=True)
    key = models.CharField(max_length=128, blank=True)
    parameters = models.JSONField(null=True)
    #: What its work had to say at its end, in a line or two.
    summary = models.CharField(max_length=2_000, blank=True)

    class Meta:
        ordering = ["-slot", "-pk"]
        constraints = [
            # The slot first: thousands of jobs may have the same one, and rows that come together lie together then.
            models.UniqueConstraint(
                fields=["slot", "job", "kind", "part"], condition=models.Q(kind="schedule"), name="one_run_of_a_slot"
            ),
            models.UniqueConstraint(
                fields=["job", "key", "part"], condition=models.Q(kind="manual"), name="one_run_of_a_key"
            ),
            # Of the pings of one run, and after one end.
            models.UniqueConstraint(
                fields=["job", "key", "part"],
                condition=~models.Q(kind="manual") & ~models.Q(key=""),
                name="one_run_of_pings",
            ),
        ]
        indexes = [
            # What is open, and whether another run of a job is.
            models.Index(fields=["job", "state"], condition=models.Q(ended_us=None), name="job_run_open"),
            # The runs of a job, and of all jobs, newest first.
            models.Index(fields=["job", "-slot", "-id"], name="job_run_newest"),
            models.Index(fields=["-slot", "-id"], name="run_newest"),
            # What changed lately, for pages that are live.
            models.Index(fields=["-changed_us"], name="run_changed"),
            # How it ended and what made it, the newest first by slot and by row: what is rare, or was never there, is
            # found without looking at all the others. A run enters the first two once, and a planned one not the last.
            models.Index(fields=["state", "-slot", "-id"], condition=ENDED, name="run_state_newest"),
            models.Index(fields=["state", "-id"], condition=ENDED, name="run_state_last"),
            models.Index(fields=["kind", "-slot", "-id"], condition=UNPLANNED, name="run_kind_newest"),
            models.Index(fields=["kind", "-id"], condition=UNPLANNED, name="run_kind_last"),
        ]

    @property
    def due_us(self) -> int:
        """When it was to begin: what is told to begin later than its slot is not late until then.

        The slot of what no planned instant made is the whole second in which it was made.
        """
        made_us = 0 if self.kind == JobRun.Kind.SCHEDULE else self.decided_us
        return max(self.slot * 1_000_000, made_us, self.not_before_us)

    @property
    def late_us(self) -> int | None:
        """How long after it was to begin its first attempt did; ``None`` for what never began, and what a ping began
        beside all slots. What a further attempt waited for, the one before and the pause after it, is no lateness.

        Pages, the API and metrics tell this one.
        """
        if self.kind == JobRun.Kind.PING:
            return None
        if self.first_late_us is not None:
            return self.first_late_us
        if self.begun_us is None or self.attempt > 1:
            return None
        return max(0, self.begun_us - self.due_us)

    def took_us(self, now_us: int) -> int | None:
        """How long it ran, or has run; ``None`` for what never began."""
        return None if self.begun_us is None else max(0, (self.ended_us or now_us) - self.begun_us)

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return run_subject(self.job, self.pk)

    @property
    def shown_owner(self) -> str:
        """Who began it, or where it runs, as anybody may see it: rows of before have that as it was typed."""
        return redact_text(self.owner)

    @property
    def node_wanted(self) -> str:
        """The only node that may do it; empty: any may."""
        return node_of(self.part)

    @property
    def part_words(self) -> str:
        """Its part, for people; empty for the whole."""
        return part_words(self.part)

    @property
    def correlation_id(self) -> str:
        """On everything that goes back to it: log lines, messages that it published, calls that it made."""
        return f"run-{self.pk}-{self.slot}"


class JobAttempt(models.Model):
    """One attempt of a run: begun under an epoch of its own, and ended once, unless its worker vanished."""

    run = models.BigIntegerField()
    number = models.PositiveIntegerField()
    epoch = models.PositiveBigIntegerField()
    owner = models.CharField(max_length=200)
    #: In microseconds since the epoch, by the database's clock.
    begun_us = models.BigIntegerField()
    ended_us = models.BigIntegerField(null=True)
    #: How it ended; running until then.
    state = models.CharField(max_length=10, choices=choices(RunState), default=RunState.RUNNING.value)
    reason = models.CharField(max_length=REASON_LIMIT, blank=True)

    class Meta:
        ordering = ["run", "number"]
        constraints = [models.UniqueConstraint(fields=["run", "epoch"], name="one_attempt_of_an_epoch")]


class LogPiece(models.Model):
    """A piece of the log of a run: some lines, in the order of ``seq``, across its attempts. In the ledger database."""

    run = models.BigIntegerField()
    seq = models.PositiveBigIntegerField()
    attempt = models.PositiveIntegerField()
    #: When the last of it came, and the first; 0: of a release that did not tell.
    at_us = models.BigIntegerField()
    since_us = models.BigIntegerField(default=0)
    text = models.TextField()
    #: What of the log was left out before it: how much, and since when that had come; up to when this did.
    left_bytes = models.PositiveBigIntegerField(default=0)
    left_lines = models.PositiveBigIntegerField(default=0)
    left_since_us = models.BigIntegerField(default=0)
    #: Up to which byte of the attempt's file this reaches: who ships the rest of it goes on there.
    upto = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="one_piece_of_a_place")]
        indexes = [models.Index(fields=["-at_us"], name="log_piece_newest")]


class PingAddress(models.Model):
    """Where a job that runs elsewhere tells how it goes. Apart from the job: it moves with each ping."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="ping")
    #: A secret: whoever has it can say that the job is done.
    code = models.CharField(max_length=64, unique=True, default=new_code)
    renewed_at = models.DateTimeField(auto_now_add=True)
    #: These in microseconds since the epoch, by the database's clock. Until when the pings that came fill the rate.
    full_us = models.BigIntegerField(default=0)
    #: The last ping, and the last one that was refused for being one too many.
    heard_us = models.BigIntegerField(null=True)
    refused_us = models.BigIntegerField(null=True)
    #: What the last one said: ``start``, ``success``, ``exit code 3``.
    heard = models.CharField(max_length=20, blank=True)

    class Meta:
        ordering = ["job"]
        indexes = [
            models.Index(fields=["-heard_us"], name="ping_heard"),
            models.Index(fields=["-refused_us"], name="ping_refused"),
        ]

    @property
    def heard_ms(self) -> int:
        """When the last ping came; 0: none did."""
        return (self.heard_us or 0) // 1_000

    @property
    def refused_ms(self) -> int:
        """When pings were refused last; 0: none were."""
        return (self.refused_us or 0) // 1_000
