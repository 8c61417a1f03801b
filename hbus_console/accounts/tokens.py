"""API tokens: made once, shown once, stored as a hash, never stronger than their maker."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, allows, contains, require
from hbus_console.access.scopes import valid_scope
from hbus_console.accounts.feature import ACCESS_MANAGE, TOKEN_OWN
from hbus_console.accounts.models import ApiToken
from hbus_console.audit.already import already
from hbus_console.audit.services import record

LONGEST_LIFE = timedelta(days=365)
#: ``last_used_at`` is written at most this often.
USE_NOTED_EVERY = timedelta(minutes=1)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:-]{0,47}")
_RAW = re.compile(r"hbus_([0-9a-f]{10})_([A-Za-z0-9_-]{43})")
#: What an unknown prefix is compared with, so that it takes as long as a known one.
_NOBODY = hashlib.sha256(b"").hexdigest()
_clock = SystemClock()


@dataclass(frozen=True)
class NewToken:
    """A token just made. ``raw`` is the only copy of the secret there will ever be."""

    token: ApiToken
    raw: str


def create_token(
    actor: Actor, name: str, role: Role, scope: str, expires_at: datetime, *, clock: Clock = _clock
) -> NewToken:
    """A token for a program of ``actor``'s. Raises ``BadInput`` (name, role, scope, expires_at) or ``Forbidden``.

    A token cannot make tokens: one that leaked would live on in its children.
    """
    require(actor, TOKEN_OWN)
    if actor.kind != "user" or actor.user_id is None:
        raise Forbidden("Only a person can make a token.", remedy="Sign in to the console.", action=TOKEN_OWN)
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} is not a name for a token.",
            remedy="Take 1 to 48 letters, digits, blanks or . _ : - and begin with a letter or digit.",
            field="name",
        )
    scope = valid_scope(scope)
    if not any(grant.role.rank >= role.rank and contains(grant.scope, scope) for grant in actor.grants):
        has = ", ".join(f"{grant.role.value} on {grant.scope}" for grant in actor.grants)
        raise BadInput(
            f"A token cannot be {role.value} on {scope}: it would be stronger than you are.",
            remedy=f"You are {has}.",
            field="role",
        )
    now = to_datetime(clock.now_ms())
    _refuse_too_many(actor.user_id, now)
    if expires_at.tzinfo is None or not now < expires_at <= now + LONGEST_LIFE:
        raise BadInput(
            "The token must expire in the future, within a year.",
            remedy=f"Choose a day up to {(now + LONGEST_LIFE).date().isoformat()}.",
            field="expires_at",
        )
    prefix = secrets.token_hex(5)
    raw = f"hbus_{prefix}_{secrets.token_urlsafe(32)}"
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                user_id=actor.user_id,
                name=name,
                prefix=prefix,
                digest=_digest(raw),
                role=role.value,
                scope=scope,
                expires_at=expires_at,
            )
            record(actor, "token.create", Subject("token", "", label(actor.name, token)), after=evidence(token))
    except IntegrityError:
        raise BadInput(
            f"You have a token named {name!r} already.", remedy="Revoke it first, or take another name.", field="name"
        ) from None
    return NewToken(token, raw)


def _refuse_too_many(user_id: int, now: datetime) -> None:
    """Each is a name under which something can be asked for and be found in every list."""
    most = settings.HBUS_TOKENS_PER_PERSON
    living = ApiToken.objects.filter(user_id=user_id, revoked_at__isnull=True, expires_at__gt=now).count()
    if living >= most:
        raise BadInput(
            f"You have {living} tokens, as many as a person may.",
            remedy="Revoke one that is not used any more, or raise HBUS_TOKENS_PER_PERSON.",
            field="name",
        )


def revoke_token(actor: Actor, token: ApiToken, reason: str = "", *, clock: Clock = _clock) -> None:
    """End a token at once: one's own, or anybody's for an admin; by a token itself alone, unless it is an admin's.
    Revoking twice does nothing.
    """
    if not (is_own(actor, token) and allows(actor, TOKEN_OWN)):
        require(actor, ACCESS_MANAGE)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        fresh = ApiToken.objects.select_for_update().select_related("user").get(pk=token.pk)
        if fresh.revoked_at is not None:
            subject = Subject("token", "", label(fresh.user.username, fresh))
            already(subject, "is revoked", "token.revoke", reason=reason)
            return
        before = evidence(fresh)
        fresh.revoked_at = to_datetime(clock.now_ms())
        fresh.save(update_fields=["revoked_at"])
        record(
            actor,
            "token.revoke",
            Subject("token", "", label(fresh.user.username, fresh)),
            reason=reason,
            before=before,
            after=evidence(fresh),
        )
    token.revoked_at = fresh.revoked_at


def own_tokens(actor: Actor) -> Q:
    """A person's tokens; of a token itself alone: the narrowest must not see, or end, what its maker's others do."""
    return Q(user_id=actor.user_id) if actor.token_id is None else Q(pk=actor.token_id)


def is_own(actor: Actor, token: ApiToken) -> bool:
    return token.pk == actor.token_id if actor.token_id is not None else token.user_id == actor.user_id


def authenticate_token(raw: str, *, clock: Clock = _clock) -> ApiToken | None:
    """The living token with this secret, its user loaded; ``None`` when unknown, expired, revoked or its maker gone.

    The secret is compared in constant time, and an unknown prefix costs the same as a wrong secret.
    """
    parts = _RAW.fullmatch(raw)
    token = ApiToken.objects.select_related("user").filter(prefix=parts[1]).first() if parts else None
    same = hmac.compare_digest(token.digest if token else _NOBODY, _digest(raw))
    now = to_datetime(clock.now_ms())
    if token is None or not same or not is_live(token, now) or not token.user.is_active:
        return None
    if token.last_used_at is None or token.last_used_at <= now - USE_NOTED_EVERY:
        # Conditional, so that of many requests at once one writes.
        old = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - USE_NOTED_EVERY)
        ApiToken.objects.filter(old, pk=token.pk).update(last_used_at=now)
        token.last_used_at = now
    return token


def is_live(token: ApiToken, now: datetime) -> bool:
    """Whether the token itself is neither revoked nor expired."""
    return token.revoked_at is None and now < token.expires_at


def label(username: str, token: ApiToken) -> str:
    """How the token acts and is named in the audit log."""
    return f"{username}/{token.name}"


def evidence(token: ApiToken) -> dict[str, object]:
    """What an audit entry says about a token; never the secret or its hash."""
    return {
        "prefix": token.prefix,
        "role": token.role,
        "scope": token.scope,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }


def _digest(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
