"""Lamps."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, ProcessRole, SubjectKind

LAMP_SWITCH = Act("lamp.switch", Role.OPERATOR, "switch lamps")

FEATURE = Feature(
    name="lamps",
    menu=(
        MenuEntry(
            "lamps", "Lamps", "outline/bulb", "lamps:list", "x", "Toys", 10, badge="tests.toy.lamps:burning_count"
        ),
    ),
    pages=(Mount("lamps/", "tests.toy.urls"),),
    api=("tests.toy.api",),
    acts=(LAMP_SWITCH,),
    subjects=(SubjectKind("lamp", "lamp", address="tests.toy.lamps:address"),),
    audit_words={"lamp.switch": "switched the lamp"},
    facts=("tests.toy.facts:FACTS",),
    duties=("tests.toy.duties:LampTimer",),
    roles=(
        ProcessRole(
            "lamplighter",
            "walks the streets",
            "hbus_console.supervisor.probes:node_beats",
            31,
            run="tests.toy.role:run",
            many=True,
            place=60,
        ),
    ),
    alerts=("tests.toy.alerts:KINDS",),
    concerns=("tests.toy.lamps:concerns",),
    search=("tests.toy.lamps:find",),
    live=("tests.toy.lamps:cells",),
)
