"""Examples that an empty console offers in one click. The console knows none: an app declares its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import transaction

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.audit.services import record
from hbus_console.cluster.feature import CLUSTER_OPERATE
from hbus_console.registry.loading import features
from hbus_console.registry.names import EXAMPLES


@dataclass(frozen=True)
class Example:
    """Something to watch. ``start(actor)`` must return soon, leaving the work to others, and raise ``HbusError`` if it
    cannot; it is called after the act was audited. ``title`` and ``text`` are for the operator."""

    name: str
    title: str
    text: str
    start: Callable[[Actor], None]


def declared() -> Mapping[str, Example]:
    """Every example by its name."""
    return EXAMPLES.by_name(features())


def offered(who: Actor) -> list[Example]:
    """What ``who`` may start."""
    return list(declared().values()) if allows(who, CLUSTER_OPERATE) else []


def start(who: Actor, name: str) -> Example:
    """Start an example on behalf of ``who``, audited. Raises ``Forbidden``, ``BadInput`` for an unknown name."""
    require(who, CLUSTER_OPERATE)
    example = declared().get(name)
    if example is None:
        known = ", ".join(declared()) or "none is installed"
        raise BadInput(f"There is no example {name[:40]!r}.", remedy=f"Known: {known}.", field="name")
    with transaction.atomic():
        record(
            who,
            "example.start",
            Subject("example", "", example.name),
            reason=f"started from the console: {example.title}",
        )
    example.start(who)
    return example
