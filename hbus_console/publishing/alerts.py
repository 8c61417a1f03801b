"""What alert rules may watch of messages that are due. The delay path is asked: what it keeps is known nowhere else."""

from __future__ import annotations

from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round
from hbus_console.publishing.due import NotPublished, not_published
from hbus_console.topics.targets import TOPICS


def _refused(case: Case) -> float | None:
    found = case.round.once(_found)
    if found is None:
        return None
    refused = found.refused.get(case.target.subject.namespace)
    return float(refused.count) if refused else 0.0


def _found(_: Round) -> NotPublished | None:
    return not_published()


KINDS = (
    AlertKind(
        name="due_refused",
        title="Due messages refused",
        unit="due messages",
        unit_of_one="due message",
        says="refuses",
        help="Messages of a topic whose time has come and that it does not take: too large now, without an owner …",
        targets=TOPICS,
        measure=_refused,
        told=lambda value: True,
        place=75,
        defaults=(
            DefaultRule(
                "Due messages are refused",
                1,
                "They are kept. Mend what the line under Needs a person names, such as the limit or the owner in the"
                " settings of the topic, and they go out by themselves within ten minutes.",
                clear_s=0,
            ),
        ),
    ),
)
