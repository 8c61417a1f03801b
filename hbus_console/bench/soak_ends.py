"""The two ends of a soak, each in a process of its own: one publishes, no faster than the other handles."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import django

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.consumer import Consumer
from engine.bus.options import PublishOptions
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import BatchItem, Producer, Receipt
from hbus_console.bench.ours import BATCH, close_facts, facts_for, transport_for
from hbus_console.bench.processes import report, wait_for_go

#: How many messages may be published and not settled.
WINDOW = 20_000


def produce(task: dict[str, Any]) -> None:
    """Publish ``count`` messages, or as many as ``seconds`` allow, and report how many."""
    transport, facts = transport_for(task), facts_for(task)
    topic = task["topic"]
    producer = Producer(lambda _: transport, StaticCatalog(TopicPolicy(topic, "bench")), source="/soak", facts=facts)
    body = {"text": "x" * (task["size"] - 11)}
    wait_for_go()
    until = time.monotonic() + task["seconds"]
    published, settled = 0, 0
    while published < task["count"] and time.monotonic() < until:
        if published - settled >= WINDOW:
            settled = transport.admin.counts(topic, task["group"]).get("settled", 0)
            time.sleep(0.005)
            continue
        places = range(published, min(published + BATCH, task["count"]))
        items = [BatchItem(body, PublishOptions(type="soak.message", key=f"k{place}")) for place in places]
        answers = producer.publish_batch(topic, items)
        if not all(isinstance(answer, Receipt) for answer in answers):
            raise RuntimeError(f"a publish failed: {answers}")
        published += len(items)
    producer.close()
    close_facts(facts)
    report(count=published)


def consume(task: dict[str, Any]) -> None:
    """Handle with a no-op until told to stop, and report how many were handled."""
    transport, facts = transport_for(task), facts_for(task)
    consumer = Consumer(
        transport,
        SubscriptionPolicy(topic=task["topic"], group=task["group"]),
        lambda _, __: None,
        name="soak-0",
        facts=facts,
    )
    wait_for_go()
    consumer.start()
    sys.stdin.readline()
    consumer.stop(10.0)
    close_facts(facts)
    report(count=consumer.status().handled)


def main() -> None:
    django.setup()
    task = json.loads(sys.argv[1])
    (consume if task["do"] == "consume" else produce)(task)


if __name__ == "__main__":
    main()
