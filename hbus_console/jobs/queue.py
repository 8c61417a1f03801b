"""The queue between nodes and workers: a Celery task for each run that is offered.

It promises nothing. A task may come twice, late or never, and the queue may be emptied: what was not begun is offered
again, and what was begun is not begun twice.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, signals
from kombu.exceptions import OperationalError

from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.scripts import UNREACHABLE
from engine.cron.slots.steps import Offer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")

#: The task, and the queue that its workers read.
RUN_TASK = "hbus.jobs.run"
QUEUE = "hbus-jobs"

app = Celery("hbus-jobs", include=["hbus_console.jobs.working.tasks"])
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_default_queue = QUEUE
# What steers the hosts of subscriptions is none of theirs.
app.conf.control_exchange = QUEUE


def offer(step: Offer) -> None:
    """Give the runs to the workers. Thread-safe. Raises ``Unavailable``: some of them may have been given."""
    try:
        with app.producer_pool.acquire(block=True, timeout=5) as producer:
            for run in step.runs:
                app.send_task(RUN_TASK, args=(run,), queue=QUEUE, producer=producer, retry=False, ignore_result=True)
    except (OperationalError, TimeoutError, *UNREACHABLE) as error:
        raise Unavailable(
            f"The workers' queue cannot be reached: {words_of(error)}.", remedy="It is tried again."
        ) from error


@signals.setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """A receiver tells Celery that logging is configured: Django's settings have done it."""
