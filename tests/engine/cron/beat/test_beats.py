"""Several ``celery beat`` beside each other, of which some are killed and some stand still: each slot is sent once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from engine.cron.beat.scheduler import task_id_of
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.cron.beat.conftest import messages

PROJECT = """
import os
from celery import Celery
from celery.schedules import crontab
app = Celery("night", broker=os.environ["BROKER"])
app.conf.hbus_beat_lease = 1
app.conf.beat_schedule = {
    **{f"every-second-{number}": {"task": "hotel.tick", "schedule": 1} for number in range(3)},
    "every-two": {"task": "hotel.tock", "schedule": 2.0, "options": {"queue": "tock"}},
    "hourly": {"task": "hotel.hour", "schedule": crontab(0)},
}
"""
#: How long it is tried, how often one is killed or stands still, and for how long that does, in seconds.
TRIED_S, TROUBLE_S, STILL_S = 20, 1.5, 2.5


class Beats:
    """Processes of ``celery beat``; one that is killed has a successor."""

    def __init__(self, folder: Path, broker: str) -> None:
        self._folder = folder
        (folder / "night.py").write_text(PROJECT, encoding="utf-8")
        paths = os.pathsep.join((str(folder), str(ROOT)))
        # A project that has Celery alone knows no Django, and none of the tests' settings.
        plain = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self._environment = {**plain, "PYTHONPATH": paths, "BROKER": broker}
        self._log = (folder / "beats.log").open("w", encoding="utf-8")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        beat = ("celery", "-A", "night", "beat", "-S", "engine.cron.beat:SlotScheduler", "-l", "WARNING", "--pidfile=")
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", *beat],
                cwd=self._folder,
                env=self._environment,
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )
        )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.processes.remove(process)

    def end(self) -> None:
        """As a supervisor would."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            process.wait(30)
        self.processes.clear()

    def stop(self) -> None:
        for process in list(self.processes):
            self.kill(process)
        self._log.close()

    @property
    def said(self) -> str:
        return (self._folder / "beats.log").read_text(encoding="utf-8")


@pytest.fixture
def beats(tmp_path: Path, own_store: StandaloneStore) -> Iterator[Beats]:
    made = Beats(tmp_path, own_store.url)
    yield made
    made.stop()


@pytest.mark.chaos
@pytest.mark.long
def test_whichever_beats_are_killed_each_slot_is_sent_once(beats: Beats, client: redis.Redis) -> None:
    rng = random.Random(7)
    for _ in range(4):
        beats.start()
    wait_for_slot(client)
    killed = stood_still = 0
    ends = time.monotonic() + TRIED_S
    thaws: list[tuple[float, subprocess.Popen[bytes]]] = []
    while time.monotonic() < ends:
        wait_s = TROUBLE_S * rng.uniform(0.5, 1.5)
        time.sleep(wait_s)
        still = [process for _, process in thaws]
        awake = [process for process in beats.processes if process not in still]
        if killed <= stood_still:
            beats.kill(rng.choice(awake))
            beats.start()
            killed += 1
        else:
            thaws.append((time.monotonic() + STILL_S, rng.choice(awake)))
            thaws[-1][1].send_signal(signal.SIGSTOP)
            stood_still += 1
        for thaw in [each for each in thaws if each[0] <= time.monotonic()]:
            thaws.remove(thaw)
            thaw[1].send_signal(signal.SIGCONT)
    for _, process in thaws:
        process.send_signal(signal.SIGCONT)
    # What a beat that was killed last was at is over within a lease, and another comes to it.
    wait_for_slot(client)
    wait_for_slot(client)
    beats.end()
    sent = defaultdict(list)
    for message in messages(client) + messages(client, "tock"):
        sent[message["hbus_entry"]].append(message)
    print(f"{sum(map(len, sent.values()))} tasks of {len(sent)} entries; {killed} killed, {stood_still} stood still")
    assert killed >= 5
    assert "Traceback" not in beats.said
    sent.pop("hourly", None)
    assert len(sent) == 4
    for entry, found in sent.items():
        slots = [instant(message["hbus_slot"]) for message in found]
        assert slots == list(range(slots[0], slots[-1] + 1, 2 if entry == "every-two" else 1)), entry
        assert slots[-1] - slots[0] >= TRIED_S - 2
        assert [message["id"] for message in found] == [task_id_of("night", entry, slot) for slot in slots]


def instant(text: str) -> int:
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S.000Z"))) - time.timezone


def wait_for_slot(client: redis.Redis, patience_s: float = 60) -> None:
    """Until two more of them are sent than now."""
    wanted, deadline = client.llen("celery") + 6, time.monotonic() + patience_s
    while client.llen("celery") < wanted:
        assert time.monotonic() < deadline, "no slot was sent"
        time.sleep(0.05)
