"""Users, roles and tokens over HTTP."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import UNSET
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import BadInput, NotThere
from hbus_console.access.permissions import allows, require
from hbus_console.accounts import api_shapes as shapes
from hbus_console.accounts import services
from hbus_console.accounts.feature import ACCESS_MANAGE, TOKEN_OWN
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.tokens import own_tokens
from hbus_console.api.answers import PAGES, REFUSED, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.idempotency import HEADER
from hbus_console.api.query import switch
from hbus_console.api.views import ApiView

_BY_A_PERSON = "Only a person can do this: sign in, and send the console's session and CSRF token."
_ONCE = "The answer holds a secret that is given this once; therefore no Idempotency-Key is taken."


class ShownOnce(ApiView):
    """An endpoint whose answer to a POST holds a secret: nothing may keep that answer."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        keyed = request.method == "POST" and HEADER in request.headers
        if keyed and request.user is not None:
            raise BadInput(
                "This answer holds a secret and is given once, so it cannot be repeated by key.",
                remedy=f"Send the request without {HEADER}; if the answer was lost, revoke or reset, and ask again.",
                field=HEADER,
            )
        super().initial(request, *args, **kwargs)


class Me(ApiView):
    @extend_schema(
        operation_id="me",
        summary="Who am I, and what may I do where",
        tags=["access"],
        responses={(200, "application/json"): shapes.ME},
    )
    def get(self, request: Request) -> Response:
        return Response(shapes.me(self.actor))


class Users(ShownOnce):
    @extend_schema(
        operation_id="users_list",
        summary="Users with their roles",
        tags=["access"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(shapes.USER), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, ACCESS_MANAGE)
        return self.page(User.objects.prefetch_related("grants"), shapes.user, ordering="username")

    @extend_schema(
        operation_id="users_create",
        summary="Add a user",
        description=f"{_ONCE} {_BY_A_PERSON}",
        tags=["access"],
        request=takes(shapes.UserBody),
        responses={(201, "application/json"): shapes.USER_MADE, **REFUSED},
    )
    def post(self, request: Request) -> Response:
        require(self.actor, ACCESS_MANAGE)
        body = read(request, shapes.UserBody)
        made = services.create_user(self.actor, body.username, shapes.grants_of(body.grants), email=body.email)
        return Response({**shapes.user(made.user), "password": made.password}, status=status.HTTP_201_CREATED)


class OneUser(ApiView):
    @extend_schema(
        operation_id="users_read",
        summary="One user",
        tags=["access"],
        responses={(200, "application/json"): shapes.USER, **REFUSED},
    )
    def get(self, request: Request, username: str) -> Response:
        require(self.actor, ACCESS_MANAGE)
        return Response(shapes.user(_user(username)))

    @extend_schema(
        operation_id="users_change",
        summary="Change a user's roles, or shut or open the account",
        description=f"Roles: {_BY_A_PERSON}",
        tags=["access"],
        request=takes(shapes.UserChange),
        responses={(200, "application/json"): shapes.USER, **REFUSED},
    )
    def patch(self, request: Request, username: str) -> Response:
        require(self.actor, ACCESS_MANAGE)
        body, person = read(request, shapes.UserChange), _user(username)
        grants = None if body.grants is UNSET else shapes.grants_of(body.grants)
        active = None if body.active is UNSET else body.active
        services.change_user(self.actor, person, grants=grants, active=active, reason=body.reason)
        return Response(shapes.user(_user(username)))


class Password(ShownOnce):
    @extend_schema(
        operation_id="users_reset_password",
        summary="Reset a user's password",
        description=f"{_ONCE} {_BY_A_PERSON}",
        tags=["access"],
        request=takes(ReasonBody),
        responses={(200, "application/json"): shapes.PASSWORD, **REFUSED},
    )
    def post(self, request: Request, username: str) -> Response:
        require(self.actor, ACCESS_MANAGE)
        body = read(request, ReasonBody)
        return Response({"password": services.reset_password(self.actor, _user(username), body.reason)})


class Tokens(ShownOnce):
    @extend_schema(
        operation_id="tokens_list",
        summary="Your tokens; everybody's with `all=1` for admins",
        description="A token is told of itself alone.",
        tags=["access"],
        parameters=[OpenApiParameter("all", OpenApiTypes.BOOL), *PAGES],
        responses={(200, "application/json"): page_of(shapes.TOKEN), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, TOKEN_OWN)
        whose = own_tokens(self.actor)
        if switch(request.GET, "all"):
            require(self.actor, ACCESS_MANAGE)
            whose = Q()
        return self.page(ApiToken.objects.filter(whose).select_related("user"), shapes.token)

    @extend_schema(
        operation_id="tokens_create",
        summary="Make a token of your own",
        description=f"{_ONCE} {_BY_A_PERSON}",
        tags=["access"],
        request=takes(shapes.TokenBody),
        responses={(201, "application/json"): shapes.TOKEN_MADE, **REFUSED},
    )
    def post(self, request: Request) -> Response:
        require(self.actor, TOKEN_OWN)
        body = read(request, shapes.TokenBody)
        made = services.create_token(self.actor, body.name, body.role, body.scope, body.expires_at)
        return Response({**shapes.token(made.token), "token": made.raw}, status=status.HTTP_201_CREATED)


class OneToken(ApiView):
    @extend_schema(
        operation_id="tokens_revoke",
        summary="Revoke a token: your own, or anybody's for admins",
        description="A token may revoke itself.",
        tags=["access"],
        request=None,
        parameters=[OpenApiParameter("reason", description="Why; stands in the audit log.")],
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, prefix: str) -> Response:
        require(self.actor, TOKEN_OWN)
        # Somebody else's token looks like none, so that prefixes cannot be tried out.
        mine = Q() if allows(self.actor, ACCESS_MANAGE) else own_tokens(self.actor)
        token = ApiToken.objects.filter(mine, prefix=prefix).select_related("user").first()
        if token is None:
            raise NotThere(f"There is no token {prefix} of yours.", field="prefix")
        services.revoke_token(self.actor, token, request.GET.get("reason", ""))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _user(username: str) -> User:
    found = User.objects.prefetch_related("grants").filter(username=username).first()
    if found is None:
        raise NotThere(f"There is no user {username!r}.", field="username")
    return found


urlpatterns = [
    path("me", Me.as_view(), name="me"),
    path("users", Users.as_view(), name="users"),
    path("users/<str:username>", OneUser.as_view(), name="user"),
    path("users/<str:username>/password", Password.as_view(), name="user-password"),
    path("tokens", Tokens.as_view(), name="tokens"),
    path("tokens/<slug:prefix>", OneToken.as_view(), name="token"),
]
