"""Of when the keeper's evidence is. What it books and samples is known only while that is young; whoever shows a figure
or a sentence made of it asks here, so that pages, live texts, alerts and metrics stop at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hbus_console.evidence.models import Cursor
from hbus_console.ui.formats import clock

#: From this age on evidence tells nothing of now: three samples were not taken.
STALE_MS = 15_000
#: Who looks and finds nothing new notes it so often.
NOTE_MS = 3_000
#: The names under which it is noted.
FACTS = "facts"
DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True)
class Freshness:
    """All that happened before ``of_ms`` is in the evidence, ``None``: nobody has looked yet. ``known``: that is young
    enough to speak of now.
    """

    of_ms: int | None = None
    known: bool = False

    @classmethod
    def at(cls, of_ms: int | None, now_ms: int) -> Freshness:
        # A clock that is ahead by more must not make old evidence young for as long.
        return cls(of_ms, of_ms is not None and abs(now_ms - of_ms) < STALE_MS)

    @property
    def why(self) -> str:
        """``not known since 14:02:11``; empty while it is known."""
        return "" if self.known else not_known(self.of_ms)


def not_known(since_ms: int | None) -> str:
    """The words that stand where something would be told that nobody has looked after since then."""
    return f"not known since {clock(since_ms)[:8]}" if since_ms else "not known yet"


def read(now_ms: int) -> Mapping[str, Freshness]:
    """Of when the booked facts and the dead letters are, by :data:`FACTS` and :data:`DEAD_LETTERS`: one query."""
    noted = dict(Cursor.objects.filter(name__in=(FACTS, DEAD_LETTERS)).values_list("name", "at_ms"))
    return {name: Freshness.at(noted.get(name), now_ms) for name in (FACTS, DEAD_LETTERS)}


def facts(now_ms: int) -> Freshness:
    """Of when the booked facts are: rates, and what the ledger has."""
    return read(now_ms)[FACTS]


def dead_letters(now_ms: int) -> Freshness:
    """Until when dead letters were taken over from the store."""
    return read(now_ms)[DEAD_LETTERS]


def note(name: str, of_ms: int) -> None:
    """All that happened before ``of_ms`` is in the evidence of that name."""
    Cursor.objects.update_or_create(name=name, defaults={"at_ms": of_ms})
