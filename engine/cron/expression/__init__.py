"""When a job runs: an expression, its time zone, and the instants that follow from both.

:func:`compile_schedule` refuses what it cannot mean and gives a :class:`Schedule`; ``docs/cron-semantics.md`` says what
each form means and where the other engines differ.
"""

from engine.cron.expression.errors import BadExpression, UnknownZone
from engine.cron.expression.policy import FoldPolicy, GapPolicy
from engine.cron.expression.schedule import Schedule, Slot, compile_schedule
from engine.cron.expression.words import explain

__all__ = [
    "BadExpression",
    "FoldPolicy",
    "GapPolicy",
    "Schedule",
    "Slot",
    "UnknownZone",
    "compile_schedule",
    "explain",
]
