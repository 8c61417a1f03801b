"""Reading the audit log: who sees which entries, filters, and keyset pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from urllib.parse import urlencode

from django.db.models import Count, Max, Min, Q, QuerySet, TextField
from django.db.models.functions import Cast

from engine.core.clock import to_datetime
from engine.core.errors import BadInput
from hbus_console import checks, cursors
from hbus_console.access.permissions import GLOBAL, Actor, require, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import BEYOND, REFUSED, AuditEntry, newest, numbered
from hbus_console.audit.sides import kept_from_search
from hbus_console.audit.words import PERSONS

PAGE = 50
#: Entries looked at for one page of a search that no index serves: bounds its time to one or two tenths of a second.
SCAN = 200_000
#: How many entries back the lists of known actors and actions look.
SUGGEST_FROM = 2_000
_LONGEST = 200
#: The name in the address -> the words on the page; who acted.
BY = {"people": "People", "programs": "Programs", "hbus": "hbus itself", "refused": "Refused"}


@dataclass(frozen=True)
class Filter:
    """What to look for; empty fields do not narrow. Its field names are the parameters of page, API and command."""

    actor: str = ""
    #: An action, or a family of them: ``topic.*``.
    action: str = ""
    #: A topic (everything in it counts), or the exact name of another target.
    target: str = ""
    correlation: str = ""
    #: Somewhere in the target, the reason, or what was before or after (but where that may be hidden by now).
    q: str = ""
    #: One of :data:`BY`.
    by: str = ""

    def query(self) -> str:
        """As a query string, for links."""
        return urlencode({name: value for name, value in self.as_dict().items() if value})

    def as_dict(self) -> dict[str, str]:
        """Every field by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def read_filter(parameters: Mapping[str, str]) -> Filter:
    """The filter in a request's parameters. Raises ``BadInput`` naming the one at fault."""
    found = {field.name: parameters.get(field.name, "").strip() for field in fields(Filter)}
    for name, value in found.items():
        checks.text(value, name, most=_LONGEST)
    if found["by"] and found["by"] not in BY:
        raise BadInput(f"{found['by']!r} is nobody who acts.", remedy=f"Use one of {', '.join(BY)}.", field="by")
    return Filter(**found)


def visible(actor: Actor) -> QuerySet[AuditEntry]:
    """The entries ``actor`` may see, newest first. Raises ``Forbidden`` for who may see none but their own.

    With a role on ``*`` that is all; with a scope, what was done in it, and what the person (and their
    tokens) did anywhere. A token sees its own acts only, not its maker's.
    """
    require(actor, AUDIT_READ)
    if sees_all(actor):
        return numbered()
    scopes = visible_scopes(actor, AUDIT_READ)
    own = Q(actor=actor.name, actor_kind=actor.kind)
    if actor.kind == "user":
        own |= Q(actor__startswith=f"{actor.name}/", actor_kind="token")
    return numbered().filter(scopes_q(scopes, "namespace") | own)


def sees_all(actor: Actor) -> bool:
    """Whether ``actor`` may see every entry, and so how many there are."""
    return GLOBAL in visible_scopes(actor, AUDIT_READ)


def narrowed(
    entries: QuerySet[AuditEntry], wanted: Filter, start: datetime | None = None, end: datetime | None = None
) -> QuerySet[AuditEntry]:
    """``entries`` that match, from ``start`` (inclusive) to ``end`` (exclusive)."""
    if wanted.actor:
        entries = entries.filter(actor=wanted.actor)
    if wanted.action.endswith(".*"):
        entries = entries.filter(action__startswith=wanted.action[:-1])
    elif wanted.action:
        entries = entries.filter(action=wanted.action)
    if wanted.target:
        entries = entries.filter(Q(target=wanted.target) | Q(namespace=wanted.target))
    if wanted.correlation:
        entries = entries.filter(correlation_id=wanted.correlation)
    if wanted.by == "refused":
        entries = entries.filter(action__endswith=REFUSED)
    elif wanted.by:
        entries = entries.filter(
            actor_kind__in={"people": PERSONS, "programs": ("token",), "hbus": ("system",)}[wanted.by]
        )
    if wanted.q:
        text = TextField()
        entries = entries.annotate(_before=Cast("before", text), _after=Cast("after", text)).filter(
            Q(target__icontains=wanted.q)
            | Q(reason__icontains=wanted.q)
            | (~Q(action__in=kept_from_search()) & (Q(_before__icontains=wanted.q) | Q(_after__icontains=wanted.q)))
        )
    if start is not None:
        entries = entries.filter(at__gte=start)
    if end is not None:
        entries = entries.filter(at__lt=end)
    return entries


def span(start_ms: int, end_ms: int) -> tuple[datetime, datetime]:
    """A time range of the address as the datetimes that :func:`narrowed` takes."""
    return to_datetime(start_ms), to_datetime(end_ms)


