from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from engine.bus.facts import Fact
from engine.core.errors import ConfigurationError
from engine.core.facts import NullFacts
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import bus, fact_log, store


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, prefix: str) -> Iterator[None]:
    store.close()
    settings.HBUS_PREFIX = prefix
    yield
    store.close()


def test_all_threads_get_the_same_objects() -> None:
    together = threading.Barrier(8)
    found: list[object] = []

    def take() -> None:
        together.wait()
        found.append(shared_producer())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1


def test_a_forked_child_makes_its_own() -> None:
    store.client().ping()
    reader, writer = os.pipe()
    if not (child := os.fork()):
        # Nothing of pytest may run in the child.
        code = 1
        try:
            fresh = not store._made
            store.client().ping()
            os.write(writer, b"1" if fresh else b"0")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert os.read(reader, 1) == b"1"


def test_close_flushes_the_facts_and_the_next_use_begins_anew() -> None:
    client, producer = store.client(), shared_producer()
    fact_log.emitter().emit([Fact("published", 1).batch()])
    store.close()
    store.close()
    assert shared_producer() is not producer
    assert store.client() is not client
    assert any(b"log" in key for key in store.client().keys(f"{store.settings.HBUS_PREFIX}:*facts*"))


def test_without_a_store_it_says_what_to_do(settings: Settings) -> None:
    settings.REDIS_URL = ""
    with pytest.raises(ConfigurationError) as refused:
        store.client()
    assert refused.value.field == "REDIS_URL"


def test_facts_can_be_switched_off(settings: Settings) -> None:
    settings.HBUS_FACTS = False
    assert isinstance(fact_log.emitter(), NullFacts)


def test_the_name_of_a_process_is_stable(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HBUS_NODE = "north"
    monkeypatch.setenv("HBUS_ROLE", "consumer")
    monkeypatch.setenv("HBUS_SLOT", "3")
    assert store.node_name() == "north:consumer:3"


def test_a_strangers_transport_gets_its_own_address_and_ours_get_the_stores(settings: Settings) -> None:
    settings.HBUS_TRANSPORT_URL = "my://store"
    assert bus.config("mine").url == "my://store"
    assert bus.config("nsq").url == bus.config("redis_stream").url == store.url()
    settings.HBUS_TRANSPORT_URL = ""
    assert bus.config("mine").url == store.url()
