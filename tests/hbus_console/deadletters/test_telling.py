"""How a group of letters is named: by what all of them say, with the counts of what varies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.test import Client
from django.utils.html import escape

from engine.bus.dead import cause_of
from hbus_console.access.permissions import Actor
from hbus_console.deadletters import samples
from hbus_console.deadletters.bulk import REDRIVE
from hbus_console.deadletters.groups import LetterFilters, listing
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.telling import CauseTally, Telling
from hbus_console.overview.concerns import concerns
from hbus_console.topics.models import Topic
from tests.costs import database_work
from tests.hbus_console.deadletters.conftest import NOW, MakeLetter
from tests.hbus_console.messages.conftest import sign_in
from tests.hbus_console.messages.test_api import Call, call
from tests.hbus_console.overview.test_concerns import look

__all__ = ["call", "sign_in"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("facts")]
CAUSE = "UnknownRoomCode: room code … is not in the partner's catalogue"
ANNA = msgspec.Raw(b'{"guest": "anna@example.org", "room": 5}')
HELD = msgspec.Raw(b'{"guest": {"email": "anna@example.org"}}')


def room(code: str) -> dict[str, str]:
    return {
        "cause": CAUSE,
        "error": f"UnknownRoomCode: room code '{code}' is not in the partner's catalogue\n  File \"x.py\", line 3",
    }


def told(actor: Actor) -> Telling:
    (group,) = listing(actor, LetterFilters(), 0, 1).groups
    return group.telling


def _cause(line: str) -> str:
    name, _, words = line.partition(": ")
    return cause_of(name, words)


def tally(*lines: str, cause: str = "", total: int = 0) -> Telling:
    counted = CauseTally(cause or _cause(lines[0]))
    for line in lines:
        counted.add(line, 1)
    return counted.telling(total or len(lines), hidden=False)


def test_half_of_one_room_and_half_of_the_other_are_told_as_that(operator: Actor, make_letter: MakeLetter) -> None:
    for code in "ZQZQZ":
        make_letter(**room(code))
    assert (told(operator).title, told(operator).note) == (CAUSE, "room code: “Z” × 3, “Q” × 2")


def test_what_all_letters_say_stands_in_the_title(operator: Actor, make_letter: MakeLetter) -> None:
    for _ in range(2):
        make_letter(**room("DBL-SEA"))
    assert told(operator).title == CAUSE.replace("…", "'DBL-SEA'")
    assert (told(operator).cause, told(operator).note) == (CAUSE, "")


def test_only_the_newest_of_many_are_read_and_that_is_said(
    operator: Actor, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_OF_ONE", 3)
    for code in "QZZZ":
        make_letter(**room(code))
    assert (told(operator).title, told(operator).note) == (CAUSE, "room code: “Z” × 3 (of the latest 3)")


@pytest.mark.parametrize(
    ("lines", "title", "note"),
    [
        (["E: a 'x' on 3", "E: a 'y' on 3"], "E: a … on 3", "value: “x” × 1, “y” × 1"),
        (["E: booking 1", *(f"E: booking {each}" for each in range(2, 9))], "E: booking #",
         "booking: 8 different values"),
        (["E: code 1", "E: code 1", *(f"E: code {each}" for each in range(2, 7))], "E: code #",
         "code: “1” × 2, “2” × 1, “3” × 1, “4” × 1 and 2 others"),
        (["E", "E"], "E", ""),
        (["E: words alone"], "E: words alone", ""),
        # What does not say what its cause says is not counted, and then nothing is true of all.
        (["E: code 5", "F: other"], "E: code #", "code: “5” × 1 (of the latest 1)"),
        (["E: " + "room '" + "x" * 80 + "'"], "E: room …", "room: “" + "x" * 59 + "…” × 1"),
    ],
)  # fmt: skip
def test_the_words_of_a_telling(lines: list[str], title: str, note: str) -> None:
    assert (tally(*lines).title, tally(*lines).note) == (title, note)


def test_what_differs_on_a_later_line_of_a_message_is_told_too() -> None:
    cause = cause_of("E", "order 17 refused\nroom 'Z' of 3")
    said = [
        f"E: order 17 refused\nroom '{code}' of 3\n  File \"x.py\", line {line}" for code, line in (("Z", 3), ("Q", 4))
    ]
    assert (tally(*said, cause=cause).title, tally(*said, cause=cause).note) == (
        "E: order 17 refused room … of 3",
        "refused room: “Z” × 1, “Q” × 1",
    )


def test_how_much_more_differs_is_told() -> None:
    said = [f"E: guest 'a{n}' room 'b{n}' day 'c{n}' hour 'd{n}' for {n} nights" for n in range(2)]
    assert tally(*said).note.endswith("day: “c0” × 1, “c1” × 1 · and 2 more")


def test_a_message_of_several_lines_is_counted_by_its_first() -> None:
    cause = cause_of("E", "room 'Z' refused\nafter 3 tries")
    assert tally("E: room 'Z' refused", "E: room 'Q' refused", cause=cause) == Telling(
        cause, "E: room … refused after # tries", tally("E: room 'Z' refused", "E: room 'Q' refused").varying
    )


@pytest.mark.parametrize(
    ("masked", "note"),
    [
        (["guest"], "guest: masked"),
        (["*"], "guest: masked"),
        # What is masked may be any part of what the handler says, whatever the letter holds by now.
        (["room"], "guest: masked"),
        ([], "guest: “anna@example.org” × 2, “somebody” × 1"),
    ],
)
def test_where_the_topic_masks_something_no_count_tells_a_value(
    operator: Actor, make_letter: MakeLetter, masked: list[str], note: str
) -> None:
    Topic.objects.update(masked_fields=masked)
    for who in ("anna@example.org", "anna@example.org", "somebody"):
        make_letter({"data": ANNA}, cause="E: guest …", error=f"E: guest '{who}'")
    assert (told(operator).title, told(operator).note) == ("E: guest …", note)


@pytest.mark.parametrize("guess", ["anna@example.org", "anna", "bert@example.org"])
def test_no_guess_that_an_error_quotes_is_confirmed_by_how_it_is_told(
    operator: Actor, make_letter: MakeLetter, call: Call, guess: str
) -> None:
    Topic.objects.update(masked_fields=["guest"])
    letter = make_letter({"data": HELD}, cause="E: wish …", error=f"E: wish '{guess}'")
    _, found = call("GET", "dead-letters/groups")
    assert (told(operator).title, told(operator).note) == ("E: wish …", "wish: masked")
    assert found["results"][0]["varying"] == [{"name": "wish", "different": None, "masked": True, "values": []}]
    assert samples.own_words([letter]) == ["E: wish …"]
    plan = REDRIVE.plan(operator, REDRIVE.check(operator, {"fingerprint": letter.fingerprint}))
    assert ([each.detail for each in plan.samples], plan.findings[-1].note) == (["E: wish …"], "wish: masked")


def test_whether_two_errors_quote_the_same_is_not_told_either(operator: Actor, make_letter: MakeLetter) -> None:
    Topic.objects.update(masked_fields=["guest"])
    # One by what is masked, one by a guess: that they are one value would tell it.
    said = []
    for guess in ("anna", "bert"):
        for who in ("anna", guess):
            make_letter({"data": HELD}, cause="E: guest …", error=f"E: guest '{who}'")
        said.append(told(operator))
        DeadLetter.objects.all().delete()
    assert said[0] == said[1]


@pytest.mark.parametrize("masked", [["guest"], []])
@pytest.mark.parametrize("broken", [{"topic": "gone.for.ever"}, {"died_at": NOW.replace(year=2020)}])
def test_where_nobody_knows_what_is_masked_everything_is(
    operator: Actor, make_letter: MakeLetter, broken: dict[str, Any], masked: list[str]
) -> None:
    Topic.objects.update(masked_fields=masked)
    for code in "ZQ":
        make_letter(**room(code), **broken, message_id=code)
    assert told(operator).note == "room code: masked"


def test_page_api_and_what_needs_a_person_name_the_group_alike(
    operator: Actor, make_letter: MakeLetter, sign_in: Callable[..., Client], call: Call
) -> None:
    for code in "ZQZ":
        make_letter(**room(code))
    letter = DeadLetter.objects.latest("pk")
    for query in ("", f"?open={letter.fingerprint}"):
        page = sign_in().get(f"/dead-letters/{query}").content.decode()
        assert escape(CAUSE) in page
        assert "room code: “Z” × 2, “Q” × 1" in page
    # Who chooses some of an open group is told which is which.
    assert Counter(re.findall(r'<div class="varying muted" title="([^"]*)">\1</div>\s*</td>', page)) == {
        escape(room(code)["error"].splitlines()[0]): number for code, number in (("Z", 2), ("Q", 1))
    }
    _, found = call("GET", "dead-letters/groups")
    group = found["results"][0]
    assert (group["cause"], group["title"], group["latest"]) == (CAUSE, CAUSE, 0)
    assert group["varying"] == [
        {
            "name": "room code", "different": 2, "masked": False,
            "values": [{"value": "Z", "count": 2}, {"value": "Q", "count": 1}],
        }
    ]  # fmt: skip
    (concern,) = [each for each in concerns(look(operator, 0)) if "dead letters" in each.text]
    assert concern.note.startswith(f"{CAUSE} · room code: “Z” × 2, “Q” × 1 · partner-sync · since ")


def test_a_page_of_large_groups_reads_no_more_than_its_bound(operator: Actor, make_letter: MakeLetter) -> None:
    model = make_letter(**room("Z"))
    kept = [field.attname for field in DeadLetter._meta.concrete_fields]
    values = {name: getattr(model, name) for name in kept if name not in ("id", "message_id", "fingerprint")}
    DeadLetter.objects.bulk_create(
        [DeadLetter(**values, message_id=f"m{number}", fingerprint=f"{number % 20:016x}") for number in range(12_000)],
        batch_size=2_000,
    )
    asked = [samples.OneCause(f"{number:016x}", model.topic, model.subscription, 600) for number in range(20)]
    with database_work("default") as cost:
        found = samples.tellings(asked, "dead")
    assert {each.latest for each in found} == {210}
    cost.at_most(250_000, "for twenty groups of 600 letters")
