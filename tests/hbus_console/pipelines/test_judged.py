"""What an audit judges beside topics: kept, shown to whoever may see it, exported, compared, and in every verdict."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import time
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.test import Client

from engine.core.clock import to_rfc3339
from engine.core.errors import NotThere
from engine.core.subject import Subject
from engine.core.verdicts import AuditVerdict, Severity
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.evidence.models import Evidence
from hbus_console.jobs.models import JobRun, JobVersion
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.pipelines.audits import judged, reading
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.models import BusAudit
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.registry.judging import AuditCheck
from tests.hbus_console.pipelines.conftest import OTHER, WHY, MakeUser, work
from tests.hbus_console.quotas.booked import book_one

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
#: A full hour that is over.
AT = (int(time.time()) // 3_600 - 4) * 3_600
HOUR = time.gmtime(AT).tm_hour
CLOSE, RATES, POLICY = Subject("job", "hotels.close"), Subject("job", "rates.load"), Subject("policy", "", "partners")
MISSING = [AT + 60 * minute for minute in range(3)]
PAUSED = "paused: the store is moved"


def have_run(job: Subject, slots: list[int], state: str = "done", reason: str = "") -> list[JobRun]:
    rows = (
        JobRun(
            job=job.namespace, version=1, slot=slot, state=state, reason=reason,
            decided_us=slot * 1_000_000, changed_us=slot * 1_000_000, ended_us=slot * 1_000_000,
        )
        for slot in slots
    )  # fmt: skip
    return JobRun.objects.bulk_create(rows)


def have_job(job: Subject, minutes: str) -> None:
    """Of that hour alone, as far as it has come."""
    create_job(SYSTEM, JobDraft(job.namespace, "Bookings", "http", "https://1.1.1.1/", f"{minutes} {HOUR} * * *"))
    JobVersion.objects.filter(job__name=job.namespace).update(made_at=datetime.fromtimestamp(AT - 60, tz=UTC))


@pytest.fixture
def skipped(topic: object) -> JobRun:
    """What was planted: three slots of sixty have no run and twelve a reason; and a policy whose limit was exceeded
    while a node was cut off. The first row of a reason is returned."""
    have_job(CLOSE, "*")
    have_job(RATES, "*/30")
    have_run(RATES, [AT, AT + 1_800])
    have_run(CLOSE, [AT + 60 * minute for minute in range(3, 48)])
    rows = have_run(CLOSE, [AT + 60 * minute for minute in range(48, 60)], "skipped", PAUSED)
    create_policy(SYSTEM, PolicyDraft("partners", "Bookings", 10, 20, service="publish", resource="payment.*"))
    QuotaBook.objects.update(made_at=datetime.fromtimestamp(AT - 3_600, tz=UTC))
    book_one(AT, ("publish", OTHER, "ada"), 771)
    book_one(AT + 900, ("publish", OTHER, "ada"), 5)
    for kind, at in (("quota_cut_off", AT - 60), ("quota_back", AT + 120)):
        Evidence.objects.create(kind=kind, at_ms=at * 1000, node="web-1")
    return rows[0]


@pytest.fixture
def made(skipped: JobRun, archived: Actor, tmp_path: Path) -> BusAudit:
    work(ask_audit(archived, WantedAudit(reason=WHY)), tmp_path)
    return BusAudit.objects.get()


@pytest.fixture
def page(made: BusAudit) -> Client:
    return signed_in("gov")


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def text(body: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", body.replace("<wbr>", "")).split())


def test_features_declare_what_is_judged() -> None:
    assert list(judged.audit_checks()) == ["slots", "quotas"]
    for check in judged.audit_checks().values():
        assert isinstance(check, AuditCheck)
        for form in check.forms.values():
            assert form.says(1) != form.says(1_234)
            assert "1,234" in form.says(1_234)


def test_an_audit_of_named_topics_asks_about_these_alone(skipped: JobRun, archived: Actor, tmp_path: Path) -> None:
    work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)
    assert BusAudit.objects.get().subjects.count() == 0
    since = to_rfc3339(AT * 1000 + 60_000)
    work(ask_audit(archived, WantedAudit(since=since, reason=WHY)), tmp_path)
    found = BusAudit.objects.latest("pk").subjects.get(about=str(CLOSE))
    assert (found.verdict, found.judged, found.from_ms) == ("wrong", 59, AT * 1000 + 60_000)


def test_everybody_sees_what_they_may_see(made: BusAudit, archived: Actor, make_user: MakeUser) -> None:
    seen = reading.seen_audit(archived, made.pk)
    assert [(str(each.subject), each.verdict.value) for each in seen.subjects] == [
        ("job:hotels.close", "wrong"), ("policy:/partners", "explained"), ("job:rates.load", "clean"),
    ]  # fmt: skip
    of_hotels = actor_of(make_user("viewer", "hotels.*", "hotels"))
    alone = reading.seen_audit(of_hotels, made.pk)
    assert ([each.subject for each in alone.subjects], alone.rows, alone.verdict) == ([CLOSE], [], AuditVerdict.WRONG)
    assert (alone.from_ms, alone.to_ms, reading.sees_whole(alone)) == ((AT - 57) * 1000, alone.to_ms, False)
    (line,) = reading.lines(of_hotels, list(reading.listed(of_hotels)))
    assert (line.verdict, line.topics, line.subjects, line.wrong_subjects) == (AuditVerdict.WRONG, 0, 1, 1)
    of_rates = actor_of(make_user("viewer", "rates.load", "rates"))
    assert reading.seen_audit(of_rates, made.pk).verdict is AuditVerdict.CLEAN
    # Whoever sees all that a policy covers sees it judged.
    of_payments = actor_of(make_user("viewer", "payment.*", "payments"))
    assert [each.subject for each in reading.seen_audit(of_payments, made.pk).subjects] == [POLICY]
    one_topic = actor_of(make_user("viewer", OTHER, "one"))
    assert reading.seen_audit(one_topic, made.pk).subjects == []
    nobody = actor_of(make_user("viewer", "nothing.here", "nobody"))
    assert not reading.listed(nobody).exists()
    with pytest.raises(NotThere):
        reading.seen_audit(nobody, made.pk)


def test_the_page_tells_it_below_the_topics(made: BusAudit, page: Client, skipped: JobRun) -> None:
    body = page.get(f"/audits/{made.pk}/").content.decode()
    assert body.index('aria-label="Topics"') < body.index('id="beside"')
    said = text(body)
    assert "3 slots have no run, and no reason 12 slots were skipped of 1 of 2 jobs, 62 judged 3 samples" in said
    assert "in 1 window more was admitted than the limit, while nodes were cut off" in said
    table = body[body.index('id="beside"') :]
    assert '<a href="/jobs/hotels.close/">' in table
    assert f'<a href="/jobs/hotels.close/runs/{skipped.pk}/">' in table
    assert '<a href="/quotas/policies/partners/">' in table
    assert PAUSED in table
    # Of what holds there is nothing to tell; how many there are stands in the head.
    assert "rates.load" not in table
    assert "2 jobs · 1 policy" in text(table)


def test_one_that_is_asked_for_again_is_of_as_much(made: BusAudit, page: Client, make_user: MakeUser) -> None:
    assert 'name="topics" value=""' in page.get(f"/audits/{made.pk}/").content.decode()
    make_user("operator", OTHER, "one")
    assert f'name="topics" value="{OTHER}"' in signed_in("one").get(f"/audits/{made.pk}/").content.decode()


def test_the_page_of_who_sees_one_job_tells_of_that_alone(made: BusAudit, make_user: MakeUser) -> None:
    make_user("viewer", "rates.*", "rates")
    said = text(signed_in("rates").get(f"/audits/{made.pk}/").content.decode())
    assert "each of 2 slots of 1 job has one run, or a reason for none" in said
    assert "Nothing to tell" in said
    assert "hotels" not in said
    assert "partners" not in said
    assert f"Audit {made.pk}" in text(signed_in("rates").get("/audits/").content.decode())


def test_the_list_says_of_how_many_something_is_wrong(page: Client) -> None:
    assert "in 1 and 1 beside topics" in text(page.get("/audits/").content.decode())


def signed(client: Client, made: BusAudit) -> dict[str, Any]:
    envelope = json.loads(client.get(f"/audits/{made.pk}/audit.json").content)
    told: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return told


def test_every_export_has_it(made: BusAudit, page: Client, skipped: JobRun) -> None:
    told = signed(page, made)
    assert told["of"] == "all that was audited"
    close = next(each for each in told["judged"] if each["subject"] == "job:hotels.close")
    assert (close["check"], close["verdict"], close["judged"]) == ("slots", "wrong", 60)
    assert [(each["kind"], each["severity"], each["count"]) for each in close["findings"]] == [
        ("missing", "wrong", 3), ("skipped", "explained", 12),
    ]  # fmt: skip
    assert close["findings"][1]["samples"] == [
        {"says": "it is skipped", "at_ms": skipped.slot * 1000, "subject": f"run:hotels.close/{skipped.pk}"}
    ]
    lines = b"".join(page.get(f"/audits/{made.pk}/audit.csv"))  # type: ignore[arg-type]
    rows = [row for row in csv.DictReader(io.StringIO(lines.decode())) if not row["topic"]]
    assert [(row["subject"], row["check"], row["finding"], row["count"], row["judged"]) for row in rows] == [
        ("job:hotels.close", "slots", "missing", "3", "60"),
        ("job:hotels.close", "slots", "skipped", "12", "60"),
        ("policy:/partners", "quotas", "fallback", "1", "4"),
        ("job:rates.load", "slots", "", "", "2"),
    ]
    table = pq.read_table(pa.BufferReader(page.get(f"/audits/{made.pk}/audit.parquet").content)).to_pylist()
    assert [(row["subject"], row["finding"], row["count"]) for row in table if not row["topic"]] == [
        ("job:hotels.close", "missing", 3), ("job:hotels.close", "skipped", 12), ("policy:/partners", "fallback", 1),
    ]  # fmt: skip
    html = text(page.get(f"/audits/{made.pk}/audit.html").content.decode())
    assert "job:hotels.close: wrong" in html
    assert "wrong: 3 slots have no run, and no reason" in html
    assert f"explained: 12 slots were skipped: {PAUSED}" in html


def test_a_signed_export_is_verified_with_it(made: BusAudit, page: Client, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    file.write_bytes(page.get(f"/audits/{made.pk}/audit.json").content)
    out = StringIO()
    call_command("verify_audit", str(file), stdout=out)
    assert ", wrong, 2 topics, 3 beside them, of all that was audited." in out.getvalue()


def test_who_sees_a_part_exports_that_part_and_no_table(made: BusAudit, make_user: MakeUser) -> None:
    make_user("viewer", "hotels.*", "hotels")
    client = signed_in("hotels")
    told = signed(client, made)
    assert (told["of"], told["topics"], told["files"]) == ("what hotels may see", [], None)
    assert [each["subject"] for each in told["judged"]] == ["job:hotels.close"]
    assert client.get(f"/audits/{made.pk}/audit.parquet").status_code == 404


def test_the_api_tells_it(made: BusAudit, page: Client) -> None:
    (line,) = page.get("/api/v1/audits").json()["results"]
    assert (line["verdict"], line["subjects"], line["wrong_subjects"]) == ("wrong", 3, 1)
    told = page.get(f"/api/v1/audits/{made.pk}").json()
    assert {each["subject"]: each["verdict"] for each in told["judged"]} == {
        "job:hotels.close": "wrong", "policy:/partners": "explained", "job:rates.load": "clean",
    }  # fmt: skip


def test_two_audits_are_compared(
    made: BusAudit, skipped: JobRun, archived: Actor, page: Client, tmp_path: Path
) -> None:
    have_run(CLOSE, MISSING)
    work(ask_audit(archived, WantedAudit(reason=WHY)), tmp_path)
    later = BusAudit.objects.latest("pk")
    said = text(page.get(f"/audits/{later.pk}/compare/?with={made.pk}").content.decode())
    assert "Slots 3 slots have no run, and no reason 3 0 -3" in said
    assert "Slots 12 slots were skipped 12 12 0" in said
    assert "hotels.close slots something is wrong holds, with what is explained" in said
    assert "rates.load" not in said


def test_the_command_tells_it_and_ends_with_1(skipped: JobRun, governor: Actor) -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("audit_bus", stdout=out)
    assert ended.value.code == 1
    said = out.getvalue()
    assert "Slots: 3 slots have no run, and no reason; 12 slots were skipped.\n  job:hotels.close: wrong. From " in said
    assert f"    wrong: 3 slots have no run, and no reason\n      {to_rfc3339(AT * 1000)} it has no row, " in said
    assert said.endswith("wrong: 0 topics, 0 files.\n")
    have_run(CLOSE, MISSING)
    out = StringIO()
    call_command("audit_bus", "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert (told["verdict"], len(told["judged"]), told["judged"][0]["findings"][0]["count"]) == ("explained", 3, 12)


def test_one_that_a_command_keeps_has_it(skipped: JobRun, archived: Actor) -> None:
    with pytest.raises(SystemExit):
        call_command("audit_bus", "--keep", "--reason", WHY, stdout=StringIO(), stderr=StringIO())
    rows = BusAudit.objects.get().subjects.values_list("check_name", "about", "verdict", "judged")
    assert set(rows) == {
        ("slots", "job:hotels.close", "wrong", 60),
        ("slots", "job:rates.load", "clean", 2),
        ("quotas", "policy:/partners", "explained", 4),
    }


def test_a_page_says_no_more_than_it_lists(made: BusAudit, page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbus_console.pipelines.views.audits.MOST_SUBJECTS", 1)
    table = page.get(f"/audits/{made.pk}/").content.decode()
    assert "1 more, all no worse: the exports have them." in text(table[table.index('id="beside"') :])


def test_what_no_feature_declares_any_more_is_not_there(
    made: BusAudit, archived: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = {"slots": judged.audit_checks()["slots"]}
    monkeypatch.setattr("hbus_console.pipelines.audits.subjects.audit_checks", lambda: slots)
    seen = reading.seen_audit(archived, made.pk)
    assert [each.subject for each in seen.subjects] == [CLOSE, RATES]
    assert reading.sees_whole(seen)
    assert Severity.EXPLAINED not in {each.severity for each in seen.subjects[1].findings}
