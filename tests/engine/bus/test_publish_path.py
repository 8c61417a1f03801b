"""How much one must read to know what happens at a publish: the files whose code runs from the call to its answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import engine
from engine.bus import context as contexts
from engine.bus.catalog import TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer, Receipt, ReceiptStatus
from engine.bus.registry import open_transport
from engine.core.fact_log import FactLog
from engine.core.facts import Emitter, FactBatch, MemoryFacts

ROOT = Path(engine.__file__).parent
#: "Under nine": dramatiq needs about four, asynq three.
MOST_FILES = 8
LONGEST_FILE = 400

PLAIN = PublishOptions()
FULL = PublishOptions(
    type="a.b",
    key="k",
    headers={"tenant": "acme"},
    ttl_s=60,
    idempotency_key="once",
    subject="room 7",
    tracestate="a=1",
)


class OneTopic:
    """A caller's own catalog."""

    policy = TopicPolicy("a", "team")

    def topic(self, name: str) -> TopicPolicy:
        return self.policy


class Quiet:
    def write(self, facts: object) -> None:
        return


@contextmanager
def traced() -> Iterator[set[str]]:
    """The engine's files in which this thread runs any code meanwhile."""
    seen: set[str] = set()

    def note(frame: FrameType, *_: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            seen.add(str(path.relative_to(ROOT)))

    before = sys.gettrace()
    sys.settrace(note)
    try:
        yield seen
    finally:
        sys.settrace(before)


#: A producer that emits to what it is given.
Make = Callable[[Emitter], Producer]


@pytest.fixture(params=["memory", "redis_stream"])
def producer_with(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Iterator[Make]:
    """On each transport, in the real store where it has one."""
    transport = open_transport(BusConfig(type=request.param, url=redis_url, prefix=prefix))
    transport.admin.create_topic("a")
    yield lambda facts: Producer(lambda _: transport, OneTopic(), source="/tests", facts=facts)
    transport.close()


CALLS: dict[str, Callable[[Producer], Any]] = {
    "one": lambda producer: producer.publish("a", {"n": 1}, PLAIN),
    "one with every option": lambda producer: producer.publish("a", {"n": 1}, FULL),
    "bytes": lambda producer: producer.publish_raw("a", b"\x00", PLAIN),
    "a batch": lambda producer: producer.publish_batch("a", [BatchItem({"n": n}, PLAIN) for n in range(300)]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("facts", ["kept", "sent"])
def test_what_runs_from_the_call_to_its_answer_fits_in_eight_files(
    call: Callable[[Producer], Any], facts: str, producer_with: Make
) -> None:
    log = FactLog(Quiet())
    producer = producer_with(MemoryFacts() if facts == "kept" else log)
    with traced() as files:
        answer = call(producer)
    log.close()
    assert isinstance(answer, Receipt) or all(isinstance(each, Receipt) for each in answer)
    assert len(files) <= MOST_FILES, sorted(files)
    longest = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in files}
    assert max(longest.values()) <= LONGEST_FILE, longest


def test_a_repeat_leads_to_one_more_that_says_how_it_is_answered(producer_with: Make) -> None:
    producer = producer_with(MemoryFacts())
    producer.publish("a", {"n": 1}, FULL)
    with traced() as files:
        answer = producer.publish("a", {"n": 1}, FULL)
    assert answer.status is ReceiptStatus.DUPLICATE
    assert "bus/receipts.py" in files
    assert len(files) <= MOST_FILES + 1, sorted(files)


def test_inside_a_handler_one_more_says_what_is_inherited(producer_with: Make) -> None:
    producer = producer_with(MemoryFacts())
    token = contexts.enter(Context(Message(id="m", source="/s", type="t"), "a", "g", 1, 0))
    try:
        with traced() as files:
            producer.publish("a", {"n": 1})
    finally:
        contexts.leave(token)
    assert "bus/context.py" in files
    assert len(files) <= MOST_FILES + 1, sorted(files)


def test_what_a_batch_of_one_call_shares_is_one_batch_of_facts(producer_with: Make) -> None:
    facts = MemoryFacts()
    producer_with(facts).publish_batch("a", [BatchItem({"n": n}, FULL) for n in range(3)])
    published, refused = facts.batches[0], facts.batches[1:]
    assert isinstance(published, FactBatch)
    assert (published.kind, published.count, str(published.subject)) == ("published", 1, "topic:a")
    # The same key with other payloads is the caller's mistake, and no fact
    assert refused == []