@dataclass(frozen=True)
class EntryPage:
    """Entries, newest first, and the cursors that lead on; empty at an end.

    ``looked_to`` is the entry at which a bounded search stopped before the page was full; 0 when it did not have to.
    """

    entries: list[AuditEntry]
    newer: str
    older: str
    looked_to: int = 0


@dataclass(frozen=True)
class ScanBounds:
    """How far one page may look through the log: at no more than ``most`` entries, see :func:`scan_for`, and at none
    whose number lies before ``first`` or after ``last``. It is falsy where nothing bounds it."""

    most: int = 0
    first: int = 1
    #: 0: the end of the log.
    last: int = 0

    def __bool__(self) -> bool:
        return self.most > 0


UNBOUNDED = ScanBounds()


def page(entries: QuerySet[AuditEntry], cursor: str = "", size: int = PAGE, scan: ScanBounds = UNBOUNDED) -> EntryPage:
    """One page of ``entries``: as fast at the far end of a million as at the near one."""
    way, seq = _read_cursor(cursor)
    stop = 0
    last = (scan.last or _head()) if scan else 0
    if way == "a":
        if scan:
            seq = max(seq, scan.first - 1)
        found = entries.filter(seq__gt=seq, seq__lte=seq + scan.most) if scan else entries.filter(seq__gt=seq)
        rows = list(found.order_by("seq")[: size + 1])
        if scan and len(rows) <= size and seq + scan.most < last:
            stop = seq + scan.most
        more_newer, more_older = len(rows) > size, True
        rows = rows[:size][::-1]
    else:
        before = min(seq, last + 1) if way and scan else seq if way else last + 1
        found = entries.filter(seq__lt=before) if way or scan else entries
        least = before - scan.most if scan else 0
        rows = list(
            (found.filter(seq__gte=least) if scan else found).filter(seq__lt=BEYOND).order_by("-seq")[: size + 1]
        )
        if len(rows) <= size and scan and least > scan.first:
            stop = least
        more_newer, more_older = bool(way), len(rows) > size
        rows = rows[:size]
    newer = f"a{rows[0].seq}" if rows and more_newer else ""
    older = f"b{rows[-1].seq}" if rows and more_older else ""
    if stop and way == "a":
        return EntryPage(rows, f"a{stop}", older, stop)
    return EntryPage(rows, newer, f"b{stop}" if stop else older, stop)


def search(
    entries: QuerySet[AuditEntry], wanted: Filter, start: datetime | None = None, end: datetime | None = None
) -> tuple[QuerySet[AuditEntry], ScanBounds]:
    """:func:`narrowed`, and how far :func:`page` may look through the log for it."""
    found, most = narrowed(entries, wanted, start, end), scan_for(wanted)
    if not most:
        return found, UNBOUNDED
    if start is None and end is None:
        return found, ScanBounds(most)
    within = narrowed(AuditEntry.objects.order_by(), Filter(), start, end)
    lately = (
        within.order_by("-at").values("seq")[:SCAN].aggregate(count=Count("seq"), first=Min("seq"), last=Max("seq"))
    )
    first, last = lately["first"] or 0, lately["last"] or 0
    if lately["count"] == SCAN:
        # Between the ends of that time, from its own end on: it may lie far back in the log.
        first = within.order_by("at").values("seq")[:SCAN].aggregate(first=Min("seq"))["first"] if start else 1
        return found, ScanBounds(most, first, last)
    # By their numbers: the database may else go by the actor, and walk through all that hbus ever did.
    return found.filter(seq__gte=first, seq__lte=last), UNBOUNDED


def scan_for(wanted: Filter) -> int:
    """How many entries a search may look at: 0, which is no bound, where an index finds what matches, or all that the
    rest of it is looked for in. What hbus does by itself, or what is done to a busy topic, may be most of the log.
    """
    if not (wanted.q or wanted.by or wanted.action.endswith(".*")):
        return 0
    parts = [Filter(actor=wanted.actor), Filter(target=wanted.target), Filter(correlation=wanted.correlation)]
    named = [narrowed(AuditEntry.objects.order_by(), part) for part in parts if part != Filter()]
    # Each of them: nobody knows by which the database goes.
    return 0 if named and all(part.values("seq")[:SCAN].count() < SCAN for part in named) else SCAN


def _head() -> int:
    return newest().values_list("seq", flat=True).first() or 0


def suggestions(entries: QuerySet[AuditEntry]) -> tuple[list[str], list[str]]:
    """Actors and actions among the latest entries, for the filter fields."""
    latest = list(entries.filter(seq__gt=_head() - SUGGEST_FROM).order_by("seq").values_list("actor", "action"))
    actors = {actor for actor, _ in latest if isinstance(actor, str)}
    actions = {action for _, action in latest if isinstance(action, str)}
    return sorted(actors), sorted(actions)


def _read_cursor(cursor: str) -> tuple[str, int]:
    if not cursor:
        return "", 0
    way = cursor[0]
    (seq,) = cursors.read(cursor[1:], 1)
    if way not in "ab":
        raise cursors.no_page()
    return way, seq
