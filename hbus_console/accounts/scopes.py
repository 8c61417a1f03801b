"""Scopes as people type them, and as filters on lists."""

from __future__ import annotations

import re

from django.db.models import Q

from engine.core.errors import BadInput
from hbus_console.accounts.permissions import GLOBAL, Action, Actor, Role, visible_scopes

_SCOPE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?")


def valid_scope(text: str, *, field: str = "scope") -> str:
    """``text`` when it is ``*``, a namespace such as ``booking.*``, or one topic's name; else ``BadInput``."""
    scope = text.strip()
    if scope != GLOBAL and (len(scope) > 200 or not _SCOPE.fullmatch(scope)):
        raise BadInput(
            f"{text!r} is not a scope.",
            remedy="Write * for every topic, booking.* for a namespace, or one topic's name.",
            field=field,
        )
    return scope


def valid_role(text: str, *, field: str = "role") -> Role:
    """The role named ``text``, or ``BadInput``."""
    try:
        return Role(text.strip())
    except ValueError:
        names = ", ".join(role.value for role in Role)
        raise BadInput(f"{text!r} is not a role.", remedy=f"Choose one of {names}.", field=field) from None


def topics_q(actor: Actor, field: str = "topic", action: Action = Action.VIEW) -> Q:
    """The filter that leaves, in the column ``field``, the topics on which ``actor`` may do ``action``."""
    return scopes_q(visible_scopes(actor, action), field)


def scopes_q(scopes: tuple[str, ...], field: str = "topic") -> Q:
    """The filter for rows whose column ``field`` lies in one of ``scopes``; no scope, no rows."""
    if GLOBAL in scopes:
        return Q()
    chosen = Q(pk__in=[])
    for scope in scopes:
        if scope.endswith(".*"):
            # A regular expression, because LIKE does not tell upper from lower case on SQLite.
            chosen |= Q(**{f"{field}__regex": rf"^{re.escape(scope.removesuffix('.*'))}(\.|$)"})
        else:
            chosen |= Q(**{field: scope})
    return chosen
