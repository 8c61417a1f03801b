"""Whoever started an operation: with what rights it goes on, and whether what they started it with still lives."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from hbus_console.access.acts import Act, Role
from hbus_console.access.permissions import GLOBAL, SYSTEM, Actor, Forbidden, ScopedRole, visible_scopes
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.tokens import is_live
from hbus_console.operations.models import Operation

#: The kind of the actors of :mod:`hbus_console.access.command_line`.
SHELL = "shell"


class HasStarter(Protocol):
    """What is kept of whoever started something, be it an operation or what a feature has of the kind."""

    @property
    def actor(self) -> str: ...
    @property
    def actor_kind(self) -> str: ...
    @property
    def user_id(self) -> int | None: ...
    @property
    def limit_role(self) -> str: ...
    @property
    def limit_scope(self) -> str: ...
    @property
    def token_id(self) -> int | None: ...
    @property
    def session_epoch(self) -> int | None: ...


def columns_of(actor: Actor) -> dict[str, Any]:
    """What is kept of ``actor``, who starts something, by the names of :class:`HasStarter`."""
    return {
        "actor": actor.name,
        "actor_kind": actor.kind,
        "user_id": actor.user_id,
        "limit_role": actor.limit.role.value if actor.limit else "",
        "limit_scope": actor.limit.scope if actor.limit else "",
        "token_id": actor.token_id,
        "session_epoch": actor.session_epoch,
    }


def acting(found: HasStarter, now: datetime) -> Actor:
    """Whoever started it, with the grants they hold now: what was taken from them is taken from the operation.

    Raises ``Forbidden`` when they are deactivated, when the token that started it was revoked or has expired at
    ``now``, and when their password was reset since: somebody else may have started it.
    """
    user = _user(found)
    if _is_of_the_machine(found):
        return _starter(found, user)
    if user is None or not user.is_active:
        raise _ended(f"{found.actor}, who started it, has no account any more that may sign in.")
    if found.session_epoch is not None and found.session_epoch != user.session_epoch:
        raise _ended(f"All sessions and tokens of {user.username}, who started it, were ended since.")
    if found.token_id is not None:
        token = ApiToken.objects.filter(pk=found.token_id).first()
        if token is None or not is_live(token, now):
            how = "has expired" if token is not None and token.revoked_at is None else "was revoked"
            raise _ended(f"The token {found.actor}, which started it, {how}.")
    return _starter(found, user)


def reach(found: Operation, action: Act) -> tuple[str, ...]:
    """The scopes in which it was begun to do ``action``: its namespace, or all that its starter's grants covered then.

    Where these were not kept, those of today; everything, where they cover nothing: then nobody else's scope is known
    to hold what it is about.
    """
    if found.namespace:
        return (found.namespace,)
    if found.scopes:
        return tuple(found.scopes)
    return visible_scopes(_starter(found, _user(found)), action) or (GLOBAL,)


def _ended(what: str) -> Forbidden:
    return Forbidden(what, remedy="Start it again, signed in or with a token that lives, for what is left.")


def _is_of_the_machine(found: HasStarter) -> bool:
    """Whether hbus itself started it, or somebody who may run commands on this machine, who is nobody's row."""
    return found.actor_kind in (SYSTEM.kind, SHELL)


def _user(found: HasStarter) -> User | None:
    return User.objects.filter(pk=found.user_id).first() if found.user_id is not None else None


def _starter(found: HasStarter, user: User | None) -> Actor:
    if _is_of_the_machine(found):
        return Actor(found.actor, found.actor_kind, grants=SYSTEM.grants)
    return Actor(
        found.actor,
        found.actor_kind,
        found.user_id,
        actor_of(user).grants if user is not None else (),
        ScopedRole(Role(found.limit_role), found.limit_scope) if found.limit_role else None,
        token_id=found.token_id,
        session_epoch=found.session_epoch,
    )
