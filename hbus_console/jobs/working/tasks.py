"""The task that does a run."""

from __future__ import annotations

from hbus_console.jobs.queue import RUN_TASK, app


@app.task(name=RUN_TASK)
def run(run_id: int) -> None:
    """Do it, unless it is not to be begun any more."""
    # What a worker's process holds is made after the fork.
    from hbus_console.jobs.working.process import run_process

    run_process().run(run_id)
