"""A keeper is killed again and again in the middle of a redrive: each letter is redriven once, the counts add up."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.chaos.operation_rig import killed_on_the_way
from tests.chaos.rig import Rig
from tests.form import size

pytestmark = pytest.mark.chaos

LETTERS = size(2_400, short=900)
KILLS = 3
TOPIC = "booking.changed"

_SEED = f"""
import json
from datetime import UTC, datetime
from engine.bus.message import Message, encode
from hbus_console.access.permissions import SYSTEM
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations import services as operations
from hbus_console.subscriptions.services import SubscriptionDraft, create_subscription
from hbus_console.teams.services import TeamDraft, create_team
from hbus_console.topics.services import TopicDraft, create_topic
create_team(SYSTEM, TeamDraft("Distribution", "#distribution"))
create_topic(SYSTEM, TopicDraft(name="{TOPIC}", owner="Distribution"))
create_subscription(SYSTEM, SubscriptionDraft(topic="{TOPIC}", group="partner-sync", owner="Distribution"))
now = datetime.now(UTC)
DeadLetter.objects.bulk_create([
    DeadLetter(topic="{TOPIC}", subscription="partner-sync", message_id=f"m{{n}}", source="/hotels",
               position=f"{{n}}-0", body=encode(Message(id=f"m{{n}}", source="/hotels", type="{TOPIC}")), cause="X: …",
               error="X: 1", fingerprint="7c1f9a", attempts=5, first_failed_at=now, died_at=now)
    for n in range({LETTERS})
], batch_size=500)
started = operations.start(SYSTEM, "redrive", {{"topic": "{TOPIC}"}}, reason="mended", rate_per_s={LETTERS // 6})
print(json.dumps(started.operation.pk))
"""

_COUNTS = """
import json
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.outbox.models import OutboxMessage
operation = Operation.objects.get()
print(json.dumps({
    "state": operation.state, "total": operation.total, "done": operation.done, "skipped": operation.skipped,
    "failed": operation.failed, "scanned": operation.scanned, "revision": operation.revision,
    "items": [(it.name, it.made.name if it.made else "", it.result) for it in OperationItem.objects.all()],
    "letters": list(DeadLetter.objects.values_list("message_id", "redriven_as", "state")),
    "acts": list(AuditEntry.objects.filter(target_type="operation").order_by("seq").values_list("action", flat=True)),
    "unsent": OutboxMessage.objects.filter(refused_at__isnull=False).count(),
}))
"""


def test_a_redrive_survives_kills_of_its_keeper_with_each_letter_redriven_once(rig: Rig) -> None:
    # Given dead letters and a redrive of them all, which the keeper works through at a rate
    rig.python(_SEED)

    # When the keeper is killed, with work done and work left, and another takes over
    copies = killed_on_the_way(rig, TOPIC, results=LETTERS, kills=KILLS, seed=11)

    # Then operation, results, letters and messages say the same
    found: dict[str, Any] = rig.python(_COUNTS)
    lying = [(copy.id, copy.causationid) for copy in copies]
    print(json.dumps({"letters": LETTERS, "kills": rig.kills, "copies": len(lying), "steps": found["revision"] - 1,
                      **{name: found[name] for name in ("state", "done", "skipped", "failed")}}))  # fmt: skip
    assert (found["state"], found["total"], found["scanned"]) == ("settling", LETTERS, LETTERS)
    assert (found["done"], found["skipped"], found["failed"]) == (LETTERS, 0, 0)
    originals = [f"m{number}" for number in range(LETTERS)]
    assert Counter(original for _, original in lying) == Counter(originals), "no message is redriven twice"
    told = {(copy, original) for original, copy, result in found["items"] if result == "done"}
    decided = {(copy, original) for original, copy, state in found["letters"] if state == "redriven"}
    assert len(found["items"]) == LETTERS
    assert told == decided == set(lying)
    assert found["acts"] == ["operation.start", "operation.end"]
    assert found["unsent"] == 0
