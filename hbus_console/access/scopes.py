"""Scopes as people type them, and as filters on lists."""

from __future__ import annotations

import re

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Lookup, Q
from django.db.models.sql.compiler import SQLCompiler

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW, Act, Role
from hbus_console.access.permissions import GLOBAL, Actor, visible_scopes

Sql = tuple[str, tuple[str | int, ...]]
_SCOPE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?")


def valid_scope(text: str, *, field: str = "scope") -> str:
    """``text`` when it is ``*``, a namespace such as ``booking.*``, or one exact name; else ``BadInput``."""
    scope = text.strip()
    if scope != GLOBAL and (len(scope) > 200 or not _SCOPE.fullmatch(scope)):
        raise BadInput(
            f"{text!r} is not a scope.",
            remedy="Write * for everything, booking.* for a namespace, or one exact name.",
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


def namespace_q(actor: Actor, field: str, action: Act = VIEW) -> Q:
    """The filter that leaves, in the column ``field``, the namespaces in which ``actor`` may do ``action``."""
    return scopes_q(visible_scopes(actor, action), field)


def scopes_q(scopes: tuple[str, ...], field: str) -> Q:
    """The filter for rows whose column ``field`` lies in one of ``scopes``; no scope, no rows."""
    if GLOBAL in scopes:
        return Q()
    chosen = Q(pk__in=[])
    for scope in scopes:
        if scope.endswith(".*"):
            chosen |= Q(**{f"{field}__in_namespace": scope.removesuffix(".*")})
        else:
            chosen |= Q(**{field: scope})
    return chosen


@CharField.register_lookup
class InNamespace(Lookup):
    """``namespace__in_namespace="booking"``: it and every ``booking.…``; a plain comparison, no pattern."""

    lookup_name = "in_namespace"

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Sql:
        sql, parameters = self.process_lhs(compiler, connection)
        pattern = connection.ops.prep_for_like_query(f"{self.rhs}.") + "%"
        return f"({sql} = %s OR {sql} LIKE %s)", (*parameters, str(self.rhs), *parameters, pattern)

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Sql:
        # LIKE does not tell upper from lower case here; a range does ("/" follows "."), and an index serves it.
        sql, parameters = self.process_lhs(compiler, connection)
        values = (*parameters, str(self.rhs), *parameters, f"{self.rhs}.", *parameters, f"{self.rhs}/")
        return f"({sql} = %s OR ({sql} >= %s AND {sql} < %s))", values
