"""A topic on a real nsqd is archived by way of a spool: each message once, whoever runs, and nothing piles up after."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.errors import Conflict, Unavailable
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import GRACE_S
from engine.pipeline.spool.files import folder, paths_in
from engine.pipeline.spool.spooling import GROUP
from engine.pipeline.spool.writer import FILE_MS, SpoolWriter
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.spool_filling import KEPT_MS, SpoolFilling
from hbus_console.pipelines.spools import leave_what_is_archived, spool_root
from hbus_console.pipelines.standing import Standings, Waiting
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, store
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser, kept, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "the auditors ask for it"
PATIENCE_S, PATIENCE_MS = 60.0, 60_000


@pytest.fixture
def on_nsq(settings: Settings, prefix: str, nsqd_url: str, transactional_db: None, tmp_path: Path) -> Iterator[Topic]:
    store.close()
    settings.HBUS_PREFIX = prefix
    settings.NSQD_URL = (nsqd_url,)
    settings.HBUS_LAKE = str(tmp_path / "lake")
    catalog.changed()
    Team.objects.create(name="Bookings", contact="bookings@hotel.example")
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Bookings", transport="nsq", priorities=False))
    yield Topic.objects.get(name=TOPIC)
    bus.admin("nsq").delete_topic(TOPIC)
    store.close()


@pytest.fixture
def boss(on_nsq: Topic, make_user: MakeUser) -> Actor:
    return actor_of(make_user())


@pytest.fixture
def archived(boss: Actor) -> Actor:
    archive_topic(boss, TOPIC, WHY)
    return boss


def archive(*words: str) -> str:
    out, said = StringIO(), StringIO()
    call_command("archive", *words, stdout=out, stderr=said)
    return out.getvalue() + said.getvalue()


def until(holds: Callable[[], object]) -> None:
    """nsqd has a life of its own."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def fill(duty: SpoolFilling) -> bool:
    """Whether all is spooled after one more turn."""
    duty.tick()
    return waiting().unspooled == 0


def waiting() -> Waiting:
    return Standings(lake().state()).waiting(Topic.objects.get(name=TOPIC))


def test_what_was_published_from_then_on_is_archived_once_each(archived: Actor) -> None:
    publish(40)
    until(lambda: archive("run") and len(kept()) == 40)
    publish(5)
    until(lambda: archive("run") and len(kept()) == 45)

    assert len(set(kept())) == 45
    assert archive("run") == "Nothing waited.\n"
    assert archive("verify").startswith("As they were made")
    assert set(lake().state().reached(TOPIC)) == {"spool"}


def test_the_keeper_fills_the_spool_and_the_next_run_archives_it(archived: Actor) -> None:
    publish(300)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    assert waiting() == Waiting(300, 0)
    assert kept() == []
    # What was spooled is finished: nsqd has nothing of it any more.
    assert bus.admin("nsq").lag(TOPIC, GROUP).unsettled == 0

    archive("run")

    assert len(set(kept())) == len(kept()) == 300
    assert waiting() == Waiting(0, 0)


def test_what_waits_where_is_told_by_page_command_and_answer(archived: Actor, client: Client) -> None:
    publish(7)
    until(lambda: waiting() == Waiting(7, 7))
    client.force_login(User.objects.get(username="gov"))
    assert "7 not spooled" in client.get("/archive/").content.decode()
    assert "7 wait, 7 of them to be spooled" in archive("status")
    assert client.get(f"/api/v1/archive/topics/{TOPIC}").json()["unspooled"] == 7

    duty = SpoolFilling()
    until(lambda: fill(duty))

    assert "not spooled" not in client.get("/archive/").content.decode()
    row = json.loads(archive("status", "--json"))
    assert (row["waiting"], row["unspooled"]) == (7, 0)


def test_while_another_holds_the_spool_what_is_in_it_is_archived(archived: Actor) -> None:
    publish(10)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    publish(5)
    with SpoolWriter(spool_root(), TOPIC).held():
        archive("run")
        duty.tick()
    assert len(kept()) == 10
    until(lambda: fill(duty))
    archive("run")
    assert len(set(kept())) == len(kept()) == 15


def test_while_the_keeper_does_it_a_run_leaves_it_to_the_keeper(archived: Actor) -> None:
    publish(10)
    lease = store.lease(f"duty:{SpoolFilling.name}")
    assert lease.acquire()
    archive("run")
    assert waiting() == Waiting(10, 10)
    lease.release()
    until(lambda: archive("run") and len(kept()) == 10)


def test_once_stopped_nothing_piles_up(archived: Actor) -> None:
    admin = bus.admin("nsq")
    admin.create_group(TOPIC, "billing")
    publish(3)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    stop_archiving(archived, TOPIC, WHY)
    assert not StoreRemoval.objects.exists()
    for _ in range(2):
        duty.tick()
        assert admin.groups(TOPIC) == ["billing"]
    publish(4)

    archive_topic(archived, TOPIC, WHY)
    publish(2)

    # What was spooled before is archived; what came while it was not archived is not.
    until(lambda: archive("run") and len(kept()) >= 5)
    until(lambda: fill(duty))
    archive("run")
    assert len(kept()) == 5


