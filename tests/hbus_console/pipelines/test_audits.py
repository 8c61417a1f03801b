"""Audits in the console: asked for, made by their job, kept for whoever may see their topics, and exported."""

from __future__ import annotations

import base64
import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from msgspec.structs import replace
from pytest_django import Settings

from engine.core.errors import BadInput, NotThere
from engine.core.verdicts import AuditVerdict
from engine.cron.work.call import Hopeless, RunCall, RunContext
from engine.cron.work.log_spool import LogSpool
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.report import Report
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.alerts.round import Case, Round
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.pipelines import alerts, standing_jobs
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits import reading, signing
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.audits.working import audit_asked
from hbus_console.pipelines.feature import AUDIT_JOB, ROLLUP_JOB
from hbus_console.pipelines.live import cells
from hbus_console.pipelines.models import AskedBusAudit, BusAudit
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY, MakeUser, store_twice, work

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def inside(make_user: MakeUser, role: str = "viewer") -> User:
    return make_user(role, OTHER, "inside")


def test_what_is_archived_is_audited_each_night(archived: Actor) -> None:
    job = Job.objects.get(name=AUDIT_JOB)
    assert (job.schedule, job.parameters, job.target) == ("20 3 * * *", {"days": 8}, AUDIT_JOB)


def test_an_installation_that_archived_before_gets_the_job(archived: Actor) -> None:
    Job.objects.filter(name__in=(AUDIT_JOB, ROLLUP_JOB)).delete()
    said: list[str] = []
    for _ in range(2):
        standing_jobs.prepare(said.append)
    assert [line.split(":")[0] for line in said] == [f"The job {ROLLUP_JOB}", f"The job {AUDIT_JOB}"]
    assert Job.objects.filter(name__in=standing_jobs.STANDING_JOBS).count() == 4


def test_who_deleted_the_job_gets_it_back_with_the_next_audit(archived: Actor) -> None:
    Job.objects.filter(name=AUDIT_JOB).delete()
    ask_audit(archived, WantedAudit(reason=WHY))
    assert Job.objects.filter(name=AUDIT_JOB).count() == 1


def test_it_is_asked_for_once_and_audited(archived: Actor) -> None:
    wanted = WantedAudit([TOPIC], "2026-01-01T00:00:00Z", reason=WHY, key="one")
    first, again = ask_audit(archived, wanted), ask_audit(archived, wanted)
    assert first.pk == again.pk
    entry = AuditEntry.objects.get(action="bus-audit.run")
    assert (entry.actor, entry.namespace, entry.reason) == ("gov", TOPIC, WHY)
    assert entry.after == {"topics": [TOPIC], "since": wanted.since, "until": "", "run": first.pk}


def test_a_key_is_its_askers_own(archived: Actor, make_user: MakeUser) -> None:
    """Nobody is told that another has asked under it, nor which run that made."""
    first = ask_audit(archived, WantedAudit([OTHER], reason=WHY, key="monthly"))
    other = ask_audit(actor_of(inside(make_user, "operator")), WantedAudit([OTHER], reason=WHY, key="monthly"))
    assert first.pk != other.pk
    assert "monthly" not in first.key + other.key
    with pytest.raises(BadInput, match=f"run {first.pk} of"):
        ask_audit(archived, WantedAudit([TOPIC], reason=WHY, key="monthly"))
    with pytest.raises(BadInput) as refused:
        ask_audit(archived, WantedAudit(reason=WHY, key="k" * 129))
    assert refused.value.field == "key"


def test_a_run_says_what_came_of_it_and_keeps_it(archived: Actor, tmp_path: Path) -> None:
    run = ask_audit(archived, WantedAudit(reason=WHY))
    work(run, tmp_path)
    made = BusAudit.objects.get()
    assert (made.asked_by, made.run, made.files, made.computed) == ("gov", run.pk, 2, 2)
    seen = reading.seen_audit(archived, made.pk)
    assert [(row.topic, row.verdict, row.archived, row.owner) for row in seen.rows] == [
        (TOPIC, "wrong", 42, "Bookings"),
        (OTHER, "clean", 7, "Bookings"),
    ]
    answers = {answer.check.name: (answer.count, answer.tone) for answer in seen.answers}
    assert answers["duplicates"] == (1, "bad")
    assert {name for name, (count, _) in answers.items() if not count} >= {"order", "form", "dead", "retries"}
    assert "producers" not in answers, "nobody said who may publish"


