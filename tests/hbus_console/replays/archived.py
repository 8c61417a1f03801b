"""The forty bookings in a lake of the test's own, and nothing of them in the topic any more."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.management import call_command

from engine.bus import decode
from engine.bus.message import Message
from engine.bus.transport import Stored
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import Act, Commit, LakeState
from engine.pipeline.lake.writing import PortionFiles
from engine.pipeline.source.columns import Columns, Rows
from hbus_console.access.permissions import SYSTEM
from hbus_console.pipelines.services import archive_topic
from hbus_console.wiring import bus
from hbus_console.wiring.lake import lake
from tests.hbus_console.replays.conftest import TOPIC


def archive_all(*, gone: bool = True) -> list[Message]:
    """What the topic holds; afterwards only the lake does."""
    held = stored_entries()
    archive_topic(SYSTEM, TOPIC, "the auditors ask for it")
    call_command("archive", "run", verbosity=0)
    if gone:
        trim()
    return [decode(entry.body) for entry in held]


def trim() -> None:
    """All of it, once every subscription has passed it."""
    for group in ("availability", "billing"):
        bus.admin().seek(TOPIC, group, "end")
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=0)
    assert stored_entries() == []


def stored_entries() -> list[Stored]:
    return list(bus.admin().browse(TOPIC, limit=5_000).entries)


def store_in_lake(entries: Sequence[Stored], log: str = "-") -> None:
    """In one more file, as an archive does that begins anew because its store was restored from a copy."""
    with lake().run() as run:
        files = PortionFiles(lake().root, TOPIC, log, f"{run}-0")
        at_ms = [entry.at_ms for entry in entries]
        rows = Rows(TOPIC, log, [entry.position for entry in entries], at_ms, [entry.body for entry in entries])
        files.add(Columns(READ).table(rows), at_ms)
        made = files.close()

        def make(state: LakeState) -> Commit:
            return lake().following(state, Act.ARCHIVE, run, added=made)

        lake().publish(make)
