"""nsqd and its consumer are killed at one moment while messages flow: none that was confirmed is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from engine.bus.config import BusConfig
from engine.bus.registry import open_transport
from engine.bus.transport import Outgoing, Status
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd

TOPIC, GROUP = "booking.created", "billing"
BATCH, BATCHES = 50, 48
#: After so many batches both are killed.
KILLED_AFTER = (8, 16, 24, 32, 40)
PATIENCE_S = 60.0


def test_nothing_confirmed_is_lost_when_nsqd_and_its_consumer_die_together(
    redis_url: str, prefix: str, own_nsqd: StandaloneNsqd
) -> None:
    config = BusConfig(type="nsq", url=redis_url, prefix=prefix, options={"nsqd": own_nsqd.url})
    handled: Counter[str] = Counter()
    confirmed: set[str] = set()
    unsure = 0
    transport = open_transport(config)
    transport.admin.create_topic(TOPIC)
    transport.admin.create_group(TOPIC, GROUP)
    with ExitStack() as stack:
        stack.callback(transport.close)
        consumers = iter(lambda: stack.enter_context(_consumer(config, f"c{time.monotonic_ns()}", handled)), None)
        consumer = next(consumers)
        for batch in range(BATCHES):
            if batch in KILLED_AFTER:
                _until(lambda batch=batch: len(handled) > batch * BATCH / 2)
                # In one breath: neither has time to do anything about the other
                consumer.kill()
                own_nsqd.kill()
                own_nsqd.start()
                consumer = next(consumers)
            names = [f"m{batch * BATCH + index}" for index in range(BATCH)]
            for outcome in transport.publish(TOPIC, [Outgoing(name, name.encode()) for name in names]):
                if outcome.status is Status.OK:
                    confirmed.add(outcome.message_id)
                else:
                    unsure += 1
        _until(lambda: confirmed <= handled.keys(), fail=False)
        lost = confirmed - handled.keys()
        _until(lambda: transport.admin.lag(TOPIC, GROUP).unsettled == 0)
        lag = transport.admin.lag(TOPIC, GROUP)
        counts = transport.admin.counts(TOPIC, GROUP)
    print(
        f"confirmed {len(confirmed)}, not confirmed {unsure}, kills of both {len(KILLED_AFTER)}: lost {len(lost)}, "
        f"from their copies {counts.get('recovered', 0)}, leases that ran out {counts.get('lapsed', 0)}, "
        f"handled again {handled.total() - len(handled)}"
    )
    assert not lost
    assert (lag.retrying, lag.in_flight) == (0, 0)
    assert counts.get("vanished", 0) == 0


@contextmanager
def _consumer(config: BusConfig, name: str, handled: Counter[str]) -> Iterator[subprocess.Popen[str]]:
    told = {"url": config.url, "prefix": config.prefix, "options": config.options, "topic": TOPIC, "group": GROUP}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.handling_consumer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = process.stdout
    # On its standard input: an address may hold a password.
    process.stdin.write(json.dumps({**told, "name": name}) + "\n")
    process.stdin.flush()

    def listen() -> None:
        for line in said:
            # The last line of one that was killed may be cut short.
            if line.endswith("\n"):
                handled[line.strip()] += 1

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        listener.join()
        process.stdin.close()
        process.stdout.close()


def _until(holds: Callable[[], object], *, fail: bool = True) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            assert not fail, "it never came true"
            return
        time.sleep(0.02)
