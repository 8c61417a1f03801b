"""What may go of a topic, and the days of it that go."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from engine.core.errors import BadInput
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Act, Commit, LakeFile, LakeState, TopicCommit, TopicRules, date_of

#: The longest that may be asked for, days.
LONGEST_DAYS = 36_500


def set_rules(
    lake: Lake, topic: str, change: Callable[[TopicRules], TopicRules], *, by: str, reason: str
) -> tuple[TopicRules, TopicRules]:
    """Say what may go of ``topic`` from now on, and what might until then; the rules before and after.

    ``change`` is given those that hold, and again where somebody else was first. Where it changes nothing no commit is
    made. Raises :class:`BadInput` naming the field; ``OSError``.
    """
    said = TopicRules(), TopicRules()

    def make(state: LakeState) -> Commit:
        nonlocal said
        before = state.held(topic).rules
        said = before, _checked(change(before))
        if said[0] == said[1]:
            raise Superseded("It is kept like that.", remedy="Nothing is to be done.")
        return lake.following(
            state,
            Act.RULES,
            topics={topic: TopicCommit(rules=said[1])},
            by=by,
            reason=reason,
        )

    with suppress(Superseded):
        lake.publish(make)
    return said


def _checked(rules: TopicRules) -> TopicRules:
    if rules.keep_days is not None and not 1 <= rules.keep_days <= LONGEST_DAYS:
        raise BadInput(
            f"{rules.keep_days:,} days cannot be kept.",
            remedy=f"Say 1 to {LONGEST_DAYS:,} days, or nothing to keep all.",
            field="keep_days",
        )
    return rules


@dataclass(frozen=True, slots=True)
class LetGo:
    """The days of one topic that went, whole, at once."""

    topic: str
    #: The first day that is left.
    kept_from: str
    files: int
    rows: int
    bytes: int


def let_go(lake: Lake) -> list[LetGo]:
    """Take all days that are older than their topic's rules keep, unless a hold is on it; one commit.

    The files stay for readers as :data:`~engine.pipeline.lake.lake.GRACE_S` says. Raises ``OSError``, and
    :class:`~engine.pipeline.lake.errors.LakeDamaged` where the rules are not those of the commits.
    """
    gone: list[LetGo] = []

    def make(state: LakeState) -> Commit:
        # The state it is to follow decides: a hold that was set just before holds.
        nonlocal gone
        today = datetime.date.fromisoformat(date_of(lake.clock.now_ms()))
        over = {
            topic: (today - datetime.timedelta(days=held.rules.keep_days - 1)).isoformat()
            for topic, held in state.topics.items()
            if held.rules.keep_days is not None and not held.rules.hold
        }
        files = _older(state.files.values(), over)
        if not files:
            raise Superseded("Nothing is old enough.", remedy="Nothing is to be done.")
        lake.insist_on_the_commits()
        gone = _told(files, over)
        return lake.following(
            state,
            Act.RETENTION,
            topics={each.topic: TopicCommit(kept_from=each.kept_from) for each in gone},
            removed=[file.path for file in files],
        )

    try:
        lake.publish(make)
    except Superseded:
        return []
    return gone


def _older(files: Iterable[LakeFile], kept_from: dict[str, str]) -> list[LakeFile]:
    return [file for file in files if file.date < kept_from.get(file.topic, "")]


def _told(files: Iterable[LakeFile], kept_from: dict[str, str]) -> list[LetGo]:
    by_topic: dict[str, list[LakeFile]] = {}
    for file in files:
        by_topic.setdefault(file.topic, []).append(file)
    return [
        LetGo(
            topic, kept_from[topic], len(of_topic), sum(file.rows for file in of_topic), sum(f.bytes for f in of_topic)
        )
        for topic, of_topic in by_topic.items()
    ]
