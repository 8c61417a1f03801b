"""Tokens for programs in any language: Want and Alloc over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from engine.quota.protocol import MOST_TOKENS
from hbus_console.api.answers import answers, plain, read, takes
from hbus_console.api.bodies import Body
from hbus_console.api.views import ApiView
from hbus_console.quotas.services.wanting import AskedTokens, Given, want_tokens

#: Wants of one request.
MOST_WANTS = 200
_Name = Annotated[str, Meta(min_length=1, max_length=150)]
_Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]


class OneWant(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is wanted of one limiter."""

    #: Names the permit as well. Repeated within a minute it is answered as the first time.
    id: Annotated[str, Meta(min_length=1, max_length=100)]
    service: _Name
    resource: _Name
    #: Whose limit it is, for who may want for others; empty: the caller's own.
    tenant: Annotated[str, Meta(max_length=150)] = ""
    asked: _Tokens = 0
    #: Tokens a second that are asked of the client.
    demand: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    #: Of the answer before this one: whatever is returned or repaid is believed up to what it allows.
    receipt: Annotated[str, Meta(max_length=2_000)] = ""
    #: Of the permit of that answer, unspent and void.
    returned: _Tokens = 0
    #: Spent without a permit since that answer.
    repaid: _Tokens = 0


class WantBody(Body):
    """What a node wants. ``node`` tells the processes of one caller apart."""

    node: _Name
    wants: Annotated[list[OneWant], Meta(min_length=1, max_length=MOST_WANTS)]


class AllocsOut(msgspec.Struct):
    """An answer to each, in order."""

    allocs: list[Given]


class WantTokens(ApiView):
    #: A Want has an id of its own.
    answers_anew = True

    @extend_schema(
        operation_id="quota_want",
        summary="Tokens to be spent without asking",
        description="For programs that keep to a limit themselves. Which policies hold is looked up here, by who is "
        "calling. A permit lasts `lifetime_s` from when the request was sent; `limited` is false where nothing limits.",
        tags=["quotas"],
        request=takes(WantBody),
        responses=answers(AllocsOut),
    )
    def post(self, request: Request) -> Response:
        body = read(request, WantBody)
        asked = [
            AskedTokens(
                each.id,
                each.service,
                each.resource,
                each.tenant,
                each.asked,
                each.demand,
                each.receipt,
                each.returned,
                each.repaid,
            )
            for each in body.wants
        ]
        return Response(plain(AllocsOut(want_tokens(self.actor, body.node, asked))))
