"""The background duties."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, ProcessRole

FEATURE = Feature(
    name="keeper",
    duties=("hbus_console.keeper.statistics:DatabaseStatistics",),
    roles=(
        ProcessRole(
            "keeper",
            "background duties",
            "hbus_console.supervisor.probes:node_beats",
            33,
            run="hbus_console.keeper.role:run",
            many=True,
            without="{kept} stand still",
            place=30,
        ),
    ),
)
