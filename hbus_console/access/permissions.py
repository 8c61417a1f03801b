"""One function decides what anybody may do: page, endpoint, template and stream all call :func:`allows`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.core.errors import HbusError


class Role(StrEnum):
    """Each role may do all that the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    GOVERNOR = "governor"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


class Action(StrEnum):
    """What can be done, named after the thing it is done to."""

    VIEW = "view"
    PAYLOAD_READ = "payload.read"
    PUBLISH = "publish"
    TOPIC_PAUSE = "topic.pause"
    SUBSCRIPTION_OPERATE = "subscription.operate"
    DEAD_LETTER_REDRIVE = "dead_letter.redrive"
    DEAD_LETTER_DISCARD = "dead_letter.discard"
    DEAD_LETTER_EDIT = "dead_letter.edit"
    REPLAY = "message.replay"
    TOPIC_EDIT = "topic.edit"
    SCHEMA_EDIT = "schema.edit"
    SUBSCRIPTION_EDIT = "subscription.edit"
    ALERT_OPERATE = "alert.operate"
    ALERT_EDIT = "alert.edit"
    ALERT_CHANNEL = "alert.channel"
    TOPIC_GOVERN = "topic.govern"
    PAYLOAD_REVEAL = "payload.reveal"
    AUDIT_READ = "audit.read"
    AUDIT_EXPORT = "audit.export"
    TOPIC_DELETE = "topic.delete"
    TEAM_EDIT = "team.edit"
    CLUSTER_VIEW = "cluster.view"
    CLUSTER_OPERATE = "cluster.operate"
    ACCESS_MANAGE = "access.manage"
    #: One's own API tokens; a token can never be stronger than its maker.
    TOKEN_OWN = "token.own"  # noqa: S105 - the name of an action


#: The least role that may do it.
NEEDS: dict[Action, Role] = {
    Action.VIEW: Role.VIEWER,
    Action.PAYLOAD_READ: Role.VIEWER,
    Action.CLUSTER_VIEW: Role.VIEWER,
    Action.TOKEN_OWN: Role.VIEWER,
    Action.PUBLISH: Role.OPERATOR,
    Action.TOPIC_PAUSE: Role.OPERATOR,
    Action.SUBSCRIPTION_OPERATE: Role.OPERATOR,
    Action.DEAD_LETTER_REDRIVE: Role.OPERATOR,
    Action.DEAD_LETTER_DISCARD: Role.OPERATOR,
    Action.AUDIT_READ: Role.OPERATOR,
    Action.ALERT_OPERATE: Role.OPERATOR,
    Action.DEAD_LETTER_EDIT: Role.EDITOR,
    Action.REPLAY: Role.EDITOR,
    Action.TOPIC_EDIT: Role.EDITOR,
    Action.SCHEMA_EDIT: Role.EDITOR,
    Action.SUBSCRIPTION_EDIT: Role.EDITOR,
    Action.ALERT_EDIT: Role.EDITOR,
    Action.TOPIC_GOVERN: Role.GOVERNOR,
    Action.ALERT_CHANNEL: Role.GOVERNOR,
    Action.PAYLOAD_REVEAL: Role.GOVERNOR,
    Action.AUDIT_EXPORT: Role.GOVERNOR,
    Action.TOPIC_DELETE: Role.GOVERNOR,
    Action.TEAM_EDIT: Role.GOVERNOR,
    Action.CLUSTER_OPERATE: Role.ADMIN,
    Action.ACCESS_MANAGE: Role.ADMIN,
}

#: The resource of what lies outside every namespace: the installation itself, or a list that is filtered by scope.
GLOBAL = "*"
#: The resource "at least one topic": for a button or a form whose topic is still to be chosen.
SOMEWHERE = "?"
#: How an action reads in a sentence: "anna may not …".
WORDS: dict[Action, str] = {
    Action.VIEW: "look at this",
    Action.PAYLOAD_READ: "read payloads",
    Action.PUBLISH: "publish messages",
    Action.TOPIC_PAUSE: "pause or resume topics",
    Action.SUBSCRIPTION_OPERATE: "pause, resume or drain subscriptions",
    Action.DEAD_LETTER_REDRIVE: "redrive dead letters",
    Action.DEAD_LETTER_DISCARD: "discard dead letters",
    Action.DEAD_LETTER_EDIT: "edit dead letters",
    Action.REPLAY: "replay messages",
    Action.TOPIC_EDIT: "edit topics",
    Action.SCHEMA_EDIT: "add schemas",
    Action.SUBSCRIPTION_EDIT: "edit subscriptions",
    Action.ALERT_OPERATE: "acknowledge or silence alerts",
    Action.ALERT_EDIT: "edit alert rules",
    Action.ALERT_CHANNEL: "edit the channels of alerts",
    Action.TOPIC_GOVERN: "govern topics",
    Action.PAYLOAD_REVEAL: "reveal masked fields",
    Action.AUDIT_READ: "read the audit log",
    Action.AUDIT_EXPORT: "export the audit log",
    Action.TOPIC_DELETE: "delete topics",
    Action.TEAM_EDIT: "edit teams",
    Action.CLUSTER_VIEW: "look at the cluster",
    Action.CLUSTER_OPERATE: "operate the cluster",
    Action.ACCESS_MANAGE: "manage users, roles and other people's tokens",
    Action.TOKEN_OWN: "have API tokens",
}

