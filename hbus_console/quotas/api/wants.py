"""Tokens for services in any language, and what holds for them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from engine.quota import OnLoss, Period, Rule, Whose
from engine.quota.node import AT_ONCE
from engine.quota.protocol import LIFETIME_S, Answer
from hbus_console.api.answers import answers, plain, read, takes
from hbus_console.api.bodies import Body
from hbus_console.api.views import ApiView
from hbus_console.quotas.services.wanting import Granted, TokensWanted, Word, limits_of, want_tokens

#: A node that the control plane does not understand asks again after so long, in seconds.
_UNKNOWN_S = 1.0


class WantBody(Body):
    """What ``node`` wants, its own name among those of the same caller; for ``tenant``, or the caller itself."""

    node: Word
    wants: Annotated[list[TokensWanted], Meta(min_length=1, max_length=AT_ONCE)]
    tenant: str = ""


class AllocOut(msgspec.Struct):
    """``granted`` tokens that may be spent for ``lifetime_s`` seconds, counted from before the Want was sent; before
    ``again_s`` seconds no further Want brings anything. What is not ``limited`` gets all that it asks for, and has no
    limit. ``answer`` is ``unknown rule`` while policies change: ask again. ``limit`` and ``burst`` are those of the
    narrowest ``rule``, ``share`` is what may be expected a second now, ``fallback`` what may be spent a second while
    nobody answers (where ``on_loss`` says so); ``spilled`` is what each bucket lost to its brim.
    """

    id: str
    service: str
    resource: str
    limited: bool
    answer: Answer
    granted: int
    lifetime_s: float
    again_s: float
    version: int
    rule: str
    limit: float | None
    burst: float | None
    share: float | None
    fallback: float | None
    spilled: tuple[float, ...]
    on_loss: OnLoss


class AllocsOut(msgspec.Struct):
    """An answer to each Want, in their order; ``tenant`` is for whom."""

    tenant: str
    allocs: list[AllocOut]


class LimitOut(msgspec.Struct):
    """A rule: ``limit`` tokens a second, or in each ``period``; each tenant has its own bucket, or all together."""

    rule: str
    limit: float
    burst: float
    period: Period
    zone: str
    whose: Whose
    on_loss: OnLoss


class LimitsOut(msgspec.Struct):
    """All rules that hold at the same time; none: no limit. ``fallback`` is what one node may spend a second while
    nobody answers, before it was told otherwise; ``on_loss`` what happens then.
    """

    service: str
    resource: str
    tenant: str
    version: int
    limited: bool
    fallback: float
    on_loss: OnLoss
    weight: float
    floor: float
    priority: int
    rules: list[LimitOut]


class WantTokens(ApiView):
    # A repeat is known by the ids of what it wants, and no answer lasts longer than a permit.
    answers_anew = True

    @extend_schema(
        operation_id="quota_want",
        summary="Ask for tokens, and give back what is unspent",
        description=(
            "What holds for the caller is found here, whatever it says. Of an answer no more is taken back than it "
            "granted, and once. See docs/quota.md."
        ),
        tags=["quotas"],
        request=takes(WantBody),
        responses=answers(AllocsOut),
    )
    def post(self, request: Request) -> Response:
        body = read(request, WantBody)
        granted = want_tokens(self.actor, body.node, body.wants, body.tenant)
        allocs = [_alloc(want, each) for want, each in zip(body.wants, granted, strict=True)]
        return Response(plain(AllocsOut(body.tenant or self.actor.name, allocs)))


class LimitsOfCaller(ApiView):
    @extend_schema(
        operation_id="quota_limits",
        summary="What holds for the caller",
        tags=["quotas"],
        parameters=[
            OpenApiParameter("service", required=True),
            OpenApiParameter("resource", required=True),
            OpenApiParameter("tenant", description="For whom; left out: for the caller."),
        ],
        responses=answers(LimitsOut),
    )
    def get(self, request: Request) -> Response:
        service, resource = request.GET["service"], request.GET["resource"]
        found = limits_of(self.actor, service, resource, request.GET.get("tenant", ""))
        terms = found.terms
        return Response(
            plain(
                LimitsOut(
                    service,
                    resource,
                    found.tenant,
                    found.version,
                    bool(found.rules),
                    terms.fallback,
                    terms.on_loss,
                    terms.weight,
                    terms.floor,
                    terms.priority,
                    [_limit(rule) for rule in found.rules],
                )
            )
        )


def _limit(rule: Rule) -> LimitOut:
    return LimitOut(rule.id, rule.limit, rule.burst, rule.period, rule.zone, rule.whose, rule.on_loss)


def _alloc(want: TokensWanted, granted: Granted) -> AllocOut:
    terms, alloc = granted
    common = (want.id, want.service, want.resource)
    if alloc is None:
        return AllocOut(
            *common, False, Answer.GRANTED, want.asked, LIFETIME_S, 0.0, terms.version, "", None, None, None, None, (),
            terms.on_loss,
        )  # fmt: skip
    if alloc.answer is not Answer.GRANTED:
        return AllocOut(
            *common, True, alloc.answer, 0, 0.0, _UNKNOWN_S, alloc.version, "", None, None, None, terms.fallback, (),
            terms.on_loss,
        )  # fmt: skip
    fallback = min(terms.fallback, alloc.fallback)
    return AllocOut(
        *common, True, alloc.answer, alloc.granted, alloc.lifetime_s, alloc.again_s, alloc.version, alloc.rule,
        alloc.limit, alloc.burst, alloc.share, fallback, alloc.spilled, terms.on_loss,
    )  # fmt: skip
