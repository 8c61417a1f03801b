"""Turns accounts and tokens into actors."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from hbus_console.access.acts import Role
from hbus_console.access.permissions import ANONYMOUS, Actor, ScopedRole
from hbus_console.accounts.models import ApiToken, User


def actor_of(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """The actor of a signed-in person; :data:`ANONYMOUS` for nobody and for deactivated accounts."""
    if not isinstance(user, User) or not user.is_active:
        return ANONYMOUS
    grants = tuple(ScopedRole(Role(grant.role), grant.scope) for grant in user.grants.all())
    return Actor(
        user.username,
        user_id=user.pk,
        grants=grants,
        must_change_password=user.must_change_password,
        session_epoch=user.session_epoch,
    )


def actor_of_token(token: ApiToken) -> Actor:
    """The actor of a program: its maker's grants under the token's ceiling; nobody when the maker is deactivated."""
    maker = actor_of(token.user)
    if not maker.is_authenticated:
        return ANONYMOUS
    return Actor(
        name=f"{maker.name}/{token.name}",
        kind="token",
        user_id=maker.user_id,
        grants=maker.grants,
        limit=ScopedRole(Role(token.role), token.scope),
        token_id=token.pk,
        session_epoch=maker.session_epoch,
    )
