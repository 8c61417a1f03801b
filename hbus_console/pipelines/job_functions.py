"""The archive, its roll-up and its audit as jobs: schedules say how often they look, pages show each run."""

from __future__ import annotations

from engine.cron.work.call import RunContext
from engine.cron.work.functions import job_function
from hbus_console.pipelines.feature import AUDIT_JOB, JOB, QUERY_JOB, ROLLUP_JOB


@job_function(JOB)
def archive(context: RunContext) -> str:
    """Put what the archived topics hold into the lake."""
    # It brings pyarrow, a hundred megabytes, which whoever merely lists the functions does without.
    from hbus_console.pipelines.working import archive_all

    return archive_all(context)


@job_function(AUDIT_JOB)
def audit(
    context: RunContext, since: str = "", until: str = "", *, days: int = 0, beside: bool = True, asked: int = 0
) -> str:
    """Audit what the archive has of all topics; from and to an RFC 3339 instant, or so many days back; and, where
    ``beside`` says so, the slots of jobs and the windows of quotas. Or what somebody ``asked`` for, by its number."""
    # It brings numpy and pyarrow, likewise.
    from hbus_console.pipelines.audits.working import AuditOfRun, audit_and_keep, audit_asked

    if asked:
        return audit_asked(context, asked)
    return audit_and_keep(context, AuditOfRun((), since, until, days, beside))


@job_function(ROLLUP_JOB)
def roll_up(context: RunContext) -> str:
    """Make series of what came into the lake."""
    # Likewise.
    from hbus_console.pipelines.rolling import roll_up_all

    return roll_up_all(context)


@job_function(QUERY_JOB)
def query(context: RunContext, query: int) -> str:
    """Run a query that somebody asked for, by its number."""
    # It is wanted in a process that runs jobs, and nowhere else.
    from hbus_console.pipelines.queries.working import answer_query

    return answer_query(context, query)
