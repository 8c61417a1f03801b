"""A store that takes no writes: nobody can stamp, and the pages name the store, not those who cannot."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from django.test import Client, override_settings

from engine.core.clock import SystemClock
from hbus_console.access.permissions import Actor
from hbus_console.cluster import health, probes, services
from hbus_console.nodes.stamps import SILENT_AFTER_MS, key
from hbus_console.overview.concerns import concerns
from hbus_console.supervisor import probes as supervised
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.standalone import StandaloneStore
from tests.full_disk import full_disk
from tests.hbus_console.overview.test_concerns import look

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def client(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    for cached in (health._client, probes.client):
        cached.cache_clear()
    with override_settings(REDIS_URL=own_store.url), redis.Redis.from_url(own_store.url) as found:
        yield found
    for cached in (health._client, probes.client):
        cached.cache_clear()


def test_the_pages_name_the_store_and_claim_nothing_of_roles(client: redis.Redis, admin_actor: Actor) -> None:
    assert probes.obstacle() == ""
    with full_disk(client):
        state = probes.store_state()
        assert (state.tone, state.error) == ("bad", "")
        assert probes.obstacle() == state.refusal
        assert state.refusal.startswith("The store takes no writes: it cannot write to its disk.")
        found = {role.name: (role.tone, role.word) for role in services.roles([], state, [], ["*"])}
        assert found["store"] == ("bad", "takes no writes")
        assert found["consumer"] == found["keeper"] == ("warn", "unknown")
        (worst, *_) = concerns(look(admin_actor, SystemClock().now_ms(), store=state, nodes=[]))
        assert worst.text.startswith("The store takes no writes")
        assert worst.tone == "bad"
        assert Client().get("/readyz").json()["parts"]["store"] == "takes no writes"
    assert probes.obstacle() == ""
    assert probes.store_state().tone == "ok"


def test_the_supervisor_takes_nobody_for_hung_who_cannot_stamp(
    own_store: StandaloneStore, client: redis.Redis, tmp_path: Path
) -> None:
    at = Installation(tmp_path, "127.0.0.1", 1, "h", "localhost", external_store=own_store.url, store_port=0)
    stamp = {"role": "keeper", "pid": 7, "host": "h", "slot": "0", "started_ms": 0, "stamp_ms": 1}
    stamp["stamp_ms"] = SystemClock().now_ms() - SILENT_AFTER_MS - 1
    client.hset(key("h"), "h:keeper:0", json.dumps(stamp))
    assert supervised.node_beats(at, 0, 7) == supervised.SILENT
    with full_disk(client):
        assert supervised.node_beats(at, 0, 7) == "cannot stamp: the store takes no writes"
        assert re.fullmatch(r"takes no writes: MISCONF [^.]+", supervised.store_answers(at, 0, 1))


def test_a_store_that_does_not_answer_costs_a_page_one_question(
    own_store: StandaloneStore, client: redis.Redis
) -> None:
    valkey = psutil.Process(client.info("server")["process_id"])
    valkey.suspend()
    try:
        begun = time.monotonic()
        said = {probes.obstacle() for _ in range(5)}
        assert time.monotonic() - begun < 2 * probes._PATIENCE_S
    finally:
        valkey.resume()
    (sentence,) = said
    assert sentence == "The store is there and does not answer in time."
