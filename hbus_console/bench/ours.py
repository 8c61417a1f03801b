"""Our side of a measurement, in a process of its own: the engine with the evidence it has in production."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import django
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.message import encode
from engine.bus.options import PublishOptions
from engine.bus.partitions import Partitioned
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.fact_log import FactLog
from engine.core.facts import Emitter, NullFacts
from hbus_console.bench.processes import report, wait_for_go
from hbus_console.evidence.fact_stream import FactStream

BATCH = 500
#: Over how many keys the messages of an ordered topic are spread.
KEYS = 200
#: Seconds between two looks whether all is done.
LOOK_S = 0.005
#: After how many of them with nothing new the store is asked.
QUIET_LOOKS = 8
OPTIONS = PublishOptions(type="bench.message", key="k")


def transport_for(task: Mapping[str, Any]) -> Transport:
    """The transport that a task asks for: NSQ where it names an ``nsqd``, else Redis Streams."""
    if "nsqd" in task:
        options = {"nsqd": task["nsqd"], "keep": task.get("keep", "")}
        config = BusConfig(type="nsq", url=task["url"], prefix=task["prefix"], options=options)
    else:
        config = BusConfig(url=task["url"], prefix=task["prefix"])
    return open_transport(config)


def prepare(task: Mapping[str, Any], group: str) -> None:
    """Make the topic that a task names, with its partitions, and its group."""
    transport = transport_for(task)
    transport.admin.create_topic(task["topic"])
    if partitions := task.get("partitions"):
        assert isinstance(transport, Partitioned)
        transport.set_partitions(task["topic"], partitions)
    transport.admin.create_group(task["topic"], group)
    transport.close()


def facts_for(task: Mapping[str, Any]) -> Emitter:
    """Facts as a role of an installation sends them, or none."""
    if not task["facts"]:
        return NullFacts()
    # Without facts they are not even loaded, as is measured.
    from hbus_console.logs import LoggingSink
    from hbus_console.metrics import CountingSink, count

    # A role has told of something long before it is busy; the kinds are gathered from all features at the first fact.
    count(())
    stream = FactStream(redis.Redis.from_url(task["url"]), task["prefix"])
    return FactLog(CountingSink(LoggingSink(stream)))


def _order(task: Mapping[str, Any]) -> tuple[str, int]:
    partitions = int(task.get("partitions", 0))
    return ("key", partitions) if partitions else ("none", 1)


def close_facts(facts: Emitter) -> None:
    """Flush them. Raises ``RuntimeError`` when some were dropped: the work was done without its evidence."""
    if isinstance(facts, FactLog):
        facts.close()
        if facts.dropped:
            raise RuntimeError(f"{facts.dropped} facts were dropped: this was done without its evidence")


def envelope_size(size: int) -> int:
    """How many bytes the store is given for a payload of ``size``."""
    catalog = StaticCatalog(TopicPolicy("bench.topic", "bench"))
    transport = open_transport(BusConfig(type="memory"))
    producer = Producer(lambda _: transport, catalog, source="/bench", facts=NullFacts())
    return len(encode(producer.prepare("bench.topic", _payload(size), OPTIONS)))


def _payload(size: int) -> dict[str, str]:
    return {"text": "x" * (size - 11)}


def publish(task: dict[str, Any]) -> None:
    """Publish ``count`` messages in confirmed batches (or one by one) and report the time it took."""
    transport = transport_for(task)
    facts = facts_for(task)
    ordering, partitions = _order(task)
    policy = TopicPolicy(
        task["topic"], "bench", ordering=ordering, partitions=partitions, priorities=ordering == "none"
    )
    producer = Producer(lambda _: transport, StaticCatalog(policy), source="/bench", facts=facts)
    body = _payload(task["size"])
    batch = [BatchItem(body, OPTIONS)] * BATCH
    if ordering == "key":
        batch = [BatchItem(body, PublishOptions(type="bench.message", key=f"k{n % KEYS}")) for n in range(BATCH)]
    wait_for_go()
    started, spent = time.time(), time.process_time()
    if task["do"] == "publish singly":
        for _ in range(task["count"]):
            producer.publish(task["topic"], body, OPTIONS)
    else:
        for start in range(0, task["count"], BATCH):
            answers = producer.publish_batch(task["topic"], batch[: task["count"] - start])
            if not all(isinstance(answer, Receipt) for answer in answers):
                raise RuntimeError(f"a publish failed: {answers}")
    producer.close()
    close_facts(facts)
    report(count=task["count"], started=started, ended=time.time(), cpu_s=time.process_time() - spent)


def consume(task: dict[str, Any]) -> None:
    """Handle with a no-op until the group (all processes together) has settled ``total`` messages."""
    transport = transport_for(task)
    facts = facts_for(task)
    ordering, partitions = _order(task)
    consumer = Consumer(
        transport,
        SubscriptionPolicy(
            topic=task["topic"],
            group="bench",
            concurrency=task["threads"],
            ordering=ordering,
            partitions=partitions,
        ),
        lambda _, __: None,
        name=task["name"],
        facts=facts,
    )
    wait_for_go()
    started, spent = time.time(), time.process_time()
    consumer.start()
    ended = _settled_at(consumer, transport, task)
    consumer.stop(5.0)
    close_facts(facts)
    report(count=consumer.status().handled, started=started, ended=ended, cpu_s=time.process_time() - spent)


def _settled_at(consumer: Consumer, transport: Transport, task: Mapping[str, Any]) -> float:
    """Wait until all processes together have settled ``total``; when this one settled its last.

    The store is asked only when this one has had nothing for a while, or asking would be a good part of what is
    measured.
    """
    here, since, quiet = 0, time.time(), 0
    while here < task["total"]:
        time.sleep(LOOK_S)
        before, here = here, consumer.status().handled
        if here > before:
            since, quiet = time.time(), 0
            continue
        quiet += 1
        if (
            quiet % QUIET_LOOKS == 0
            and transport.admin.counts(task["topic"], "bench").get("settled", 0) >= task["total"]
        ):
            break
    return since


def main() -> None:
    django.setup()
    task = json.loads(sys.argv[1])
    (consume if task["do"] == "consume" else publish)(task)


if __name__ == "__main__":
    main()
