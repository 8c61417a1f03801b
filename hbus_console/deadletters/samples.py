"""Reads what the letters of some causes say, so many of each that a page stays cheap however many there are.

What their topic masks may stand in their errors. Whether an error says it is never asked: who edits a letter so that an
error quotes a guess would be told by the answer. So where anything is masked, nothing that varies is told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connections

from engine.bus.dead import LOOKED_AT
from engine.core.error_text import NAME_LIMIT
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.telling import CauseTally, Telling
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules

#: Of each cause the newest letters are read, so many of one and of all together.
MOST_OF_ONE, MOST_OF_ALL = 500, 5_000


class OneCause(NamedTuple):
    """Letters of one cause in one subscription of one topic, and how many there are."""

    fingerprint: str
    topic: str
    subscription: str
    letters: int


def tellings(groups: Sequence[OneCause], state: str) -> list[Telling]:
    """How to tell of each of ``groups`` of letters in ``state``: up to two queries, whatever they hold."""
    if not groups:
        return []
    topics = _topics({group.topic for group in groups})
    tallies, older = _tallies(groups, state, topics)
    hidden = [
        place in older or MaskingRules.of(topics.get(group.topic)).hide_something for place, group in enumerate(groups)
    ]
    return [
        tally.telling(group.letters, hidden=hides) for tally, group, hides in zip(tallies, groups, hidden, strict=True)
    ]


def own_words(letters: Sequence[DeadLetter]) -> list[str]:
    """What each of ``letters`` died of in its own words, or its cause where its topic masks something: one query."""
    topics = _topics({letter.topic for letter in letters})
    said = []
    for letter in letters:
        tally = CauseTally(letter.cause)
        tally.add(letter.error[: LOOKED_AT + NAME_LIMIT], 1)
        hidden = MaskingRules.at(topics.get(letter.topic), letter.died_at).hide_something
        said.append(tally.telling(1, hidden=hidden).title)
    return said


def _topics(names: Collection[str]) -> dict[str, Topic]:
    return {topic.name: topic for topic in Topic.objects.filter(name__in=names)}


def _tallies(
    groups: Sequence[OneCause], state: str, topics: Mapping[str, Topic]
) -> tuple[list[CauseTally], Collection[int]]:
    """What the letters of each say, and the places of those with letters that are older than the topic of that name."""
    connection, each = connections[DeadLetter.objects.db], _of_each([group.letters for group in groups])
    parts = (_NEWEST.format(place=place, each=each) for place in range(len(groups)))
    params: list[Any] = []
    for group in groups:
        begun = topics[group.topic].created_at if group.topic in topics else datetime.max.replace(tzinfo=UTC)
        made = connection.ops.adapt_datetimefield_value(begun)
        params += [made, state, group.fingerprint, group.topic, group.subscription]
    with connection.cursor() as cursor:
        # What many letters say word for word leaves the database once.
        cursor.execute(_SAID.format(letters=" UNION ALL ".join(parts)), params)
        rows = cursor.fetchall()
    # A group whose letters were all decided about a moment ago has no rows any more.
    causes = {place: cause for place, _, cause, _, _ in rows}
    tallies = [CauseTally(causes.get(place, "")) for place in range(len(groups))]
    for place, error, _, times, _ in rows:
        tallies[place].add(error, times)
    return tallies, {place for place, *_, older in rows if older}


def _of_each(counts: Sequence[int]) -> int:
    """How many of each group make no more than may be read of all."""
    each = MOST_OF_ONE
    while each > 1 and sum(min(count, each) for count in counts) > MOST_OF_ALL:
        each = each * 3 // 4
    return each


# The index ``dead_group`` finds the newest of a group without sorting them.
_NEWEST = f"""SELECT * FROM (SELECT {{place}} AS place, substr(error, 1, {LOOKED_AT + NAME_LIMIT}) AS said, cause, id,
    CASE WHEN died_at < %s THEN 1 ELSE 0 END AS older
    FROM deadletters_deadletter WHERE state = %s AND fingerprint = %s AND topic = %s AND subscription = %s
    ORDER BY died_at DESC, id DESC LIMIT {{each}}) AS of_{{place}}"""  # noqa: S608
_SAID = """SELECT place, said, MAX(cause), COUNT(*), MAX(older) FROM ({letters}) AS letters
    GROUP BY place, said ORDER BY place, COUNT(*) DESC, MAX(id) DESC"""
