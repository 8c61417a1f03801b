"""Owners that are processes, and killed: on SQLite, as it is installed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine.delay.ledgers.sqlite import SqliteEngine
from engine.delay.levels import HOUR_MS
from engine.delay.shard import DelayShard
from tests.engine.delay.kit import BEGIN, names

#: Adds messages due within the hour and publishes what is due, in time that it makes pass; says what it has done.
_OWNER = """
import sys
from pathlib import Path
from engine.delay.ledgers.sqlite import SqliteEngine
from engine.delay.levels import HOUR_MS
from engine.delay.outcomes import AddStatus, ShardSettings
from engine.delay.records import PendingMessage
from engine.delay.shard import DelayShard
from tests.engine.delay.kit import BEGIN

folder, epoch = Path(sys.argv[1]), int(sys.argv[2])
now = BEGIN + epoch * 4 * HOUR_MS
shard = DelayShard.open(SqliteEngine(folder), "s", epoch, now, ShardSettings(chunk_bytes=20_000, load_bytes=2_000))
number = 0
while True:
    batch = []
    for each in range(20):
        number += 1
        batch.append(PendingMessage(now + number * 7_919 % (3 * HOUR_MS), f"{epoch}-{number}", "topic", b"x" * 50))
    for message, outcome in zip(batch, shard.add(batch, now)):
        assert outcome.status is AddStatus.KEPT
        print("kept", message.message_id, message.due_ms, flush=True)
    now += 20_000
    handed = shard.tick(now, 50)
    for each in handed.messages:
        message = each.record.message()
        assert message.due_ms <= now
        print("published", message.message_id, flush=True)
    shard.dispatched(handed.messages)
    for each in handed.messages:
        print("noted", each.record.message().message_id, flush=True)
"""


@pytest.mark.chaos
def test_what_killed_owners_had_kept_comes_from_the_next_and_only_what_was_on_its_way_twice(tmp_path: Path) -> None:
    said: dict[str, list[str]] = {"kept": [], "published": [], "noted": []}
    due: dict[str, int] = {}
    for epoch in (1, 2, 3):
        noted_before = set(said["noted"])
        owner = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(tmp_path), str(epoch)], stdout=subprocess.PIPE, text=True
        )
        assert owner.stdout is not None
        for count, line in enumerate(owner.stdout):
            # A line that was not finished was said to nobody.
            if line.endswith("\n"):
                what, name, *more = line.split()
                assert what != "published" or name not in noted_before, f"{name} came again though that was noted"
                said[what].append(name)
                if more:
                    due[name] = int(more[0])
            if count == 1_500:
                owner.send_signal(signal.SIGKILL)
        owner.wait(60)
        owner.stdout.close()
        assert owner.returncode == -signal.SIGKILL

    now = BEGIN + 20 * HOUR_MS
    shard = DelayShard.open(SqliteEngine(tmp_path), "s", 4, now)
    last: list[str] = []
    while batch := shard.tick(now, 1_000):
        shard.dispatched(batch.messages)
        last += names(batch.messages)
        if not batch.busy:
            break
    published = Counter([*said["published"], *last])
    assert set(said["kept"]) - published.keys() == set()
    assert set(last) & set(said["noted"]) == set()
    # Killed between the publish and the note, or between the note and telling of it: a batch for each death.
    twice = {name for name, times in published.items() if times > 1}
    assert len(twice) <= 3 * 50
    known = [due[name] for name in last if name in due]
    assert known == sorted(known)
    assert shard.look().pending == 0
    print(f"\n{len(said['kept']):,} kept by 3 killed owners, {len(last):,} left to the fourth, {len(twice)} came twice")
