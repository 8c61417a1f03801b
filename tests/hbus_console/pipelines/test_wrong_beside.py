"""What an audit finds wrong beside topics: told of by alerts and in the head of the list, to whoever may see it."""

from __future__ import annotations

import time

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from engine.core.errors import ConfigurationError
from engine.core.subject import Subject
from engine.core.verdicts import AuditVerdict
from engine.cron.subjects import job_subject
from engine.pipeline.audit.report import Report
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.kinds import AlertKind
from hbus_console.alerts.models import Alert, Evaluation, Rule
from hbus_console.alerts.standing import firing
from hbus_console.alerts.targets import Targets
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.pipelines import alerts
from hbus_console.pipelines.audits.judged import JudgedByCheck, audit_checks
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.wrong_audits import TOLD_S
from hbus_console.quotas.models import policy_subject
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.registry.judging import EVERYTHING, JudgedSubject
from hbus_console.teams.models import Team
from tests.hbus_console.pipelines.conftest import MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
CLOSE, POLICY = job_subject("hotels.close"), policy_subject("partners")
SPAN = (1_000, 2_000)
NOW_MS = round(time.time() * 1000)


@pytest.fixture
def teams(transactional_db: None) -> Team:
    team = Team.objects.create(name="Bookings", contact="bookings@hotel.example")
    create_job(SYSTEM, JobDraft(CLOSE.namespace, team.name, "http", "https://1.1.1.1/", "0 3 * * *"))
    create_job(SYSTEM, JobDraft("rates.load", team.name, "http", "https://1.1.1.1/", "0 3 * * *"))
    create_policy(SYSTEM, PolicyDraft(POLICY.name, team.name, 10, 20, service="publish", resource="payment.*"))
    return team


def audit(close: int = 0, policy: int = 0, span: tuple[int, int] = SPAN, asked: tuple[int, int] | None = None) -> None:
    """So many things are wrong with each."""
    checks = audit_checks()
    judged = [
        JudgedByCheck(checks["slots"], [_judged("slots", CLOSE, CLOSE.namespace, close, span)]),
        JudgedByCheck(checks["quotas"], [_judged("quotas", POLICY, "payment.*", policy, span)]),
    ]
    by = AskedAudit(1, from_ms=asked and asked[0], to_ms=asked and asked[1])
    keep_report(Report(1, [], 0, 0), by, b"", judged)


def _judged(check: str, subject: Subject, scope: str, wrong: int, span: tuple[int, int] = SPAN) -> JudgedSubject:
    found = [audit_checks()[check].finding({"slots": "missing", "quotas": "over"}[check], wrong)] if wrong else []
    return JudgedSubject(subject, scope, AuditVerdict.WRONG if wrong else AuditVerdict.CLEAN, *span, 60, found)


def fires(later_s: int = 0) -> dict[str, float]:
    """By subject, after one more look."""
    Rule.objects.get_or_create(
        name="an audit finds", kind="audit_wrong", defaults={"threshold": 1, "clear_s": 0, "scope": "*"}
    )
    now_ms = NOW_MS + later_s * 1000
    # Watched without a gap.
    Evaluation.objects.update_or_create(pk=1, defaults={"at_ms": now_ms, "watching_ms": NOW_MS - 120_000})
    AlertEvaluator(clock=ManualClock(now_ms)).tick()
    return {str(each.subject): each.value for each in Alert.objects.filter(state=Alert.State.FIRING)}


def head(user: User) -> str:
    client = Client()
    client.force_login(user)
    body = client.get("/audits/").content.decode()
    return body[body.index("<h1") : body.index("<section")]


def test_a_rule_fires_on_jobs_and_policies_until_a_newer_audit_holds(teams: Team) -> None:
    audit(close=3, policy=2)
    assert fires() == {"job:hotels.close": 3, "policy:/partners": 2}
    # Another span says nothing of this one; as much of it does.
    audit(span=(1_001, 2_000), asked=(1_001, 2_000))
    assert fires(1) == {"job:hotels.close": 3, "policy:/partners": 2}
    audit(policy=1)
    assert fires(2) == {"policy:/partners": 1}
    # What was judged is kept no longer: all that is kept holds.
    audit(span=(1_500, 3_000))
    assert fires(3) == {}


