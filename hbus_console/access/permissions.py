"""One function decides what anybody may do: page, endpoint, template and stream all call :func:`allows`."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import HbusError
from hbus_console.access.acts import VIEW, Act, Role

#: The resource of what lies outside every namespace: the installation itself, or a list that is filtered by scope.
GLOBAL = "*"
#: The resource "at least one namespace": for a button or a form whose namespace is still to be chosen.
SOMEWHERE = "?"


class Forbidden(HbusError):
    """The actor may not do this. ``action`` and ``resource`` say what was refused, when :func:`require` refused it."""

    title = "Not allowed"

    def __init__(
        self,
        what: str,
        *,
        remedy: str = "",
        field: str = "",
        action: Act | None = None,
        resource: str = GLOBAL,
    ) -> None:
        super().__init__(what, remedy=remedy, field=field)
        self.action = action
        self.resource = resource


@dataclass(frozen=True)
class ScopedRole:
    """A role inside a namespace."""

    role: Role
    scope: str

    def covers(self, resource: str) -> bool:
        return covers(self.scope, resource)


def covers(scope: str, resource: str) -> bool:
    """Whether ``scope`` (``*``, ``booking.*`` or an exact name) contains the namespace ``resource``."""
    if scope == GLOBAL:
        return True
    if resource in ("", GLOBAL, SOMEWHERE):
        return False
    if scope.endswith(".*"):
        return resource == scope[:-2] or resource.startswith(scope[:-1])
    return resource == scope


@dataclass(frozen=True)
class Actor:
    """Who is acting: a person, a token of a person, or the system itself."""

    name: str
    kind: str = "user"
    user_id: int | None = None
    grants: tuple[ScopedRole, ...] = ()
    #: A token's ceiling; ``None`` for people.
    limit: ScopedRole | None = None
    #: Somebody else knows the password: no page, stream or endpoint opens before it is changed.
    must_change_password: bool = False
    #: Which token it is; ``None`` for people.
    token_id: int | None = None
    #: The count of the account's resets under which it signed in; ``None`` for who has no account.
    session_epoch: int | None = None

    @property
    def is_authenticated(self) -> bool:
        return self.kind != "anonymous"


ANONYMOUS = Actor(name="anonymous", kind="anonymous")
#: hbus itself: background duties and first-start set-up.
SYSTEM = Actor(name="system", kind="system", grants=(ScopedRole(Role.ADMIN, GLOBAL),))


def allows(actor: Actor, action: Act, resource: str = GLOBAL) -> bool:
    """Whether ``actor`` may do ``action`` in the namespace ``resource``, to the installation, or :data:`SOMEWHERE`."""
    if resource == SOMEWHERE:
        return bool(visible_scopes(actor, action))
    if actor.limit is not None and not _grant_allows(actor.limit, action, resource):
        return False
    return any(_grant_allows(grant, action, resource) for grant in actor.grants)


def account_allows(actor: Actor, action: Act, resource: str) -> bool:
    """Whether the account may, whatever its token may: to ask what somebody must *not* be able to do."""
    return any(_grant_allows(grant, action, resource) for grant in actor.grants)


def require(actor: Actor, action: Act, resource: str = GLOBAL) -> None:
    """Raise :class:`Forbidden` unless :func:`allows`."""
    if not allows(actor, action, resource):
        anywhere = f" on any {action.about}" if action.about else " anywhere"
        where = {GLOBAL: "", SOMEWHERE: anywhere}.get(resource, f" on {resource}")
        scope = f" on {GLOBAL}" if resource == GLOBAL and action.governed else where
        raise Forbidden(
            f"{actor.name} may not {action.words}{where}.",
            remedy=f"It takes the role {action.needs.value}{scope}; an admin can grant it under Access.",
            action=action,
            resource=resource,
        )


def visible_scopes(actor: Actor, action: Act = VIEW) -> tuple[str, ...]:
    """The scopes in which ``actor`` may do ``action``: what lists and streams are filtered by. Empty: nowhere."""
    scopes = [grant.scope for grant in actor.grants if grant.role.rank >= action.needs.rank]
    if actor.limit is not None:
        if actor.limit.role.rank < action.needs.rank:
            return ()
        shared = (narrower(scope, actor.limit.scope) for scope in scopes)
        scopes = [scope for scope in shared if scope is not None]
    return tuple(dict.fromkeys(scopes))


def effective(actor: Actor) -> tuple[ScopedRole, ...]:
    """What ``actor`` may be where: the grants, each under the ceiling of a token."""
    if actor.limit is None:
        return actor.grants
    shared = ((grant.role, narrower(grant.scope, actor.limit.scope)) for grant in actor.grants)
    most = actor.limit.role
    return tuple(ScopedRole(min(role, most, key=lambda each: each.rank), scope) for role, scope in shared if scope)


def narrower(one: str, other: str) -> str | None:
    """What two scopes share; ``None`` when they share nothing."""
    if contains(one, other):
        return other
    return one if contains(other, one) else None


def contains(outer: str, inner: str) -> bool:
    """Whether every namespace of the scope ``inner`` lies in the scope ``outer``."""
    if outer in (GLOBAL, inner):
        return True
    return inner != GLOBAL and outer.endswith(".*") and covers(outer, inner.removesuffix(".*"))


def _grant_allows(grant: ScopedRole, action: Act, resource: str) -> bool:
    if grant.role.rank < action.needs.rank:
        return False
    if resource == GLOBAL:
        return grant.scope == GLOBAL or action.reading
    return grant.covers(resource)
