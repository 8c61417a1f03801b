"""What alert rules may watch of audits."""

from __future__ import annotations

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.targets import TargetKind, Way
from hbus_console.pipelines.wrong_audits import wrong_count, wrong_topics
from hbus_console.registry.pages import page
from hbus_console.topics.models import Topic
from hbus_console.topics.targets import topic_targets

#: Whatever is archived is audited each night.
ARCHIVED = TargetKind(
    "topic",
    lambda: topic_targets(Topic.objects.filter(archived__isnull=False)),
    ways=(Way(("findings",), "Open the audits", lambda _: page("pipelines:audits")),),
)


def _wrong(case: Case) -> float:
    return float(case.round.once(_found).get(case.target.subject.namespace, 0))


def _found(found: Round) -> dict[str, int]:
    return {row.topic: wrong_count(row) for row in wrong_topics(found.now_ms)}


KINDS = (
    AlertKind(
        name="audit_wrong",
        title="Wrong in the newest audit",
        unit="findings",
        unit_of_one="finding",
        says="has in its newest audit",
        help="What the newest audit of a topic found wrong: missing, stored twice, out of order, passed over …",
        targets=ARCHIVED,
        measure=_wrong,
        follows=False,
        place=95,
        defaults=(
            DefaultRule(
                "An audit finds something wrong",
                1,
                "Open the findings: each names the messages it is about. It clears with the next audit that holds.",
                clear_s=0,
            ),
        ),
    ),
)
