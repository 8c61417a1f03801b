"""What a topic may be on the transport that carries it: one check for creation and for every later change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from engine.bus.transport import Capabilities
from engine.core.errors import BadInput, ConfigurationError
from hbus_console.wiring import bus


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


def refuse_contradictions(clean: Mapping[str, Any]) -> None:
    """Refuse settings that contradict each other or ask more than the transport can do."""
    able = capabilities(clean["transport"])
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
