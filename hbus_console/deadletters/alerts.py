"""What alert rules may watch of dead letters."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.db.models import Count, QuerySet

from engine.core.clock import to_datetime
from hbus_console.alerts.kinds import AlertKind, DefaultRule
from hbus_console.alerts.round import Case, Round, at_least, evidence
from hbus_console.deadletters.limit import percent_full
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.freshness import DEAD_LETTERS
from hbus_console.subscriptions.targets import SUBSCRIPTIONS

#: Dead letters by topic and group.
Counts = Mapping[tuple[str, str], int]


def _dead_letters(case: Case) -> float | None:
    counts, known = case.round.once(_waiting)
    return at_least(case, counts.get(case.target.key, 0), known)


def _dead_letter_rate(case: Case) -> float | None:
    counts, known = case.round.once(_died, case.since_ms)
    return at_least(case, counts.get(case.target.key, 0), known)


def _dead_letter_limit(case: Case) -> float | None:
    counts, known = case.round.once(_waiting)
    return at_least(case, percent_full(counts, *case.target.key), known)


def _at_the_limit(percent: float) -> bool:
    return bool(settings.DEAD_LETTER_LIMIT) and percent >= 100


def _waiting(now: Round) -> tuple[Counts, bool]:
    """How many there are, and whether these are all."""
    return _counted(DeadLetter.objects.filter(state=DeadLetter.State.DEAD)), now.once(evidence)[DEAD_LETTERS].known


def _died(now: Round, since_ms: int) -> tuple[Counts, bool]:
    died = DeadLetter.objects.filter(died_at__gte=to_datetime(since_ms))
    return _counted(died), now.once(evidence)[DEAD_LETTERS].known


def _counted(letters: QuerySet[DeadLetter]) -> Counts:
    rows = letters.values_list("topic", "subscription").annotate(count=Count("id")).order_by()
    return {(topic, group): count for topic, group, count in rows}


KINDS = (
    AlertKind(
        name="dead_letters",
        title="Dead letters waiting",
        unit="dead letters",
        unit_of_one="dead letter",
        says="holds",
        help="Dead letters of a subscription that nobody has redriven or discarded.",
        targets=SUBSCRIPTIONS,
        measure=_dead_letters,
        told=lambda value: True,
        place=30,
        defaults=(
            DefaultRule(
                "Dead letters wait for a decision",
                1,
                "Open the group under Dead letters, read one timeline, mend the cause, redrive or discard.",
                clear_s=0,
            ),
        ),
    ),
    AlertKind(
        name="dead_letter_rate",
        title="Dead letters in a time",
        unit="dead letters",
        unit_of_one="dead letter",
        says="produced",
        help="How many messages of a subscription died within the window.",
        targets=SUBSCRIPTIONS,
        measure=_dead_letter_rate,
        windowed=True,
        usual=20,
        place=40,
        defaults=(
            DefaultRule(
                "Many messages die at once",
                20,
                "One cause for all? Pause the subscription before more messages run out of attempts.",
                severity="critical",
                window_s=300,
                clear_s=300,
            ),
        ),
    ),
    AlertKind(
        name="dead_letter_limit",
        title="Dead letters at the limit",
        unit="%",
        says="has filled its limit of dead letters to",
        help="Waiting dead letters of a subscription in percent of HBUS_DEAD_LETTER_LIMIT. None is removed beyond it.",
        targets=SUBSCRIPTIONS,
        measure=_dead_letter_limit,
        told=_at_the_limit,
        # How much is kept is a matter of its own, whatever the letters died of.
        follows=False,
        usual=100,
        place=50,
        defaults=(
            DefaultRule(
                "Dead letters have reached their limit",
                100,
                "None is removed. Mend the cause, then redrive or discard; until then the database grows.",
                severity="critical",
                clear_s=0,
            ),
        ),
    ),
)
