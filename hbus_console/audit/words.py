"""Actions as sentences: who — "paused" — booking.created."""

from __future__ import annotations

from functools import cache

from hbus_console.audit.models import CAME_TO_NOTHING, FOUND_DONE, OUTCOME_UNKNOWN, REFUSED, AuditEntry
from hbus_console.registry.acts import acts
from hbus_console.registry.loading import features
from hbus_console.registry.names import AUDIT_WORDS

#: Kinds of actors that are a person: signed in to the console, or at a shell of the machine.
PERSONS = ("user", "shell")
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
_WENT_WRONG = (REFUSED, CAME_TO_NOTHING, OUTCOME_UNKNOWN)
#: How the outcome of a decision begins that was told after it; what was decided follows.
_OUTCOMES = {
    CAME_TO_NOTHING: "did not do it",
    OUTCOME_UNKNOWN: "got no answer, so nobody knows whether it was done",
    FOUND_DONE: "found it done",
}
#: How an entry begins that was written before its act, where a later one tells that outcome of it.
_ATTEMPTS = {
    CAME_TO_NOTHING: "tried, and nothing came of it",
    OUTCOME_UNKNOWN: "tried, and got no answer",
}


def did(entry: AuditEntry, action: str = "") -> str:
    """What was done, to stand between actor and target. ``action``: what it came to, where a later entry says so: then
    this one tells of the attempt, and that one of the outcome.
    """
    said = next((said for ending, said in _ATTEMPTS.items() if action.endswith(ending)), "")
    return f"{said}: {_did(entry.action, entry)}" if said else _did(entry.action, entry)


def _did(action: str, entry: AuditEntry) -> str:
    if action in (declared := _declared()):
        return declared[action]
    if action.endswith(REFUSED):
        return f"was not allowed to {_wanted(action.removesuffix('.refused'))}" + (" on" if names_target(entry) else "")
    for ending, said in _OUTCOMES.items():
        if action.endswith(ending):
            return f"{said}: {_did(action.removesuffix(ending), entry)}"
    family, _, last = action.rpartition(".")
    if last not in _PAST:
        return _spaced(action)
    return f"{_PAST[last]} the {_spaced(family)}" + ("" if family == entry.target_type else " of")


def names_target(entry: AuditEntry) -> bool:
    """Whether the sentence needs its target named."""
    if entry.target_type == "installation":
        return False
    return entry.action not in _OF_ONESELF or entry.target != entry.actor


def where(entry: AuditEntry) -> str:
    """The namespace, when the target does not say it itself."""
    return "" if entry.namespace in entry.target else entry.namespace


def tone(entry: AuditEntry, action: str = "") -> str:
    """Violet for what a person did, amber for what was refused or failed, neutral for programs and hbus itself."""
    if (action or entry.action).endswith(_WENT_WRONG):
        return "warn"
    return "act" if entry.actor_kind in PERSONS else "neutral"


@cache
def _declared() -> dict[str, str]:
    return AUDIT_WORDS.by_name(features())


def _wanted(action: str) -> str:
    known = acts().get(action)
    return known.words if known else _spaced(action)


def _spaced(words: str) -> str:
    return words.replace(".", " ").replace("_", " ")
