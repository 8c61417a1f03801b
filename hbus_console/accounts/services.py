"""Everything that changes who may do what. Each function asks permission, writes, and audits in one transaction."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from engine.core.clock import SystemClock, to_datetime
from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.acts import Role
from hbus_console.access.permissions import GLOBAL, SYSTEM, Actor, Forbidden, ScopedRole, require
from hbus_console.access.scopes import valid_scope
from hbus_console.accounts.feature import ACCESS_MANAGE
from hbus_console.accounts.models import ApiToken, Grant, User
from hbus_console.accounts.sessions import change_own_password, check_password, sign_in, sign_out
from hbus_console.accounts.tokens import NewToken, authenticate_token, create_token, revoke_token
from hbus_console.audit.already import already
from hbus_console.audit.services import record

__all__ = [
    "NewToken",
    "NewUser",
    "authenticate_token",
    "change_grants",
    "change_own_password",
    "change_user",
    "create_token",
    "create_user",
    "deactivate_user",
    "ensure_first_admin",
    "reactivate_user",
    "reset_password",
    "revoke_token",
    "sign_in",
    "sign_out",
]

FIRST_ADMIN = "admin"
_ADMIN = ScopedRole(Role.ADMIN, GLOBAL)
_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")
#: Names the audit log uses for others than people, and the address of the form for a new one.
_AT_SHELL = "@shell"
_RESERVED = {"system", "anonymous", "new"}


@dataclass(frozen=True)
class NewUser:
    """A user with the password to hand over; the only time it can be read."""

    user: User
    password: str


def create_user(
    actor: Actor, username: str, grants: Iterable[ScopedRole] = (), *, email: str = "", password: str = ""
) -> NewUser:
    """A new person with their roles. Raises ``BadInput`` (username, email, password, scope) or ``Forbidden``.

    Without ``password`` one is generated. Either way it must be changed at the first login, since two people know it.
    """
    _require_a_person(actor)
    if not _USERNAME.fullmatch(username) or username in _RESERVED or username.endswith(_AT_SHELL):
        raise BadInput(
            f"{username!r} cannot be a user's name.",
            remedy="Take 1 to 100 lower-case letters, digits or . _ @ + - and begin with a letter or digit.",
            field="username",
        )
    if email:
        try:
            validate_email(email)
        except ValidationError:
            raise BadInput(f"{email!r} is not a mail address.", remedy="Write name@host.", field="email") from None
    wanted = _checked(grants)
    user = User(username=username, email=email, must_change_password=True)
    if password:
        check_password(password, user, field="password")
    given = password or _generated_password()
    user.set_password(given)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            _write_grants(user, wanted)
            record(actor, "user.create", Subject("user", "", username), after=_evidence(user))
    except IntegrityError:
        raise BadInput(
            f"There is a user {username!r} already.", remedy="Take another name.", field="username"
        ) from None
    return NewUser(user, given)


def change_grants(actor: Actor, user: User, grants: Iterable[ScopedRole], reason: str = "") -> None:
    """Give ``user`` exactly these roles, with effect on their next request. Raises ``BadInput`` or ``Forbidden``."""
    _require_a_person(actor)
    reason = checks.reason(reason, required=False)
    wanted = _checked(grants)
    with transaction.atomic():
        fresh = _locked(user)
        if _ADMIN not in wanted:
            _keep_an_admin(actor, fresh, "take the admin role from")
        before = _evidence(fresh)
        fresh.grants.all().delete()
        _write_grants(fresh, wanted)
        after = _evidence(fresh)
        if before != after:
            record(
                actor,
                "user.grants.change",
                Subject("user", "", fresh.username),
                reason=reason,
                before=before,
                after=after,
            )
        else:
            already(Subject("user", "", fresh.username), "has these roles", "user.grants.change", reason=reason)


def deactivate_user(actor: Actor, user: User, reason: str = "") -> None:
    """Shut an account: its sessions end with their next request and its tokens are revoked for good."""
    require(actor, ACCESS_MANAGE)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        fresh = _locked(user)
        _keep_an_admin(actor, fresh, "deactivate")
        if not fresh.is_active:
            already(Subject("user", "", fresh.username), "is deactivated", "user.deactivate", reason=reason)
            return
        before = _evidence(fresh)
        fresh.is_active = False
        fresh.session_epoch += 1
        fresh.save(update_fields=["is_active", "session_epoch"])
        after = {**_evidence(fresh), "keys_revoked": _revoke_tokens(fresh)}
        record(actor, "user.deactivate", Subject("user", "", fresh.username), reason=reason, before=before, after=after)


def reactivate_user(actor: Actor, user: User, reason: str = "") -> None:
    """Open an account again with its roles as they were; its old sessions and tokens stay dead."""
    _require_a_person(actor)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        fresh = _locked(user)
        if fresh.is_active:
            already(Subject("user", "", fresh.username), "may sign in", "user.reactivate", reason=reason)
            return
        before = _evidence(fresh)
        fresh.is_active = True
        fresh.save(update_fields=["is_active"])
        record(
            actor,
            "user.reactivate",
            Subject("user", "", fresh.username),
            reason=reason,
            before=before,
            after=_evidence(fresh),
        )


def change_user(
    actor: Actor,
    user: User,
    *,
    grants: Iterable[ScopedRole] | None = None,
    active: bool | None = None,
    reason: str = "",
) -> None:
    """Several changes of one user at once: all or none. What is ``None`` stays as it is."""
    with transaction.atomic():
        if grants is not None:
            change_grants(actor, user, grants, reason)
        if active is True:
            reactivate_user(actor, user, reason)
        elif active is False:
            deactivate_user(actor, user, reason)


def reset_password(actor: Actor, user: User, reason: str = "") -> str:
    """A new generated password, returned this once, which they must change; every session and token of the user ends.

    Whoever has to be given a new password may have lost the old one to somebody who made tokens with it.
    """
    _require_a_person(actor)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        fresh = _locked(user)
        password = _generated_password()
        fresh.set_password(password)
        fresh.must_change_password = True
        fresh.session_epoch += 1
        fresh.save(update_fields=["password", "must_change_password", "session_epoch"])
        after = {"keys_revoked": _revoke_tokens(fresh)}
        record(actor, "user.password.reset", Subject("user", "", fresh.username), reason=reason, after=after)
    return password


def ensure_first_admin() -> str | None:
    """On an installation without any user, make ``admin`` and return the password to print once; else ``None``.

    Safe when two processes start at once: one of them makes it.
    """
    if User.objects.exists():
        return None
    password = _generated_password()
    user = User(username=FIRST_ADMIN)
    user.set_password(password)
    try:
        with transaction.atomic():
            if User.objects.exists():
                return None
            user.save(force_insert=True)
            _write_grants(user, (_ADMIN,))
            record(SYSTEM, "user.create", Subject("user", "", FIRST_ADMIN), reason="first start", after=_evidence(user))
    except IntegrityError:
        return None
    return password


def _require_a_person(actor: Actor) -> None:
    """Whoever found a token must not live on in an account that they made, opened or gave rights to with it."""
    require(actor, ACCESS_MANAGE)
    if actor.kind == "token":
        raise Forbidden(
            "Only a person can add users, open accounts, or give roles or a new password.",
            remedy="Sign in to the console, or send its session and CSRF token.",
            action=ACCESS_MANAGE,
        )


def _checked(grants: Iterable[ScopedRole]) -> tuple[ScopedRole, ...]:
    """Valid scopes, each once, in a settled order."""
    wanted = [ScopedRole(grant.role, valid_scope(grant.scope)) for grant in grants]
    scopes = [grant.scope for grant in wanted]
    for scope in scopes:
        if scopes.count(scope) > 1:
            raise BadInput(
                f"Two roles for {scope}.", remedy="Give the stronger one; it includes the other.", field="scope"
            )
    return tuple(sorted(wanted, key=lambda grant: (-grant.role.rank, grant.scope)))


def _write_grants(user: User, wanted: Iterable[ScopedRole]) -> None:
    Grant.objects.bulk_create(Grant(user=user, role=grant.role.value, scope=grant.scope) for grant in wanted)


def _locked(user: User) -> User:
    """The row as it is now, locked together with every admin's, so that two admins cannot remove each other at once."""
    admins = Grant.objects.filter(role=Role.ADMIN, scope=GLOBAL).values_list("user_id", flat=True)
    rows = User.objects.select_for_update().filter(pk__in=[*admins, user.pk]).order_by("pk")
    return next(row for row in rows if row.pk == user.pk)