def test_who_may_run_the_job_has_no_topic_of_others_audited_by_it(
    archived: Actor, make_user: MakeUser, tmp_path: Path
) -> None:
    """Found by a stranger: the right in ``hbus`` alone audited any topic, and its run told the verdict. A report is
    signed, too: whoever may trigger the job puts no other name on one."""
    olga = actor_of(make_user("operator", "hbus.*", "olga"))
    for said in ({"topics": [OTHER]}, {"asked_by": "gov"}):
        with pytest.raises(BadInput) as refused:
            trigger(olga, AUDIT_JOB, Trigger(said, WHY))
        assert refused.value.field == "parameters"
    asked = ask_audit(archived, WantedAudit([OTHER], reason=WHY)).parameters
    mine = trigger(olga, AUDIT_JOB, Trigger(asked, WHY)).run
    call = RunCall(mine.pk, AUDIT_JOB, 1, mine.slot, 1, "w", parameters=mine.parameters or {})
    with pytest.raises(Hopeless):
        audit_asked(RunContext(call, LogSpool(tmp_path, mine.pk, 1)), (asked or {})["asked"])
    assert not BusAudit.objects.exists()
    work(trigger(olga, AUDIT_JOB, Trigger({"days": 8}, WHY)).run, tmp_path)
    assert BusAudit.objects.get().asked_by == "olga"


def test_neither_its_run_nor_the_log_of_the_job_tells_of_a_topic(
    archived: Actor, make_user: MakeUser, tmp_path: Path
) -> None:
    run = ask_audit(archived, WantedAudit([TOPIC, OTHER], reason="as booking.created is wrong"))
    summary = work(run, tmp_path)
    made = BusAudit.objects.get()
    assert summary == f"Audit {made.pk} is made: its page tells everybody what it found of what they may see."
    assert run.parameters == {"asked": AskedBusAudit.objects.get().pk}
    entries = AuditEntry.objects.filter(action__in=("bus-audit.run", "job.trigger"))
    told = [str(each.after) + each.reason for each in entries if each.namespace.startswith("hbus")]
    assert told
    for said in (summary, run.asked_why, *told):
        assert not [word for word in (TOPIC, OTHER, "wrong") if word in said]
    own = entries.filter(action="bus-audit.run")
    assert {each.namespace: each.after["topics"] for each in own} == {TOPIC: [TOPIC], OTHER: [OTHER]}


def test_of_a_span_it_is_the_span(archived: Actor, tmp_path: Path) -> None:
    work(ask_audit(archived, WantedAudit([TOPIC], until="2026-01-01T00:00:00Z", reason=WHY)), tmp_path)
    made = BusAudit.objects.get()
    assert made.topics.get().archived == 0
    answers = reading.seen_audit(archived, made.pk).answers
    assert {(answer.tone, *answer.says) for answer in answers} == {("muted", "no message of the span could be judged")}


