"""Redriving or discarding many dead letters at once, as operations: a selection of them, or all that a filter finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from engine.bus.subjects import SUBSCRIPTION
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from engine.core.numbers import MOST_DIGITS, whole
from engine.core.pacing import Pacing
from hbus_console.access.acts import Act
from hbus_console.access.permissions import Actor, Forbidden, visible_scopes
from hbus_console.deadletters import forecast, services
from hbus_console.deadletters.feature import DEAD_LETTER_DISCARD, DEAD_LETTER_REDRIVE
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.samples import OneCause, own_words, tellings
from hbus_console.deadletters.taken import FILTERS, choice, left, overtaken, taken, undecided, within
from hbus_console.evidence.freshness import dead_letters
from hbus_console.operations.kinds import Do, Item, Plan, PlanLine, Result, Sample, Step, Task
from hbus_console.quotas.asking import PUBLISH, pacing
from hbus_console.subjects import readable
from hbus_console.topics.scopes import topic_filter
from hbus_console.ui.formats import counted, num

#: The most letters that can be chosen one by one.
MOST_CHOSEN = 1_000
_SAMPLES = 5
#: Subscriptions of which it is told how their letters of one cause differ.
_MOST_TOLD = 3
_clock = SystemClock()
_WORDS = {"topic": "on", "subscription": "of", "owner": "owned by", "cause": "with", "fingerprint": "with"}


@dataclass(frozen=True)
class Bulk:
    """A kind of operation over dead letters. Its spec is ``{"letters": [id, …]}`` or any of the list's filters."""

    name: str
    verb: str
    action: Act
    decide: Callable[..., bool]
    effect: str
    did: str
    #: Of the places and a sample of the letters, what the dry run tells.
    findings: Callable[[Sequence[forecast.Held], forecast.LetterSample], list[PlanLine]]
    rate_per_s: int
    died: str = "died again"
    destructive: bool = False
    works_on: str = "message"
    facets: tuple[str, ...] = ("subscription",)

    def from_query(self, query: QueryDict) -> dict[str, Any]:
        if "letter" in query or query.get("by") == "letter":
            letters = [whole(each) for each in query.getlist("letter")]
            return {"letters": [letter for letter in letters if letter is not None]}
        given = {name: str(query.get(name, "")).strip() for name in FILTERS}
        return {name: value for name, value in given.items() if value}

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        page = reverse("deadletters:list")
        filters = {name: str(spec[name]) for name in FILTERS if spec.get(name)}
        return f"{page}?{urlencode(filters)}" if filters else page

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        unknown = sorted(set(spec) - {"letters", *FILTERS})
        if unknown:
            raise BadInput(
                f"{unknown[0]!r} chooses no dead letters.",
                remedy=f"Use letters, or some of {', '.join(FILTERS)}.",
                field=f"spec.{unknown[0]}",
            )
        # What dies after the dry run was not in it. The newest of all would tell how many die where one sees nothing.
        seen = DeadLetter.objects.filter(topic_filter(visible_scopes(actor)))
        newest = seen.order_by("-pk").values_list("pk", flat=True).first() or 0
        upto = newest if horizon is None else min(horizon, newest)
        if "letters" not in spec:
            chosen = {name: _text(spec, name) for name in FILTERS if spec.get(name)}
            if not chosen:
                raise BadInput(
                    "Nothing is chosen.",
                    remedy="Choose letters, or narrow them by topic, subscription or cause.",
                    field="spec",
                )
            asked: dict[str, Any] = {**chosen, "upto": upto}
            if "fingerprint" in chosen:
                # Without what varies from letter to letter: a title is kept for good, and what it shows may be masked
                # tomorrow. Whatever became of them: while one chooses others may decide them all.
                causes = self._chosen(actor, asked).order_by("-pk").exclude(cause="")
                asked["named"] = causes.values_list("cause", flat=True).first() or "no cause recorded"
            return self._leaving(actor, asked)
        letters = spec["letters"]
        if letters == []:
            raise BadInput(
                "No letter is chosen.",
                remedy="Tick the letters that you mean, or take all of a cause.",
                field="spec.letters",
            )
        if not isinstance(letters, list) or not all(map(_is_id, letters)):
            raise BadInput("letters is no list of ids.", remedy="Send the ids of the letters.", field="spec.letters")
        if len(letters) > MOST_CHOSEN:
            raise BadInput(
                f"{len(letters):,} letters are chosen one by one.",
                remedy=f"Choose up to {MOST_CHOSEN:,}, or use a filter.",
                field="spec.letters",
            )
        asked = {"letters": sorted(set(letters)), "upto": upto}
        topics = self._letters(actor, asked).order_by().values_list("topic", flat=True).distinct()[:2]
        # What lies in one namespace is told and steered there.
        return self._leaving(actor, {**asked, "topic": topics[0]} if len(topics) == 1 else asked)

    def _leaving(self, actor: Actor, asked: dict[str, Any]) -> dict[str, Any]:
        others = left(self._letters(actor, asked).filter(state=DeadLetter.State.DEAD))
        return {**asked, "left_to": others} if others else asked

    def namespace(self, spec: Mapping[str, Any]) -> str:
        return _text(spec, "topic") if spec.get("topic") else ""

    def title(self, spec: Mapping[str, Any]) -> str:
        if "letters" in spec:
            # Where others have all of them, these are what was asked for all the same.
            number = len(spec["letters"]) - sum(each["letters"] for each in spec.get("left_to", ()))
            number = number or len(spec["letters"])
            return f"{self.verb} {number:,} chosen dead letter{'' if number == 1 else 's'}"
        said = {**spec, "fingerprint": spec.get("named", "a cause that no letter has")}
        narrowed = " ".join(f"{_WORDS[name]} {said[name]}" for name in FILTERS if spec.get(name))
        return f"{self.verb} dead letters {narrowed}"

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        found = self._letters(actor, spec).filter(state=DeadLetter.State.DEAD)
        pairs = list(found.order_by().values_list("topic", "subscription").annotate(Count("pk")))
        total = sum(count for *_, count in pairs)
        oldest, theirs = list(found.order_by("pk")[:_SAMPLES]), taken(spec)
        places, looked = forecast.held(pairs), forecast.sample(found, total, _clock.now_ms())
        return Plan(
            total=total,
            samples=[
                Sample(each.subject, each.died_at, said, _facets(each))
                for each, said in zip(oldest, own_words(oldest), strict=True)
            ],
            warnings=forecast.warnings(actor, places) if self.action is DEAD_LETTER_REDRIVE else [],
            scanned=_told(total, sum(each.count for each in theirs)) + _beyond(spec),
            horizon=spec["upto"],
            findings=[*self.findings(places, looked), *_varying(spec, pairs)] if total else [],
            sampled=forecast.sampled(looked, total),
            taken=[*theirs, *undecided(self._chosen(actor, spec))],
        )

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        # Of several topics nobody names one; what is discarded is published nowhere.
        return pacing(PUBLISH, str(spec.get("topic") or ""), actor) if self.action is DEAD_LETTER_REDRIVE else None

    def let_go(self, operation_id: int) -> None:
        return None

    def look(self, task: Task, limit: int) -> Do:
        # Letters lie in the database; what is done to them leaves through the outbox.
        return lambda: self._step(task, limit)

    def _step(self, task: Task, limit: int) -> Step:
        letters = list(self._next(task.spec, task.cursor, task.scopes).order_by("pk")[:limit])
        items = [self._item(task, letter) for letter in letters]
        cursor = {"after": letters[-1].pk} if letters else dict(task.cursor)
        finished = len(letters) < limit
        chosen = DeadLetter.objects.filter(within(task.scopes), choice(task.spec))
        # Its own decisions of this step have no results yet, and are told apart by these letters.
        others = chosen.exclude(pk__in=[letter.pk for letter in letters])
        passed = overtaken(others, task.operation_id) if finished else 0
        return Step(items, cursor, finished, scanned=len(letters), overtaken=passed)

    def ahead(self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]) -> Mapping[str, int]:
        waiting = self._next(spec, cursor, scopes).filter(state=DeadLetter.State.DEAD)
        return dict(waiting.order_by().values_list("topic").annotate(Count("pk")))

    def _next(self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]) -> QuerySet[DeadLetter]:
        """What it has still to come to. Of letters chosen one by one, those that were decided meanwhile, too."""
        found = DeadLetter.objects.filter(within(scopes), choice(spec), pk__gt=int(cursor.get("after", 0)))
        return found if "letters" in spec else found.filter(state=DeadLetter.State.DEAD)

    def _item(self, task: Task, letter: DeadLetter) -> Item:
        result, detail, copy = Result.DONE, "", None
        try:
            # Whatever refuses it after it was decided, decides nothing: the step goes on and commits.
            with transaction.atomic():
                done = self.decide(task.actor, letter, task.reason)
            if done:
                copy = letter.copy
            else:
                result, detail = Result.SKIPPED, f"{letter.decided_by} had {letter.state} it before"
        except (BadInput, Forbidden) as error:
            result, detail = Result.FAILED, error.what
        place = readable(SUBSCRIPTION, letter.topic, letter.subscription)
        return Item(str(letter.pk), letter.subject, result, detail, copy, place, _facets(letter))

    def _letters(self, actor: Actor, spec: Mapping[str, Any]) -> QuerySet[DeadLetter]:
        """What ``actor`` may do this to."""
        found = self._chosen(actor, spec)
        return found if "letters" in spec else found.filter(state=DeadLetter.State.DEAD)

    def _chosen(self, actor: Actor, spec: Mapping[str, Any]) -> QuerySet[DeadLetter]:
        """Likewise, whatever became of them."""
        allowed = topic_filter(visible_scopes(actor, self.action))
        seen = topic_filter(visible_scopes(actor))
        return DeadLetter.objects.filter(allowed, seen, choice(spec))


