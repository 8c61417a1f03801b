"""An archived topic moves to and from a real nsqd: the move waits for the archive as it does for subscriptions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.source.planning import Why
from engine.pipeline.source.reached import NOTHING
from engine.pipeline.spool.spooling import GROUP
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.operations import services as operations
from hbus_console.operations.models import Operation
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.spool_filling import SpoolFilling
from hbus_console.pipelines.standing import Standings
from hbus_console.topics import move
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.move import MOVE
from hbus_console.topics.services import delete_topic
from hbus_console.topics.transport_objects import remove
from hbus_console.wiring import bus, store
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC, WHY, kept, publish
from tests.hbus_console.topics.test_move import advance

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
TO_NSQ = {"topic": TOPIC, "to": "nsq", "without": ["priorities"]}
FROM_NSQ = {"topic": TOPIC, "to": "redis_stream"}


@pytest.fixture
def archived(
    topic: Topic, governor: Actor, settings: Settings, nsqd_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Actor]:
    """On Redis Streams there are forty messages that are not archived yet."""
    settings.NSQD_URL = (nsqd_url,)
    store.close()
    monkeypatch.setattr(move, "QUIET_MS", 200)
    monkeypatch.setattr(move, "OLD_RULES_MS", 0)
    archive_topic(governor, TOPIC, WHY)
    yield governor
    for transport in ("nsq", "redis_stream"):
        bus.admin(transport).delete_topic(TOPIC)


@pytest.fixture
def on_nsq(archived: Actor) -> Actor:
    """All of that is archived, and the topic has moved to nsqd."""
    archive()
    operation = begin(TO_NSQ)
    advance(operation, lambda: operation.state == "done")
    remove(StoreRemoval.objects.get())
    return archived


def archive() -> None:
    run_archive(wanted_topics([]), in_this_process)


def begin(spec: dict[str, object]) -> Operation:
    return operations.start(SYSTEM, "move", spec, reason="more room").operation


def unspooled() -> int | None:
    return Standings(lake().state()).waiting(Topic.objects.get(name=TOPIC)).unspooled


def spool() -> None:
    duty = SpoolFilling()
    deadline = time.monotonic() + 60
    while duty.tick() or unspooled():
        assert time.monotonic() < deadline, "it was never spooled"


def test_to_nsq_it_waits_until_the_archive_has_read_what_it_leaves(archived: Actor) -> None:
    operation = begin(TO_NSQ)
    advance(operation, lambda: "on redis_stream; the archive has 40 messages to read" in operation.note)
    assert Topic.objects.get(name=TOPIC).leaving == "redis_stream"
    # What is published from the first moment on waits for the spool, whether a keeper runs or not.
    assert bus.admin("nsq").groups(TOPIC) == [GROUP]
    publish(2)
    assert operation.state == "running"

    archive()

    advance(operation, lambda: operation.state == "done")
    spool()
    archive()
    assert len(set(kept())) == len(kept()) == 42
    assert lake().state().topics[TOPIC].losses == []


def test_back_where_it_was_it_begins_anew_and_nothing_is_told_as_lost(on_nsq: Actor) -> None:
    operation = begin(FROM_NSQ)
    advance(operation, lambda: operation.state == "done")
    remove(StoreRemoval.objects.get())
    publish(3)

    archive()

    assert len(set(kept())) == len(kept()) == 43
    assert lake().state().topics[TOPIC].losses == []


def test_a_topic_made_anew_under_a_name_lost_what_the_first_one_had_that_was_not_archived(archived: Actor) -> None:
    archive()
    publish(2)
    delete_topic(SYSTEM, TOPIC, TOPIC, WHY)
    (known,) = lake().state().topics[TOPIC].losses
    assert (known.loss.why, known.loss.messages) == (Why.EMPTIED, 2)
    assert set(lake().state().reached(TOPIC).values()) == {NOTHING}


def test_what_was_never_archived_of_a_topic_that_was_to_be_is_lost_and_counted(archived: Actor) -> None:
    delete_topic(SYSTEM, TOPIC, TOPIC, WHY)
    (known,) = lake().state().topics[TOPIC].losses
    assert (known.loss.why, known.loss.messages) == (Why.EMPTIED, 40)


def test_of_a_topic_that_nobody_archives_nothing_is_told(archived: Actor) -> None:
    stop_archiving(archived, TOPIC, WHY)
    delete_topic(SYSTEM, TOPIC, TOPIC, WHY)
    assert TOPIC not in lake().state().topics


def test_a_lake_that_is_away_keeps_nobody_from_deleting(archived: Actor, settings: Settings, tmp_path: Path) -> None:
    archive()
    there = settings.HBUS_LAKE
    store.close()
    settings.HBUS_LAKE = str(tmp_path / "not-mounted")
    delete_topic(SYSTEM, TOPIC, TOPIC, WHY)
    assert not StoreRemoval.objects.exists()
    store.close()
    settings.HBUS_LAKE = there
    assert set(lake().state().reached(TOPIC).values()) != {NOTHING}


def test_from_nsq_it_waits_until_what_it_leaves_is_spooled(on_nsq: Actor) -> None:
    publish(3)
    operation = begin(FROM_NSQ)
    advance(operation, lambda: "on nsq; the archive has 3 messages to read" in operation.note)
    publish(2)

    spool()

    advance(operation, lambda: operation.state == "done")
    archive()
    assert len(set(kept())) == len(kept()) == 45


def test_while_it_moves_what_it_leaves_and_what_it_goes_to_are_told_to_wait(archived: Actor) -> None:
    operation = begin(TO_NSQ)
    advance(operation, lambda: "the archive has" in operation.note)
    publish(2)
    assert Standings(lake().state()).waiting(Topic.objects.get(name=TOPIC)).messages == 42


def test_the_dry_run_says_so_and_what_to_do(archived: Actor) -> None:
    said = MOVE.plan(SYSTEM, TO_NSQ).warnings
    assert (
        "The move waits for the archive as well: on redis_stream the archive has 40 messages to read. The job"
        " hbus.archive reads it, and of NSQ the keeper. Who does not want it archived stops archiving it before."
    ) in said
    archive()
    assert not [each for each in MOVE.plan(SYSTEM, TO_NSQ).warnings if "archive" in each]


def test_who_stops_archiving_it_has_it_moved(archived: Actor) -> None:
    operation = begin(TO_NSQ)
    advance(operation, lambda: "the archive has 40 messages to read" in operation.note)
    stop_archiving(archived, TOPIC, WHY)
    advance(operation, lambda: operation.state == "done")
    assert GROUP not in bus.admin("nsq").groups(TOPIC)


def test_while_nobody_can_tell_it_waits(archived: Actor, settings: Settings, tmp_path: Path) -> None:
    archive()
    there = settings.HBUS_LAKE
    store.close()
    settings.HBUS_LAKE = str(tmp_path / "not-mounted")
    operation = begin(TO_NSQ)
    advance(operation, lambda: "how much the archive has to read cannot be told" in operation.note)
    assert operation.state == "running"
    store.close()
    settings.HBUS_LAKE = there
    advance(operation, lambda: operation.state == "done")
