from __future__ import annotations

from hbus_console.registry.declaration import Feature, SubjectKind

FEATURE = Feature(
    name="kettles",
    subjects=(SubjectKind("kettle", "kettle"),),
    alerts=("tests.hbus_console.alerts.toy.alerts:KINDS",),
)
