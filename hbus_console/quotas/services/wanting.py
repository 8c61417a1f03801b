"""Wants of programs outside: what they say is believed only as far as it can cost nobody anything.

Rules, weights and buckets are looked up here. What a program returns, or says that it spent by itself, is bounded by
the *receipt* of the answer before: our signature under what was granted to whom, when, and how much it might spend
alone meanwhile. A receipt counts once, with one Want; a repeat of that Want is the same one. Without a receipt nothing
is returned or repaid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from django.conf import settings
from django.core import signing

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.core.prepared import prepared
from engine.core.store.answered import answered
from engine.quota import Book, OnLoss
from engine.quota.protocol import LIFETIME_S, Alloc, Answer, Want
from engine.quota.terms import Name, Terms
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.quotas.feature import QUOTA_WANT, QUOTA_WANT_FOR
from hbus_console.quotas.services.books import newest_book
from hbus_console.wiring import quota, store

#: What hbus itself charges for: nobody else spends of these limits unless it may for everybody.
OWN_SERVICES = ("api", "console", "publish", "consume", "jobs", "replay")
#: A receipt is of no use after so long, in seconds: its tokens are void, and of what was spent alone a minute counts.
RECEIPT_S = 75
_SALT = "hbus.quota.receipt"


@dataclass(frozen=True, slots=True)
class AskedTokens:
    """One Want as a program says it."""

    id: str
    service: str
    resource: str
    tenant: str
    asked: int
    demand: float
    receipt: str
    returned: int
    repaid: int


class Given(msgspec.Struct):
    """What it gets."""

    id: str
    granted: int
    #: Whether any policy holds. Without one everything is granted, and nothing need be asked again soon.
    limited: bool
    lifetime_s: float
    #: Before that no further Want brings anything.
    again_s: float
    version: int
    policy: str
    limit: float | None
    burst: float | None
    #: Tokens a second that the node may expect.
    share: float
    #: Tokens a second that it may spend by itself while nobody answers, and whether it does so: fallback, open, closed.
    fallback: float
    on_loss: str
    #: To be sent with the next Want.
    receipt: str


class Receipt(msgspec.Struct, array_like=True, frozen=True):
    """What we sign: who was granted how much of which buckets when, and what it might spend alone after that."""

    permit: str
    node: str
    limiter: str
    granted: int
    fallback: float
    at_ms: int
    spilled: tuple[float, ...]
    chain: str


def want_tokens(actor: Actor, node: str, wants: Sequence[AskedTokens], *, clock: Clock | None = None) -> list[Given]:
    """An answer to each. Raises ``Forbidden``, ``BadInput`` naming the field, and ``Unavailable``.

    The node's name is one among those of its caller: nobody speaks for another's.
    """
    require(actor, QUOTA_WANT, SOMEWHERE)
    if any(each.tenant not in {"", actor.name} or each.service in OWN_SERVICES for each in wants):
        require(actor, QUOTA_WANT_FOR)
    if len({each.id for each in wants}) < len(wants):
        raise BadInput("Two Wants have one id.", remedy="Give each its own.", field="wants")
    desk = _Desk(f"~{actor.name} {node}", newest_book() or Book(version=1), (clock or SystemClock()).now_ms())
    return desk.answer([(each, Name(each.service, each.resource, each.tenant or actor.name)) for each in wants])


class _Desk:
    """What one request is answered by."""

    def __init__(self, node: str, book: Book, now_ms: int) -> None:
        self._node = node
        self._book = book
        self._now_ms = now_ms

    def answer(self, wants: Sequence[tuple[AskedTokens, Name]]) -> list[Given]:
        terms = [self._book.resolve(name, self._now_ms) for _, name in wants]
        sent = [
            self._want(asked, name, held_to)
            for (asked, name), held_to in zip(wants, terms, strict=True)
            if held_to.chain
        ]
        allocs = iter(quota.control_plane().want(sent) if sent else [])
        return [
            self._given(asked, name, held_to, next(allocs)) if held_to.chain else self._unlimited(asked)
            for (asked, name), held_to in zip(wants, terms, strict=True)
        ]

    def _want(self, asked: AskedTokens, name: Name, terms: Terms) -> Want:
        # An id is one among those of its caller: nobody meets another's answer.
        want_id = f"{self._node} {asked.id}"
        receipt = _read(asked.receipt) if asked.receipt else None
        returned, repaid = 0, 0
        spilled: tuple[float, ...] = ()
        if receipt is not None and self._counts(receipt, name, terms) and _spend(receipt.permit, want_id):
            alone = receipt.fallback * (self._now_ms - receipt.at_ms) / 1000 + 1
            returned, repaid = min(asked.returned, receipt.granted), min(asked.repaid, int(alone))
            spilled = receipt.spilled
        return Want(
            want_id, self._node, str(name), name.tenant, terms.chain, asked.asked, asked.demand, returned, repaid,
            terms.weight, terms.floor, terms.priority, spilled,
        )  # fmt: skip

    def _counts(self, receipt: Receipt, name: Name, terms: Terms) -> bool:
        """Whether what it was for is what is asked for now, and not too long ago."""
        same = (receipt.node, receipt.limiter, receipt.chain) == (self._node, str(name), _text_of(terms))
        return same and 0 <= self._now_ms - receipt.at_ms <= RECEIPT_S * 1000

    def _given(self, asked: AskedTokens, name: Name, terms: Terms, alloc: Alloc) -> Given:
        known = alloc.answer is Answer.GRANTED
        granted = alloc.granted if known else 0
        fallback = min(terms.fallback, alloc.fallback) if known else 0.0
        receipt = Receipt(
            alloc.id, self._node, str(name), granted, fallback, self._now_ms, alloc.spilled, _text_of(terms)
        )
        return Given(
            asked.id,
            granted,
            True,
            alloc.lifetime_s,
            # The rules are on their way to the control plane.
            alloc.again_s if known else 1.0,
            alloc.version,
            alloc.rule,
            terms.limit,
            terms.burst,
            alloc.share,
            fallback,
            terms.on_loss.value,
            signing.dumps(msgspec.to_builtins(receipt), salt=_SALT),
        )

    def _unlimited(self, asked: AskedTokens) -> Given:
        return Given(
            asked.id, asked.asked, False, LIFETIME_S, 0.0, self._book.version, "", None, None, 0.0, 0.0,
            OnLoss.OPEN.value, "",
        )  # fmt: skip


def _text_of(terms: Terms) -> str:
    """The buckets that tokens came from: they go back to no others."""
    return msgspec.json.encode(terms.chain).decode()


def _spend(permit: str, want_id: str) -> bool:
    """Whether this Want is the one that the receipt of a permit counts with."""
    key = f"{settings.HBUS_PREFIX}:{{quota}}:receipt:{permit}"
    with answered():
        before = store.client().set(key, want_id, nx=True, get=True, ex=2 * RECEIPT_S)
    return before is None or before == want_id.encode()


def _read(receipt: str) -> Receipt:
    try:
        return msgspec.convert(signing.loads(receipt, salt=_SALT), prepared(Receipt))
    except (signing.BadSignature, msgspec.ValidationError) as error:
        raise BadInput(
            "This is no receipt of ours.", remedy="Send the one of the last answer, or none.", field="receipt"
        ) from error
