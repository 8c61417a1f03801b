"""Of many messages each single one is accounted for: what befalls one in some thousands shows in no test of a few."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import pytest

from engine.bus.config import BusConfig
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Receipt
from engine.core.clock import SystemClock
from engine.core.facts import FactBatch
from tests.engine.bus.kit import GROUP, TOPIC, Bus, make_bus, running, until

#: So many that a fault in one of 5,000 is met, as good as certainly.
MANY = 30_000
ORDERED = 12_000
KEYS = 40
BATCH = 1_000


class Tally:
    """Counts facts by kind."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()

    def emit(self, facts: Sequence[FactBatch]) -> None:
        for batch in facts:
            self.kinds[batch.kind] += batch.count


@pytest.fixture
def bus(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Iterator[Bus]:
    """On the real store, by its own clock: the way of most messages."""
    made = make_bus(BusConfig(url=redis_url, prefix=prefix), SystemClock(), **request.param)
    yield made
    made.transport.close()


def publish(bus: Bus, number: int, key: Callable[[int], str] = lambda _: "") -> list[str]:
    """The ids of what was stored, in the order of publishing; the type of a message tells its number."""
    ids = []
    for start in range(0, number, BATCH):
        part = range(start, start + BATCH)
        items = [BatchItem(None, PublishOptions(type=str(n), key=key(n))) for n in part]
        answers = bus.producer.publish_batch(TOPIC, items)
        assert all(isinstance(answer, Receipt) for answer in answers), answers[0]
        ids += [answer.message_id for answer in answers if isinstance(answer, Receipt)]
    return ids


@pytest.mark.parametrize("bus", [{}], indirect=True)
def test_each_of_many_is_handled_once_and_told_once(bus: Bus) -> None:
    tally = Tally()
    bus.producer._facts = tally  # type: ignore[attr-defined]
    bus.facts = tally  # type: ignore[assignment]
    handled: list[str] = []
    with running(bus.consumer(lambda message, _: handled.append(message.id), concurrency=4)):
        ids = publish(bus, MANY)
        until(lambda: bus.unsettled() == 0 and len(handled) >= MANY)
    assert len(set(ids)) == MANY
    assert Counter(handled) == dict.fromkeys(ids, 1)
    assert tally.kinds == {"published": MANY, "settled": MANY}
    counts = bus.transport.admin.counts(TOPIC, GROUP)
    assert (bus.transport.admin.counts(TOPIC)["published"], counts["settled"]) == (MANY, MANY)


@pytest.mark.parametrize("bus", [{"ordering": "key", "partitions": 4}], indirect=True)
def test_of_each_key_each_is_handled_in_its_turn(bus: Bus) -> None:
    handled: dict[str, list[int]] = defaultdict(list)

    def handle(message: Message, _: object) -> None:
        handled[message.partitionkey].append(int(message.type))

    with running(bus.consumer(handle, concurrency=4, ordering="key")):
        assert len(publish(bus, ORDERED, lambda n: f"k{n % KEYS}")) == ORDERED
        until(lambda: bus.unsettled() == 0 and sum(map(len, handled.values())) >= ORDERED)
    assert handled == {f"k{key}": list(range(key, ORDERED, KEYS)) for key in range(KEYS)}
