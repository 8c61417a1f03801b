"""A keeper is killed again and again in the middle of a replay from the archive: each message comes once, in order."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.chaos.operation_rig import killed_on_the_way
from tests.chaos.rig import Rig
from tests.form import size

pytestmark = pytest.mark.chaos

MESSAGES = size(6_000, short=1_200)
KILLS = size(10, short=3)
KEYS = 7
TOPIC = "booking.changed"
#: So that kills fall within a file and between two.
FILES = 4

_SEED = f"""
import json
from django.core.management import call_command
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem
from hbus_console.access.permissions import SYSTEM
from hbus_console.operations import services as operations
from hbus_console.pipelines.services import archive_topic
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.services import SubscriptionDraft, create_subscription
from hbus_console.teams.services import TeamDraft, create_team
from hbus_console.topics.services import TopicDraft, create_topic
from hbus_console.wiring import bus
create_team(SYSTEM, TeamDraft("Distribution", "#distribution"))
for topic in ("{TOPIC}", "{TOPIC}.again"):
    create_topic(SYSTEM, TopicDraft(name=topic, owner="Distribution"))
archive_topic(SYSTEM, "{TOPIC}", "proof")
part = {MESSAGES} // {FILES}
for file in range({FILES}):
    numbers = range(file * part, (file + 1) * part)
    shared_producer().publish_batch(
        "{TOPIC}", [BatchItem({{"n": n}}, PublishOptions(key=f"k{{n % {KEYS}}}")) for n in numbers]
    )
    call_command("archive", "run")
bus.admin().trim("{TOPIC}", older_than_ms=None, keep_at_most=0)
assert bus.admin().browse("{TOPIC}", limit=1).entries == [], "the topic holds nothing any more"
spec = {{"topic": "{TOPIC}", "read_from": "archive", "into_topic": "{TOPIC}.again"}}
started = operations.start(SYSTEM, "replay", spec, reason="lost last month", rate_per_s={MESSAGES // 6})
print(json.dumps(started.operation.pk))
"""

_COUNTS = """
import json
from hbus_console.audit.models import AuditEntry
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.outbox.models import OutboxMessage
operation = Operation.objects.get()
print(json.dumps({
    "state": operation.state, "done": operation.done, "skipped": operation.skipped, "failed": operation.failed,
    "scanned": operation.scanned, "revision": operation.revision, "note": operation.note,
    "made": [it.made.name for it in OperationItem.objects.filter(result="done")],
    "acts": list(AuditEntry.objects.filter(target_type="operation").order_by("seq").values_list("action", flat=True)),
    "unsent": OutboxMessage.objects.filter(refused_at__isnull=False).count(),
}))
"""


def test_a_replay_from_the_archive_survives_kills_of_its_keeper(rig: Rig) -> None:
    # Given a topic of which the archive alone has anything, and a replay of all of it
    rig.python(_SEED)

    # When the keeper is killed, with work done and work left, and another takes over
    copies = killed_on_the_way(rig, f"{TOPIC}.again", results=MESSAGES, kills=KILLS, seed=13)

    # Then each message came once, each key's in order, and operation and topic say the same
    found: dict[str, Any] = rig.python(_COUNTS)
    told = {name: found[name] for name in ("state", "done", "skipped", "failed", "note")}
    print(
        json.dumps(
            {"messages": MESSAGES, "kills": rig.kills, "copies": len(copies), "steps": found["revision"] - 1} | told
        )
    )
    assert (found["done"], found["skipped"], found["failed"]) == (MESSAGES, 0, 0)
    assert found["scanned"] == MESSAGES
    assert Counter(copy.json()["n"] for copy in copies) == Counter(range(MESSAGES))
    for key in range(KEYS):
        numbers = [copy.json()["n"] for copy in copies if copy.partitionkey == f"k{key}"]
        assert numbers == sorted(numbers)
    assert len({copy.causationid for copy in copies}) == MESSAGES
    assert sorted(found["made"]) == sorted(copy.id for copy in copies)
    # What became of the copies may have been decided before the keeper was stopped.
    decided = ["operation.outcome"] if found["state"] == "done" else []
    assert found["acts"] == ["operation.start", "operation.end", *decided]
    assert found["unsent"] == 0
