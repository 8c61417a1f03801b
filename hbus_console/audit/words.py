"""Actions as sentences: who — "paused" — booking.created."""

from __future__ import annotations

from hbus_console.audit.models import AuditEntry
from hbus_console.registry.loading import acts

#: Kinds of actors that are a person: signed in to the console, or at a shell of the machine.
PERSONS = ("user", "shell")
_DID = {
    "session.login": "signed in",
    "session.login.refused": "failed to sign in as",
    "session.logout": "signed out",
    "session.password.change": "changed their own password",
    "token.create": "made the token",
    "token.revoke": "revoked the token",
    "user.create": "added the user",
    "user.grants.change": "changed the roles of",
    "user.deactivate": "deactivated",
    "user.reactivate": "reactivated",
    "user.password.reset": "reset the password of",
    "audit.export": "exported the",
    "payload.reveal": "revealed masked fields of",
    "payload.read": "read the payload of",
    "schema.add": "added a schema to",
    "dead_letter.redrive": "redrove the dead letter",
    "dead_letter.discard": "discarded the dead letter",
    "dead_letter.edit": "edited and redrove the dead letter",
    "message.publish": "published",
    "message.publish.failed": "could not publish",
    "import.start": "started an import into",
    "import.finish": "finished an import into",
    "outbox.retry": "offered refused messages again to",
    "subscription.declare": "took over from code the subscription",
    "subscription.follow_code": "handed back to code the subscription",
    "subscription.unpark_retry": "unparked a key of the subscription",
    "subscription.unpark_skip": "skipped the head of a parked key of the subscription",
    "subscription.unpark_dead": "buried the head of a parked key of the subscription",
    "subscription.breaker_open": "opened the breaker of the subscription",
    "subscription.breaker_close": "closed the breaker of the subscription",
    "subscription.rotate_secret": "gave a new secret to the subscription",
    "example.start": "started the example",
    "alert.acknowledge": "acknowledged the alert",
    "alert.silence": "silenced the alert",
    "alert.silence.end": "ended a silence on",
    "alert_rule.test": "test-fired the alert rule",
    "alert_channel.test": "sent a test through the alert channel",
    "alert_channel.rotate_secret": "gave a new secret to the alert channel",
}
#: The last part of an action -> what was done, for every action without words of its own.
_PAST = {
    "add": "added",
    "create": "created",
    "change": "changed",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "drain": "drained",
    "cancel": "cancelled",
    "end": "ended",
    "fail": "gave up",
    "start": "started",
    "stop": "stopped",
}
#: Acts of a person upon themselves: naming the target would say the name twice.
_OF_ONESELF = {"session.login", "session.logout", "session.password.change"}
_WENT_WRONG = (".refused", ".failed")


def did(entry: AuditEntry) -> str:
    """What was done, to stand between actor and target."""
    action = entry.action
    if action in _DID:
        return _DID[action]
    if action.endswith(".refused"):
        return f"was not allowed to {_wanted(action.removesuffix('.refused'))}" + (" on" if names_target(entry) else "")
    family, _, last = action.rpartition(".")
    if last not in _PAST:
        return _spaced(action)
    if family == "topic":
        return _PAST[last]
    return f"{_PAST[last]} the {_spaced(family)}" + ("" if family == entry.target_type else " of")


def names_target(entry: AuditEntry) -> bool:
    """Whether the sentence needs its target named."""
    if entry.target_type == "installation":
        return False
    return entry.action not in _OF_ONESELF or entry.target != entry.actor


def where(entry: AuditEntry) -> str:
    """The namespace, when the target does not say it itself."""
    return "" if entry.namespace in entry.target else entry.namespace


def tone(entry: AuditEntry) -> str:
    """Violet for what a person did, amber for what was refused or failed, neutral for programs and hbus itself."""
    if entry.action.endswith(_WENT_WRONG):
        return "warn"
    return "act" if entry.actor_kind in PERSONS else "neutral"


def _wanted(action: str) -> str:
    known = acts().get(action)
    return known.words if known else _spaced(action)


def _spaced(words: str) -> str:
    return words.replace(".", " ").replace("_", " ")
