"""Work on many things: planned, started, paced, told."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, SubjectKind

#: What it takes to steer an operation is said by its kind; this stands in where the kind has gone.
OPERATION_END = Act("operation.end", Role.GOVERNOR, "end operations whose kind is not installed", about="operation")

FEATURE = Feature(
    name="operations",
    menu=(MenuEntry("operations", "Operations", "outline/list-check", "operations:list", "p", "Governance", 20),),
    pages=(Mount("operations/", "hbus_console.operations.urls"),),
    api=("hbus_console.operations.api",),
    acts=(OPERATION_END,),
    subjects=(SubjectKind("operation", "operation", address="hbus_console.operations.addresses:operation"),),
    audit_related="hbus_console.operations.related:related",
    audit_words={"operation.outcome": "knew what became of all that was published by the operation"},
    audit_sides={"operation.start": "hbus_console.operations.guarded:starts"},
    duties=(
        "hbus_console.operations.runner:OperationRunner",
        "hbus_console.operations.watching:OutcomeWatcher",
    ),
    live=("hbus_console.operations.live:cells",),
)