def test_old_ones_are_let_go_of(audited: BusAudit, archived: Actor, settings: Settings, tmp_path: Path) -> None:
    settings.HBUS_AUDIT_DAYS = -1
    work(ask_audit(archived, WantedAudit(reason=WHY)), tmp_path)
    assert not BusAudit.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (WantedAudit([TOPIC]), "reason"),
        (WantedAudit([TOPIC], "yesterday", reason=WHY), "since"),
        (WantedAudit([TOPIC], until="now", reason=WHY), "until"),
        (WantedAudit([TOPIC], "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", WHY), "until"),
        (WantedAudit(["No Topic"], reason=WHY), "topics"),
        (WantedAudit(["t"] * 1_001, reason=WHY), "topics"),
    ],
)
def test_what_cannot_be_meant_is_refused(archived: Actor, wanted: WantedAudit, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        ask_audit(archived, wanted)
    assert refused.value.field == field
    assert not JobRun.objects.exists()


def test_a_topic_that_the_lake_does_not_have_is_refused(archived: Actor) -> None:
    with pytest.raises(NotThere) as refused:
        ask_audit(archived, WantedAudit(["never.was"], reason=WHY))
    assert refused.value.field == "topics"


def test_who_operates_one_topic_has_that_one_audited(archived: Actor, make_user: MakeUser) -> None:
    who = actor_of(inside(make_user, "operator"))
    with pytest.raises(Forbidden):
        ask_audit(who, WantedAudit([TOPIC], reason=WHY))
    ask_audit(who, WantedAudit(reason=WHY))
    assert AskedBusAudit.objects.get().topics == [OTHER]
    with pytest.raises(Forbidden):
        ask_audit(actor_of(make_user("viewer", "*", "looks")), WantedAudit([OTHER], reason=WHY))


def test_a_signed_audit_of_a_part_says_so_and_not_of_how_much(
    audited: BusAudit, page: Client, make_user: MakeUser
) -> None:
    def exported(client: Client) -> tuple[dict[str, Any], str]:
        told = json.loads(base64.b64decode(client.get(f"/audits/{audited.pk}/audit.json").json()["payload"]))
        assert client.get(f"/api/v1/audits/{audited.pk}").json() == told
        return told, client.get(f"/audits/{audited.pk}/audit.html").content.decode()

    client = Client()
    client.force_login(inside(make_user))
    part, said = exported(client)
    assert (part["of"], part["files"], part["computed"]) == ("what inside may see", None, None)
    assert "This is of what inside may see." in said
    for each, told in ((client, False), (page, True)):
        assert ("looked through anew" in each.get(f"/audits/{audited.pk}/").content.decode()) is told
    whole, said = exported(page)
    assert (whole["of"], whole["files"], whole["computed"]) == ("all that was audited", 2, 2)
    assert "This is of all that was audited." in said


def test_everybody_reads_of_the_topics_that_they_may_see(audited: BusAudit, make_user: MakeUser) -> None:
    client = Client()
    client.force_login(inside(make_user))
    for address in ("", f"{audited.pk}/", f"{audited.pk}/findings/", f"{audited.pk}/compare/?with={audited.pk}"):
        said = client.get(f"/audits/{address}").content.decode()
        assert TOPIC not in said
        assert "something is wrong" not in said, address
    (line,) = reading.lines(actor_of(User.objects.get(username="inside")), [audited])
    assert (line.verdict, line.topics, line.archived) == (AuditVerdict.CLEAN, 1, 7)
    for form in ("json", "csv", "html"):
        answer = client.get(f"/audits/{audited.pk}/audit.{form}")
        said = b"".join(answer) if answer.streaming else answer.content
        if form == "json":
            said = base64.b64decode(json.loads(said)["payload"])
        assert OTHER.encode() in said
        assert TOPIC.encode() not in said
    assert client.get(f"/audits/{audited.pk}/audit.parquet").status_code == 404
    outside = make_user("viewer", "stay.*", "outside")
    client.force_login(outside)
    assert client.get(f"/audits/{audited.pk}/").status_code == 404
    JobRun.objects.all().delete()
    assert "Nothing was audited yet" in client.get("/audits/").content.decode()


def test_the_page_gives_the_verdict_first_then_each_check_with_its_samples(page: Client, audited: BusAudit) -> None:
    said = page.get(f"/audits/{audited.pk}/").content.decode()
    assert "something is wrong" in said.partition("</h1>")[0]
    assert "once a message was stored again, as it was" in said
    assert "every key was stored in its order" in said
    assert 'class="heat h' in said
    found = page.get(f"/audits/{audited.pk}/findings/?check=duplicates").content.decode()
    assert f'href="/messages/twice?topic={TOPIC}&amp;source=%2Ftests"' in found
    assert "Nothing was found" in page.get(f"/audits/{audited.pk}/findings/?check=order").content.decode()


def test_the_form_asks_and_says_what_it_cannot(page: Client) -> None:
    asked = page.post("/audits/run/", {"topics": f"{TOPIC}, {OTHER}", "reason": WHY})
    assert asked.status_code == 302
    assert JobRun.objects.filter(job=AUDIT_JOB).count() == 2
    page.post("/audits/run/", {"topics": TOPIC, "reason": ""})
    assert JobRun.objects.filter(job=AUDIT_JOB).count() == 2
    assert "2 under way or waiting" in page.get("/audits/").content.decode()


def test_two_are_compared(page: Client, audited: BusAudit, archived: Actor, tmp_path: Path) -> None:
    store_twice("once-more", b'{"n":2}')
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([TOPIC], reason=WHY)), tmp_path)
    newer = BusAudit.objects.first()
    assert newer is not None
    said = page.get(f"/audits/{newer.pk}/compare/?with={audited.pk}").content.decode()
    assert "+1</td>" in said
    assert "not audited" in said
    assert page.get(f"/audits/{newer.pk}/compare/?with=none").status_code == 400