def test_a_group_that_was_made_anew_while_it_was_stopped_goes(archived: Actor) -> None:
    duty = SpoolFilling()
    duty.tick()
    stop_archiving(archived, TOPIC, WHY)
    bus.admin("nsq").create_group(TOPIC, GROUP)
    duty.tick()
    assert bus.admin("nsq").groups(TOPIC) == []


def test_a_group_that_was_deleted_by_hand_is_made_anew_by_the_keeper_alone(archived: Actor) -> None:
    duty = SpoolFilling()
    duty.tick()
    bus.admin("nsq").delete_group(TOPIC, GROUP)
    assert "is not spooled yet" in archive("run")
    assert bus.admin("nsq").groups(TOPIC) == []
    duty.tick()
    assert bus.admin("nsq").groups(TOPIC) == [GROUP]


def test_who_archives_again_what_is_archived_gets_the_group_that_is_not_there(archived: Actor) -> None:
    bus.admin("nsq").delete_group(TOPIC, GROUP)
    archive_topic(archived, TOPIC, WHY)
    assert bus.admin("nsq").groups(TOPIC) == [GROUP]


def test_while_the_former_group_is_being_removed_it_is_not_archived_anew(boss: Actor) -> None:
    StoreRemoval.objects.create(topic=TOPIC, group=GROUP, transport="nsq")
    with pytest.raises(Conflict, match="still being removed"):
        archive_topic(boss, TOPIC, WHY)
    assert not ArchivedTopic.objects.exists()


def test_nothing_is_finished_while_the_lake_is_not_mounted(archived: Actor, settings: Settings, tmp_path: Path) -> None:
    publish(3)
    until(lambda: archive("run") and len(kept()) == 3)
    publish(2)
    store.close()
    settings.HBUS_LAKE = str(tmp_path / "not-mounted")
    with pytest.raises(LakeDamaged):
        SpoolFilling().tick()
    with pytest.raises(LakeDamaged):
        archive("run")
    assert not (tmp_path / "not-mounted").exists()
    store.close()
    settings.HBUS_LAKE = str(tmp_path / "lake")
    until(lambda: archive("run") and len(kept()) == 5)


def test_while_nsqd_is_away_the_keeper_says_so_and_what_is_spooled_is_archived(
    archived: Actor, settings: Settings
) -> None:
    publish(3)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    there = settings.NSQD_URL
    store.close()
    settings.NSQD_URL = ("http://127.0.0.1:9",)
    duty = SpoolFilling()
    with pytest.raises(Unavailable):
        until(duty.tick)
    assert "is not spooled yet" in archive("run")
    assert len(kept()) == 3
    assert waiting() == Waiting(None, None)
    store.close()
    settings.NSQD_URL = there


def test_what_was_archived_leaves_the_spool_an_hour_after_it_came(archived: Actor) -> None:
    publish(3)
    until(lambda: archive("run") and len(kept()) == 3)
    now_ms = round(time.time() * 1000)
    with SpoolWriter(spool_root(), TOPIC, ManualClock(now_ms + FILE_MS)).held():
        # It goes on in another file.
        pass
    place = folder(spool_root(), TOPIC)
    assert len(paths_in(place)) == 2
    leave_what_is_archived(lake().state(), now_ms + round(GRACE_S * 1000) - 1_000)
    assert len(paths_in(place)) == 2
    leave_what_is_archived(lake().state(), now_ms + round(GRACE_S * 1000) + PATIENCE_MS)
    assert len(paths_in(place)) == 1
    publish(2)
    until(lambda: archive("run") and len(kept()) == 5)
    assert lake().state().topics[TOPIC].losses == []


def test_the_spool_of_a_topic_that_is_gone_goes_and_of_one_that_was_stopped_an_hour_later(archived: Actor) -> None:
    publish(3)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    place = folder(spool_root(), TOPIC)
    stop_archiving(archived, TOPIC, WHY)
    duty.tick()
    assert place.exists()
    SpoolFilling(ManualClock(round(time.time() * 1000) + KEPT_MS)).tick()
    assert not place.exists()

    archive_topic(archived, TOPIC, WHY)
    publish(1)
    until(lambda: fill(duty))
    assert place.exists()
    Topic.objects.all().delete()
    duty.tick()
    assert not place.exists()


def test_what_was_spooled_before_a_move_is_archived_after_it(archived: Actor) -> None:
    publish(3)
    duty = SpoolFilling()
    until(lambda: fill(duty))
    bus.admin("redis_stream").create_topic(TOPIC)
    Topic.objects.filter(name=TOPIC).update(transport="redis_stream", moved_at=timezone.now())
    catalog.changed()
    publish(2)

    archive("run")

    assert len(set(kept())) == len(kept()) == 5
    assert set(lake().state().reached(TOPIC)) == {"spool", "-"}
    bus.admin("redis_stream").delete_topic(TOPIC)
    Topic.objects.filter(name=TOPIC).update(transport="nsq")
