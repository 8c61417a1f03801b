"""The jobs role: a Celery worker whose processes each do one run at a time."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from celery import signals
from celery.utils.nodenames import default_nodename, host_format
from django.conf import settings

from engine.core.errors import ConfigurationError
from engine.cron.slots.parts import host_of
from engine.cron.work.spark.scratch import remove_left_behind
from hbus_console.database import fresh_connections
from hbus_console.jobs.kinds.spark import scratch
from hbus_console.jobs.queue import QUEUE, app, queue_of
from hbus_console.jobs.working.shipping import ship_left_behind, spool_folder
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store
from hbus_console.wiring.spark import installed_spark, shared_classes

#: How often what killed processes left, and what is wanted, is looked for, in seconds.
LOOK_S = 10.0
#: How long making the shared classes of Spark may take: some seconds where there is time.
_MAKES_WITHIN_S = 3_600.0
_PR_SET_PDEATHSIG = 1

_log = structlog.get_logger(__name__)


def run(slot: int) -> None:
    """Do runs until SIGTERM, and then no new one; ends the process with the worker's exit code."""
    # What Celery fears of root is pickle, and nothing here reads it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    # Django's checks look at every page and endpoint, and a worker serves none.
    os.environ["CELERY_SKIP_CHECKS"] = "true"
    # Two lines of each run, which its row tells better.
    for told_of_tasks in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(told_of_tasks).setLevel(logging.WARNING)
    parent = _Parent()
    signals.worker_process_init.connect(_tie_to_parent)
    # Threads do not survive a fork: they start once the processes of the pool are there.
    signals.worker_ready.connect(parent.start)
    signals.worker_shutting_down.connect(parent.end_in_time)
    worker = app.Worker(
        hostname=host_format(default_nodename(f"jobs{slot}@%h")),
        pool="prefork",
        concurrency=settings.HBUS_JOB_SLOTS,
        queues=[QUEUE, queue_of(host_of(store.node_name()))],
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    parent.stop()
    sys.exit(worker.exitcode or 0)


class _Parent:
    """What the worker's parent does beside giving runs to its processes."""

    def __init__(self) -> None:
        self._beat: NodeBeat | None = None
        self._stopped = threading.Event()

    def start(self, **_: Any) -> None:
        self._beat = NodeBeat(
            store.client(),
            settings.HBUS_PREFIX,
            name=store.node_name(),
            role="jobs",
            slot=os.environ.get("HBUS_SLOT", "0"),
            detail=lambda: {"processes": settings.HBUS_JOB_SLOTS},
        )
        self._beat.start()
        for name, acts in (("left-behind", _LEFT_BEHIND), ("shared-classes", _SHARED_CLASSES)):
            threading.Thread(target=self._repeat, args=(acts,), name=name, daemon=True).start()

    def end_in_time(self, **_: Any) -> None:
        """Inside a signal handler: what still runs when the grace is over is ended, and found by its lease."""
        timer = threading.Timer(settings.HBUS_GRACE_S, os.kill, (os.getpid(), signal.SIGQUIT))
        timer.daemon = True
        timer.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._beat is not None:
            self._beat.stop()
        store.close(1.0)

    def _repeat(self, acts: Mapping[Callable[[], None], str]) -> None:
        while True:
            for act, fails in acts.items():
                try:
                    act()
                except Exception as error:  # noqa: BLE001 - and logged: the next look may do better
                    _log.exception(fails, error=type(error).__name__)
            if self._stopped.wait(LOOK_S):
                return


def _ship() -> None:
    with fresh_connections():
        ship_left_behind(spool_folder())


def _remove_scratch() -> None:
    remove_left_behind(scratch())


#: What is done about what killed processes left, and what the log says where that fails.
_LEFT_BEHIND = {
    _ship: "logs that were left behind are not shipped",
    _remove_scratch: "folders that were left behind are not removed",
}


def share_classes() -> None:
    """Where a start of Spark has asked for its classes since."""
    classes = shared_classes()
    if not classes.wanted:
        return
    try:
        spark = installed_spark()
    except ConfigurationError:
        # It is being replaced, or was removed since; whoever starts it is told, and asks again.
        return
    classes.make(spark, scratch(), _MAKES_WITHIN_S)


#: Takes the time that is left over, of which there may be none for minutes.
_SHARED_CLASSES = {share_classes: "the classes of Spark are not shared"}


def _tie_to_parent(**_: Any) -> None:
    """A process of the pool does not outlive the worker, of whatever that died."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
