"""What every limiter of the house answers to, wherever its tokens come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from engine.core.errors import HbusError


class Source(StrEnum):
    """Where a limiter's tokens come from now."""

    #: A bucket of this process alone, as its rule says.
    LOCAL = "local"
    #: Prepaid by the control plane.
    PERMIT = "permit"
    #: The control plane is away: a conservative bucket of this process.
    FALLBACK = "fallback"
    #: The control plane is away, and the rule says that everything passes meanwhile.
    OPEN = "open"
    #: The control plane is away, and the rule says that nothing passes meanwhile.
    CLOSED = "closed"
    #: Nothing was asked of the control plane yet.
    NONE = "none"


@dataclass(frozen=True, slots=True)
class LimiterStatus:
    """How a limiter stands, as a person may read it: by the time it is read, others have gone on."""

    #: What may be taken at once.
    tokens: float
    #: Tokens a second that the rule allows all who share it.
    limit: float
    #: The most that the rule lets go at once.
    burst: float
    #: The version of the rule in force here.
    version: int
    source: Source
    #: The id of the permit that is being spent; empty where there is none.
    permit: str = ""
    #: How many tokens that permit had, and has.
    granted: int = 0
    left: int = 0
    #: Seconds until its tokens are void.
    expires_s: float = 0.0
    #: Seconds since the control plane last answered, while it does not.
    cut_off_s: float = 0.0
    #: The rule that is narrowest now, as far as this node knows; empty where nothing limits.
    rule: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Narrowest:
    """The rule that lets the least through, as far as is known. A limiter has the same object as long as nothing of it
    changes: what is made of it can be kept by it.
    """

    limit: float = math.inf
    burst: float = math.inf
    rule: str = ""

    def now(self, limit: float, burst: float, rule: str) -> Narrowest:
        """Itself, if that is what it is."""
        same = (limit, burst, rule) == (self.limit, self.burst, self.rule)
        return self if same else Narrowest(limit, burst, rule)


#: The least of :class:`LimiterStatus`, for who asks with every request: what may be taken at once, under which rule.
Glance = tuple[float, Narrowest]


class Closed(HbusError):
    """The limiter was closed while, or before, somebody asked it."""

    title = "Closed"


def closed_error() -> Closed:
    return Closed("This limiter was closed.", remedy="Ask for a new one.")


def _nothing() -> None:
    """What a reservation that was refused gives back."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens that are taken now, for an act that may begin in ``delay_s`` seconds."""

    #: Whether they were taken. If not, nothing was changed and nothing is owed.
    ok: bool
    #: Seconds from the call that made it; 0 when it may act at once, infinite when refused.
    delay_s: float
    _give_back: Callable[[], None] = field(default=_nothing, repr=False, compare=False)

    def cancel(self) -> None:
        """Give back what others have not been promised since; without effect once the act may have begun, or again.
        Thread-safe.
        """
        self._give_back()


REFUSED = Reservation(False, float("inf"))


class Limiter(Protocol):
    """Admits so much and no more. All methods are thread-safe; those in ``_async`` are for a running event loop.

    ``n`` is a whole number of tokens, from 0. Those that could never be had at once (more than the burst) are refused
    at once, whatever the timeout. A negative ``n`` raises :class:`~engine.core.errors.BadInput`; a closed limiter
    raises :class:`Closed`.
    """

    def allow(self, n: int = 1) -> bool:
        """Take ``n`` tokens if they are there now."""
        ...

    def reserve(self, n: int = 1, max_wait: float | None = None) -> Reservation:
        """Take ``n`` tokens now or from what comes within ``max_wait`` seconds (``None``: however long it takes)."""
        ...

    def wait(self, n: int = 1, timeout: float | None = None) -> bool:
        """Wait until ``n`` tokens are there and take them; ``False``, at once, when that would exceed ``timeout``."""
        ...

    async def wait_async(self, n: int = 1, timeout: float | None = None) -> bool:
        """As :meth:`wait`. Whoever is cancelled while waiting gives back what it reserved."""
        ...

    def refund(self, n: int = 1) -> None:
        """Give back ``n`` that were taken for an act that was not done after all, for others to take."""
        ...

    def close(self) -> None:
        """Refuse whatever comes and wake those who wait, with :class:`Closed`."""
        ...

    def status(self) -> LimiterStatus: ...
