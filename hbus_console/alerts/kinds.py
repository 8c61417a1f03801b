"""What can be watched: each kind with its words, its unit and its bounds."""

from __future__ import annotations

from dataclasses import dataclass

from hbus_console.ui import formats

#: Units of time, and how many seconds each is.
_IN_SECONDS = {"seconds": 1, "minutes": 60}
#: Units for one of them.
_ONE = {"messages": "message", "dead letters": "dead letter", "failed publishes": "failed publish"}
_PERCENT = "%"


@dataclass(frozen=True)
class Kind:
    """One kind of rule. ``of_topics``: its targets are topics, not subscriptions."""

    name: str
    title: str
    #: What the threshold counts, after its number: ``messages``.
    unit: str
    #: Stands between target and threshold: "billing on booking.created **has unsettled** ≥ 100".
    says: str
    help: str
    of_topics: bool = False
    #: Whether it is counted over a window.
    windowed: bool = False
    #: The least threshold that makes sense.
    least: float = 1.0
    usual: float = 1.0
    #: What a value below zero says: that what is measured is not there at all now.
    absent: str = "none"

    def said(self, value: float) -> str:
        """A value with its unit: ``2,400 messages``, ``4 m 51 s``; below zero :attr:`absent`."""
        if value < 0:
            return self.absent
        if self.unit in _IN_SECONDS:
            seconds = value * _IN_SECONDS[self.unit]
            return formats.duration(seconds * 1_000_000) if seconds >= 1 else f"{formats.num(round(seconds, 1))} s"
        number = formats.num(round(value, 2))
        return f"{number} {_ONE.get(self.unit, self.unit) if value == 1 else self.unit}"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "lag",
            "Unsettled messages",
            "messages",
            "has unsettled",
            "What a subscription has not settled: waiting, in flight and retrying. Paused ones are not judged.",
            usual=10_000,
        ),
        Kind(
            "oldest",
            "Age of the oldest unsettled message",
            "seconds",
            "lets a message wait",
            "How long the longest-waiting message of a subscription has waited. Paused ones are not judged.",
            usual=300,
        ),
        Kind(
            "dead_letters",
            "Dead letters waiting",
            "dead letters",
            "holds",
            "Dead letters of a subscription that nobody has redriven or discarded.",
        ),
        Kind(
            "dead_letter_rate",
            "Dead letters in a time",
            "dead letters",
            "produced",
            "How many messages of a subscription died within the window.",
            windowed=True,
            usual=20,
        ),
        Kind(
            "dead_letter_limit",
            "Dead letters at the limit",
            _PERCENT,
            "has filled its limit of dead letters to",
            "Waiting dead letters of a subscription in percent of HBUS_DEAD_LETTER_LIMIT. None is removed beyond it.",
            usual=100,
        ),
        Kind(
            "parked",
            "Messages of parked keys",
            "messages",
            "has set aside",
            "Messages that a subscription has set aside with their keys: these wait until somebody decides.",
        ),
        Kind(
            "publish_failures",
            "Failed publishes in a time",
            "failed publishes",
            "saw",
            "Messages the store did not take, or not surely, within the window. Refused input does not count.",
            of_topics=True,
            windowed=True,
        ),
        Kind(
            "breaker_open",
            "Breaker open",
            "seconds",
            "has had its breaker open for",
            "How long the breaker of a subscription has been open: its handler is not called meanwhile.",
            least=0.0,
            usual=0.0,
            absent="closed by now",
        ),
        Kind(
            "silent_topic",
            "Silent topic",
            "minutes",
            "has published nothing for",
            "Minutes since the last publish, or since hbus began to watch.",
            of_topics=True,
            usual=60,
        ),
    )
}
#: Colours of severities, as the pages name them.
TONES = {"critical": "bad", "warning": "warn", "info": "info"}
#: The most urgent first.
URGENCY = {"critical": 0, "warning": 1, "info": 2}
