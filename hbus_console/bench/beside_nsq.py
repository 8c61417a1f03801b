"""Ours on NSQ beside what pynsq and nsqd's own HTTP interface do with the same work, on one nsqd."""

from __future__ import annotations

import secrets
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hbus_console.bench import ours
from hbus_console.bench.beside_redis import OURS
from hbus_console.bench.processes import Work, rate
from hbus_console.bench.raw_nsq import IN_FLIGHT
from hbus_console.bench.rig import GROUP, Measurement, Rig

RAW = "hbus_console.bench.raw_nsq"
#: The least ratio asked for.
GOAL_PUBLISH = 0.5
GOAL_CONSUME = 0.8
#: What the copies cost is what is left of one without them.
WITHOUT_COPIES = "ours with NSQ_KEEP=never"


@dataclass(frozen=True)
class NsqWork:
    """The measured work of both sides, each time on a topic of its own, made ready to be run."""

    rig: Rig

    def publish(self, keep: str = "") -> Work:
        (task,) = self._filling(keep)
        return Work(OURS, [{**task, "facts": True}])

    def raw_publish(self, *, size: int = 0) -> Work:
        """Bodies of ``size`` bytes, or as long as the payloads of ours."""
        (task,) = self._raw_filling()
        return Work(RAW, [{**task, "size": size or self.rig.size}])

    def consume(self, keep: str = "") -> Work:
        (task,) = self._filling(keep)
        rate(OURS, [task])
        return Work(OURS, [{**task, "do": "consume", "facts": True, "threads": 1, "total": self.rig.count}])

    def raw_consume(self) -> Work:
        (task,) = self._raw_filling()
        rate(RAW, [task])
        return Work(RAW, [{**task, "do": "consume"}])

    def _filling(self, keep: str) -> list[dict[str, Any]]:
        self.rig.clean()
        # nsqd forgets the files of a deleted topic when it gets to it: a name is used once.
        topic = f"bench.{secrets.token_hex(4)}"
        tasks = self.rig.task("publish", facts=False, topic=topic, nsqd=self.rig.nsqd.url, keep=keep)
        ours.prepare(tasks[0], GROUP)
        return tasks

    def _raw_filling(self) -> list[dict[str, Any]]:
        nsqd, topic = self.rig.nsqd, f"raw.{secrets.token_hex(4)}"
        # What is published before there is a channel would be copied to it first.
        for call in (f"topic/create?topic={topic}", f"channel/create?topic={topic}&channel={GROUP}"):
            request = urllib.request.Request(f"{nsqd.url}/{call}", method="POST")  # noqa: S310 - http to loopback
            with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - as above
                pass
        return self.rig.task("publish", topic=topic, tcp_port=nsqd.tcp_port, http_port=nsqd.http_port)


def measurements(rig: Rig) -> Iterator[Measurement]:
    """Publishing and consuming in one process. What copies cost of it ``make walls`` tells: rates blur it."""
    work = NsqWork(rig)
    also = "nsqd with everything on disk"
    yield rig.compared(
        "publish in confirmed batches, NSQ, 1 process, facts on",
        ours=work.publish,
        peer="nsqd's /mpub",
        theirs=work.raw_publish,
        goal=GOAL_PUBLISH,
        also=also,
        ready=lambda: rig.nsqd,
        both=True,
    )
    yield rig.compared(
        "consume and settle, NSQ, 1 process, facts on",
        ours=work.consume,
        peer=f"pynsq Reader, {IN_FLIGHT} in flight",
        theirs=work.raw_consume,
        goal=GOAL_CONSUME,
        also=also,
        ready=lambda: rig.nsqd,
        both=True,
    )
