"""What sisters ask before they do something for somebody: the limits of messages and jobs.

Who acts by hand or over the API is refused at once (:func:`take`); what goes on by itself waits for its turn
(:func:`pacing`). Where this installation keeps no quotas neither holds anybody.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.core.errors import QuotaExceeded
from engine.core.pacing import Pacing
from engine.quota.gate import QuotaGate
from hbus_console.quotas import door
from hbus_console.quotas.services.rules import policy_of

#: Services. What they are for is a topic (of the first two) or a job; the tenant is who publishes, the subscription
#: that reads, and the team that owns the job.
PUBLISH, CONSUME, JOBS = "publish", "consume", "jobs"
#: The longest that whoever is held waits before it asks again, in seconds: a limit may have been raised meanwhile.
LONGEST_S, SHORTEST_S = 1.0, 0.02


def take(service: str, resource: str, tenant: str, what: str, n: int = 1) -> Callable[[int], None]:
    """Take ``n`` tokens, or say ``what`` somebody may not do for now: "publish no more messages to booking.created".
    What gives some of them back is answered, for what certainly came to nothing.

    Raises :class:`QuotaExceeded`, having taken nothing.
    """
    here = door.present()
    if here is None or not n:
        return nothing_taken
    gate, key = here.gate, (service, resource, tenant)
    limiter = gate.limiter(*key)
    stock = limiter.stock
    admission = gate.ask(limiter, key, n)
    if admission.ok:
        return lambda count: gate.take_back(limiter, key, count, stock) if count else None
    at_once = limiter.terms.burst
    never = f", and never {n:,} at once: the limit lets {at_once:,.0f} go together" if n > at_once else ""
    who = tenant or "Who has no name"
    raise QuotaExceeded(
        f"{who} may {what} for now{never}.", again_s=admission.again_s, policies=(policy_of(admission.rule),)
    )


def limits_anything(service: str) -> bool:
    """Whether any rule is about this service, as far as this process knows; cheap."""
    if not door.kept():
        return False
    book = door.door().node.book
    return book is not None and book.is_about(service)


def nothing_taken(_: int) -> None:
    """Of what cost nothing, nothing goes back."""


def pacing(service: str, resource: str, tenant: str) -> Pacing | None:
    """What holds whoever goes on by itself; ``None`` where nothing does. Opens nothing before it is asked."""
    return QuotaPacing(service, resource, tenant) if door.kept() else None


class QuotaPacing:
    """A :class:`~engine.core.pacing.Pacing` by the limits of a name. Thread-safe, as far as its word for why is."""

    def __init__(self, service: str, resource: str, tenant: str) -> None:
        self._key = service, resource, tenant
        self._held = False
        self._stock: object = None
        self._policy = ""

    def take(self, most: int) -> int:
        gate = self._gate()
        limiter = gate.limiter(*self._key)
        self._stock = limiter.stock
        got = gate.some(limiter, self._key, most, waited=self._held)
        self._held = got < most
        if not got:
            self._policy = policy_of(limiter.status().rule)
        return got

    def give_back(self, count: int) -> None:
        """Of what was taken last."""
        if count:
            gate = self._gate()
            gate.take_back(gate.limiter(*self._key), self._key, count, self._stock)

    def again_s(self) -> float:
        gate = self._gate()
        return min(LONGEST_S, max(SHORTEST_S, gate.again_s(gate.limiter(*self._key))))

    @property
    def holds(self) -> bool:
        """Whether any rule is about it now."""
        return bool(self._gate().limiter(*self._key).terms.chain)

    @property
    def why(self) -> str:
        return f"It waits for its turn: the quota policy {self._policy} lets no more through for now."

    def _gate(self) -> QuotaGate:
        return door.door().gate
