"""The Celery application: its workers host subscriptions, its remote control steers them.

It carries no message of the bus. See docs/consumers.md for why it is built this way.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")

from hbus_console.consumers.step import SubscriptionHostStep

app = Celery("hbus")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(SubscriptionHostStep)


@signals.setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """A receiver tells Celery that logging is configured: Django's settings have done it."""
