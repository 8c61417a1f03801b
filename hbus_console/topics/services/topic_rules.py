"""What a topic may be: one check for creation and for every later change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from engine.bus.partitions import DEFAULT_PARTITIONS, MOST_PARTITIONS
from engine.bus.transport import Capabilities
from engine.core.errors import BadInput, ConfigurationError
from hbus_console import checks
from hbus_console.topics.masking import check_fields
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: Ten years.
MAX_RETENTION_HOURS = 87_600
MAX_WINDOW_S = 30 * 86_400
MAX_TTL_S = 730 * 86_400


@dataclass(frozen=True)
class TopicDraft:
    """A topic as somebody wants it; ``owner`` names a team."""

    name: str
    owner: str
    description: str = ""
    classification: str = "internal"
    #: Dotted paths: ``guest.email``, ``guests[].name``.
    masked_fields: tuple[str, ...] = ()
    #: For personal payloads without masked fields: somebody has looked.
    nothing_to_mask: bool = False
    compatibility: str = "backward"
    ordering: str = "none"
    #: ``None``: 8 where messages are ordered by key, else 1.
    partitions: int | None = None
    #: ``None``: whatever ordering and transport allow.
    priorities: bool | None = None
    retention_hours: int = 168
    #: 0: no bound by number.
    retention_messages: int = 0
    max_bytes: int = 1024 * 1024
    idempotency_window_s: int = 24 * 3600
    #: 0: messages are wanted for ever unless their producer says otherwise.
    ttl_s: int = 0
    #: Empty: the installation's default.
    transport: str = ""
    #: The first version of its JSON Schema, if there is one yet.
    schema: dict[str, Any] | None = None


def capabilities(transport: str) -> Capabilities:
    """What the named transport can do; raises :class:`BadInput` when there is none of that name."""
    if transport and transport not in bus.carriers():
        raise BadInput(
            f"There is no transport {transport!r}.",
            remedy=f"Choose one of {', '.join(bus.carriers())}, or leave it empty for the default.",
            field="transport",
        )
    try:
        return bus.transport(transport).capabilities
    except ConfigurationError as error:
        raise BadInput(error.what, remedy=error.remedy, field="transport") from error


def carrier_of(transport: str) -> str:
    """The transport's own name, also where a topic leaves it to the installation."""
    return transport or str(settings.HBUS_TRANSPORT)


def fit_name(name: str, transport: str) -> None:
    """Refuse a name that the transport cannot carry."""
    longest = capabilities(transport).longest_topic
    if len(name) > longest:
        raise BadInput(
            f"{name} has {len(name)} characters, and the {transport or 'default'} transport takes {longest}.",
            remedy="Choose a shorter name, a shorter HBUS_PREFIX, or another transport.",
            field="name",
        )


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a topic, cleaned; raises :class:`BadInput` at the first field that does not fit."""
    whole, choice = checks.whole, checks.choice
    clean: dict[str, Any] = {
        "description": checks.text(values["description"], "description", most=2_000, lines=True),
        "classification": choice(values["classification"], "classification", Topic.Classification.values),
        "masked_fields": check_fields(_list(values["masked_fields"])),
        "nothing_to_mask": checks.flag(values["nothing_to_mask"], "nothing_to_mask"),
        "compatibility": choice(values["compatibility"], "compatibility", Topic.Compatibility.values),
        "ordering": choice(values["ordering"], "ordering", Topic.Ordering.values),
        "retention_hours": whole(
            values["retention_hours"], "retention_hours", least=1, most=MAX_RETENTION_HOURS, unit="hours"
        ),
        "retention_messages": whole(values["retention_messages"], "retention_messages", least=0, most=10**12),
        "ttl_s": whole(values["ttl_s"], "ttl_s", least=0, most=MAX_TTL_S, unit="seconds"),
        "transport": checks.text(values["transport"], "transport", most=32),
    }
    able = capabilities(clean["transport"])
    clean["max_bytes"] = whole(values["max_bytes"], "max_bytes", least=128, most=able.max_bytes, unit="bytes")
    # Without a window a repeated key would be stored again in silence, so 0 is for transports that know no keys.
    clean["idempotency_window_s"] = whole(
        values["idempotency_window_s"],
        "idempotency_window_s",
        least=60 if able.idempotent_publish else 0,
        most=MAX_WINDOW_S if able.idempotent_publish else 0,
        unit="seconds",
    )
    parts = values["partitions"]
    if parts is None:
        parts = DEFAULT_PARTITIONS if clean["ordering"] == "key" else 1
    clean["partitions"] = whole(parts, "partitions", least=1, most=MOST_PARTITIONS)
    wanted = values["priorities"]
    fits = able.priority and clean["ordering"] == "none"
    clean["priorities"] = fits if wanted is None else checks.flag(wanted, "priorities")
    _fit(clean, able)
    return clean


def _fit(clean: dict[str, Any], able: Capabilities) -> None:
    """Refuse settings that contradict each other or ask more than the transport can do."""
    carrier = clean["transport"] or "default"
    if clean["classification"] == "personal" and not clean["masked_fields"] and not clean["nothing_to_mask"]:
        raise BadInput(
            "A personal topic says which fields are masked.",
            remedy="Name at least one field, or state that there is nothing to mask.",
            field="masked_fields",
        )
    if clean["nothing_to_mask"] and clean["masked_fields"]:
        raise BadInput(
            "Fields are masked, so there is something to mask.",
            remedy="Take back nothing to mask, or remove the fields.",
            field="nothing_to_mask",
        )
    if clean["ordering"] == "key" and clean["priorities"]:
        raise BadInput(
            "A message cannot both keep the order of its key and jump the queue.",
            remedy="Switch priorities off, or ordering to none.",
            field="priorities",
        )
    if clean["ordering"] == "none" and clean["partitions"] > 1:
        raise BadInput(
            "Only a topic ordered by key has partitions.",
            remedy="Set partitions to 1, or order by key. A topic that has them stays ordered.",
            field="partitions",
        )
    if clean["ordering"] == "key" and not (able.ordered and able.partitions):
        raise BadInput(
            f"The {carrier} transport does not keep the order of messages.",
            remedy="Set ordering to none, or choose a transport that keeps it.",
            field="ordering",
        )
    if clean["priorities"] and not able.priority:
        raise BadInput(
            f"The {carrier} transport knows no priorities.", remedy="Switch priorities off.", field="priorities"
        )


def _list(value: object) -> list[object]:
    if not isinstance(value, (list, tuple)):
        raise BadInput("masked_fields is not a list.", remedy="Send a list of paths.", field="masked_fields")
    return list(value)
