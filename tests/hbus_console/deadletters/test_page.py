from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client

from engine.core.clock import SystemClock
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.freshness import STALE_MS
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter
from tests.hbus_console.kept import kept
from tests.hbus_console.messages.conftest import sign_in

__all__ = ["sign_in"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("facts")]
SignIn = Callable[..., Client]


@pytest.fixture(autouse=True)
def keeper(db: None) -> None:
    """One goes on: what it takes over is all there is."""
    kept(SystemClock().now_ms())


def test_groups_are_listed_with_what_an_operator_asks_first(sign_in: SignIn, make_letter: MakeLetter) -> None:
    for _ in range(3):
        make_letter()
    page = sign_in().get("/dead-letters/").content.decode()
    for words in ("3 messages in 1 group.", "Nothing here is trimmed", "UnknownRoomCode", "7c1f9a", "partner-sync",
                  "Distribution", 'class="strip-of-time"'):  # fmt: skip
        assert words in page, words


def test_while_no_keeper_takes_them_over_a_group_that_waits_has_at_least_so_many(
    sign_in: SignIn, make_letter: MakeLetter
) -> None:
    make_letter(), make_letter(), make_letter(state=DeadLetter.State.DISCARDED)
    client = sign_in()
    for of_ms, counts in ((SystemClock().now_ms(), ["2", "1"]), (SystemClock().now_ms() - STALE_MS, ["≥ 2", "1"])):
        kept(of_ms)
        pages = [client.get(f"/dead-letters/?state={state}").content.decode() for state in ("dead", "discarded")]
        assert [re.findall(r'<td class="num strong">([^<]+)</td>', page) for page in pages] == [
            [each] for each in counts
        ]


