"""Asking a store about many groups in a few round trips: what an :class:`~engine.bus.transport.Admin` may offer.

Who cannot is asked about each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from engine.bus.transport import Admin, Lag
from engine.core.errors import HbusError

#: A topic and a group of it.
GroupName = tuple[str, str]


class Stands(NamedTuple):
    """Where a group stands."""

    #: Read before the lag or with it: it may lie behind what is settled, never ahead.
    checkpoint: str
    lag: Lag


@runtime_checkable
class FindsDead(Protocol):
    """Telling which of many groups have dead letters. Thread-safe."""

    def with_dead(self, groups: Sequence[GroupName]) -> list[GroupName]:
        """Those of ``groups`` that have dead letters; one that is not there has none. Raises ``Unavailable``."""
        ...


@runtime_checkable
class TellsStands(Protocol):
    """Telling where many groups stand. Thread-safe."""

    def stands(self, groups: Sequence[GroupName]) -> list[Stands | HbusError]:
        """One for each; in the place of one that cannot be told, the error: ``GroupLost`` where it is not there.

        Raises ``Unavailable`` when none can be told.
        """
        ...


def with_dead(admin: Admin, groups: Sequence[GroupName]) -> list[GroupName]:
    """Those that may have dead letters: all, where the store cannot say. Raises ``Unavailable``."""
    return admin.with_dead(groups) if isinstance(admin, FindsDead) else list(groups)


def ask_stands(admin: Admin, groups: Sequence[GroupName]) -> Callable[[GroupName], Stands]:
    """Ask about all of them now, where the store can; what is returned tells about one.

    Raises ``Unavailable``; and so does what is returned, as well as ``GroupLost``.
    """
    if not isinstance(admin, TellsStands):
        return lambda name: Stands(admin.checkpoint(*name), admin.lag(*name))
    found = dict(zip(groups, admin.stands(groups), strict=True))

    def tell(name: GroupName) -> Stands:
        told = found[name]
        if isinstance(told, HbusError):
            raise told
        return told

    return tell
