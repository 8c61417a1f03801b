"""Jobs: work at planned instants, each slot decided once."""

from __future__ import annotations

from engine.cron.subjects import CALENDAR, JOB, RUN, TAG
from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, ProcessRole, SubjectKind

JOB_PAUSE = Act("job.pause", Role.OPERATOR, "pause or resume jobs", about=JOB)
JOB_RUN = Act("job.run", Role.OPERATOR, "trigger and cancel runs of jobs", about=JOB)
JOB_RELEASE = Act("job.release", Role.GOVERNOR, "take leases from runs", about=JOB)
JOB_EDIT = Act("job.edit", Role.EDITOR, "make and edit jobs", about=JOB)
JOB_GOVERN = Act("job.govern", Role.GOVERNOR, "hand jobs over", about=JOB)
#: A program runs with the worker's own rights on its machine.
JOB_COMMAND = Act("job.command", Role.ADMIN, "have jobs run programs")
JOB_LIMIT = Act("job.limit", Role.GOVERNOR, "limit the runs of a tag")
JOB_CALENDAR = Act("job.calendar", Role.GOVERNOR, "keep the calendars of jobs")
JOB_DELETE = Act("job.delete", Role.GOVERNOR, "delete jobs", about=JOB)

FEATURE = Feature(
    name="jobs",
    offers=("models", "services.draft", "services.jobs", "services.triggering", "waiting"),
    menu=(
        MenuEntry("jobs", "Jobs", "outline/clock", "jobs:list", "j", "Time", 10),
        MenuEntry("runs", "Runs", "outline/player-play", "jobs:runs", "n", "Time", 20),
    ),
    pages=(Mount("", "hbus_console.jobs.urls"),),
    api=("hbus_console.jobs.api",),
    acts=(JOB_PAUSE, JOB_RUN, JOB_RELEASE, JOB_EDIT, JOB_COMMAND, JOB_LIMIT, JOB_CALENDAR, JOB_GOVERN, JOB_DELETE),
    subjects=(
        SubjectKind(JOB, "job", address="hbus_console.jobs.addresses:job"),
        SubjectKind(RUN, "run", address="hbus_console.jobs.addresses:run", local=True, within=JOB),
        SubjectKind(TAG, "tag", address="hbus_console.jobs.addresses:tag"),
        SubjectKind(CALENDAR, "calendar", address="hbus_console.jobs.addresses:calendar"),
    ),
    owned=(
        Owned(
            "jobs",
            "name",
            text="hbus_console.jobs.addresses:text",
            address="hbus_console.jobs.addresses:address",
            url_name="jobs:list",
        ),
    ),
    facts=("engine.cron.fact_kinds:CATALOG",),
    duties=(
        "hbus_console.jobs.retention:run_retention",
        "hbus_console.jobs.series.rolling:job_series",
        "hbus_console.jobs.series.retention:job_series_retention",
    ),
    alerts=("hbus_console.jobs.alerts:KINDS",),
    live=("hbus_console.jobs.live:cells", "hbus_console.jobs.live:kept", "hbus_console.jobs.series.live:cells"),
    audits=("hbus_console.jobs.auditing:CHECK",),
    search=("hbus_console.jobs.finding:find",),
    tones={
        "running": "info",
        "done": "ok",
        "failed": "bad",
        "skipped": "warn",
        "lost lease": "bad",
        "abandoned": "bad",
        "cancelled": "warn",
        "unreadable": "bad",
        "failing": "bad",
    },
    ledger_models=("LogPiece", "RunProgress", "JobSeriesPoint", "JobsRolledUp"),
    roles=(
        ProcessRole(
            "cron",
            "decides the slots of jobs",
            "hbus_console.supervisor.probes:node_beats",
            33,
            run="hbus_console.jobs.scheduling.role:run",
            many=True,
            without="no slot of a job is decided",
            words="node that decides slots",
            unneeded="hbus_console.jobs.needs:no_jobs",
            unneeded_words="there is no job",
            place=30,
        ),
        ProcessRole(
            "jobs",
            "runs jobs",
            "hbus_console.supervisor.probes:node_beats",
            95,
            run="hbus_console.jobs.working.role:run",
            many=True,
            without="no job runs",
            telling="hbus_console.jobs.busy:role_words",
            words="worker for jobs",
            unneeded="hbus_console.jobs.needs:no_jobs",
            unneeded_words="there is no job",
            place=31,
        ),
    ),
    audit_words={
        "job.create": "created",
        "job.change": "changed",
        "job.restore": "restored",
        "job.delete": "deleted",
        "job.pause": "paused",
        "job.resume": "resumed",
        "job.trigger": "triggered",
        "job.cancel": "cancelled",
        "job.release": "took the lease from",
        "job.limit": "limited",
        "job.calendar_create": "made",
        "job.calendar_change": "changed",
        "job.calendar_delete": "deleted",
        "job.calendar": "changed by its calendar",
        "job.renew_ping": "renewed the ping address of",
    },
)
