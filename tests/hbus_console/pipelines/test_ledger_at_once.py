"""Whoever is killed, overtaken or slow: each row of the ledger is in the lake once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
from django.db import connection, connections, transaction

from engine.bus.facts import batches
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import Unavailable
from engine.cron.work.call import Stopped
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Commit, Kind, LakeState
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER
from hbus_console.messages import places
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.pipelines import ledger_archiving, ledger_rows
from hbus_console.pipelines.ledger_archiving import LedgerArchiver
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC
from tests.hbus_console.pipelines.ledger import AT, book, ids, losses, published, rows, run, settled

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"], transaction=True),
    pytest.mark.usefixtures("topic"),
]


class Doomed(Lake):
    """Dies when its files are written, and no commit names them yet."""

    def publish(self, make: Callable[[LakeState], Commit]) -> LakeState:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_who_is_killed_before_the_commit_leaves_nothing_and_what_it_left_is_swept() -> None:
    book(*(published(number) for number in range(10)), *(settled(number) for number in range(10)))
    child = os.fork()
    if child == 0:
        # The connections are the parent's; they must not even be closed here.
        parents = [each.connection for each in connections.all()]
        if connection.vendor == "postgresql":
            for each in connections.all():
                each.connection = None
        LedgerArchiver(Doomed(lake().root), [TOPIC]).run([TOPIC])
        os._exit(len(parents))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = sorted(lake().root.joinpath("data").rglob("*.parquet"))
    assert (len(left), lake().version(), rows()) == (2, 0, [])

    run()

    assert ids() == ids(Kind.DELIVERIES) == [f"m{number}" for number in range(10)]
    assert sorted(lake().sweep()) == left
    assert list(lake().verify()) == []


class Overtaken(Lake):
    """Somebody else archives the same while it is about to commit."""

    def publish(self, make: Callable[[LakeState], Commit]) -> LakeState:
        run()
        return super().publish(make)


def test_of_two_runs_at_once_one_gives_up_and_each_row_is_there_once() -> None:
    book(*(published(number) for number in range(10)))
    run()
    book(*(published(number) for number in range(10, 15)), settled(1))
    with pytest.raises(Superseded, match=r"what the ledger tells of booking\.created"):
        LedgerArchiver(Overtaken(lake().root), [TOPIC]).run([TOPIC])
    assert ids() == [f"m{number}" for number in range(15)]
    book(published(15))
    assert losses(run()) == []
    assert ids() == [f"m{number}" for number in range(16)]


def test_a_run_that_is_to_end_ends_between_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_rows, "PAGE", 3)
    book(*(published(number) for number in range(10)))
    pages = iter(range(2))

    def stop_at_the_third() -> None:
        if next(pages, None) is None:
            raise Stopped("it is to end")

    with pytest.raises(Stopped):
        run(between=stop_at_the_third)
    assert lake().version() == 0
    run()
    assert ids() == [f"m{number}" for number in range(10)]


class Noticing(SystemClock):
    """Says when somebody waits."""

    def __init__(self) -> None:
        self.waits = threading.Event()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.set()
        return super().wait(event, seconds)


if connection.vendor == "postgresql":

    def test_a_lower_number_that_comes_to_light_after_a_higher_one_is_waited_for(
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        clock, has_number = Noticing(), threading.Event()

        def write_slowly() -> None:
            try:
                with transaction.atomic(using=LEDGER):
                    booking = Booking()
                    booking.add(batches([published(1), settled(1)]))
                    booking.write()
                    has_number.set()
                    assert clock.waits.wait(30)
            finally:
                connections.close_all()

        book(published(0), settled(0))
        run()
        writer = threading.Thread(target=write_slowly)
        writer.start()
        assert has_number.wait(30)
        # Of another span of time: the samples of the flow, which both add to, would have one wait for the other.
        book(published(1_000_000), settled(1_000_000))
        assert LedgerMessage.objects.count() == 2, "the second is not to be seen yet"
        monkeypatch.setattr(
            ledger_archiving, "wait_for_writers", lambda model: places.wait_for_writers(model, clock=clock)
        )

        run()

        writer.join()
        assert ids() == ids(Kind.DELIVERIES) == ["m0", "m1", "m1000000"]

    def test_nobody_is_waited_for_who_began_later_or_for_ever() -> None:
        has_number, enough = threading.Event(), threading.Event()

        def hold() -> None:
            try:
                with transaction.atomic(using=LEDGER):
                    LedgerEvent.objects.create(message_id="m", kind="settled", topic=TOPIC, at_ms=AT)
                    has_number.set()
                    assert enough.wait(30)
            finally:
                connections.close_all()

        class Impatient(ManualClock):
            def wait(self, event: threading.Event, seconds: float) -> bool:
                self.advance(places.PATIENCE_S / 2)
                return False

        writer = threading.Thread(target=hold)
        writer.start()
        assert has_number.wait(30)
        try:
            places.wait_for_writers(LedgerMessage)
            with pytest.raises(Unavailable, match="writing to the ledger"):
                places.wait_for_writers(LedgerEvent, Impatient())
        finally:
            enough.set()
            writer.join()
