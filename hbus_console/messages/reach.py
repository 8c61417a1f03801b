"""How far back the ledger goes."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Max, Min

from hbus_console.access.permissions import GLOBAL, Actor, visible_scopes
from hbus_console.messages.models import LedgerMessage


@dataclass(frozen=True)
class Reach:
    """How far back the ledger goes; ``since_ms`` is ``None`` while it is empty.

    ``messages`` is ``None`` for who may not see them all: they are of every topic.
    """

    messages: int | None
    since_ms: int | None


def reach(actor: Actor) -> Reach:
    """From the ends of two indexes. The number is exact as long as the ledger's ids have no gaps."""
    first, last = id_ends()
    whole = GLOBAL in visible_scopes(actor)
    if last is None or first is None:
        return Reach(0 if whole else None, None)
    oldest = LedgerMessage.objects.aggregate(oldest=Min("published_ms"))["oldest"]
    return Reach(last - first + 1 if whole else None, oldest)


def id_ends() -> tuple[int | None, int | None]:
    """The lowest and the highest id. Asked for together, SQLite would walk the whole table."""
    first = LedgerMessage.objects.aggregate(first=Min("pk"))["first"]
    return first, LedgerMessage.objects.aggregate(last=Max("pk"))["last"]
