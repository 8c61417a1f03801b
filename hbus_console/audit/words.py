"""Actions as sentences: ``topic.pause`` reads "paused"."""

from __future__ import annotations

from hbus_console.audit.models import AuditEntry

#: Kinds of actors that are a person: signed in to the console, or at a shell of the machine.
PERSONS = ("user", "shell")
_DID = {
    "session.login": "signed in",
    "session.logout": "signed out",
    "session.password.change": "changed their own password",
    "token.create": "made the token",
    "token.revoke": "revoked the token",
    "user.create": "added the user",
    "user.grants.change": "changed the roles of",
    "user.deactivate": "deactivated",
    "user.reactivate": "reactivated",
    "user.password.reset": "reset the password of",
    "audit.export": "exported",
    "payload.reveal": "revealed masked fields of",
    "payload.read": "read the payload of",
    "schema.add": "added a schema to",
    "dead_letter.redrive": "redrove a dead letter of",
    "dead_letter.discard": "discarded a dead letter of",
}
#: The last part of an action -> what was done, for every action without words of its own.
_PAST = {
    "create": "created",
    "change": "changed",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "drain": "drained",
    "publish": "published to",
    "redrive": "redrove",
    "discard": "discarded",
    "reveal": "revealed",
    "start": "started",
    "stop": "stopped",
    "import": "imported into",
}
#: Acts of a person upon themselves: naming the target would say the name twice.
_OF_ONESELF = {"session.login", "session.logout", "session.password.change"}


def did(entry: AuditEntry) -> str:
    """What was done, to stand between actor and target."""
    action = entry.action
    if action == "session.login.refused":
        return "failed to sign in as"
    if action.endswith(".refused"):
        return f"was refused {action.removesuffix('.refused').replace('.', ' ').replace('_', ' ')} on"
    if action in _DID:
        return _DID[action]
    family, _, last = action.rpartition(".")
    if last in _PAST:
        noun = family.replace(".", " ").replace("_", " ")
        if family == "topic" or last == "publish":
            return _PAST[last]
        return f"{_PAST[last]} the {noun}" + ("" if family == entry.target_type else " of")
    return action.replace(".", " ").replace("_", " ")


def names_target(entry: AuditEntry) -> bool:
    """Whether the sentence needs its target named."""
    return entry.action not in _OF_ONESELF or entry.target != entry.actor


def tone(entry: AuditEntry) -> str:
    """Violet for what a person did, amber for what was refused, neutral for programs and hbus itself."""
    if entry.action.endswith(".refused"):
        return "warn"
    return "act" if entry.actor_kind in PERSONS else "neutral"
