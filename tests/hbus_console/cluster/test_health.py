from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from django.test import Client, override_settings

from hbus_console.cluster import health
from hbus_console.supervisor.standalone import StandaloneStore

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def probed_store(own_store: StandaloneStore) -> Iterator[StandaloneStore]:
    health._client.cache_clear()
    with override_settings(REDIS_URL=own_store.url):
        yield own_store
    health._client.cache_clear()


def test_healthz_answers_without_a_login() -> None:
    response = Client().get("/healthz")
    assert response.status_code == 200
    assert response.json()["status"] == "alive"


def test_readyz_names_every_part_it_asked(probed_store: StandaloneStore) -> None:
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "parts": {"database:default": "ok", "database:ledger": "ok", "store": "ok", "live": "ok"},
    }


def test_readyz_names_a_store_that_does_not_answer_and_gives_no_secret_away(probed_store: StandaloneStore) -> None:
    probed_store.kill()
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["store"] == "does not answer"
    assert response.json()["parts"]["database:default"] == "ok"
    assert probed_store.password not in response.content.decode()


def test_readyz_tells_a_store_that_takes_no_more_connections_from_one_that_is_away(
    probed_store: StandaloneStore,
) -> None:
    with redis.Redis.from_url(probed_store.url) as client:
        client.config_set("maxclients", 1)
        said = Client().get("/readyz").json()["parts"]["store"]
    assert said == "takes no more connections: as many as its maxclients allows are open"


@override_settings(REDIS_URL="")
def test_readyz_says_when_there_is_no_store_at_all() -> None:
    health._client.cache_clear()
    assert Client().get("/readyz").json()["parts"]["store"] == "is not configured"


def test_only_reading_is_allowed() -> None:
    assert Client().post("/readyz").status_code == 405
