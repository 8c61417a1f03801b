"""Whether whoever started an operation may still do it: asked before each step, in all that is left of it."""

from __future__ import annotations

from datetime import datetime

from hbus_console.access.permissions import GLOBAL, Actor, Forbidden, allows, contains, visible_scopes
from hbus_console.operations.kinds import OperationKind, kind_named
from hbus_console.operations.models import Operation
from hbus_console.operations.starters import acting, reach
from hbus_console.ui.formats import counted, num


def permitted(found: Operation, now: datetime) -> Actor:
    """Whoever started it, who lives and may still do all that is left of it.

    Raises ``Forbidden`` as :func:`~hbus_console.operations.starters.acting` does, and where their rights do not reach
    what it has still to come to: it ends there, and says how much it left.
    """
    starter = acting(found, now)
    _require(found, starter, kind_named(found.kind))
    return starter


def goes_on(found: Operation, now: datetime) -> bool:
    """Whether its next step would be done. Where not, it will never come to what it has."""
    try:
        permitted(found, now)
    except Forbidden:
        return False
    return True


def _require(found: Operation, starter: Actor, kind: OperationKind) -> None:
    began = reach(found, kind.action)
    own = visible_scopes(starter, kind.action)
    if all(any(contains(outer, inner) for outer in own) for inner in began):
        return
    # Something was taken from them. What it never had to do with, or is done with, does not end it.
    ahead = kind.ahead(found.spec, found.cursor, began)
    where = ahead if ahead is not None else [found.namespace or GLOBAL]
    lost = sorted(name for name in where if not allows(starter, kind.action, name))
    if not lost:
        return
    more = f" and {num(len(lost) - 1)} more" if len(lost) > 1 else ""
    place = f" on {lost[0]}{more}" if lost[0] != GLOBAL else ""
    left = sum(ahead.values()) if ahead is not None else max(0, found.total - found.handled)
    said = f" {counted(left, 'thing is', 'things are')} left as before." if left else ""
    raise Forbidden(
        f"{starter.name}, who started it, may not {kind.action.words}{place} any more.{said}",
        remedy="Whoever may do it there can start it again for what is left.",
        action=kind.action,
        resource=lost[0],
    )
