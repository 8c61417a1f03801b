"""What the keeper does for topics."""

from __future__ import annotations

from hbus_console.topics.reconcile import TopicReconciler
from hbus_console.topics.trimmer import StreamRetention
from hbus_console.wiring import bus, store
from hbus_console.wiring.facts import emitter


def stream_retention() -> StreamRetention:
    return StreamRetention(bus.admin, emitter(), node=store.node_name())


def topic_reconciler() -> TopicReconciler:
    return TopicReconciler()
