"""What a limiter is held to: the rules that apply to it, resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.core.errors import BadInput
from engine.quota.protocol import BucketLink, spelt

#: Characters of a part of a limiter's name.
LONGEST = 200


class OnLoss(StrEnum):
    """What happens to those who ask while the control plane is away and nothing prepaid is left."""

    #: A part of the limit, divided by the nodes that were known last.
    FALLBACK = "fallback"
    #: Everything passes.
    OPEN = "open"
    #: Nothing passes.
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Name:
    """Which limiter: what is asked for, of which service, by whom."""

    service: str
    resource: str
    tenant: str
    #: Held to the rules that only count.
    shadow: bool = False

    def __post_init__(self) -> None:
        for part in ("service", "resource", "tenant"):
            value = getattr(self, part)
            if len(value) > LONGEST or not value.isprintable():
                raise BadInput(
                    f"{value[:60]!a} is no {part} that a limit can be for.",
                    remedy=f"Use at most {LONGEST} printable characters.",
                    field=part,
                )

    @property
    def person(self) -> str:
        """Whose the tenant is: of ``MAKER/NAME``, a program of somebody's, the maker; else the tenant itself."""
        return person_of(self.tenant)

    def __str__(self) -> str:
        """How it is called on the wire, like no other: a part's own signs that divide there are spelt out."""
        parts = (self.service, self.resource, self.tenant, *(("shadow",) if self.shadow else ()))
        return "/".join(map(spelt, parts))


def person_of(tenant: str) -> str:
    """See :attr:`Name.person`."""
    return tenant.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Terms:
    """Without links it is not limited."""

    #: The nearest first: those of the tenant's own before those that tenants share, then by what they are about.
    chain: tuple[BucketLink, ...] = ()
    #: The narrowest limit and burst of the chain, as far as this node knows.
    limit: float = float("inf")
    burst: float = float("inf")
    #: Tokens a second that this node may spend of each bucket by itself, until the control plane has said how many.
    alone: tuple[float, ...] = ()
    on_loss: OnLoss = OnLoss.FALLBACK
    weight: float = 1.0
    floor: float = 0.0
    priority: int = 0
    #: The version of the rules they come from: the same terms in another version are the same.
    version: int = field(default=0, compare=False)

    @property
    def rule(self) -> str:
        """The first of the chain; empty: none limits."""
        return self.chain[0].rule if self.chain else ""

    @property
    def fallback(self) -> float:
        """The least of :attr:`alone`."""
        return min(self.alone, default=0.0)