def test_what_may_be_cut_stands_whole_in_a_title(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter()
    client = sign_in()
    for query in ("", f"?letter={letter.pk}"):
        page = client.get(f"/dead-letters/{query}").content.decode()
        title = re.search(
            r'<a [^>]*aria-expanded="\w+" title="([^"]+)">.*?<span class="said">([^<]+)</span>', page, re.S
        )
        assert title is not None
        assert title[1] == title[2]
        assert 'title="partner-sync on booking.changed"' in page


def test_a_group_opens_in_place(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letters = [make_letter() for _ in range(12)]
    page = sign_in().get(f"/dead-letters/?open={letters[0].fingerprint}").content.decode()
    assert page.count(">Timeline</a>") == 10
    assert "and 2 more" in page
    rest = sign_in().get(f"/dead-letters/?open={letters[0].fingerprint}&all=1").content.decode()
    assert rest.count(">Timeline</a>") == 12


def test_letters_and_groups_say_where_they_stand_so_that_what_moves_up_from_behind_is_not_taken_for_new(
    sign_in: SignIn, make_letter: MakeLetter
) -> None:
    letters = [make_letter() for _ in range(12)] + [make_letter(fingerprint="0" * 16)]
    page = sign_in().get(f"/dead-letters/?open={letters[0].fingerprint}").content.decode()
    rows = re.findall(r'<tr [^>]*data-among="(\w+)" data-place="([\d-]+)"', page)
    assert [place for kind, place in rows if kind == "letters"] == [one.place for one in letters[11:1:-1]]
    groups = [int(place) for kind, place in rows if kind == "groups"]
    assert len(groups) == 2
    assert groups == sorted(groups, reverse=True)


@pytest.fixture
def namesakes(make_letter: MakeLetter) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """One cause in the subscriptions of one name on two topics: 12 letters, and 3 newer ones."""
    Topic.objects.create(name="stay.completed")
    return [make_letter() for _ in range(12)], [make_letter(topic="stay.completed") for _ in range(3)]


def test_of_the_groups_of_one_fingerprint_that_of_the_named_topic_is_opened(
    sign_in: SignIn, namesakes: tuple[list[DeadLetter], list[DeadLetter]]
) -> None:
    many, few = namesakes
    client = sign_in("operator")
    links = {group.topic: group.mark for group in client.get("/dead-letters/").context["listing"].groups}
    for letters, shown, more in ((many, 10, "and 2 more"), (few, 3, "")):
        for query in ({"open": links[letters[0].topic]}, {"letter": letters[0].pk}):
            answer = client.get("/dead-letters/", query)
            page = answer.content.decode()
            assert page.count('aria-expanded="true"') == 1, query
            assert page.count('aria-expanded="false"') == 1, query
            assert page.count(">Timeline</a>") == shown, query
            assert [row.pk for row in answer.context["page"].letters] == [one.pk for one in letters[::-1]][:shown]
            assert (" more · " in page) is bool(more), query
            assert more in page, query
    # An address from before groups had marks opens one group, and counts no rows of the other.
    page = client.get("/dead-letters/", {"open": many[0].fingerprint}).content.decode()
    assert (page.count('aria-expanded="true"'), page.count(">Timeline</a>")) == (1, 3)


def test_a_group_is_redriven_without_its_namesake(
    sign_in: SignIn, namesakes: tuple[list[DeadLetter], list[DeadLetter]]
) -> None:
    client = sign_in("operator")
    for group in client.get("/dead-letters/").context["listing"].groups:
        plan = client.get(f"/operations/plan/redrive/?{group.query}").context["plan"]
        assert plan.total == group.count


def test_an_opened_group_is_paged(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letters = [make_letter() for _ in range(55)]
    client = sign_in()
    first = client.get(f"/dead-letters/?open={letters[0].fingerprint}&all=1")
    cursor = first.context["page"].next_cursor
    rest = client.get(f"/dead-letters/?open={letters[0].fingerprint}&all=1&cursor={cursor}")
    seen = [row.pk for answer in (first, rest) for row in answer.context["page"].letters]
    assert seen == [letter.pk for letter in reversed(letters)]


def test_the_panel_states_the_effect_before_the_button(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter({"expirytime": "2020-01-01T00:00:00Z"})
    Subscription.objects.update(paused=True)
    page = sign_in("operator").get(f"/dead-letters/?letter={letter.pk}").content.decode()
    for words in ("still wanted by partner-sync", "partner-sync is paused", "the copy does not expire", "Redrive 1",
                  "goes to partner-sync alone", f"/api/v1/dead-letters/{letter.pk}/redrive"):  # fmt: skip
        assert words in page, words
    discard = sign_in("operator").get(f"/dead-letters/?letter={letter.pk}&act=discard").content.decode()
    assert "never handled by partner-sync" in discard
    assert "Discard 1" in discard


def test_redriving_leads_back_to_what_was_just_done(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter()
    answer = sign_in("operator").post(f"/dead-letters/{letter.pk}/redrive", {"reason": "deployed"}, follow=True)
    letter.refresh_from_db()
    page = answer.content.decode()
    assert letter.state == "redriven"
    assert f"Redriven to partner-sync as {letter.redriven_as}." in page
    assert f"/messages/{letter.redriven_as}" in page
    assert OutboxMessage.objects.count() == 1


def test_it_goes_back_to_where_one_came_from_but_never_outside(sign_in: SignIn, make_letter: MakeLetter) -> None:
    client = sign_in("operator")
    for back, target in (("/messages/x", "/messages/x"), ("https://evil.example/", "/dead-letters/?letter=")):
        letter = make_letter()
        answer = client.post(f"/dead-letters/{letter.pk}/redrive?{urlencode({'next': back})}", {"reason": "deployed"})
        assert answer.status_code == 302
        assert answer["Location"].startswith(target)


@pytest.mark.parametrize("act", ["redrive", "discard", "edit"])
def test_a_decision_leaves_the_list_narrowed_as_it_was(
    sign_in: SignIn, make_letter: MakeLetter, namesakes: tuple[list[DeadLetter], list[DeadLetter]], act: str
) -> None:
    letter = namesakes[0][-1]
    client = sign_in("admin")
    where = f"/dead-letters/?topic=booking.changed&range=7d&letter={letter.pk}"
    page = client.get(f"{where}&act={act}").content.decode()
    address = unescape(re.search(rf'"(/dead-letters/{letter.pk}/{act}[^"]*)"', page)[1])  # type: ignore[index]
    if act == "edit":
        edit = client.get(address).content.decode()
        action = unescape(re.search(r'action="([^"]*)" class="form"', edit)[1])  # type: ignore[index]
        assert unescape(re.search(r'href="([^"]*)">Back<', edit)[1]) == where  # type: ignore[index]
        address = address.partition("?")[0] + action
    else:
        refused = client.post(address, {"reason": " "})
        assert 'id="reason-error"' in refused.content.decode()
        assert [group.topic for group in refused.context["listing"].groups] == ["booking.changed"]
    done = client.post(address, {"reason": "deployed", "payload": '{"room": "DBL"}'})
    assert done["Location"] == where


def test_a_second_click_says_that_nothing_was_done(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter()
    client = sign_in("operator")
    client.post(f"/dead-letters/{letter.pk}/redrive", {"reason": "deployed"})
    page = client.post(f"/dead-letters/{letter.pk}/discard", {"reason": "deployed"}, follow=True).content.decode()
    assert "Nothing was done: operator-all had redriven it before." in page
    assert OutboxMessage.objects.count() == 1


@pytest.mark.parametrize("act", ["redrive", "discard"])
def test_without_a_reason_the_field_says_so_and_nothing_happens(
    sign_in: SignIn, make_letter: MakeLetter, act: str
) -> None:
    letter = make_letter()
    answer = sign_in("operator").post(f"/dead-letters/{letter.pk}/{act}", {"reason": ""})
    assert answer.status_code == 400
    assert 'id="reason-error"' in answer.content.decode()
    assert DeadLetter.objects.get().state == "dead"


def test_a_decision_stays_listed_with_who_and_why(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter()
    client = sign_in("operator")
    client.post(f"/dead-letters/{letter.pk}/discard", {"reason": "cancelled by phone"})
    page = client.get(f"/dead-letters/?state=discarded&letter={letter.pk}").content.decode()
    assert "cancelled by phone" in page
    assert "operator-all" in page
    assert "Redrive 1" not in page


@pytest.mark.parametrize("act", ["redrive", "discard"])
def test_a_viewer_may_look_but_not_decide(sign_in: SignIn, make_letter: MakeLetter, act: str) -> None:
    letter = make_letter()
    client = sign_in("viewer")
    assert "takes the role operator" in client.get(f"/dead-letters/?letter={letter.pk}").content.decode()
    assert client.post(f"/dead-letters/{letter.pk}/{act}", {"reason": "x"}).status_code == 403
    assert AuditEntry.objects.filter(action=f"dead_letter.{act}.refused").count() == 1
    assert DeadLetter.objects.get().state == "dead"


def test_a_scope_hides_letters_and_refuses_decisions(sign_in: SignIn, make_letter: MakeLetter) -> None:
    letter = make_letter()
    client = sign_in("operator", "stay.*")
    assert "No dead letters" in client.get("/dead-letters/").content.decode()
    assert client.get(f"/dead-letters/?letter={letter.pk}").status_code == 404
    assert client.post(f"/dead-letters/{letter.pk}/redrive", {"reason": "x"}).status_code == 404
    assert DeadLetter.objects.get().state == "dead"


def test_the_export_is_json_lines_masked_and_in_scope(sign_in: SignIn, make_letter: MakeLetter) -> None:
    Topic.objects.update(masked_fields=["room"], classification="personal")
    letter = make_letter()
    make_letter(topic="stay.completed")
    answer = sign_in("viewer", "booking.*").get("/dead-letters/export")
    lines = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]  # type: ignore[attr-defined]
    assert [line["id"] for line in lines] == [letter.pk]
    assert lines[0]["payload"] == {"room": "masked · personal"}
    assert lines[0]["masked"] == ["room"]
    assert lines[0]["envelope"]["tenant"] == "lisbon"
    assert "dead-letters-dead.jsonl" in answer["Content-Disposition"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "No dead letters"),
        ("", "Nothing waits for a decision."),
        ("?topic=booking.changed&cause=x", "No dead letter matches"),
        ("?state=redriven", "Nothing was decided so"),
    ],
)
@pytest.mark.usefixtures("subscription")
def test_empty_lists_say_why(sign_in: SignIn, query: str, words: str) -> None:
    assert words in sign_in().get(f"/dead-letters/{query}").content.decode()


@pytest.mark.parametrize("query", ["?state=undead", "?open=7c1f9a0000000000&cursor=y"])
def test_a_malformed_address_is_refused_with_a_page(sign_in: SignIn, make_letter: MakeLetter, query: str) -> None:
    make_letter()
    assert sign_in().get(f"/dead-letters/{query}").status_code == 400
