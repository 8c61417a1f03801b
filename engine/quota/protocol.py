"""What a node and the control plane say to each other: Want, and Alloc.

Both are arrays on the wire, their fields in this order; new ones are added at the end. Durations are seconds of whoever
reads them, counted from when the Want was sent: no moment of one clock is ever compared with another's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.core.errors import BadInput

#: The most buckets that one request for tokens is measured by.
MOST_LINKS = 8
#: The most tokens that are asked for, returned or repaid at once.
MOST_TOKENS = 10**9
#: How long a permit may be spent, in seconds.
LIFETIME_S = 5.0
#: A node that is held short asks again after so long; what is prepaid is for about so long. In seconds.
REFILL_S = 0.1

Text = Annotated[str, Meta(max_length=700)]
#: Three parts of 200 characters, each of them spelt out.
LimiterText = Annotated[str, Meta(max_length=1_900)]
Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
Rate = Annotated[float, Meta(ge=0, le=1e12)]


_SPELT = str.maketrans({"%": "%25", "/": "%2F", "@": "%40"})


def spelt(part: str) -> str:
    """A part of a name in which nothing divides: what divides names is percent-encoded."""
    return part.translate(_SPELT)


class BucketLink(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One bucket that tokens are taken from."""

    #: The rule whose limit it has.
    rule: Text
    #: Whose bucket of that rule: a tenant's own, or with "" the one that all share.
    owner: Text = ""
    #: The calendar period that counts, for a rule that has one: when it began and ends, in epoch milliseconds.
    began_ms: int = 0
    ends_ms: int = 0

    def __post_init__(self) -> None:
        """Raises :class:`BadInput` for what no key of the store can be called."""
        _look_at("rule", self.rule)
        _look_at("owner", self.owner)


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node asks for tokens, and says what became of earlier ones."""

    #: Names the permit as well. A Want that is repeated under its id is answered as the first time.
    id: Text
    node: Text
    #: Which of the node's limiters asks: ``SERVICE/RESOURCE/TENANT``, each :func:`spelt`.
    limiter: LimiterText
    #: With whom others share: all limiters of one tenant are one in the eyes of a bucket that tenants share.
    tenant: Text
    #: All must have the tokens, and all are charged.
    chain: Annotated[tuple[BucketLink, ...], Meta(min_length=1, max_length=MOST_LINKS)]
    asked: Tokens
    #: Tokens a second that its callers ask for.
    demand: Rate
    #: Of earlier permits, unspent and void.
    returned: Tokens = 0
    #: Spent in fallback since the last answer.
    repaid: Tokens = 0
    weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    floor: Rate = 0.0
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    #: :attr:`Alloc.spilled` of the answer before what is repaid was spent; empty where there was none.
    spilled: Annotated[tuple[float, ...], Meta(max_length=MOST_LINKS)] = ()
    #: :attr:`Alloc.born` of the answers that what is returned came with.
    born: Annotated[tuple[float, ...], Meta(max_length=MOST_LINKS)] = ()
    #: Which life of the node this is: one that is started anew counts anew.
    life: Text = ""
    #: Grows with each Want of that life; one that comes after a later one of its limiter is too late. 0: whoever asks
    #: does not count.
    number: Annotated[int, Meta(ge=0)] = 0
    #: The number of the last Want that was answered here: what was granted to a later one nobody has got.
    heard: Annotated[int, Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        """Raises :class:`BadInput` for what no key of the store can be called."""
        for field in ("id", "node", "limiter", "tenant", "life"):
            _look_at(field, getattr(self, field), blanks=field not in ("id", "life"))


class Answer(StrEnum):
    """How the control plane took a Want."""

    GRANTED = "granted"
    #: It does not know a rule of the chain: the node's rules are newer than its own, or older.
    UNKNOWN_RULE = "unknown rule"
    #: It has answered a later Want of this limiter: nothing was done.
    LATE = "late"
    #: What it keeps of one of the buckets, or of the limiter, is none of its own: nobody knows what is left.
    BROKEN = "broken"


class Alloc(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a node gets: a permit of ``granted`` tokens that is called as the Want was."""

    id: str
    answer: Answer
    #: From 0 to what was asked.
    granted: int = 0
    #: How long they may be spent.
    lifetime_s: float = 0.0
    #: Before that no further Want brings anything.
    again_s: float = 0.0
    #: The version of the rules in force.
    version: int = 0
    #: Which run of the control plane's memory this is: another one when it has lost everything.
    epoch: int = 0
    #: The narrowest rule of the chain, and what it allows.
    rule: str = ""
    limit: float = 0.0
    burst: float = 0.0
    #: Tokens a second that this node may expect now.
    share: float = 0.0
    #: Tokens a second that this node may spend by itself while the control plane is away: the least of :attr:`alone`.
    fallback: float = 0.0
    #: Of each bucket of the chain, what came in while it was full, ever: what nobody took while a node was cut off
    #: pays for what that node spent by itself.
    spilled: tuple[float, ...] = ()
    #: When each bucket of the chain was made, by the control plane's clock: tokens of another one, which had its name,
    #: do not go back to this.
    born: tuple[float, ...] = ()
    #: Tokens a second that this node may spend of each bucket by itself, all its limiters together.
    alone: tuple[float, ...] = ()
    #: What it might have had beside what it asked for.
    more: int = 0


class KeptRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the control plane knows of a rule."""

    #: Tokens a second; of a rule with a period, tokens in each.
    limit: Rate
    burst: Rate
    #: The share of the limit that all nodes together may spend while the control plane is away, from 0 to 1.
    fallback: Annotated[float, Meta(ge=0, le=1)] = 0.1
    #: Whether ``limit`` counts calendar periods, which the chain's links name.
    by_period: bool = False


def _look_at(field: str, value: str, *, blanks: bool = True) -> None:
    if not value.isprintable() or (not blanks and " " in value):
        raise BadInput(
            f"{value[:60]!a} can be no {field} of a Want.",
            remedy="Use printable characters." if blanks else "Use printable characters without blanks.",
            field=field,
        )
