"""A key with thousands of messages behind one that failed, or is slow, holds up its own partition alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.ordering import Journal
from engine.bus.consuming import lanes
from engine.bus.partitions import partition_of
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.core.clock import ManualClock
from tests.engine.bus.kit import Bus, make_bus, running, until

PARTITIONS = 8
#: A tenth of what may wait outside tests: the publishing would cost more than all the rest.
BLOCKED = 200
FLOOD = BLOCKED + 1_000
OTHERS = range(-40, 0)


@pytest.fixture(params=["memory", "redis_stream"])
def bus(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, clock: ManualClock, redis_url: str, prefix: str
) -> Iterator[Bus]:
    monkeypatch.setattr(lanes, "BLOCKED_MOST", BLOCKED)
    config = BusConfig(type=request.param, url=redis_url, prefix=prefix)
    made = make_bus(config, clock, ordering="key", partitions=PARTITIONS, priorities=False)
    yield made
    made.transport.close()


def publish_a_flood(bus: Bus, head: int) -> list[str]:
    """More than is read ahead behind ``head`` of one key, then others of many keys; those of other partitions."""
    for n in range(head, head + FLOOD):
        bus.publish({"n": n}, key="hot")
    for n in OTHERS:
        bus.publish({"n": n}, key=f"k{n}")
    hot = partition_of("hot", "", PARTITIONS)
    return [f"k{n}" for n in OTHERS if partition_of(f"k{n}", "", PARTITIONS) != hot]


@pytest.mark.parametrize("on_failed_head", ["block", "park"])
def test_what_waits_behind_a_failed_head_holds_up_no_other_partition(
    bus: Bus, clock: ManualClock, on_failed_head: str
) -> None:
    """Found by a stranger: all keys of a consumer stood until the head's next attempt."""
    elsewhere = publish_a_flood(bus, 0)
    journal = Journal(fail={0})
    retry = RetryPolicy(2, (60.0,))
    with running(bus.consumer(journal, ordering="key", on_failed_head=on_failed_head, retry=retry, lease_s=3_600.0)):
        until(lambda: set(elsewhere) <= journal.by_key.keys())
        assert "hot" not in journal.by_key
        journal.fail.clear()
        # Step by step: the head may be on its way to its timer still.
        until(lambda: "hot" in journal.by_key, between=lambda: clock.advance(6))
        until(lambda: len(bus.facts.of("settled")) == FLOOD + len(OTHERS))
    assert journal.by_key["hot"] == list(range(FLOOD))
    assert journal.together == []


def test_what_waits_behind_a_slow_one_holds_up_no_other_partition(bus: Bus) -> None:
    elsewhere = publish_a_flood(bus, 0)
    journal = Journal()
    journal.hold[0] = threading.Event()
    with running(bus.consumer(journal, ordering="key", concurrency=4)):
        until(lambda: set(elsewhere) <= journal.by_key.keys())
        journal.hold[0].set()
        until(lambda: len(bus.facts.of("settled")) == FLOOD + len(OTHERS))
    assert journal.by_key["hot"] == list(range(FLOOD))


def test_what_fails_without_a_key_holds_up_no_key(bus: Bus, clock: ManualClock) -> None:
    """Found by a stranger: more of them than may wait, and all keys stood until their next attempt."""
    keyless = range(BLOCKED + 100)
    for n in keyless:
        bus.publish({"n": n})
    for n in OTHERS:
        bus.publish({"n": n}, key=f"k{n}")
    journal = Journal(fail=keyless)
    retry, never = RetryPolicy(2, (60.0,)), BreakerPolicy(failures=0)
    with running(bus.consumer(journal, ordering="key", retry=retry, breaker=never, lease_s=3_600.0)):
        until(lambda: {f"k{n}" for n in OTHERS} <= journal.by_key.keys())
        until(lambda: len(bus.facts.of("retried")) == len(keyless))
        journal.fail.clear()
        until(lambda: len(bus.facts.of("settled")) == len(keyless) + len(OTHERS), between=lambda: clock.advance(1))
    assert len(journal.calls) == 2 * len(keyless) + len(OTHERS)
