"""Two namespaces that know nothing of each other, with one of everything in each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from engine.bus.message import Message, encode
from engine.core.clock import to_rfc3339
from engine.core.subject import Subject
from engine.core.verdicts import AuditVerdict
from engine.cron.subjects import job_subject
from engine.pipeline.audit.percentiles import Percentiles
from engine.pipeline.audit.report import Amount, TopicAudit
from engine.pipeline.audit.report import Report as AuditReport
from engine.quota import Source
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import ApiToken, User
from hbus_console.alerts.models import Alert, Channel, Rule, Silence
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.models import Evidence
from hbus_console.jobs.models import Job, JobCalendar, JobCursor, JobRun, JobVersion, LogPiece
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.tags import keep_tags
from hbus_console.messages.models import LedgerMessage
from hbus_console.operations.models import Operation
from hbus_console.pipelines.audits.judged import JudgedByCheck, audit_checks
from hbus_console.pipelines.audits.keeping import AskedAudit
from hbus_console.pipelines.audits.keeping import keep_report as keep_audit
from hbus_console.pipelines.models import LakeQuery, SavedQuery
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.reports import LimiterReport, NodeReport, keep_report
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.registry.judging import JudgedSample, JudgedSubject
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from tests.hbus_console.quotas.booked import book_one

#: Stands in every row of the namespace that the narrow people must not see, and nowhere else.
HIDDEN = "payroll"
#: The namespace that the narrow people may use.
SCOPE = "booking.*"


@dataclass
class World:
    """One namespace's things, by the keywords of the addresses."""

    topic: str
    group: str
    team: str
    message_id: str
    letter_id: int
    seq: int
    soon: str
    rule_id: int
    alert_id: int
    silence_id: int
    channel_id: int
    operation_id: int
    job: str
    run_id: int
    audit_id: int
    #: The widest scope of whoever asks; set by the test.
    scope: str = "*"
    version: int = 1
    username: str = "somebody"
    name: str = "hotel"
    prefix: str = ""
    kind: str = "redrive"
    tag: str = "topics"
    calendar: str = "holidays"
    number: int = 1
    tenant: str = "somebody"
    code: str = "hbp_nobodys"
    what: str = "start"
    form: str = "json"
    policy: str = "inside"
    book: int = 1

    def address(self, route: str, asker: User | None) -> str:
        """``route`` with its keywords filled in."""
        values = {**vars(self), "prefix": "none"}
        if asker and ":prefix>" in route:
            values["prefix"] = _own_token(asker)
        if ":query_id>" in route:
            values["query_id"] = _own_query(asker) if asker and asker.grants.exists() else 0
        if "<str:name>" in route:
            values["name"] = self.topic
        path = route
        for part in route.split("<")[1:]:
            keyword = part.split(">")[0]
            path = path.replace(f"<{keyword}>", str(values[keyword.split(":")[1]]))
        return f"/{path}"


def inside() -> World:
    """The namespace ``booking``."""
    return _build("booking.created", "availability", "Inside team", "01M7INSIDE0000000000000001")


def outside() -> World:
    """The namespace that the narrow people may not see."""
    return _build(f"{HIDDEN}.paid", f"{HIDDEN}-export", f"{HIDDEN} team", f"{HIDDEN}-message-1")


def person(name: str, role: str, scope: str = "*") -> User:
    """Somebody who can sign in and has one role."""
    user = User.objects.create_user(name, password="x")
    if role:
        services.change_grants(SYSTEM, user, [ScopedRole(Role(role), scope)])
    return user


def _own_token(user: User) -> str:
    found = ApiToken.objects.filter(user=user, revoked_at__isnull=True).values_list("prefix", flat=True).first()
    if found is None and user.grants.exists():
        grant = user.grants.get()
        ends = datetime.now(UTC) + timedelta(days=1)
        found = services.create_token(actor_of(user), "own", Role.VIEWER, grant.scope, ends).token.prefix
    return found or "none"


def _own_query(user: User) -> int:
    """Everybody has queries of their own, and sees no others."""
    made, _ = LakeQuery.objects.get_or_create(
        user_id=user.pk,
        defaults={"actor": user.username, "sql": "SELECT 1", "state": "done", "most_rows": 1, "most_seconds": 1},
    )
    return made.pk


