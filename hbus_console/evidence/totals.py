"""Adding up what facts told, whatever numbers lie in the rows."""

from __future__ import annotations

from django.db.models import F, FloatField, Sum
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Greatest, Least

from engine.core.facts import MOST_THINGS

#: The most that one row adds up. Ninety such rows can be added up in 64 bits.
MOST_OF_A_ROW = 10**17


def total(amount: str | Combinable, most: int = MOST_THINGS) -> Sum:
    """The sum of a column or expression, each value taken as from 0 to ``most``.

    Rows of releases that did not bound what they read would otherwise make a sum that no database can tell.
    """
    value = F(amount) if isinstance(amount, str) else amount
    return Sum(Least(Greatest(value, 0), most))


def mass(column: str) -> Sum:
    """The sum of a column as a float, for a mean: it has no end to run over, and costs what a plain sum does."""
    return Sum(Cast(column, FloatField()))