#: Reading that any scope of the needed role opens, because what is shown is then filtered by :func:`visible_scopes`.
#: Every other action on :data:`GLOBAL` takes a grant for ``*``, so that a forgotten resource refuses.
_FILTERED_READING = {Action.VIEW, Action.PAYLOAD_READ, Action.CLUSTER_VIEW, Action.AUDIT_READ, Action.TOKEN_OWN}
#: Acts whose refusal is worth an audit entry; being refused a page is not.
GOVERNED = frozenset(Action) - _FILTERED_READING


class Forbidden(HbusError):
    """The actor may not do this. ``action`` and ``resource`` say what was refused, when :func:`require` refused it."""

    def __init__(
        self,
        what: str,
        *,
        remedy: str = "",
        field: str = "",
        action: Action | None = None,
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
    """Whether ``scope`` (``*``, ``booking.*`` or an exact name) contains the topic ``resource``."""
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

    @property
    def is_authenticated(self) -> bool:
        return self.kind != "anonymous"


ANONYMOUS = Actor(name="anonymous", kind="anonymous")
#: hbus itself: background duties and first-start set-up.
SYSTEM = Actor(name="system", kind="system", grants=(ScopedRole(Role.ADMIN, GLOBAL),))


def allows(actor: Actor, action: Action, resource: str = GLOBAL) -> bool:
    """Whether ``actor`` may do ``action`` to the topic ``resource``, to the installation, or :data:`SOMEWHERE`."""
    if resource == SOMEWHERE:
        return bool(visible_scopes(actor, action))
    if actor.limit is not None and not _grant_allows(actor.limit, action, resource):
        return False
    return any(_grant_allows(grant, action, resource) for grant in actor.grants)


def require(actor: Actor, action: Action, resource: str = GLOBAL) -> None:
    """Raise :class:`Forbidden` unless :func:`allows`."""
    if not allows(actor, action, resource):
        where = {GLOBAL: "", SOMEWHERE: " on any topic"}.get(resource, f" on {resource}")
        scope = f" on {GLOBAL}" if resource == GLOBAL and action in GOVERNED else where
        raise Forbidden(
            f"{actor.name} may not {WORDS[action]}{where}.",
            remedy=f"It takes the role {NEEDS[action].value}{scope}; an admin can grant it under Access.",
            action=action,
            resource=resource,
        )


def visible_scopes(actor: Actor, action: Action = Action.VIEW) -> tuple[str, ...]:
    """The scopes in which ``actor`` may do ``action``: what lists and streams are filtered by. Empty: nowhere."""
    scopes = [grant.scope for grant in actor.grants if grant.role.rank >= NEEDS[action].rank]
    if actor.limit is not None:
        if actor.limit.role.rank < NEEDS[action].rank:
            return ()
        shared = (narrower(scope, actor.limit.scope) for scope in scopes)
        scopes = [scope for scope in shared if scope is not None]
    return tuple(dict.fromkeys(scopes))


def narrower(one: str, other: str) -> str | None:
    """What two scopes share; ``None`` when they share nothing."""
    if contains(one, other):
        return other
    return one if contains(other, one) else None


def contains(outer: str, inner: str) -> bool:
    """Whether every topic of the scope ``inner`` lies in the scope ``outer``."""
    if outer in (GLOBAL, inner):
        return True
    return inner != GLOBAL and outer.endswith(".*") and covers(outer, inner.removesuffix(".*"))


def _grant_allows(grant: ScopedRole, action: Action, resource: str) -> bool:
    if grant.role.rank < NEEDS[action].rank:
        return False
    if resource == GLOBAL:
        return grant.scope == GLOBAL or action in _FILTERED_READING
    return grant.covers(resource)
