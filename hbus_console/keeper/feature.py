"""The background duties."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, ProcessRole

FEATURE = Feature(
    name="keeper",
    roles=(
        ProcessRole(
            "keeper",
            "background duties",
            "hbus_console.supervisor.probes:node_beats",
            33,
            run="hbus_console.keeper.role:run",
            many=True,
            without="delays, outbox and evidence stand still",
            place=30,
        ),
    ),
)