def _revoke_tokens(user: User) -> int:
    """End every token of ``user`` for good; returns how many there were."""
    living = ApiToken.objects.filter(user=user, revoked_at__isnull=True)
    return living.update(revoked_at=to_datetime(SystemClock().now_ms()))


def _keep_an_admin(actor: Actor, user: User, act: str) -> None:
    if actor.user_id == user.pk:
        raise BadInput(f"You cannot {act} yourself.", remedy="Ask another admin to do it.", field="username")
    is_admin = user.is_active and user.grants.filter(role=Role.ADMIN, scope=GLOBAL).exists()
    others = Grant.objects.filter(role=Role.ADMIN, scope=GLOBAL, user__is_active=True).exclude(user=user)
    if is_admin and not others.exists():
        raise BadInput(
            f"You cannot {act} {user.username}: nobody could manage access any more.",
            remedy="Make another user admin on * first.",
            field="username",
        )


def _generated_password() -> str:
    """Four groups that can be read over the phone; 95 bits of chance."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(5)) for _ in range(4))


def _evidence(user: User) -> dict[str, Any]:
    """What an audit entry says about a user."""
    grants = sorted(user.grants.all(), key=lambda grant: grant.scope)
    return {
        "email": user.email,
        "active": user.is_active,
        "roles": {grant.scope: grant.role for grant in grants},
    }
