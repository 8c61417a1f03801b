from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from engine.core.clock import to_datetime
from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.deadletters import groups
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.deadletters.conftest import NOW, MakeLetter, person

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

END_MS = round((NOW + timedelta(minutes=1)).timestamp() * 1000)
START_MS = END_MS - 3_600_000


def listing(actor: Actor, **filters: str) -> groups.Listing:
    return groups.listing(actor, LetterFilters.read(filters), START_MS, END_MS)


@pytest.fixture
def world(make_letter: MakeLetter) -> None:
    for _ in range(3):
        make_letter(died_at=NOW)
    make_letter(died_at=NOW - timedelta(hours=2))
    Topic.objects.create(name="stay.completed")
    make_letter(topic="stay.completed", subscription="loyalty", fingerprint="e19d07", cause="Not valid UTF-8",
                died_at=NOW - timedelta(minutes=30))  # fmt: skip


@pytest.mark.usefixtures("world")
def test_letters_of_one_cause_are_one_group_with_its_arrivals(operator: Actor) -> None:
    found = listing(operator)
    assert [(group.cause, group.count) for group in found.groups] == [("UnknownRoomCode: …", 4), ("Not valid UTF-8", 1)]
    first = found.groups[0]
    assert first.owner is not None
    assert first.owner.name == "Distribution"
    assert (first.first, first.last) == (NOW - timedelta(hours=2), NOW)
    # The one from two hours ago lies outside the time range.
    assert sum(first.arrivals) == 3
    assert first.arrivals[-1] == 3
    assert (found.letters, found.oldest) == (5, NOW - timedelta(hours=2))


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"topic": "stay.completed"}, 1),
        ({"subscription": "partner-sync"}, 4),
        ({"owner": "Distribution"}, 4),
        ({"owner": "Nobody"}, 0),
        ({"cause": "roomcode"}, 4),
        ({"fingerprint": "e19d07"}, 1),
        ({"state": "discarded"}, 0),
    ],
)
def test_each_filter_narrows_the_list(operator: Actor, filters: dict[str, str], count: int) -> None:
    assert listing(operator, **filters).letters == count


@pytest.mark.usefixtures("world")
def test_a_team_may_own_more_subscriptions_than_a_query_has_terms(operator: Actor, subscription: Subscription) -> None:
    letters = listing(operator, owner="Distribution").letters
    assert letters
    Subscription.objects.bulk_create(
        Subscription(topic=subscription.topic, group=f"g{number}", team=subscription.team) for number in range(1_500)
    )
    assert listing(operator, owner="Distribution").letters == letters


@pytest.mark.usefixtures("world")
def test_a_scope_hides_the_letters_of_other_topics() -> None:
    assert listing(person("viewer", "stay.*")).letters == 1
    assert listing(person("viewer", "other.*")).letters == 0


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        LetterFilters.read({"state": "undead"})
    assert refused.value.field == "state"


def test_the_number_of_queries_does_not_grow_with_the_groups(
    operator: Actor, make_letter: MakeLetter, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        make_letter(fingerprint=f"{number:016x}")
    with django_assert_max_num_queries(5):
        assert len(listing(operator).groups) == 30


def test_more_groups_than_listed_are_said(
    operator: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 2)
    for number in range(3):
        make_letter(fingerprint=f"{number:016x}")
    found = listing(operator)
    assert found.more
    assert (len(found.groups), found.found, found.letters) == (2, 3, 3)


def test_every_letter_of_the_time_range_stands_in_its_slot(operator: Actor, make_letter: MakeLetter) -> None:
    slot = timedelta(milliseconds=3_600_000 / groups.SLOTS)
    begin = to_datetime(START_MS)
    edges = [begin + number * slot for number in range(groups.SLOTS + 1)]
    for edge in edges:
        # At the edge it belongs to what begins there; a moment before, to what ends there.
        make_letter(died_at=edge)
        make_letter(died_at=edge - timedelta(milliseconds=1))
    (group,) = listing(operator).groups
    assert group.count == 2 * len(edges)
    # All but the first moment before the range and the one at its end; a slot is a whole number of seconds.
    assert sum(group.arrivals) == 2 * groups.SLOTS
    assert all(group.arrivals)


def test_the_list_costs_little_at_twenty_thousand_letters(operator: Actor, make_letter: MakeLetter) -> None:
    model = make_letter()
    DeadLetter.objects.bulk_create(
        [
            DeadLetter(
                **{
                    field.attname: getattr(model, field.attname)
                    for field in DeadLetter._meta.concrete_fields
                    if field.attname not in ("id", "message_id", "died_at", "fingerprint")
                },
                message_id=f"m{number}",
                fingerprint=f"{number % 6:016x}",
                died_at=NOW - timedelta(milliseconds=number * 170),
            )
            for number in range(20_000)
        ],
        batch_size=2_000,
    )
    with database_work("default") as cost:
        assert listing(operator).letters == 20_001
    # Some 26 instructions a letter; to compute the slot of each would take four times as many.
    cost.at_most(800_000)
