from __future__ import annotations

from engine.bus import dead
from engine.bus.transport import Attempt


def test_a_record_comes_back_as_it_was() -> None:
    record = dead.DeadRecord(
        cause="c",
        error="e",
        fingerprint="f",
        attempts=2,
        history=(Attempt(1, 5, 6, "c1", "boom"), Attempt(2, 7, 8, "c2", "boom")),
        first_failed_ms=5,
        died_ms=9,
        topic="t",
        group="g",
        consumer="c2",
        handler="m:f",
        unrecoverable=True,
    )
    assert dead.decode(dead.encode(record)) == record