def _varying(spec: Mapping[str, Any], pairs: Sequence[tuple[str, str, int]]) -> list[PlanLine]:
    """What differs among letters of one cause, which its name leaves out."""
    if not spec.get("fingerprint"):
        return []
    causes = [OneCause(str(spec["fingerprint"]), *pair) for pair in pairs[:_MOST_TOLD]]
    told = [telling for telling in tellings(causes, DeadLetter.State.DEAD) if telling.note]
    return [PlanLine("differs from letter to letter", counted(each.things, "thing"), each.note) for each in told]


def _told(total: int, theirs: int) -> str:
    """What waits and matches, whoever has it: beside what others have, the rest alone would be taken for all."""
    waits = counted(total + theirs, "letter waits and matches", "letters wait and match")
    if not theirs:
        return waits
    return f"{waits}, {'all' if not total else num(theirs)} of them left to operations under way"


def _beyond(spec: Mapping[str, Any]) -> str:
    """Of a filter: what may match it and lies in the store, where no keeper has taken it over."""
    if "letters" in spec:
        return ""
    of = dead_letters(_clock.now_ms())
    return "" if of.known else f"; more are {of.why}"


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 10**MOST_DIGITS


def _facets(letter: DeadLetter) -> dict[str, str]:
    # A copy has the source of its original.
    return {"subscription": letter.subscription, "source": letter.source}


def _text(spec: Mapping[str, Any], name: str) -> str:
    value = spec[name]
    if not isinstance(value, str) or len(value) > 500:
        raise BadInput(f"{name} is no text.", remedy="Send up to 500 characters.", field=f"spec.{name}")
    return value


REDRIVE = Bulk(
    "redrive",
    "Redrive",
    DEAD_LETTER_REDRIVE,
    services.redrive_now,
    effect=(
        "Each is published again as a new message, with an id of its own that names the dead one as its cause, for the "
        "subscription where it died and no other. What was published cannot be taken back."
    ),
    did="redriven",
    findings=forecast.of_redrive,
    rate_per_s=20,
)
DISCARD = Bulk(
    "discard",
    "Discard",
    DEAD_LETTER_DISCARD,
    services.discard_now,
    effect=(
        "Their subscription will never handle these messages. Nothing is deleted: each letter stays listed as "
        "discarded, with its payload, your name and your reason. It cannot be undone: a discarded letter can no longer "
        "be redriven. While its topic still has the message, a replay can publish it again."
    ),
    did="discarded",
    findings=forecast.of_discard,
    rate_per_s=100,
    destructive=True,
)
