"""Reads what the letters of some causes say, so many of each that a page stays cheap however many there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connections

from engine.bus import message as envelope
from engine.bus.dead import LOOKED_AT
from engine.bus.errors import MalformedEnvelope
from engine.core.error_text import NAME_LIMIT
from engine.core.strict_json import NotJson
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.telling import CauseTally, Telling
from hbus_console.topics.field_paths import FieldPath
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules

#: Of each cause the newest letters are read, so many of one and of all together.
MOST_OF_ONE, MOST_OF_ALL = 500, 5_000
#: A shorter part of a masked value tells nothing of it, in characters.
_TELLING = 4


class OneCause(NamedTuple):
    """Letters of one cause in one subscription of one topic, and how many there are."""

    fingerprint: str
    topic: str
    subscription: str
    letters: int


def tellings(groups: Sequence[OneCause], state: str) -> list[Telling]:
    """How to tell of each of ``groups`` of letters in ``state``: up to three queries, whatever they hold."""
    if not groups:
        return []
    tallies = _tallies(groups, state)
    masks = _masks({group.topic for group in groups}, {case for tally in tallies for case in tally.shown_cases()})
    return [tally.telling(group.letters, masks.hide) for tally, group in zip(tallies, groups, strict=True)]


def own_words(letters: Sequence[DeadLetter]) -> list[str]:
    """What each of ``letters`` died of in its own words, but for what its topic masks: two queries."""
    tallies = [CauseTally(letter.cause) for letter in letters]
    for tally, letter in zip(tallies, letters, strict=True):
        tally.add(letter.error[: LOOKED_AT + NAME_LIMIT], 1, letter.pk)
    masks = _masks({letter.topic for letter in letters}, {letter.pk for letter in letters})
    return [tally.telling(1, masks.hide).title for tally in tallies]


def _tallies(groups: Sequence[OneCause], state: str) -> list[CauseTally]:
    connection, each = connections[DeadLetter.objects.db], _of_each([group.letters for group in groups])
    parts = (_NEWEST.format(place=place, each=each) for place in range(len(groups)))
    params = [part for group in groups for part in (state, group.fingerprint, group.topic, group.subscription)]
    with connection.cursor() as cursor:
        # What many letters say word for word leaves the database once.
        cursor.execute(_SAID.format(letters=" UNION ALL ".join(parts)), params)
        rows = cursor.fetchall()
    # A group whose letters were all decided about a moment ago has no rows any more.
    causes = {place: cause for place, _, cause, _, _ in rows}
    tallies = [CauseTally(causes.get(place, "")) for place in range(len(groups))]
    for place, error, _, times, newest in rows:
        tallies[place].add(error, times, newest)
    return tallies


def _of_each(counts: Sequence[int]) -> int:
    """How many of each group make no more than may be read of all."""
    each = MOST_OF_ONE
    while each > 1 and sum(min(count, each) for count in counts) > MOST_OF_ALL:
        each = each * 3 // 4
    return each


# The index ``dead_group`` finds the newest of a group without sorting them.
_NEWEST = f"""SELECT * FROM (SELECT {{place}} AS place, substr(error, 1, {LOOKED_AT + NAME_LIMIT}) AS said, cause, id
    FROM deadletters_deadletter WHERE state = %s AND fingerprint = %s AND topic = %s AND subscription = %s
    ORDER BY died_at DESC, id DESC LIMIT {{each}}) AS of_{{place}}"""  # noqa: S608
_SAID = """SELECT place, said, MAX(cause), COUNT(*), MAX(id) FROM ({letters}) AS letters
    GROUP BY place, said ORDER BY place, COUNT(*) DESC, MAX(id) DESC"""


class _Masks:
    """What the topics of some letters mask of them. Texts are compared in lower case."""

    def __init__(self, hidden: Mapping[int, frozenset[str] | None]) -> None:
        #: By the id of a letter; ``None``: everything.
        self._hidden = hidden

    def hide(self, shown: Collection[tuple[int, str]]) -> bool:
        """Whether any of the values ``shown``, each with a letter that says it, is masked in that letter."""
        return any(self._hides(self._hidden.get(case, frozenset()), value.lower()) for case, value in shown)

    def _hides(self, hidden: frozenset[str] | None, value: str) -> bool:
        if hidden is None:
            return True
        return value in hidden or any(
            (len(each) >= _TELLING and each in value) or (len(value) >= _TELLING and value in each) for each in hidden
        )


def _masks(names: Collection[str], letters: Collection[int]) -> _Masks:
    topics = {topic.name: topic for topic in Topic.objects.filter(name__in=names)}
    open_ones = [name for name, topic in topics.items() if not MaskingRules.of(topic).hide_something]
    rows = DeadLetter.objects.filter(pk__in=letters).exclude(topic__in=open_ones)
    hidden: dict[int, frozenset[str] | None] = {}
    for letter in rows.only("topic", "body", "died_at") if len(open_ones) < len(names) and letters else ():
        hidden[letter.pk] = _hidden_of(letter, MaskingRules.at(topics.get(letter.topic), letter.died_at))
    return _Masks(hidden)


def _hidden_of(letter: DeadLetter, rules: MaskingRules) -> frozenset[str] | None:
    if not rules.hide_something:
        return frozenset()
    if "*" in rules.masked_fields:
        return None
    try:
        message = envelope.decode(bytes(letter.body))
        payload = message.json() if message.data_base64 is None and message.payload() else None
    except (MalformedEnvelope, NotJson):
        # It has no fields to tell apart.
        return None
    if message.data_base64 is not None or (message.payload() and rules.opaque(payload)):
        return None
    values = (value for path in rules.masked_fields for value in FieldPath.parse(path).values(payload))
    return frozenset(text for value in values for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None and value != "":
        yield str(value).lower()
