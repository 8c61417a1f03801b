"""Adding up what facts told, whatever numbers lie in the rows."""

from __future__ import annotations

from django.db.models import F, Sum
from django.db.models.expressions import Combinable
from django.db.models.functions import Greatest, Least

from engine.core.facts import MOST_THINGS


def total(amount: str | Combinable) -> Sum:
    """The sum of a column or expression, each value taken as from 0 to :data:`~engine.core.facts.MOST_THINGS`.

    Rows of releases that did not bound what they read would otherwise make a sum that no database can tell.
    """
    value = F(amount) if isinstance(amount, str) else amount
    return Sum(Least(Greatest(value, 0), MOST_THINGS))
