"""What of the messages that are due needs a person: those that are refused, and those whose store takes none."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from engine.bus.delay_refusals import TopicRefusals
from hbus_console.publishing.due import NotPublished, not_published
from hbus_console.ui.concern import Concern, Look, at, spell
from hbus_console.ui.formats import clock, counted, duration

#: A store may be slow, or a carrier be busy, for so long before it is said that due messages wait for it.
PATIENCE_MS = 60_000


def concerns(look: Look) -> list[Concern]:
    """One question to the store, and one query while anything is told."""
    found = not_published()
    if found is None:
        return []
    seen = found.within(look.scopes)
    return [*at(61, _refused(seen)), *at(62, _behind(seen, look.now_ms))]


def _refused(seen: NotPublished) -> list[Concern]:
    worst = sorted(seen.refused.items(), key=lambda each: (-each[1].count, each[0]))
    more = Concern("bad", "Due messages of further topics are refused", "", reverse("topics:list"), "See topics")
    return spell(worst, lambda each: _line(*each), more)


def _line(topic: str, refused: TopicRefusals) -> Concern:
    are = "is" if refused.count == 1 else "are"
    note = (
        f"{refused.why} · since {clock(refused.since_ms)[:5]} · kept, and published by themselves once that is mended"
    )
    return Concern(
        "bad",
        f"{counted(refused.count, 'due message')} for {topic} {are} refused",
        note,
        _messages_of(topic),
        "See messages",
    )


def _behind(seen: NotPublished, now_ms: int) -> list[Concern]:
    late = [(topic, now_ms - due_ms) for topic, due_ms in seen.behind.items() if now_ms - due_ms > PATIENCE_MS]
    more = Concern(
        "warn", "Due messages wait for the stores of further topics", "", reverse("topics:list"), "See topics"
    )
    return spell(
        sorted(late, key=lambda each: (-each[1], each[0])),
        lambda each: Concern(
            "warn",
            f"Due messages for {each[0]} wait: its store does not take them",
            f"the oldest was due {duration(each[1] * 1000)} ago · kept, and tried again every second",
            _messages_of(each[0]),
            "See messages",
        ),
        more,
    )


def _messages_of(topic: str) -> str:
    return f"{reverse('messages:search')}?{urlencode({'topic': topic, 'outcome': 'unsettled', 'range': '7d'})}"
