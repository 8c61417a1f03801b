"""All roles with one command."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, ProcessRole

FEATURE = Feature(
    name="supervisor",
    audit_words={"installation.backup": "made a backup of everything, with its keys"},
    roles=(
        ProcessRole(
            "store",
            "the embedded Valkey",
            "hbus_console.supervisor.probes:store_answers",
            35,
            command="hbus_console.supervisor.embedded:store_command",
            address="hbus_console.supervisor.addresses:store",
            needs=(),
            grace_s=1.0,
            stamps=False,
            place=0,
        ),
        ProcessRole(
            "nsqd",
            "the embedded nsqd",
            "hbus_console.supervisor.probes:nsqd_answers",
            34,
            command="hbus_console.supervisor.embedded:nsqd_command",
            address="hbus_console.supervisor.addresses:nsqd",
            needs=(),
            grace_s=1.0,
            usual=False,
            stamps=False,
            place=1,
        ),
        ProcessRole(
            "web",
            "console and API",
            "hbus_console.supervisor.probes:web_answers",
            36,
            run="hbus_console.supervisor.web:run",
            address="hbus_console.supervisor.addresses:web",
            stamps=False,
            place=10,
        ),
    ),
)