def test_it_is_told_of_for_two_nights_and_of_what_is_there(teams: Team) -> None:
    audit(close=3, policy=2)
    fires()
    Job.objects.filter(name=CLOSE.namespace).delete()
    assert fires(1) == {"policy:/partners": 2}
    assert fires(TOLD_S + 3_600) == {}


def test_a_rule_on_a_namespace_or_of_a_team_watches_the_jobs_of_it(teams: Team) -> None:
    audit(close=3, policy=2)
    Rule.objects.create(name="an audit finds", kind="audit_wrong", threshold=1, clear_s=0, scope="hotels.*")
    assert fires() == {"job:hotels.close": 3}
    Rule.objects.update(scope="*", team=teams, of_team=True)
    assert fires(1) == {"job:hotels.close": 3, "policy:/partners": 2}
    Rule.objects.update(team=Team.objects.create(name="Others", contact="o@hotel.example"))
    assert fires(2) == {}


def test_an_alert_is_seen_by_who_sees_its_subject(teams: Team, make_user: MakeUser) -> None:
    audit(close=3, policy=2)
    fires()
    counts = [("*", 2), ("hotels.*", 1), ("rates.*", 0), ("payment.*", 0)]
    seen = {scope: firing(actor_of(make_user("viewer", scope, scope.strip(".*") or "all"))) for scope, _ in counts}
    assert seen == dict(counts)


def test_the_head_of_the_list_counts_and_names_what_one_may_see(teams: Team, make_user: MakeUser) -> None:
    audit(close=3, policy=2)
    told = head(make_user())
    assert "something is wrong with 1 job and 1 policy<" in told
    assert '#beside">hotels.close</a>' in told
    assert '#beside">partners</a>' in told
    told = head(make_user("viewer", "hotels.*", "hotels"))
    assert "something is wrong with 1 job<" in told
    assert "partners" not in told
    told = head(make_user("viewer", "payment.*", "payments"))
    assert "something is wrong with 1 policy<" in told
    assert "hotels" not in told
    assert "something is wrong" not in head(make_user("viewer", "rates.*", "rates"))


def test_the_head_of_the_list_says_how_many_more_there_are(teams: Team, make_user: MakeUser) -> None:
    jobs = [job_subject(f"nightly.{n}") for n in range(9)]
    judged = [_judged("slots", each, each.namespace, 1) for each in jobs]
    keep_report(Report(1, [], 0, 0), AskedAudit(1), b"", [JudgedByCheck(audit_checks()["slots"], judged)])
    told = head(make_user())
    assert "something is wrong with 9 jobs<" in told
    assert "and 1 more" in told


def test_no_judgement_is_of_a_namespace_whose_readers_may_not_see_it() -> None:
    with pytest.raises(ValueError, match="another namespace than its scope"):
        JudgedSubject(CLOSE, EVERYTHING, AuditVerdict.CLEAN, 0, 1, 1)


def test_what_no_rule_can_watch_is_said(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    own: dict[str, AlertKind] = {kind.name: kind for kind in alerts.KINDS}
    monkeypatch.setattr(alerts, "kinds", lambda: own)
    with pytest.raises(ConfigurationError, match="of the kind 'job', which no alert rule can watch"):
        Targets([alerts.AUDITED]).of(alerts.AUDITED)


def test_a_rule_says_in_words_what_it_watches(teams: Team, governor_page: Client) -> None:
    Rule.objects.create(name="an audit finds", kind="audit_wrong", threshold=1)
    assert "Any audited subject" in governor_page.get("/alerts/rules/").content.decode()


@pytest.fixture
def governor_page(make_user: MakeUser) -> Client:
    client = Client()
    client.force_login(make_user())
    return client
