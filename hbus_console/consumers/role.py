"""The consumer role: a Celery worker that hosts subscriptions."""

from __future__ import annotations

import os
import sys
import warnings

from celery.utils.nodenames import default_nodename, host_format

from hbus_console.consumers.celery_app import app
from hbus_console.consumers.worker_names import WORKER


def run(slot: int) -> None:
    """Serve until SIGTERM; ends the process with the worker's exit code. Raises ``ConfigurationError``.

    It is started as ``celery worker`` would start it, without the command line: that weighs 15 MB.
    """
    # It stands on models, which are there by now; a worker would tell of a malformed setting with a traceback.
    from hbus_console.consumers.wanted import hosted_topics

    hosted_topics()
    # What Celery fears of root is pickle, and nothing here reads it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    # Django's checks look at every page and endpoint, and a consumer serves none: they would weigh 20 MB.
    os.environ["CELERY_SKIP_CHECKS"] = "true"
    worker = app.Worker(
        hostname=host_format(default_nodename(f"{WORKER}{slot}@%h")),
        pool="threads",
        concurrency=1,
        quiet=True,
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()
    sys.exit(worker.exitcode or 0)
