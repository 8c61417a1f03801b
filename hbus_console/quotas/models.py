"""Quota policies, the plans of tenants, and which of both were in force when."""

from __future__ import annotations

from django.db import models

from engine.core.subject import Subject
from engine.quota import OnLoss, Period, Whose
from hbus_console.teams.models import Team

#: Characters of a policy's name, a pattern, a tenant and a plan.
NAME_MOST, PATTERN_MOST, TENANT_MOST, PLAN_MOST = 100, 200, 200, 100
#: The kind of the subjects that policies are.
POLICY = "policy"


def policy_subject(name: str) -> Subject:
    """A policy may cover everybody: it lies in nobody's namespace."""
    return Subject(POLICY, "", name)


def tenant_subject(tenant: str) -> Subject:
    """A tenant, as far as quotas know one. Raises ``BadInput`` for a name no subject may have."""
    return Subject("tenant", "", tenant)


def book_subject(number: int) -> Subject:
    """A version of all policies."""
    return Subject("quota-book", "", str(number))


class QuotaPolicy(models.Model):
    """One limit: whom it covers, how much they may, and what happens while nobody can be asked."""

    name = models.CharField(max_length=NAME_MOST, unique=True)
    #: NULL means ownerless. It holds all the same: a limit that ended with a team would be no limit.
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="policies")
    description = models.TextField(blank=True)
    service = models.CharField(max_length=PATTERN_MOST, default="*")
    resource = models.CharField(max_length=PATTERN_MOST, default="*")
    tenant = models.CharField(max_length=PATTERN_MOST, default="*")
    plan = models.CharField(max_length=PLAN_MOST, blank=True)
    whose = models.CharField(
        max_length=8, choices=[(each.value, each.value) for each in Whose], default=Whose.EACH.value
    )
    #: Tokens a second, in each period, or seats at once.
    limit = models.FloatField()
    burst = models.FloatField()
    period = models.CharField(
        max_length=10, blank=True, choices=[(each.value, each.value) for each in Period], default=Period.NONE.value
    )
    zone = models.CharField(max_length=64, default="UTC")
    on_loss = models.CharField(
        max_length=8, choices=[(each.value, each.value) for each in OnLoss], default=OnLoss.FALLBACK.value
    )
    fallback_percent = models.PositiveIntegerField(default=10)
    weight = models.FloatField(default=1.0)
    floor = models.FloatField(default=0.0)
    priority = models.IntegerField(default=0)
    #: It refuses nothing, and what it would have refused is counted.
    shadow = models.BooleanField(default=False)
    #: Lines of times with other limits, as :mod:`hbus_console.quotas.overrides` reads them.
    overrides = models.TextField(blank=True)
    #: So many of a hundred tenants are held to another limit and burst.
    canary_percent = models.PositiveIntegerField(default=0)
    canary_limit = models.FloatField(default=0.0)
    canary_burst = models.FloatField(default=0.0)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return policy_subject(self.name)


class PolicyVersion(models.Model):
    """What a policy was from one book to another. Kept when the policy is deleted."""

    policy = models.CharField(max_length=NAME_MOST)
    number = models.PositiveIntegerField()
    #: Its settings, as the audit log has them.
    settings = models.JSONField()
    #: The first book that has it, and the first that has it no longer; null: the newest has it.
    since = models.PositiveBigIntegerField()
    until = models.PositiveBigIntegerField(null=True)
    audit_seq = models.BigIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["policy", "-number"]
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="one_policy_version_of_a_number")]
        indexes = [models.Index(fields=["since"], name="policy_version_since")]


class TenantPlan(models.Model):
    """Which plan a tenant has, from one book to another."""

    tenant = models.CharField(max_length=TENANT_MOST)
    plan = models.CharField(max_length=PLAN_MOST)
    since = models.PositiveBigIntegerField()
    #: Null: it still has it.
    until = models.PositiveBigIntegerField(null=True)
    audit_seq = models.BigIntegerField()

    class Meta:
        ordering = ["tenant", "-since"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant"], condition=models.Q(until__isnull=True), name="one_plan_of_a_tenant"
            )
        ]


class QuotaBook(models.Model):
    """All policies and plans in one version, as every node is held to them."""

    number = models.PositiveBigIntegerField(primary_key=True)
    #: What led to it, as the audit log has it.
    audit_seq = models.BigIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]


class BookInForce(models.Model):
    """The newest book as nodes read it: one row, which whoever makes a book locks first."""

    number = models.PositiveBigIntegerField(default=0)
    text = models.BinaryField(default=b"")
    #: When an override begins or ends next, in epoch milliseconds, and another book is due; null: never.
    due_ms = models.BigIntegerField(null=True)


class Uses(models.Model):
    """What a limiter admitted and refused in one span of time, on all nodes."""

    #: When the span began, in seconds since the epoch; its first minute.
    minute = models.BigIntegerField()
    service = models.CharField(max_length=TENANT_MOST)
    resource = models.CharField(max_length=TENANT_MOST)
    tenant = models.CharField(max_length=TENANT_MOST)
    admitted = models.BigIntegerField(default=0)
    delayed = models.BigIntegerField(default=0)
    refused = models.BigIntegerField(default=0)
    shadowed = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class QuotaUse(Uses):
    """In one minute."""

    SPAN_S = 60

    class Meta:
        db_table = "ledger_quota_use"
        constraints = [
            models.UniqueConstraint(fields=["minute", "service", "resource", "tenant"], name="one_use_of_a_minute")
        ]
        indexes = [models.Index(fields=["service", "resource", "tenant", "minute"], name="quota_use_of_one")]


class QuotaUseRollup(Uses):
    """In a quarter of an hour, booked together with the minutes: what charts of many hours add up."""

    SPAN_S = 900

    class Meta:
        db_table = "ledger_quota_use_rollup"
        constraints = [
            models.UniqueConstraint(fields=["minute", "service", "resource", "tenant"], name="one_use_of_a_quarter")
        ]


class QuotaUseDay(Uses):
    """In one day, UTC, booked together with the minutes: what the history of a tenant is made of."""

    SPAN_S = 86_400

    class Meta:
        db_table = "ledger_quota_use_day"
        constraints = [
            models.UniqueConstraint(fields=["minute", "service", "resource", "tenant"], name="one_use_of_a_day")
        ]
        indexes = [models.Index(fields=["tenant", "minute"], name="quota_days_of_tenant")]


class UsesTrimmed(models.Model):
    """That there were more uses than are kept, and how far back they are whole."""

    #: The table of the uses.
    uses = models.CharField(max_length=100, primary_key=True)
    #: The first span of which nothing is gone, in seconds since the epoch.
    since = models.BigIntegerField()

    class Meta:
        db_table = "ledger_quota_use_trimmed"


class QuotaNodeReport(models.Model):
    """How one process's limiters stood when it last said. In the database, for it tells that the store is away."""

    node = models.CharField(max_length=160, primary_key=True)
    #: In epoch milliseconds, by the node's clock.
    at_ms = models.BigIntegerField()
    #: As :class:`hbus_console.quotas.reports.NodeReport` reads it.
    told = models.BinaryField()

    class Meta:
        ordering = ["node"]