def test_what_is_exported_is_signed_and_a_change_is_found(page: Client, audited: BusAudit, tmp_path: Path) -> None:
    envelope = json.loads(page.get(f"/audits/{audited.pk}/audit.json").content)
    payload = signing.verified(envelope, signing.public_key())
    told = json.loads(payload)
    assert (told["audit"], told["verdict"], told["public_key"]) == (audited.pk, "wrong", signing.public_key())
    assert [topic["topic"] for topic in told["topics"]] == [TOPIC, OTHER]

    file = tmp_path / "audit.json"
    file.write_text(json.dumps(envelope))
    out = io.StringIO()
    call_command("verify_audit", str(file), "--key", signing.public_key(), stdout=out)
    assert out.getvalue().startswith(f"Signed by {signing.key_id(signing.public_key())}: audit {audited.pk} of ")

    forged = {**envelope, "payload": base64.b64encode(payload.replace(b'"wrong"', b'"clean"')).decode()}
    with pytest.raises(BadInput, match="has not signed"):
        signing.verified(forged, signing.public_key())
    with pytest.raises(BadInput, match="has not signed"):
        signing.verified(envelope, "aa" * 32)
    file.write_text(json.dumps(forged))
    with pytest.raises(BadInput, match="has not signed"):
        call_command("verify_audit", str(file))
    with pytest.raises(BadInput):
        call_command("verify_audit", str(tmp_path / "no-file"))
    for broken in ({}, {**envelope, "payloadType": "text/plain"}, {**envelope, "signatures": [{"sig": "no"}]}):
        with pytest.raises(BadInput):
            signing.verified(broken, signing.public_key())
    with pytest.raises(BadInput):
        signing.verified(envelope, "not hexadecimal")


def test_an_export_has_each_finding(page: Client, audited: BusAudit) -> None:
    answer = page.get(f"/audits/{audited.pk}/audit.csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
    (found,) = [row for row in rows if row["finding"] == "duplicate"]
    assert (found["topic"], found["count"], found["samples"], found["check"]) == (TOPIC, "1", "twice", "duplicates")
    assert [row["verdict"] for row in rows if row["topic"] == OTHER] == ["clean"]
    table = pq.read_table(pa.BufferReader(page.get(f"/audits/{audited.pk}/audit.parquet").content)).to_pylist()
    assert [(row["topic"], row["samples"]) for row in table if row["finding"] == "duplicate"] == [(TOPIC, ["twice"])]
    said = page.get(f"/audits/{audited.pk}/audit.html").content.decode()
    assert "<code>twice</code>" in said
    assert "<script" not in said
    assert page.get(f"/audits/{audited.pk}/audit.exe").status_code == 404


def test_no_cell_of_an_export_is_a_formula(page: Client, archived: Actor, tmp_path: Path) -> None:
    store_twice("=1+1", b'{"n":3}')
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([TOPIC], reason=WHY)), tmp_path)
    newest = BusAudit.objects.first()
    assert newest is not None
    answer = b"".join(page.get(f"/audits/{newest.pk}/audit.csv")).decode()
    assert all(not cell.startswith("=") for row in csv.reader(io.StringIO(answer)) for cell in row)
    assert "=1+1" in answer


def test_over_http_it_is_asked_for_listed_and_read(page: Client, audited: BusAudit) -> None:
    asked = page.post("/api/v1/audits", json.dumps({"topics": [TOPIC], "reason": WHY}), content_type="application/json")
    assert asked.status_code == 202
    assert AskedBusAudit.objects.get(run=asked.json()["run"]).topics == [TOPIC]
    (line,) = page.get("/api/v1/audits").json()["results"]
    assert (line["id"], line["verdict"], line["topics"], line["wrong"]) == (audited.pk, "wrong", 2, 1)
    whole = page.get(f"/api/v1/audits/{audited.pk}").json()
    assert whole["topics"][0]["findings"][0]["kind"] == "duplicate"
    assert page.get("/api/v1/audits/key").json()["public_key"] == signing.public_key()


