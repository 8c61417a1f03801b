"""What the bus carried, kept for good."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, SubjectKind

#: The job that archives, and the function that it calls: here, so that whoever lists functions loads nothing more.
JOB = "hbus.archive"
#: Likewise the job that audits.
AUDIT_JOB = "hbus.audit"
#: Likewise of the one that rolls the lake up.
ROLLUP_JOB = "hbus.rollup"
#: Likewise of the one that runs queries.
QUERY_JOB = "hbus.query"
ARCHIVE_SET = Act("archive.set", Role.GOVERNOR, "say which topics are archived", about="topic")
ARCHIVE_KEEP = Act("archive.keep", Role.GOVERNOR, "say how long the archive keeps a topic, and hold it", about="topic")
ARCHIVE_ERASE = Act("archive.erase", Role.GOVERNOR, "have the archive forget what bears a key", about="topic")
QUERY_RUN = Act("archive.query", Role.VIEWER, "query what is archived", about="topic")
QUERY_SAVE = Act("query.save", Role.OPERATOR, "save queries of the archive", about="query")
AUDIT_RUN = Act("bus-audit.run", Role.OPERATOR, "have what is archived audited", about="topic")

FEATURE = Feature(
    name="pipelines",
    menu=(
        MenuEntry("archive", "Archive", "outline/archive", "pipelines:archive", "v", "Data", 10),
        MenuEntry("audits", "Audits", "outline/checks", "pipelines:audits", "z", "Data", 20),
    ),
    pages=(Mount("", "hbus_console.pipelines.urls"),),
    api=(
        "hbus_console.pipelines.api.archive",
        "hbus_console.pipelines.api.keeping",
        "hbus_console.pipelines.api.audits",
        "hbus_console.pipelines.api.queries",
        "hbus_console.pipelines.api.saved",
        "hbus_console.pipelines.api.series",
    ),
    acts=(ARCHIVE_SET, ARCHIVE_KEEP, ARCHIVE_ERASE, AUDIT_RUN, QUERY_RUN, QUERY_SAVE),
    subjects=(SubjectKind("query", "saved query", address="hbus_console.pipelines.addresses:query"),),
    offers=("newest_audit", "replaying"),
    ledger_models=("SeriesPoint", "RolledUp"),
    duties=(
        "hbus_console.pipelines.series_retention:series_retention",
        "hbus_console.pipelines.spool_filling:spool_filling",
    ),
    live=("hbus_console.pipelines.live:cells",),
    alerts=("hbus_console.pipelines.alerts:KINDS", "hbus_console.pipelines.spool_alerts:KINDS"),
    concerns=("hbus_console.pipelines.concerns:concerns",),
    topic_readers=("hbus_console.pipelines.topic_reader:READER",),
    prepare=("hbus_console.pipelines.standing_jobs:prepare",),
    audit_words={
        "archive.start": "had the archive keep",
        "archive.stop": "had the archive keep no more of",
        "archive.keep": "said how long the archive keeps",
        "archive.erase": "had the archive forget a key of",
        "archive.anew": "began the archive anew, as of",
        "archive.query": "queried what the archive has of",
        "archive.answer": "answered a query of",
        "query.save": "saved the query",
        "query.delete": "deleted the query",
        "bus-audit.run": "had audited what the archive has of",
    },
)
