"""Topics are archived from the console: page, endpoint, command and job put each message into the lake once."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from engine.cron.work.functions import find_function
from engine.pipeline.lake.errors import LakeDamaged
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job
from hbus_console.pipelines import job_functions
from hbus_console.pipelines.feature import JOB
from hbus_console.pipelines.live import cells
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.views import archive as archive_page
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import exact
from hbus_console.wiring import bus
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser, kept, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the auditors ask for it"


def archive(*words: str) -> str:
    out = StringIO()
    call_command("archive", *words, stdout=out)
    return out.getvalue()


def test_a_topic_is_archived_with_all_it_holds_and_by_a_job(topic: Topic, governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)

    assert archive("run").startswith("40 messages of 1 topic in 1 file")
    publish(5)
    assert archive("run").startswith("5 messages")
    assert archive("run") == "Nothing waited.\n"
    assert len(set(kept())) == len(kept()) == 45

    job = Job.objects.get(name=JOB)
    assert (job.kind, job.target, job.team) == ("function", JOB, topic.team)
    assert find_function(JOB).name == JOB
    assert job_functions.archive.__doc__
    entry = AuditEntry.objects.get(action="archive.start")
    assert (entry.actor, entry.reason, entry.namespace) == ("gov", WHY, TOPIC)


def test_what_is_stopped_stays_and_grows_no_further(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    stop_archiving(governor, TOPIC, WHY)
    publish(5)
    archive("run")

    assert len(kept()) == 40
    assert AuditEntry.objects.filter(action="archive.stop", namespace=TOPIC).count() == 1
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    assert len(set(kept())) == len(kept()) == 45
    assert Job.objects.filter(name=JOB).count() == 1


def test_asking_twice_changes_nothing(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive_topic(governor, TOPIC, WHY)
    stop_archiving(governor, "payment.taken", WHY)
    assert AuditEntry.objects.filter(action__startswith="archive.").count() == 1


@pytest.mark.parametrize("reason", ["", "   "])
def test_it_takes_a_reason(governor: Actor, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        archive_topic(governor, TOPIC, reason)
    assert refused.value.field == "reason"
    assert not ArchivedTopic.objects.exists()


def test_it_takes_the_right_to_govern_the_topic(topic: Topic, make_user: MakeUser) -> None:
    for role, scope in (("editor", "*"), ("governor", "payment.*")):
        who = actor_of(make_user(role, scope, name=role))
        for do in (archive_topic, stop_archiving):
            with pytest.raises(Forbidden):
                do(who, TOPIC, WHY)
    assert not ArchivedTopic.objects.exists()


def test_who_governs_one_topic_alone_may_have_it_archived(topic: Topic, make_user: MakeUser) -> None:
    archive_topic(actor_of(make_user("governor", "booking.*")), TOPIC, WHY)
    assert Job.objects.get(name=JOB).acts_as == "system"


def test_a_topic_without_an_owner_is_refused(governor: Actor) -> None:
    Topic.objects.filter(name=TOPIC).update(team=None)
    with pytest.raises(BadInput, match="has no owner"):
        archive_topic(governor, TOPIC, WHY)


def test_what_is_gone_with_its_process_is_refused(governor: Actor) -> None:
    Topic.objects.filter(name=TOPIC).update(transport="memory")
    with pytest.raises(BadInput, match="keeps nothing over a restart"):
        archive_topic(governor, TOPIC, WHY)


def test_the_command_tells_what_is_kept_and_whether_it_is_whole(governor: Actor) -> None:
    archive("on", TOPIC, "--reason", WHY)
    archive("run")
    publish(3)

    status = archive("status")
    (row,) = [json.loads(line) for line in archive("status", "--json").splitlines() if TOPIC in line]
    assert re.search(rf"{TOPIC}: 40 messages, up to 20\S+; 3 wait", status)
    assert (row["messages"], row["waiting"], row["lost"], row["archived"]) == (40, 3, 0, True)
    assert "As they were made: 1 commit and 1 file." in archive("verify")
    (path,) = archive("files", TOPIC).splitlines()

    lake().root.joinpath(path).write_bytes(b"PAR1")
    with pytest.raises(SystemExit) as ended:
        archive("verify", "--quick")
    assert ended.value.code == 1


def test_what_is_asked_wrong_of_the_command_is_named(governor: Actor) -> None:
    err = StringIO()
    call_command("archive", "run", stderr=err)
    assert "No topic is archived." in err.getvalue()
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    with pytest.raises(BadInput, match=r"nothing of payment\.taken"):
        archive("files", "payment.taken")
    with pytest.raises(BadInput) as refused:
        archive("files", TOPIC, "--from", "yesterday")
    assert refused.value.field == "--from"
    assert len(archive("files", TOPIC, "--from", "2020-01-01", "--to", "2999-12-31").splitlines()) == 1
    assert archive("files", TOPIC, "--to", "2020-01-01") == ""


def test_the_command_names_what_is_not_archived(governor: Actor) -> None:
    with pytest.raises(BadInput, match=r"payment\.taken is not archived"):
        archive("run", "payment.taken")


def test_losses_are_told(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    publish(10)
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=4)

    assert f"6 messages of {TOPIC}, log -, were gone before they were archived: trimmed." in archive("run")
    assert "6 lost before they were archived" in archive("status")


@pytest.fixture
def page(governor: Actor) -> Client:
    client = Client()
    client.force_login(User.objects.get(username="gov"))
    return client


def text(client: Client) -> str:
    shown = client.get("/archive/")
    assert shown.status_code == 200
    # A name may wrap behind its dots.
    return " ".join(re.sub(r"<[^>]+>", " ", shown.content.decode().replace("<wbr>", "")).split())


def test_the_page_says_up_to_when_and_what_waits(page: Client, governor: Actor) -> None:
    assert "not archived" in text(page)
    answer = page.post(f"/archive/{TOPIC}/start/", {"reason": WHY}, follow=True)
    assert f"{TOPIC} is archived from now on, with all that it holds." in answer.content.decode()
    assert "nothing yet" in text(page)
    archive("run")
    publish(7)

    shown = text(page)

    assert "40 messages in 1 file" in shown
    assert "1 of 2 topics is archived" in shown
    assert re.search(rf"{re.escape(TOPIC)} .* 7 40 ", shown)
    answer = page.post(f"/archive/{TOPIC}/stop/", {"reason": WHY}, follow=True)
    assert "is archived no further" in answer.content.decode()
    assert "no further" in text(page)


def test_what_waits_and_what_is_lost_is_told_in_every_width(page: Client, governor: Actor) -> None:
    """A narrow page has no column of them, and a wide one nothing that says it twice."""
    archive_topic(governor, TOPIC, WHY)
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=15)
    archive("run")
    publish(7)
    shown = page.get("/archive/").content.decode()
    cells = re.findall(r"(?s)<td[^>]*>.*?</td>", shown[shown.index("<tbody>") :])
    narrow = " ".join(
        re.sub(r"<[^>]+>", " ", "".join(each for each in cells if "hide-narrow" not in each[:60])).split()
    )
    assert "waiting: 7" in narrow
    assert "25 lost" in narrow
    wide = [re.sub(r'(?s)<(\w+) class="only-narrow.*?</\1>', "", each) for each in cells]
    assert sum("25" in each for each in wide) == 1
    assert not any("waiting:" in each for each in wide)


def test_the_page_says_of_when_it_is_what_waits(page: Client, governor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1_900_000_000_000)
    monkeypatch.setattr(archive_page, "_clock", clock)
    assert "What waits is as of" not in page.get("/archive/").content.decode(), "nothing is archived"
    archive_topic(governor, TOPIC, WHY)
    for _ in range(2):
        said = page.get("/archive/").content.decode()
        assert f"What waits is as of {exact(clock.now_ms())};" in said
        clock.advance(1)


def test_the_page_tells_losses_and_damage(page: Client, governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=15)
    archive("run")
    assert "25 messages were gone before they were archived" in text(page)

    (commit,) = (lake().root / "log").glob("*1.json")
    commit.write_bytes(b"{")
    assert "cannot be read" in text(page)
    answer = page.get("/api/v1/archive/topics")
    assert (answer.status_code, answer.json()["title"]) == (503, "The lake is damaged")
    assert answer.json()["remedy"] == "Restore log/ from a copy."


def test_each_commit_is_told_to_open_pages(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    before = cells(0, ("*",)).marks["archive"]
    archive("run")
    after = lake().state().version
    assert (before, cells(0, ("*",)).marks["archive"]) == (0, after)
    publish(1)
    archive("run")
    assert cells(0, ("*",)).marks["archive"] == lake().state().version > after


def test_a_scoped_person_sees_and_counts_their_topics_alone(page: Client, governor: Actor, make_user: MakeUser) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    other = Client()
    other.force_login(make_user("viewer", "payment.*", name="vera"))

    shown = text(other)

    assert TOPIC not in shown
    assert "40" not in shown
    assert "payment.taken" in shown
    assert "Archive…" not in shown


def test_over_http(page: Client, governor: Actor) -> None:
    def body(answer: object) -> dict[str, object]:
        found: dict[str, object] = json.loads(answer.content)  # type: ignore[attr-defined]
        return found

    began = page.put(f"/api/v1/archive/topics/{TOPIC}", {"reason": WHY}, content_type="application/json")
    assert (began.status_code, body(began)["archived"]) == (200, True)
    archive("run")
    assert body(page.get(f"/api/v1/archive/topics/{TOPIC}"))["messages"] == 40
    rows = body(page.get("/api/v1/archive/topics"))["results"]
    assert [(row["topic"], row["messages"], row["waiting"]) for row in rows] == [  # type: ignore[attr-defined]
        (TOPIC, 40, 0),
        ("payment.taken", 0, None),
    ]
    ended = page.delete(f"/api/v1/archive/topics/{TOPIC}", {"reason": WHY}, content_type="application/json")
    assert body(ended)["archived"] is False
    assert (
        page.put(f"/api/v1/archive/topics/{TOPIC}", {"reason": ""}, content_type="application/json").status_code == 422
    )
    assert page.get("/api/v1/archive/topics/nowhere").status_code == 404


def test_the_lake_is_where_the_settings_say(topic: Topic, settings: Settings, governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    assert str(lake().root) == settings.HBUS_LAKE


def test_a_lake_that_is_gone_is_no_new_one(page: Client, governor: Actor, tmp_path: Path) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive("run")
    root, away = lake().root, tmp_path / "away"
    root.rename(away)

    # Then everybody says so, and nothing is made in its place
    said = page.get("/archive/").content.decode()
    assert "The lake is gone: its folder has nothing of what was archived before." in said
    assert str(root) not in said, "where it lies is nobody's business"
    assert "nothing yet" not in said
    for act in ("run", "verify", "status"):
        with pytest.raises(LakeDamaged):
            archive(act)
    assert not root.exists()

    away.rename(root)
    assert archive("verify").startswith("As they were made")

    # When it is gone for good, and somebody says so
    root.rename(away)
    with pytest.raises(BadInput):
        archive("anew", "--reason", " ")
    archive("anew", "--reason", WHY)
    assert archive("run").startswith("40 messages")
    assert AuditEntry.objects.get(action="archive.anew").reason == WHY
