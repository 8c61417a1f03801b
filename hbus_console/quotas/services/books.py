"""Making the book that nodes go by: after every change of a policy or plan, and when an override begins or ends.

Whoever changes something of it calls :func:`lock_book` first: books are made one after another, and each has all that
was committed before it.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import Q

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, ConfigurationError, Unavailable
from engine.quota import Book
from engine.quota.book import read_book
from engine.quota.plane import ControlPlane, KeptBook
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.services import record
from hbus_console.quotas.models import BookInForce, PolicyVersion, QuotaBook, QuotaNodeReport, TenantPlan, book_subject
from hbus_console.quotas.reports import GONE_AFTER_MS
from hbus_console.quotas.services.rules import book_of, due_after
from hbus_console.wiring import quota

_log = logging.getLogger(__name__)


def lock_book() -> BookInForce:
    """The row of the newest book, locked until the transaction ends."""
    BookInForce.objects.get_or_create(pk=1)
    return BookInForce.objects.select_for_update().get(pk=1)


def write_book(state: BookInForce, audit_seq: int, *, clock: Clock | None = None, number: int | None = None) -> None:
    """Make the next book of what stands now, and give it to the control plane once that is committed.

    ``state`` is what :func:`lock_book` gave. Versions and plans that begin with it were written with
    ``state.number + 1``. With a control plane that is away the keeper gives it the book later.
    """
    at_ms = (clock or SystemClock()).now_ms()
    state.number = state.number + 1 if number is None else number
    policies = policies_at(None)
    made = book_of(state.number, policies, plans_at(None), _nodes(at_ms), at_ms)
    kept, _ = made.kept()
    # What nobody could read is not written: every node would go on by what it has, and one that starts by nothing.
    read_book(kept)
    state.text = kept.text
    state.due_ms = due_after(policies.values(), at_ms)
    state.save()
    QuotaBook.objects.create(number=state.number, audit_seq=audit_seq)
    transaction.on_commit(lambda: _offer(made), robust=True)


def _nodes(at_ms: int) -> int:
    """How many processes there may be: those that told of late, in steps, for each other number changes what every
    limiter is held to.
    """
    told = QuotaNodeReport.objects.filter(at_ms__gt=at_ms - GONE_AFTER_MS).count()
    return 1 << max(0, told - 1).bit_length()


def policies_at(number: int | None) -> dict[str, dict[str, Any]]:
    """The settings of each policy, by its name, in the book of that number; ``None``: as they are now."""
    rows = PolicyVersion.objects.filter(_in_book(number)).order_by("policy")
    return {row.policy: row.settings for row in rows.only("policy", "settings")}


def plans_at(number: int | None) -> dict[str, str]:
    """The plan of each tenant that has one, likewise."""
    return dict(TenantPlan.objects.filter(_in_book(number)).exclude(plan="").values_list("tenant", "plan"))


def newest_book() -> Book | None:
    """What nodes are to go by; ``None`` before there was a policy."""
    state = BookInForce.objects.filter(pk=1).first()
    return None if state is None or not state.number else _read(state.number, bytes(state.text))


@lru_cache(maxsize=2)
def _read(number: int, text: bytes) -> Book:
    """Each page asks; with thousands of rules it takes longer than the rest of it."""
    return read_book(KeptBook(number, text))


def give(plane: ControlPlane, book: Book) -> bool:
    """Give the control plane a book; ``False`` where it has that one, or a newer. Raises ``Unavailable``."""
    kept, rules = book.kept()
    return plane.keep_rules(kept, rules)


def keep_up(plane: ControlPlane, *, clock: Clock | None = None) -> None:
    """See that the control plane has the newest book, and that there is one for this moment.

    Raises ``Unavailable``, with everything to be done again.
    """
    now_ms = (clock or SystemClock()).now_ms()
    state = _in_force()
    if state is None or not state.number:
        return
    if state.due_ms is not None and state.due_ms <= now_ms:
        _write_anew("quota.scheduled", "an override begins or ends", clock=clock)
        state = _in_force()
    has = plane.version()
    if state is None or has == state.number:
        return
    newest = newest_book()
    if newest is None:
        return
    if has > newest.version:
        # The database is older than the store: it was restored. Nodes take no book that is not newer than theirs.
        _write_anew("quota.renumber", f"the store has version {has:,}", beyond=has, clock=clock)
        newest = newest_book()
    if newest is not None:
        give(plane, newest)


def _in_force() -> BookInForce | None:
    """Without its text, which is long, and looked at every second."""
    return BookInForce.objects.defer("text").filter(pk=1).first()


def _write_anew(action: str, reason: str, *, beyond: int = 0, clock: Clock | None = None) -> None:
    now_ms = (clock or SystemClock()).now_ms()
    with transaction.atomic():
        state = lock_book()
        if action == "quota.scheduled" and (state.due_ms is None or state.due_ms > now_ms):
            # Another keeper, or a person, was faster.
            return
        number = max(state.number, beyond) + 1
        entry = record(SYSTEM, action, book_subject(number), reason=reason)
        write_book(state, entry.seq, clock=clock, number=number)


def _offer(book: Book) -> None:
    try:
        give(quota.control_plane(), book)
    except (Unavailable, ConfigurationError, BadInput) as error:
        _log.warning("Version %d of the quotas is saved and not yet in force: %s", book.version, error)


def _in_book(number: int | None) -> Q:
    if number is None:
        return Q(until__isnull=True)
    return Q(since__lte=number) & (Q(until__isnull=True) | Q(until__gt=number))
