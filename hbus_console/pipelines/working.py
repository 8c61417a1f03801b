"""One run of the job that archives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.cron.work.call import RunContext
from engine.pipeline.archive.tasks import ArchiveTask, run_task
from engine.pipeline.lake.state import LakeFile
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.queries.asking import forget_old_queries
from hbus_console.pipelines.telling import told, told_of_upkeep
from hbus_console.pipelines.upkeep import keep_up


def archive_all(context: RunContext) -> str:
    """Every archived topic, until it is done or the run is to end; what came of it."""

    def execute(tasks: Sequence[ArchiveTask]) -> Iterator[list[LakeFile]]:
        for task in tasks:
            # A run that is to end ends between two tasks: what was committed counts.
            context.raise_if_stopped()
            yield run_task(task)

    forget_old_queries()
    run = run_archive(wanted_topics([]), execute, cores=1, warn=print, between=context.raise_if_stopped)
    return "\n".join([told(run), *told_of_upkeep(keep_up(context.raise_if_stopped))])
