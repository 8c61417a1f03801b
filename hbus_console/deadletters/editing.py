"""The payload of a dead letter under a person's hands: what is masked comes back as it was unless they may see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.bus import message as envelope
from engine.bus.building import json_data
from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_typed
from hbus_console.access.permissions import Actor, require
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.schemas.checking import Place, check_of
from hbus_console.schemas.models import SchemaVersion
from hbus_console.topics.masking import mask, masked, outermost, stand_in_places
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules, shown, unreadable
from hbus_console.ui.control_characters import json_to_send

#: The longest payload that the form takes, in characters of JSON.
LONGEST = 200_000


@dataclass(frozen=True)
class Draft:
    """What the form begins with; with an ``obstacle`` the letter cannot be edited."""

    text: str
    masked: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True)
class Edited:
    """What a person wrote, and what is to be published for it."""

    written: Any
    #: ``written`` with the stored values where it holds their stand-ins.
    payload: Any
    #: Where these stand.
    stand_ins: tuple[Place, ...]


def draft(letter: DeadLetter) -> Draft:
    """The payload as the form shows it."""
    try:
        message = envelope.decode(bytes(letter.body))
    except MalformedEnvelope as error:
        return Draft("", obstacle=f"Its envelope is unreadable: {why_unreadable(letter, error)}")
    payload = shown(message, _rules(letter))
    if message.data_base64 is not None or payload.form != "json" or "*" in payload.hidden:
        return Draft("", obstacle="Only a payload of JSON can be edited that is not hidden as a whole.")
    return Draft(json_to_send(payload.value), payload.hidden)


def why_unreadable(letter: DeadLetter, error: MalformedEnvelope) -> str:
    """Why its envelope is none, as far as whoever sees the letter may be told."""
    _, why = unreadable(bytes(letter.body), error, _rules(letter))
    return why


def parsed(text: str) -> Any:
    """The JSON of a form; raises ``BadInput`` with the line of the trouble."""
    if len(text) > LONGEST:
        raise BadInput(f"The payload has {len(text):,} characters.", remedy=f"At most {LONGEST:,}.", field="payload")
    try:
        return read_typed(text)
    except NotJson as error:
        raise BadInput(f"The payload is not JSON: {error}.", remedy="Mend it there.", field="payload") from error


def merged(actor: Actor, letter: DeadLetter, original: Message, written: Any) -> Edited:
    """``written`` with the stored values where it holds their stand-ins.

    Who may not reveal may not change what is masked either: any value in its place, a missing one or a list around
    it of another length raises ``Forbidden``. The very value does too, or whoever tries could find it out.
    """
    # Refuses what would nest too deep to be published, before anything walks over it.
    json_data(written)
    payload, rules = written, _rules(letter)
    stored, stand_in = original.json(), masked(rules.classification)
    fields = outermost(rules.masked_fields)
    changed = False
    for names in fields:
        payload, differs = _restore(payload, stored, names, stand_in)
        changed = changed or differs
    if changed:
        require(actor, PAYLOAD_REVEAL, letter.topic)
        left = [".".join(names) for names in fields if any(stand_in_places(payload, names, stand_in))]
        if left:
            raise BadInput(
                f"{left[0]} still says {stand_in!r} where nobody can tell which value it stands for.",
                remedy="Write the values out, or leave the list around them as it was.",
                field="payload",
            )
    stand_ins = tuple(place for names in fields for place in stand_in_places(written, names, stand_in))
    return Edited(written, payload, stand_ins)


def require_fit(letter: DeadLetter, edit: Edited) -> None:
    """Raise ``BadInput`` at ``payload`` when what was written breaks the topic's schema.

    The stored values behind stand-ins are never asked about, whoever edits: a schema that depends on one would tell
    it, an answer at a time, and no reveal would be in the audit log. Who writes such a value out is told about it.
    """
    row = SchemaVersion.objects.filter(topic__name=letter.topic).order_by("-version").first()
    problem = check_of(row).problem_beside(edit.written, edit.stand_ins) if row is not None else None
    if problem is None:
        return
    field, what = problem
    raise BadInput(
        f"It breaks the schema of {letter.topic}: {what}.",
        remedy="Mend the payload, or the schema."
        + (" Is it about a masked value, let somebody write that out who may reveal it." if edit.stand_ins else ""),
        field=f"payload.{field}" if field else "payload",
    )


def visible(letter: DeadLetter, payload: Any) -> Any:
    """The payload as evidence may hold it."""
    return hidden(_rules(letter), payload)


def hidden(rules: MaskingRules, payload: Any) -> Any:
    """The payload without what ``rules`` hide."""
    if rules.opaque(payload):
        return masked(rules.classification)
    return mask(payload, rules.masked_fields, rules.classification)


def _rules(letter: DeadLetter) -> MaskingRules:
    return MaskingRules.at(Topic.objects.filter(name=letter.topic).first(), letter.died_at)


def _restore(given: Any, stored: Any, steps: Sequence[str], stand_in: str) -> tuple[Any, bool]:
    """``given`` with the stored values for their stand-ins, and whether anything masked is not as it was."""
    if not steps:
        return (stored, False) if given == stand_in else (given, True)
    if isinstance(stored, list):
        if not isinstance(given, list) or len(given) != len(stored):
            return given, True
        pairs = [_restore(one, other, steps, stand_in) for one, other in zip(given, stored, strict=True)]
        return [value for value, _ in pairs], any(differs for _, differs in pairs)
    name = steps[0]
    if isinstance(stored, dict) and (not isinstance(given, dict) or (name in given) != (name in stored)):
        return given, True
    if not isinstance(stored, dict) or name not in stored:
        return given, False
    value, differs = _restore(given[name], stored[name], steps[1:], stand_in)
    return {**given, name: value}, differs