def _build(topic: str, group: str, team: str, message_id: str) -> World:
    now = datetime.now(UTC)
    now_ms = round(now.timestamp() * 1000)
    owner = Team.objects.create(name=team, contact="team@hotel.example")
    row = Topic.objects.create(name=topic, team=owner, compatibility="none")
    SchemaVersion.objects.create(topic=row, version=1, body={"type": "object", "title": topic}, created_by="root")
    Subscription.objects.create(
        topic=row,
        group=group,
        team=owner,
        handler="webhook",
        webhook_url="https://partner.example/in",
        webhook_secret="whsec_x",
    )
    common: dict[str, Any] = {"topic": topic, "message_id": message_id, "source": "/test", "key": f"{topic}-key"}
    letter = DeadLetter.objects.create(
        **common,
        subscription=group,
        position="1-1",
        body=encode(Message(id=message_id, source="/test", type=topic)),
        cause=f"Broken {topic}",
        error=f"Broken {topic}",
        fingerprint=f"{abs(hash(topic)):016x}"[:16],
        attempts=5,
        first_failed_at=now,
        died_at=row.created_at,
    )
    LedgerMessage.objects.create(
        **common,
        type=topic,
        correlation_id=f"{topic}-correlation",
        causation_id="",
        trace_id="",
        position="1-1",
        size=2,
        published_ms=now_ms,
    )
    Evidence.objects.create(
        kind="job_ended", subject=f"job:{topic}", namespace=topic, at_ms=now_ms, correlation_id="01M7", detail="done"
    )
    with transaction.atomic():
        entry: AuditEntry = record(SYSTEM, "topic.create", Subject("topic", topic), after={"owner": team})
    soon = to_rfc3339(now_ms + 86_400_000)
    SavedQuery.objects.create(name=topic, sql="SELECT 1", saved_by="somebody")
    alerting = _alerting(topic, group, now_ms)
    operation = Operation.objects.create(
        kind="redrive",
        title=f"Redrive dead letters on {topic}",
        spec={"letters": [letter.pk], "upto": letter.pk},
        digest=topic[:32],
        namespace=topic,
        actor="somebody",
        actor_kind="user",
        reason="a test",
        audit_seq=entry.seq,
        total=1,
    )
    things = (*alerting, operation.pk, *_job(topic, owner), _audited(topic, team))
    _quotas(topic, owner, now_ms)
    return World(topic, group, team, message_id, letter.pk, entry.seq, soon, *things)


def _job(name: str, owner: Team) -> tuple[str, int]:
    """A job that is called as the topic is, with a run and its log."""
    work = {"kind": "http", "target": "https://1.1.1.1/", "parameters": {"of": name}}
    job = Job.objects.create(
        name=name, team=owner, schedule="@daily", acts_as="system", tags=name, calendars="holidays", **work
    )
    keep_tags(job)
    JobCalendar.objects.get_or_create(name="holidays", defaults={"lines": "12-25"})
    JobCursor.objects.create(job=name, version=1, at=0)
    JobVersion.objects.create(job=job, number=1, settings=snapshot(job), audit_seq=1)
    run = JobRun.objects.create(job=name, version=1, slot=60, state="done", decided_us=1, changed_us=1, ended_us=1)
    JobRun.objects.create(job=name, version=1, slot=120, state="running", decided_us=1, changed_us=1, begun_us=1)
    LogPiece.objects.create(run=run.pk, seq=1, attempt=1, at_us=1, text=f"did {name}\n")
    return name, run.pk


def _audited(topic: str, owner: str) -> int:
    """An audit of this topic, and of the job of its name, alone."""
    nothing, none = Amount(0, 0), Percentiles(0)
    told = TopicAudit(
        *(topic, AuditVerdict.CLEAN, 0, 1, 1, 60_000, nothing, nothing, nothing, None, none),
        subscriptions=[],
        told={},
        findings=[],
        windows=[],
    )
    slots = audit_checks()["slots"]
    missing = slots.finding("missing", 1, samples=[JudgedSample("it has no row", 1, job_subject(topic))])
    judged = [JudgedSubject(job_subject(topic), topic, AuditVerdict.WRONG, 0, 1, 1, [missing])]
    made = keep_audit(AuditReport(1, [told], 0, 0), AskedAudit(1), b"", [JudgedByCheck(slots, judged)])
    made.topics.update(owner=owner)
    return made.pk


def _quotas(resource: str, owner: Team, now_ms: int) -> None:
    """One policy for all, with what was used of it in this namespace."""
    if not QuotaPolicy.objects.exists():
        create_policy(SYSTEM, PolicyDraft("inside", owner.name, 100.0, 100.0, canary_percent=5, canary_limit=50.0))
    book_one(now_ms // 60_000 * 60, ("publish", resource, f"{resource}-user"), 9, 1)
    held = (Source.PERMIT, 1.0, 100.0, 100.0, 1, "p1", 9, 1, 4.0, 9.0, 1.0)
    limiter = LimiterReport("publish", resource, f"{resource}-user", *held)
    keep_report(f"node of {resource}", now_ms, NodeReport(1, 0, (limiter,)))


def _alerting(topic: str, group: str, now_ms: int) -> tuple[int, int, int, int]:
    """A rule of this topic alone with a firing alert, a silence, and a mail channel that reaches nobody."""
    channel, _ = Channel.objects.get_or_create(name="on-call", kind="email", recipients=["on-call@hotel.example"])
    rule = Rule.objects.create(name=f"{topic} waits", kind="oldest", scope=topic, threshold=60)
    rule.channels.add(channel)
    alert = Alert.objects.create(
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        severity=rule.severity,
        subject_kind="subscription",
        namespace=topic,
        subject_name=group,
        state=Alert.State.FIRING,
        threshold=60,
        value=90,
        peak=90,
        began_ms=now_ms,
        fired_ms=now_ms,
        measured_ms=now_ms,
    )
    silence = Silence.objects.create(
        subject_kind="topic",
        namespace=topic,
        by="somebody",
        reason="a test",
        began_ms=now_ms,
        until_ms=now_ms + 3_600_000,
    )
    return rule.pk, alert.pk, silence.pk, channel.pk
