"""What the ledger lets go of before it was archived is told once, with how many where that can be known."""

from __future__ import annotations

import pytest

from engine.bus.facts import Fact
from engine.pipeline.lake.state import Kind
from engine.pipeline.source.planning import Why
from hbus_console.messages import places
from hbus_console.messages.models import LedgerMessage, LedgerPlace, LedgerRelease
from hbus_console.pipelines import ledger_archiving
from hbus_console.pipelines.ledger_archiving import LedgerArchiver
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC
from tests.hbus_console.pipelines.ledger import AT, OTHER, book, ids, losses, published, run, settled, trim

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"], transaction=True),
    pytest.mark.usefixtures("topic"),
]


def test_what_retention_takes_first_is_told_once_and_counted_by_topic() -> None:
    book(published(1), settled(1), published(1, OTHER))
    run(TOPIC, OTHER)
    book(*(published(number) for number in range(2, 12)), *(settled(number) for number in range(2, 12)))
    book(published(12, kind="delayed", due_ms=AT + 500), published(13), published(13, OTHER))
    trim(4)
    # The last four: m11, the one that waits, and two that were published.
    outcome = run(TOPIC, OTHER)

    assert losses(outcome) == [(TOPIC, "published", Why.TRIMMED, 9), (TOPIC, "deliveries", Why.TRIMMED, 4)]
    assert ids() == ["m1", "m11", "m13"]
    assert ids(topic=OTHER) == ["m1", "m13"]
    assert losses(run(TOPIC, OTHER)) == []
    assert [known.loss.messages for known in lake().state().topics[TOPIC].losses] == [9, 4]
    assert lake().state().topics[OTHER].losses == []


def test_what_waits_and_is_let_go_is_no_loss_and_what_it_was_published_as_is_told() -> None:
    book(published(0), published(1, kind="delayed", due_ms=AT + 500))
    run()
    book(published(2, kind="delayed", due_ms=AT + 500), published(3), published(4))
    trim(2)
    for number in (1, 2):
        book(Fact("published", AT + 510, TOPIC, message_id=f"m{number}", source="/t", position=f"9-{number}"))
    assert losses(run()) == []
    assert sorted(map(str, ids())) == ["m0", "m1", "m2", "m3", "m4"]


def test_what_waited_and_was_let_go_after_it_was_published_is_a_loss() -> None:
    book(published(1, kind="delayed", due_ms=AT + 500), *(published(number) for number in range(2, 5)))
    run()
    book(Fact("published", AT + 510, TOPIC, message_id="m1", source="/t", position="9-0"))
    trim(3)
    assert not LedgerRelease.objects.exists()
    book(published(5))
    assert losses(run()) == [(TOPIC, "published", Why.TRIMMED, 1)]
    assert losses(run()) == []


def test_an_event_that_is_booked_late_and_let_go_at_once_is_a_loss() -> None:
    """It bears an old time, and others that were booked before it stay."""
    book(*(published(number) for number in range(1, 4)), settled(1), settled(2))
    run()
    book(settled(9, at_ms=AT - 60_000), settled(3))
    trim(3)
    outcome = run()
    assert losses(outcome) == [(TOPIC, "deliveries", Why.TRIMMED, 1)]
    assert ids(Kind.DELIVERIES) == ["m1", "m2", "m3"]


def test_what_is_let_go_while_it_is_archived_is_told_by_the_run_whose_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    book(published(1))
    run()
    book(*(published(number) for number in range(2, 12)))
    waited = places.wait_for_writers

    def trim_meanwhile(model: places.LedgerRows) -> None:
        book(*(published(number) for number in range(12, 15)))
        trim(1)
        waited(model)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_archiving, "wait_for_writers", trim_meanwhile)
        outcome = run()
    assert losses(outcome) == [(TOPIC, "published", Why.TRIMMED, 10)]
    assert losses(run()) == [(TOPIC, "published", Why.TRIMMED, 2)]
    assert losses(run()) == []
    assert ids() == ["m1", "m14"]


def test_a_topic_that_has_only_just_begun_has_lost_nothing() -> None:
    book(*(published(number) for number in range(10)), *(settled(number) for number in range(10)))
    book(published(1, OTHER))
    run(OTHER)
    trim(3)
    assert losses(run(TOPIC, OTHER)) == []
    assert ids() == ["m8", "m9"]


def test_a_topic_that_was_not_archived_for_a_while_goes_on_and_has_lost_nothing() -> None:
    book(published(1), published(1, OTHER))
    run(TOPIC, OTHER)
    for number in range(2, 5):
        book(published(number), published(number, OTHER))
        LedgerArchiver(lake(), [OTHER]).run([OTHER])
    assert losses(run(TOPIC, OTHER)) == []
    assert ids() == ids(topic=OTHER) == ["m1", "m2", "m3", "m4"]


def test_where_the_ledger_reaches_back_to_its_place_no_more_nobody_knows_how_many() -> None:
    book(published(1), published(1, OTHER))
    run(TOPIC, OTHER)
    for number in range(2, 5):
        book(published(number), published(number, OTHER))
        trim(2)
        LedgerArchiver(lake(), [OTHER]).run([OTHER])
    assert losses(run(TOPIC, OTHER)) == [(TOPIC, "published", Why.TRIMMED, None)]
    assert losses(run(TOPIC, OTHER)) == []
    assert ids() == ["m1", "m4"]


def test_another_ledger_is_told_and_taken_from_its_beginning() -> None:
    book(*(published(number) for number in range(1, 6)))
    run()
    # Nothing of the old one is there, and numbers begin anew.
    LedgerMessage.objects.all().delete()
    LedgerPlace.objects.all().delete()
    for number in (1, 2):
        LedgerMessage.objects.create(
            pk=number, message_id=f"n{number}", topic=TOPIC, source="/t", size=1, published_ms=AT, position="1-0"
        )
    assert losses(run()) == [(TOPIC, "published", Why.EMPTIED, None)]
    assert losses(run()) == []
    assert sorted(map(str, ids())) == ["m1", "m2", "m3", "m4", "m5", "n1", "n2"]


def test_a_ledger_that_was_restored_goes_on_from_where_it_had_come() -> None:
    book(published(1), published(2))
    run()
    kept = list(LedgerPlace.objects.filter(table="ledgermessage").values("table", "row_id", "release_id"))
    at = kept[0]["row_id"]
    book(*(published(number) for number in range(3, 9)))
    run()
    # As a copy from after the first run had it, with a row that came anew, and one place that no commit reached.
    LedgerMessage.objects.filter(pk__gt=at).delete()
    LedgerPlace.objects.all().delete()
    LedgerPlace.objects.bulk_create(LedgerPlace(**each) for each in [*kept, {**kept[0], "row_id": at - 1}])
    LedgerMessage.objects.create(
        pk=at + 1, message_id="n1", topic=TOPIC, source="/t", size=1, published_ms=AT, position="1-0"
    )
    assert losses(run()) == [(TOPIC, "published", Why.EMPTIED, None)]
    assert ids().count("m1") == ids().count("m2") == ids().count("n1") == 1
