"""What alert rules may watch of audits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.bus.subjects import topic_subject
from engine.core.errors import ConfigurationError
from engine.core.subject import Subject
from hbus_console.alerts.kinds import AlertKind, DefaultRule, kinds
from hbus_console.alerts.round import Case, Round
from hbus_console.alerts.targets import TargetKind, Way
from hbus_console.pipelines.audits.judged import audit_checks
from hbus_console.pipelines.wrong_audits import wrong_count, wrong_subjects, wrong_topics
from hbus_console.registry.pages import page
from hbus_console.topics.models import Topic
from hbus_console.topics.targets import topic_targets


def _judged_beside() -> Iterable[TargetKind]:
    watched = {kind.targets.kind: kind.targets for kind in kinds().values()}
    for subject_kind in dict.fromkeys(check.subject_kind for check in audit_checks().values()):
        if subject_kind not in watched:
            raise ConfigurationError(
                f"An audit judges subjects of the kind {subject_kind!r}, which no alert rule can watch.",
                remedy="Declare an alert kind whose targets are of that kind.",
            )
        yield watched[subject_kind]


#: Whatever is archived is audited each night, and with it whatever features have judged.
AUDITED = TargetKind(
    "audited-subject",
    lambda: topic_targets(Topic.objects.filter(archived__isnull=False)),
    beside=_judged_beside,
    ways=(Way(("findings",), "Open the audits", lambda _: page("pipelines:audits")),),
)


def _wrong(case: Case) -> float:
    return float(case.round.once(_found)[case.target.subject])


def _found(found: Round) -> Counter[Subject]:
    counts = Counter({topic_subject(row.topic): wrong_count(row) for row in wrong_topics(found.now_ms)})
    for row in wrong_subjects(found.now_ms):
        # Several checks may judge the same one.
        counts[row.subject] += wrong_count(row)
    return counts


KINDS = (
    AlertKind(
        name="audit_wrong",
        title="Wrong in the newest audit",
        unit="findings",
        unit_of_one="finding",
        says="has in its newest audit",
        help="What the newest audit of a topic found wrong: missing, stored twice, out of order, passed over …;"
        " and of a job or a policy: slots without a run, more admitted than its limit allows …",
        targets=AUDITED,
        measure=_wrong,
        follows=False,
        place=95,
        defaults=(
            DefaultRule(
                "An audit finds something wrong",
                1,
                "Open the findings: each names the messages, slots or windows it is about. It clears with the next"
                " audit that holds.",
                clear_s=0,
            ),
        ),
    ),
)
