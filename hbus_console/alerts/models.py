"""Rules, the alerts they raise, who is told how, and what is to be kept quiet. All times are epoch milliseconds."""

from __future__ import annotations

from django.db import models

from engine.core.subject import KIND_LIMIT, NAME_LIMIT, NAMESPACE_LIMIT, Subject
from hbus_console.access.permissions import GLOBAL
from hbus_console.alerts.targets import PATTERN_LIMIT
from hbus_console.subjects import readable
from hbus_console.teams.models import Team


class AboutSubject(models.Model):
    """Rows that are about one thing."""

    subject_kind = models.CharField(max_length=KIND_LIMIT)
    namespace = models.CharField(max_length=NAMESPACE_LIMIT, blank=True)
    #: Empty: the entry of the namespace itself.
    subject_name = models.CharField(max_length=NAME_LIMIT, blank=True)

    class Meta:
        abstract = True

    @property
    def subject(self) -> Subject:
        """What the row is about."""
        return Subject(self.subject_kind, self.namespace, self.subject_name)

    @property
    def target(self) -> str:
        """The same in words: ``billing on booking.created``, or the one of the two names that there is."""
        if self.subject_name and self.namespace:
            return f"{self.subject_name} on {self.namespace}"
        return self.subject_name or self.namespace


class Channel(models.Model):
    """A way to tell somebody."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook"
        EMAIL = "email"

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=8, choices=Kind)
    url = models.CharField(max_length=500, blank=True)
    #: Signs the calls of a webhook; never shown again, never logged.
    secret = models.CharField(max_length=200, blank=True)
    recipients = models.JSONField(default=list, blank=True)
    enabled = models.BooleanField(default=True)
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return readable("alert-channel", "", self.name)


class Rule(models.Model):
    """What is measured, of which targets, and from when on somebody should know."""

    class Severity(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        CRITICAL = "critical"

    name = models.CharField(max_length=80, unique=True)
    #: The name of an :class:`~hbus_console.alerts.kinds.AlertKind`, which may not be installed any more.
    kind = models.CharField(max_length=40)
    #: The namespaces of its targets, a scope as in grants: ``*``, ``booking.*`` or one namespace.
    scope = models.CharField(max_length=200, default="*")
    #: The names of its targets in their namespace: a name, or a pattern with ``*``; empty: every one.
    pattern = models.CharField(max_length=PATTERN_LIMIT, blank=True)
    #: Only what this team answers for.
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    #: Whether ``team`` was chosen: when that team is deleted, the rule watches nothing rather than everything.
    of_team = models.BooleanField(default=False)
    threshold = models.FloatField()
    #: Over how long a rate is counted; 0 for kinds that have none.
    window_s = models.PositiveIntegerField(default=0)
    #: How long it must last before the alert fires.
    for_s = models.PositiveIntegerField(default=0)
    #: A firing alert is over once the value has stayed below this (NULL: the threshold) for ``clear_s`` seconds.
    clear_below = models.FloatField(null=True, blank=True)
    clear_s = models.PositiveIntegerField(default=60)
    severity = models.CharField(max_length=8, choices=Severity, default=Severity.WARNING)
    #: What to do when it fires.
    advice = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    channels = models.ManyToManyField(Channel, blank=True, related_name="rules")
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it: in the namespace in which people see what was done to it."""
        return readable("alert-rule", "" if self.scope == GLOBAL else self.scope.removesuffix(".*"), self.name)

    @property
    def orphaned(self) -> bool:
        """Whether the team to whose things it was narrowed is gone."""
        return self.of_team and self.team_id is None

    @property
    def edge(self) -> float:
        """The value below which a firing alert begins to recover."""
        return self.threshold if self.clear_below is None else self.clear_below


class Alert(AboutSubject):
    """One rule met on one target, from the first moment until it was over."""

    class State(models.TextChoices):
        PENDING = "pending"
        FIRING = "firing"
        RESOLVED = "resolved"

    #: NULL once the rule is deleted; what the alert says is copied from it when it begins.
    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="alerts")
    rule_name = models.CharField(max_length=80)
    kind = models.CharField(max_length=40)
    severity = models.CharField(max_length=8, choices=Rule.Severity)
    state = models.CharField(max_length=8, choices=State)
    threshold = models.FloatField()
    value = models.FloatField()
    peak = models.FloatField()
    began_ms = models.BigIntegerField()
    fired_ms = models.BigIntegerField(default=0)
    #: Since when the value has been below the edge; 0 while it is not.
    better_ms = models.BigIntegerField(default=0)
    resolved_ms = models.BigIntegerField(default=0)
    #: Why it is over when it did not simply get better.
    over_because = models.CharField(max_length=200, blank=True)
    measured_ms = models.BigIntegerField()
    #: When the latest reading was kept for the chart.
    read_ms = models.BigIntegerField(default=0)
    #: When its firing was handed to the channels; 0: not yet, for example while it is silenced.
    told_ms = models.BigIntegerField(default=0)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_ms = models.BigIntegerField(default=0)
    acknowledged_note = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject_kind", "namespace", "subject_name"],
                condition=models.Q(state__in=("pending", "firing")),
                name="one_open_alert_per_target",
            )
        ]
        indexes = [
            models.Index(fields=["state", "-began_ms"], name="alert_state"),
            models.Index(fields=["resolved_ms"], name="alert_resolved"),
        ]


class Reading(models.Model):
    """What was measured for an alert at one instant, for its chart. Thinner as the alert grows old."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="readings")
    at_ms = models.BigIntegerField()
    value = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["alert", "at_ms"], name="alert_reading")]


class Silence(AboutSubject):
    """Nobody is told of what matches, until a time."""

    #: NULL: every rule.
    rule = models.ForeignKey(Rule, null=True, on_delete=models.CASCADE, related_name="silences")
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)
    began_ms = models.BigIntegerField()
    until_ms = models.BigIntegerField(db_index=True)


class Notification(models.Model):
    """One message to one channel: written in the transaction of what it tells, then sent until it is taken."""

    class Event(models.TextChoices):
        FIRED = "fired"
        RESOLVED = "resolved"
        TEST = "test"

    class State(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        FAILED = "failed"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="notifications")
    rule_name = models.CharField(max_length=80)
    event = models.CharField(max_length=8, choices=Event)
    #: What is sent, without secrets.
    body = models.JSONField()
    alerts = models.ManyToManyField(Alert, related_name="notifications")
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    made_ms = models.BigIntegerField()
    next_ms = models.BigIntegerField()
    sent_ms = models.BigIntegerField(default=0)
    #: What the receiver, or the mail server, said last.
    answer = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["state", "next_ms"], name="notification_due"),
            models.Index(fields=["channel", "-made_ms"], name="notification_channel"),
            models.Index(fields=["made_ms"], name="notification_age"),
        ]


class Evaluation(models.Model):
    """How the evaluation itself stands: one row."""

    #: End of the last evaluation.
    at_ms = models.BigIntegerField(default=0)
    #: Since when it has gone on without a gap.
    watching_ms = models.BigIntegerField(default=0)
    took_ms = models.PositiveIntegerField(default=0)
    rules = models.PositiveIntegerField(default=0)
    targets = models.PositiveIntegerField(default=0)
    #: The kinds whose default rules were made; who deletes these does not get them again.
    defaults_made = models.JSONField(default=list)
