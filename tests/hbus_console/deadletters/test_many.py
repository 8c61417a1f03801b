"""Pages stay fast with many letters; costs are counted in instructions of SQLite."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.core.clock import SystemClock
from hbus_console.access.permissions import Actor
from hbus_console.deadletters import counting, live, reading
from hbus_console.deadletters.groups import LetterFilters
from hbus_console.deadletters.models import DeadLetter
from tests.costs import database_work
from tests.hbus_console.deadletters.conftest import NOW, person
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

MANY = 6_000


@pytest.fixture
def many(db: None) -> None:
    DeadLetter.objects.bulk_create(
        (
            DeadLetter(
                topic=f"t{each % 200}", subscription="g", message_id=f"m{each}", source="/s", position=str(each),
                body=b"", fingerprint=f"f{each % 900}", attempts=1, first_failed_at=NOW,
                died_at=NOW + timedelta(seconds=each),
            )
            for each in range(MANY)
        ),
        batch_size=500,
    )  # fmt: skip


@pytest.mark.usefixtures("many")
def test_the_newest_page_and_the_next_are_found_without_sorting_all(operator: Actor) -> None:
    rows = LetterFilters().letters(operator)
    with database_work("default") as cost:
        first = reading.page(rows, "", 50)
        second = reading.page(rows, first.next_cursor, 50)
    assert [letter.message_id for letter in first.letters] == [f"m{MANY - each}" for each in range(1, 51)]
    assert second.letters[0].message_id == f"m{MANY - 51}"
    cost.at_most(10_000, f"for two pages of {MANY:,} letters")


@pytest.mark.usefixtures("many")
def test_the_menu_counts_to_a_bound_and_says_so(operator: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(SystemClock().now_ms())
    assert counting.waiting(operator) == MANY
    monkeypatch.setattr(counting, "MOST_COUNTED", 100)
    with database_work("default") as cost:
        assert counting.waiting(operator) == "99+"
    cost.at_most(1_500, f"to count to 100 of {MANY:,}")
    assert counting.waiting(person("viewer", "t7.*")) == 30
    # What moves in place says what a reload would.
    kept(0)
    texts = live.cells(0, ("*",)).texts
    assert (texts["dead/menu"], texts["dead"]) == ("99+", "6,000")
