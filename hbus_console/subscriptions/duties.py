"""What the keeper does for topics and who reads them."""

from __future__ import annotations

from hbus_console.subscriptions.reconcile import TopicReconciler


def topic_reconciler() -> TopicReconciler:
    return TopicReconciler()
