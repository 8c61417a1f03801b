"""The page of one operation while it moves, and the way from its audit entry to its messages."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from engine.core.errors import Conflict
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.evidence.freshness import STALE_MS
from hbus_console.operations import kinds, services
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from tests.hbus_console.kept import kept
from tests.hbus_console.operations.conftest import MakeUser, Words

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def operation(operator: Actor, words: Words) -> Operation:
    return services.start(operator, "words", {"words": ["a", "b"]}, reason="to be heard").operation


@pytest.fixture
def page(operation: Operation) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=operation.user_id))
    return client


@pytest.mark.parametrize("depth", [300, 900, 990, 2_000, 200_000])
@pytest.mark.parametrize("around", ["{}", '{{"words": {}}}'])
def test_a_choice_of_any_depth_is_refused_and_breaks_nothing(page: Client, depth: int, around: str) -> None:
    spec = around.format("[" * depth + "]" * depth).replace('"words"', '"wards"')
    answer = page.post("/operations/plan/words/", {"spec": spec, "reason": "why"})
    assert answer.status_code == 422


def test_the_page_is_loaded_anew_when_other_acts_are_possible(page: Client, operation: Operation) -> None:
    path = f"/operations/{operation.pk}/"
    assert "Pause…" in page.get(path).content.decode()

    def polled(shown: str) -> bool:
        return "HX-Refresh" in page.get(path, headers={"HX-Request": "true", "X-Shown": shown}).headers

    Operation.objects.update(state="running", started_at=timezone.now())
    assert not polled("queued")
    facts = page.get(path, headers={"HX-Request": "true", "X-Shown": "queued"}).content.decode()
    assert 'hx-swap-oob="true"' in facts
    assert "not yet" not in facts
    Operation.objects.update(state="done", ended_at=timezone.now())
    assert polled("running")
    assert "Pause…" not in page.get(path).content.decode()


def test_the_page_of_one_whose_kind_is_gone_offers_its_end_and_no_resume(
    page: Client, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.get(pk=operation.user_id).grants.update(role="governor")
    Operation.objects.update(state="paused")
    assert "Resume…" in page.get(f"/operations/{operation.pk}/").content.decode()
    monkeypatch.delitem(kinds._kinds(), "words")
    shown = page.get(f"/operations/{operation.pk}/").content.decode()
    assert "is not installed" in shown
    assert "Cancel…" in shown
    assert "Resume…" not in shown
    answer = page.post(f"/operations/{operation.pk}/cancel/", {"reason": "its feature is gone"}, follow=True)
    assert "It is cancelled." in answer.content.decode()


def test_the_audit_entry_leads_to_the_operation_and_its_messages(
    page: Client, operator: Actor, operation: Operation
) -> None:
    done = {"kind": "message", "facets": {"subscription": "s"}, "result": "done", "at": timezone.now()}
    copy = str(Subject("message", "booking.changed", "01COPY"))
    operation.items.create(key="1", name="01ORIGINAL", namespace="booking.changed", became=copy, **done)
    operation.items.create(key="2", name="01ELSEWHERE", namespace="stay.secret", **done)
    services.pause(operator, operation.pk, "let me look")
    User.objects.get(pk=operation.user_id).grants.update(scope="booking.*")

    shown = page.get(f"/audit/{operation.audit_seq}/").content.decode()
    for said in (f"/operations/{operation.pk}/", "/messages/01ORIGINAL", "/messages/01COPY", "let me look", "paused"):
        assert said in shown
    assert "01ELSEWHERE" not in shown


@pytest.mark.parametrize(("scope", "read"), [("*", True), ("booking.*", False)])
def test_the_audit_entry_of_one_that_spans_several_namespaces_is_linked_for_who_may_read_it(
    operator: Actor, words: Words, make_user: MakeUser, scope: str, read: bool
) -> None:
    words.within = ""
    made = services.start(operator, "words", {"words": ["a"]}, reason="to be heard").operation
    reader = User.objects.get(pk=make_user("operator", scope, "reader").user_id)
    if scope != "*":
        reader.grants.create(role="viewer", scope="*")
    client = Client()
    client.force_login(reader)
    assert (f"/audit/{made.audit_seq}/" in client.get(f"/operations/{made.pk}/").content.decode()) is read
    assert (client.get(f"/audit/{made.audit_seq}/").status_code == 200) is read


def test_each_figure_leads_to_what_it_counts(page: Client, operation: Operation) -> None:
    done = {"kind": "message", "namespace": "booking.changed", "facets": {}, "at": timezone.now()}
    for number, (result, outcome) in enumerate([("done", "dead"), ("done", "settled"), ("failed", "")]):
        operation.items.create(key=str(number), name=f"01{outcome or result}", result=result, outcome=outcome, **done)
    Operation.objects.update(state="done", done=2, failed=1, copies=2, died=1, settled=1)
    for words, shown, others in (
        ("dead letters of their own", "01dead", ("01settled", "01failed")),
        ("left as they were", "01failed", ("01settled", "01dead")),
    ):
        # From the narrowed list it leads to its own all the same.
        whole = page.get(f"/operations/{operation.pk}/?result=skipped").content.decode()
        link = unescape(re.search(rf'<a href="(\?[^"]+)">{words}</a>', whole)[1])  # type: ignore[index]
        listed = page.get(f"/operations/{operation.pk}/{link}").content.decode()
        assert shown in listed
        assert not [other for other in others if other in listed]
    assert ">needed nothing any more</span>" in whole, "there is none"


def test_it_says_who_held_or_cancelled_it_and_why(page: Client, operation: Operation, operator: Actor) -> None:
    path = f"/operations/{operation.pk}/"

    def facts() -> str:
        return " ".join(page.get(path).content.decode().split())

    assert "“too loud”" not in facts()
    services.pause(operator, operation.pk, "too loud")
    assert f"<dt>paused</dt> <dd>by {operator.name}, <time" in facts()
    assert "“too loud”" in facts()
    services.cancel(operator, operation.pk, "nobody listens")
    assert f"<dt>cancelled</dt> <dd>by {operator.name}, <time" in facts()
    assert "“nobody listens”" in facts()
    assert "“too loud”" not in facts()


def test_before_the_rest_follows_it_is_said_how_the_first_few_fared(page: Client, operation: Operation) -> None:
    Operation.objects.update(state="paused", total=34, done=5, first=5, copies=5, died=4, settled=1)
    shown = page.get(f"/operations/{operation.pk}/").content.decode()
    assert "Of the first 5: 1 settled, 4 died again. 29 would follow now." in shown
    assert shown.count("Let the rest follow") == 3
    assert "It goes on where it was held." not in shown
    Operation.objects.update(total=0)
    shown = page.get(f"/operations/{operation.pk}/").content.decode()
    assert "4 died again. All that is left, nobody knows how many, would follow now." in shown
    Operation.objects.update(done=7)
    shown = page.get(f"/operations/{operation.pk}/").content.decode()
    assert "It goes on where it was held." in shown
    assert "would follow now" not in shown


def test_the_list_says_who_held_or_cancelled_each(page: Client, operator: Actor, operation: Operation) -> None:
    def shown() -> str:
        return " ".join(page.get("/operations/").content.decode().split())

    assert f"by {operator.name}, <time" not in shown()
    services.pause(operator, operation.pk, "too loud")
    assert f'<p class="muted" title="too loud">by {operator.name}, <time' in shown()
    services.resume(operator, operation.pk, "back")
    assert f"by {operator.name}, <time" not in shown()
    services.cancel(operator, operation.pk, "nobody listens")
    assert f'<p class="muted" title="nobody listens">by {operator.name}, <time' in shown()


def test_who_held_many_costs_no_more_questions_than_one(page: Client, operator: Actor, words: Words) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connections["default"]) as asked:
            page.get("/operations/")
        return len(asked)

    page.get("/operations/")
    before = cost()
    for word in "cdefg":
        services.cancel(operator, services.start(operator, "words", {"words": [word]}, reason="r").operation.pk, "no")
    assert cost() <= before + 1


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_what_came_too_late_says_who_was_quicker_where_it_was_typed(
    page: Client, make_user: MakeUser, operation: Operation, verb: str
) -> None:
    services.cancel(make_user(name="otto"), operation.pk, "wrong list")
    path = f"/operations/{operation.pk}/{verb}/"
    answer = page.post(path, {"reason": "mine"}, headers={"HBUS-Form": "1", "Idempotency-Key": "k" * 32})
    assert (answer.status_code, answer["Content-Type"]) == (409, "text/plain; charset=utf-8")
    said = f"Nothing was done: operation {operation.pk} is cancelled. otto cancelled it: “wrong list”."
    assert answer.content.decode().startswith(said)
    # Without a script it stands on top of the page.
    assert said in page.post(path, {"reason": "mine"}, follow=True).content.decode()


def test_who_held_it_by_its_own_plan_is_itself(page: Client, runner: OperationRunner, operator: Actor) -> None:
    started = services.start(operator, "words", {"words": ["a", "b", "c"]}, reason="why", first=1).operation
    runner.tick()
    assert 'title="the first 1 are done, and wait to be looked at">by itself, <time' in " ".join(
        page.get("/operations/").content.decode().split()
    )
    with pytest.raises(Conflict, match="It held itself"):
        services.pause(operator, started.pk, "why")


@pytest.mark.parametrize("state", ["paused", "settling", "done", "cancelled", "failed"])
def test_a_speed_is_of_now_only_while_it_runs(page: Client, operation: Operation, state: str) -> None:
    now = timezone.now()
    kept(round(now.timestamp() * 1000))
    Operation.objects.update(
        state="running", rate_per_s=20, total=100, done=56, copies=56, went_at=now - timedelta(seconds=10), moved_at=now
    )

    def told() -> str:
        shown = page.get(f"/operations/{operation.pk}/").content.decode()
        return " ".join(re.search(r'<span class="meta">(.*?)</span>', shown, re.S)[1].split())  # type: ignore[index]

    assert told() == "5.6 a second of 20 · about 8 s left"
    Operation.objects.update(state=state)
    assert told() == "5.6 a second on average"
    Operation.objects.update(went_at=None)
    assert told() == ("at most 20 a second" if state == "paused" else "")


def test_a_speed_is_not_of_now_where_nobody_is_known_to_work(page: Client, operation: Operation) -> None:
    now = timezone.now()
    kept(round(now.timestamp() * 1000) - STALE_MS)
    Operation.objects.update(state="running", total=100, done=56, went_at=now - timedelta(seconds=10), moved_at=now)
    shown = page.get(f"/operations/{operation.pk}/").content.decode()
    assert "5.6 a second on average" in shown
    assert " s left" not in shown
