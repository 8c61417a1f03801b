"""What an operator should know before many dead letters are decided: exact where it is cheap, else of a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope
from hbus_console.access.permissions import Actor
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.services import has_expired, why_refused
from hbus_console.deadletters.weights import weight
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.operations.kinds import PlanLine
from hbus_console.subscriptions.holding import Hold, holds
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.leaving import may_call
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import cut, num

#: The most letters whose envelopes are read: half of them the oldest, half the newest.
SAMPLE = 1_000
#: What the envelopes that are read for it weigh at most, in each half.
SAMPLE_BYTES = 8 << 20
#: Letters read in one query.
_AT_ONCE = 25
#: Keys that are named, those with the most letters.
_KEYS = 3
_KEY_CUT = 40
#: Subscriptions that warn by name.
_MOST_NAMED = 10


@dataclass(frozen=True)
class Held:
    """The letters of one subscription, and what would become of them."""

    topic: str
    group: str
    letters: int
    #: Why they would wait, as the end of "they will wait …"; empty when they would not.
    waits: str = ""
    gone: bool = False

    @property
    def warning(self) -> str:
        """What to say before; empty when nothing."""
        if self.gone:
            return f"{self.letters:,} cannot be redriven: {self.group} is no longer subscribed to {self.topic}."
        return f"{self.letters:,} of {self.topic} will wait {self.waits}." if self.waits else ""


@dataclass
class LetterSample:
    """What the envelopes of some letters say."""

    letters: int = 0
    expired: int = 0
    redriven: int = 0
    unreadable: int = 0
    #: Why their topics would not take the copies, and of how many.
    refused: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)


def held(pairs: Sequence[tuple[str, str, int]]) -> list[Held]:
    """Where the letters of (topic, group, count) would go: three questions for any number."""
    found = holds((topic, group) for topic, group, _ in pairs)
    nothing = Hold("")
    held = ((*pair, found.get(pair[:2], nothing)) for pair in pairs)
    return [Held(topic, group, letters, hold.words, hold.gone) for topic, group, letters, hold in held]


def warnings(actor: Actor, places: Sequence[Held]) -> list[str]:
    """What stands in the way, and what would be shown, by subscription, those with the most letters first."""
    places = sorted(places, key=lambda each: -each.letters)
    held = [each.warning for each in places if each.warning]
    return [*_shortened(_exits(actor, places)), *_shortened(held)]


def _shortened(said: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    more = len(said) - _MOST_NAMED
    return said if more <= 0 else [*said[:_MOST_NAMED], f"Likewise those of {num(more)} more subscriptions."]


def _exits(actor: Actor, places: Sequence[Held]) -> list[str]:
    """Which of them are webhooks that are sent in clear what their topics mask: who may not reveal that leaves them."""
    hooks = Subscription.objects.filter(handler=Subscription.Handler.WEBHOOK).select_related("topic")
    found = {(hook.topic.name, hook.group): hook.topic for hook in hooks}
    said = []
    for each in places:
        topic = found.get((each.topic, each.group))
        if topic is None or not MaskingRules.of(topic).hide_something:
            continue
        sent = f"{each.group} is a webhook, which is sent whole what {each.topic} masks"
        if may_call(actor, topic):
            said.append(f"{each.letters:,} show what is masked: {sent}. The audit log will say that you revealed it.")
        else:
            said.append(f"{each.letters:,} will be left: {sent}, and you may not {PAYLOAD_REVEAL.words} there.")
    return said


def sample(letters: QuerySet[DeadLetter], total: int, now_ms: int) -> LetterSample:
    """Read the envelopes of at most :data:`SAMPLE` of ``letters``, and no more than :data:`SAMPLE_BYTES` twice."""
    found = LetterSample()
    for letter in _some(letters, total):
        found.letters += 1
        found.keys[letter.key] += 1
        try:
            message = envelope.decode(bytes(letter.body))
        except MalformedEnvelope:
            found.unreadable += 1
            continue
        found.expired += bool(message.expirytime) and has_expired(message, now_ms)
        found.redriven += message.hbusreplay == "redrive"
        if why := why_refused(letter, message, now_ms):
            found.refused[why] += 1
    return found


def _some(letters: QuerySet[DeadLetter], total: int) -> Iterator[DeadLetter]:
    # The numbers alone first: sorted together with them, the bodies of all letters would be read.
    numbers = letters.values_list("pk", flat=True)
    halves = [numbers.order_by("pk")[:SAMPLE]]
    if total > SAMPLE:
        halves = [numbers.order_by("pk")[: SAMPLE // 2], numbers.order_by("-pk")[: SAMPLE // 2]]
    for half in halves:
        yield from _read(list(half))


def _read(numbers: Sequence[int]) -> Iterator[DeadLetter]:
    """Letters until :data:`SAMPLE_BYTES` are read."""
    read = 0
    for start in range(0, len(numbers), _AT_ONCE):
        rows = DeadLetter.objects.filter(pk__in=numbers[start : start + _AT_ONCE]).only(
            "pk", "key", "body", "topic", "subscription"
        )
        for letter in rows:
            yield letter
            read += weight(len(letter.body))
            if read > SAMPLE_BYTES:
                return


def sampled(looked: LetterSample, total: int) -> str:
    """Of which letters the envelopes were read, as a sentence; empty: of all."""
    if looked.letters >= total:
        return ""
    return f"Of {num(looked.letters)} of {num(total)}, the oldest and the newest"


def of_redrive(places: Sequence[Held], looked: LetterSample) -> list[PlanLine]:
    """What a redrive would meet."""
    total = sum(each.letters for each in places)
    gone = sum(each.letters for each in places if each.gone)
    taking = [each for each in places if not each.gone and not each.waits]
    name = f"still wanted by {places[0].group}" if len(places) == 1 else "still wanted"
    if len(places) == 1:
        only = places[0]
        takes = PlanLine("taken at once", "no" if only.gone or only.waits else "yes", tone=_warn(not taking))
    else:
        takes = PlanLine("subscriptions that take them at once", f"{len(taking)} of {len(places)}",
                        tone=_warn(len(taking) < len(places)))  # fmt: skip
    return [
        PlanLine(name, total - gone, "their subscription is gone for the others" if gone else "", _warn(bool(gone))),
        PlanLine("redriven before", looked.redriven, "they died again" if looked.redriven else "",
                _warn(bool(looked.redriven))),
        PlanLine("expired meanwhile", looked.expired, "their copies do not expire" if looked.expired else ""),
        *_unreadable(looked),
        *_refused(looked),
        _keys(looked),
        takes,
    ]  # fmt: skip


def of_discard(places: Sequence[Held], looked: LetterSample) -> list[PlanLine]:
    """What a discard would give up."""
    total = sum(each.letters for each in places)
    name = f"never handled by {places[0].group}" if len(places) == 1 else "never handled by their subscriptions"
    return [
        PlanLine(name, total),
        PlanLine("other subscriptions", "not touched"),
        PlanLine("redriven before", looked.redriven, "they died again" if looked.redriven else ""),
        *_unreadable(looked),
        _keys(looked),
    ]


def _unreadable(looked: LetterSample) -> list[PlanLine]:
    if not looked.unreadable:
        return []
    return [PlanLine("unreadable", looked.unreadable, "they can only be discarded", "warn")]


def _refused(looked: LetterSample) -> list[PlanLine]:
    """Those that are too large for their topic, or that it does not take for another reason."""
    told = looked.refused.most_common()
    return [PlanLine("refused by their topic", count, f"{why}: they stay dead letters", "warn") for why, count in told]


def _keys(looked: LetterSample) -> PlanLine:
    keyed = {key: count for key, count in looked.keys.items() if key}
    most = sorted(keyed.items(), key=lambda each: (-each[1], each[0]))[:_KEYS]
    crowded = [f"{cut(key, _KEY_CUT)} has {num(count)}" for key, count in most if count > 1]
    return PlanLine("keys", len(keyed), ", ".join(crowded))


def _warn(wrong: bool) -> str:
    return "warn" if wrong else ""