def test_a_list_of_many_asks_no_more_than_one_of_one(
    page: Client, audited: BusAudit, archived: Actor, tmp_path: Path
) -> None:
    asked: list[int] = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            found = page.get("/api/v1/audits").json()["results"]
        asked.append(len(queries))
        for _ in range(3):
            work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)
    assert len(found) == 4
    assert asked[0] == asked[1]


def test_findings_of_a_check_that_there_is_not_are_refused(page: Client, audited: BusAudit) -> None:
    assert page.get(f"/audits/{audited.pk}/findings/?check=nothing").status_code == 400
    assert "of audit" in page.get(f"/audits/{audited.pk}/findings/?topic=never.was").content.decode()


def test_open_pages_hear_of_each(audited: BusAudit, archived: Actor, tmp_path: Path) -> None:
    before = cells(0, ()).marks["audits"]
    work(ask_audit(archived, WantedAudit(reason=WHY)), tmp_path)
    assert cells(0, ()).marks["audits"] != before


def test_a_rule_fires_on_what_is_wrong_until_a_newer_audit_holds(
    audited: BusAudit, archived: Actor, tmp_path: Path
) -> None:
    (kind,) = alerts.KINDS
    targets = {each.subject.namespace: each for each in alerts.AUDITED.read()}

    def wrong(topic: str = TOPIC, later_ms: int = 0) -> float | None:
        return kind.measure(Case(Round(round(time.time() * 1000) + later_ms, 0), targets[topic], 0, False))

    assert (wrong(), wrong(OTHER), wrong(later_ms=49 * 3_600_000)) == (1, 0, 0)
    work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)
    assert wrong() == 1, "the newer one is of another topic"
    work(ask_audit(archived, WantedAudit([TOPIC], until="2026-01-01T00:00:00Z", reason=WHY)), tmp_path)
    assert wrong() == 1, "nor does one that looked at another time"

    # When one of as much of it holds
    (told,) = [report for row, report in reading.seen_audit(archived, audited.pk).reports({TOPIC})]
    held = replace(told, verdict=AuditVerdict.CLEAN, findings=[])
    keep_report(Report(1, [replace(held, from_ms=held.from_ms + 1)], 0, 0), AskedAudit(1), b"")
    assert wrong() == 1, "of all of it but a millisecond"
    keep_report(Report(1, [held], 0, 0), AskedAudit(1), b"")
    assert wrong() == 0


def test_the_list_says_what_is_wrong_whatever_was_audited_since(
    page: Client, audited: BusAudit, archived: Actor, make_user: MakeUser, tmp_path: Path
) -> None:
    work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)
    head = page.get("/audits/").content.decode().partition("</h1>")[0]
    assert "something is wrong with 1 topic<" in head
    page.force_login(inside(make_user))
    assert "something is wrong" not in page.get("/audits/").content.decode()


def test_an_audit_is_asked_for_again_as_it_was(
    page: Client, audited: BusAudit, archived: Actor, tmp_path: Path
) -> None:
    since = "2026-01-01T00:00:00.000Z"
    work(ask_audit(archived, WantedAudit([TOPIC], since, reason=WHY)), tmp_path)
    newest = BusAudit.objects.first()
    assert newest is not None
    said = page.get(f"/audits/{newest.pk}/").content.decode()
    assert f'name="topics" value="{TOPIC}"' in said
    assert f'name="since" value="{since}"' in said
    assert 'name="until" value=""' in said


def test_what_has_no_outcome_is_there_and_not_called_missing(page: Client, audited: BusAudit) -> None:
    row = audited.topics.get(topic=OTHER)
    row.summary["subscriptions"] = {"billing": {"done": 3, "open": 1}}
    row.save(update_fields=["summary"])
    html = " ".join(page.get(f"/audits/{audited.pk}/").content.decode().split())
    assert "75 %, 1 without an outcome" in html
