"""How far back the books are kept, and what is said of one that is not."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import F, Max, OuterRef, QuerySet, Subquery

from engine.core.errors import NotThere
from hbus_console.database import BATCH
from hbus_console.quotas.models import PolicyVersion, QuotaBook, TenantPlan

#: However old they are, so many of the newest books stay, and so many versions of each policy, also of a deleted one.
NEWEST, NEWEST_OF_EACH = 100, 20


class BookReach(NamedTuple):
    """The oldest book that is kept, and when it was made."""

    number: int
    made_at: datetime

    @property
    def trimmed(self) -> bool:
        """Whether there were older ones: the first ever is number 1."""
        return self.number > 1


def books_reach() -> BookReach | None:
    """How far the books reach back; ``None`` before there was one."""
    oldest = QuotaBook.objects.order_by("number").values_list("number", "made_at").first()
    return None if oldest is None else BookReach(*oldest)


def book_at(number: int, field: str) -> QuotaBook:
    """The book of that number. Raises :class:`NotThere`, which tells one that was trimmed from one that never was."""
    found = QuotaBook.objects.filter(number=number).first()
    if found is not None:
        return found
    back = books_reach()
    if back is not None and 1 <= number < back.number:
        raise NotThere(
            f"Version {number:,} of the policies was trimmed: none before version {back.number:,} is kept any more.",
            remedy="What was done then is in the audit log.",
            field=field,
        )
    raise NotThere(f"There is no version {number} of the policies.", remedy="Look at the list of them.", field=field)


def first_to_keep(before: datetime) -> int:
    """The number of the oldest book that stays when what is older than ``before`` goes; 0: all of them.

    The one that was in force at that moment stays: what was held to from then on can be told.
    """
    newest = QuotaBook.objects.order_by("-number").values_list("number", flat=True)[NEWEST - 1 : NEWEST].first()
    until = QuotaBook.objects.filter(made_at__lte=before).order_by("-number")
    in_force = until.values_list("number", flat=True).first()
    return 0 if newest is None or in_force is None else min(newest, in_force)


def trim(first: int) -> int:
    """Remove a batch of what no book from ``first`` on says, and how many rows that were; 0: nothing is left to do.

    Books go before what they say: whoever finds one finds it whole.
    """
    of_policy = PolicyVersion.objects.filter(policy=OuterRef("policy")).order_by().values("policy")
    last = Subquery(of_policy.annotate(last=Max("number")).values("last"))
    versions = PolicyVersion.objects.filter(since__lt=first, until__lte=first).annotate(last=last)
    stale: tuple[QuerySet[QuotaBook] | QuerySet[PolicyVersion] | QuerySet[TenantPlan], ...] = (
        QuotaBook.objects.filter(number__lt=first),
        versions.filter(number__lte=F("last") - NEWEST_OF_EACH),
        TenantPlan.objects.filter(until__lte=first),
    )
    for rows in stale:
        keys = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        if keys:
            rows.model._default_manager.filter(pk__in=keys).delete()
            return len(keys)
    return 0
