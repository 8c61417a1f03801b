"""Roles on a store of several servers: a primary dies, and every role lives on and does its work again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.rig import Rig
from tests.store_servers import SentinelTrio, StoreCluster

pytestmark = pytest.mark.chaos


@pytest.fixture
def on_trio(own_trio: SentinelTrio, tmp_path: Path, migrated: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, template=migrated, store_url=own_trio.url)
    yield made
    made.end()


@pytest.fixture
def on_cluster(own_cluster: StoreCluster, tmp_path: Path, migrated: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, template=migrated, store_url=own_cluster.url)
    made.environment["BROKER_URL"] = made.store.url
    yield made
    made.end()


def begin(rig: Rig) -> None:
    rig.environment["HBUS_APPS"] = "examples.hotel,tests.chaos.slow"
    rig.python(
        """
from hbus_console.access.permissions import SYSTEM
from hbus_console.teams import services as teams
from hbus_console.topics import services
teams.create_team(SYSTEM, teams.TeamDraft("Slow", "#slow"))
services.create_topic(SYSTEM, services.TopicDraft(name="slow.work", owner="Slow"))
print("null")
"""
    )
    rig.start("keeper")
    rig.start("consumer")
    rig.await_(lambda: rig.consumers()["slow.work/tortoise"]["state"] == "running", what="the subscription running")
    handle(rig, 1)


def handle(rig: Rig, number: int) -> None:
    """Publish one message and see it handled; the outbox carries it, so that the keeper has its part in it."""
    rig.python(
        f"""
from django.db import transaction
from hbus_console.outbox.services import publish_on_commit
with transaction.atomic():
    publish_on_commit("slow.work", {{"n": {number}}})
print("null")
"""
    )
    rig.await_(lambda: f"{number} attempt" in (rig.state / "slow.log").read_text(), what=f"message {number} handled")


def lives_on(rig: Rig, kill: Callable[[], object], reached: Callable[[], object]) -> None:
    begin(rig)

    kill()
    reached()

    handle(rig, 2)
    rig.await_(rig.all_up, what="every role stamping again")
    assert all(process.poll() is None for process in rig._processes.values())
    # Celery's remote control works again too.
    rig.await_(lambda: "slow.work" in rig.manage("consumers", "status", "--json", codes=(0, 1, 2)), what="control")


def test_roles_live_on_when_sentinels_choose_another_primary(on_trio: Rig, own_trio: SentinelTrio) -> None:
    killed = []
    lives_on(on_trio, lambda: killed.append(own_trio.kill_primary()), lambda: own_trio.await_other_than(killed[0]))


def test_roles_live_on_when_a_cluster_chooses_another_primary(on_cluster: Rig, own_cluster: StoreCluster) -> None:
    killed = []

    def reached() -> None:
        on_cluster.await_(lambda: own_cluster.primary_of("{slow.work}") is not killed[0], what="another primary")

    lives_on(on_cluster, lambda: killed.append(own_cluster.kill_primary_of("{slow.work}")), reached)
