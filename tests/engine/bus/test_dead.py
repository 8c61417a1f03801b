from __future__ import annotations

import pytest

from engine.bus import dead
from engine.bus.transport import Attempt


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("room 12 is full", "room 7 is full"),
        ("no hotel 'Algarve'", "no hotel 'Lisboa'"),
        ('key "a\\"b" missing', 'key "c" missing'),
        (
            "booking 01K9ABCDEFGHJKMNPQRSTVWXYZ lost",
            "booking 01M7XSNNN2DCGX4XVGXH9633TR lost",
        ),
        (
            "request 7f9c24e8-3b12-4d6f-9a01-5c2e7d8b4f10 failed",
            "request 0b9c24e8-3b12-4d6f-9a01-5c2e7d8b4fff failed",
        ),
        ("object at 0x7f00 broke", "object at 0xffee broke"),
        ("digest deadbeef01 differs", "digest 0123456789 differs"),
        ("took 1,204.5 ms", "took 3 ms"),
        ("line one\n  two", "line  one two"),
    ],
)
def test_cases_of_one_cause_share_a_fingerprint(one: str, other: str) -> None:
    assert dead.fingerprint("g", "ValueError", one) == dead.fingerprint("g", "ValueError", other)


def test_other_causes_classes_and_groups_have_other_fingerprints() -> None:
    prints = {
        dead.fingerprint("g", "ValueError", "room is full"),
        dead.fingerprint("g", "ValueError", "room is closed"),
        dead.fingerprint("g", "KeyError", "room is full"),
        dead.fingerprint("h", "ValueError", "room is full"),
    }
    assert len(prints) == 4
    assert all(len(text) == 16 for text in prints)


def test_an_apostrophe_is_no_quote() -> None:
    assert dead.normalise("can't open 'x' or 'y'") == "can't open … or …"


def test_a_cause_reads_well_without_a_message() -> None:
    assert dead.cause_of("TimeoutError", "") == "TimeoutError"
    assert dead.cause_of("ValueError", "room 5") == "ValueError: room #"


def test_normalising_is_bounded() -> None:
    assert len(dead.normalise("word " * 100_000)) <= dead.CAUSE_LIMIT


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
