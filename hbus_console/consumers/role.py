"""The consumer role: a Celery worker that hosts subscriptions."""

from __future__ import annotations

import sys
import warnings

from celery.bin.celery import celery as command_line

from hbus_console.celery import app


def run(slot: int) -> None:
    """Serve until SIGTERM; ends the process with the worker's exit code."""
    # What Celery fears of root is pickle, and nothing here reads it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    arguments = [
        "--quiet",
        "worker",
        "--pool=threads",
        "--concurrency=1",
        "--without-gossip",
        "--without-mingle",
        f"--hostname=consumer-{slot}@%h",
    ]
    # `app.worker_main` would do the same and keep to itself how the worker ended.
    command_line.params[0].default = app
    sys.exit(command_line.main(args=arguments, standalone_mode=False) or 0)
