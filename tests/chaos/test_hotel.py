"""The main job under kills: the read model must come out equal to the bookings all the same."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.rig import Rig
from tests.form import size

pytestmark = pytest.mark.chaos

BOOKINGS = size(4_000, short=1_600)
CONSUMERS = 2
#: Effects between two kills.
BETWEEN = BOOKINGS * 9 // 40


def bookings(tmp_path: Path) -> list[str]:
    """The real file where it is; else as many simulated ones."""
    file = os.environ.get("BOOKINGS", "")
    if not file:
        return ["--limit", str(BOOKINGS)]
    # A copy of the first rows, for the digest of the file is part of the feed's name and must not depend on the limit.
    with gzip.open(file, "rt", encoding="utf-8") as source:
        rows = [line for line, _ in zip(source, range(BOOKINGS + 1), strict=False)]
    copy = tmp_path / "bookings.csv"
    copy.write_text("".join(rows), encoding="utf-8")
    return ["--bookings", str(copy)]


def test_the_read_model_is_equal_after_consumers_store_and_keeper_were_killed(rig: Rig, tmp_path: Path) -> None:
    which = bookings(tmp_path)
    rig.start("keeper")
    for slot in range(CONSUMERS):
        rig.start("consumer", slot)
    rig.await_(rig.all_up, what="all roles up")
    player = rig.begin("hotel_demo", "--fast", "--json", *which)
    store_kills = 0
    # Kill until most of it has been handled, and at least so often.
    for kill in range(6):
        enough = BETWEEN * (kill + 1)
        rig.await_(lambda enough=enough: handled(rig) >= enough or player.poll() is not None, what="progress")
        slot = kill % CONSUMERS
        rig.kill("consumer", slot)
        if kill in (1, 3):
            rig.await_(rig.all_up, what="all roles up")
            rig.store.kill()
            store_kills += 1
            rig.store.start()
        if kill == 2:
            rig.kill("keeper")
            rig.start("keeper")
        rig.start("consumer", slot)
    out, err = player.communicate(timeout=240)
    report = judged(out, err)
    verdict = json.loads(rig.manage("hotel_verify", "--json", *which))
    counts = evidence(rig)
    print(
        f"\n{report['events']} events of {report['bookings']} bookings; {rig.kills} processes and {store_kills} stores"
        f" killed; {report['published']} published, {report['deduplicated']} repeats recognised while publishing,"
        f" {counts['inbox']} effects, settled {report['settle_s']} s after the last publish"
    )
    assert player.returncode == 0, report
    assert (report["holds"], report["settled"], report["unexpected"]) == (True, True, [])
    assert report["published"] + report["deduplicated"] == report["events"]
    assert (verdict["equal"], verdict["different"]) == (True, 0)
    assert verdict["room_nights"] > 0
    # Every event for a transactional subscription had its effect exactly once, and every stay one invoice.
    assert counts["inbox"] == counts["expected"]
    assert counts["invoices"] == counts["stays"]
    assert rig.kills >= 6


def handled(rig: Rig) -> int:
    """Messages with committed effects so far, seen from outside."""
    with sqlite3.connect(f"file:{rig.state / 'hbus.sqlite3'}?mode=ro", uri=True, timeout=30) as database:
        return int(database.execute("SELECT count(*) FROM outbox_inboxentry").fetchone()[0])


def judged(out: str, err: str) -> dict[str, Any]:
    assert out.strip(), err
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    return report


def evidence(rig: Rig) -> dict[str, int]:
    """Straight from the database and the streams."""
    found: dict[str, int] = rig.python(
        """
import json
from examples.hotel.seed import subscriptions
from hbus_console.wiring import bus
from hbus_console.outbox.models import InboxEntry
depth = {topic: bus.admin().depth(topic).messages for topic in
         ("booking.created", "booking.changed", "booking.cancelled", "stay.completed", "invoice.drafted",
          "night.closed")}
heard_by_each = sum(topic == "night.closed" for topic, _ in subscriptions())
print(json.dumps({
    "inbox": InboxEntry.objects.count(),
    "expected": sum(depth.values()) - depth["invoice.drafted"] + (heard_by_each - 1) * depth["night.closed"],
    "invoices": depth["invoice.drafted"],
    "stays": depth["stay.completed"],
}))
"""
    )
    return found
