"""A feature brings its kinds of alert rules by declaring them; one that is taken away leaves nothing broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from engine.core.errors import BadInput, ConfigurationError
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import kinds, services
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.models import Alert, Evaluation, Notification, Rule
from hbus_console.registry import loading, subjects
from hbus_console.teams.models import Team
from tests.hbus_console.alerts.conftest import Watch, rule, webhook
from tests.hbus_console.alerts.toy.alerts import HEAT, LOOKS
from tests.hbus_console.topics.conftest import EDITOR, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Install = Callable[..., None]
SignIn = Callable[..., Client]
TOY, AGAIN = "tests.hbus_console.alerts.toy", "tests.hbus_console.alerts.toy_again"


def forget() -> None:
    for cached in (loading.features, kinds.kinds, subjects.kinds):
        cached.cache_clear()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make these, beside the console's own, the installed features."""

    def do(*apps: str) -> None:
        monkeypatch.setenv("HBUS_APPS", ",".join(apps))
        forget()

    HEAT.clear()
    LOOKS.clear()
    yield do
    forget()


@pytest.fixture
def boiling(install: Install, watch: Watch) -> Rule:
    """A rule of the toy that tells on-call, in a kitchen where the left kettle boils."""
    install(TOY)
    Team.objects.create(name="Kitchen", contact="#kitchen")
    HEAT.update({("kitchen", "left"): 101.0, ("kitchen", "right"): 20.0, ("garden", "left"): 30.0})
    webhook()
    made = rule("kettle_heat", 100, name="It boils", channels=("on-call",))
    watch.go(None)
    return made


def test_a_kind_of_a_feature_fires_is_told_and_ends(boiling: Rule, watch: Watch) -> None:
    alert = Alert.objects.get()
    assert (str(alert.subject), alert.state, alert.value) == ("kettle:kitchen/left", "firing", 101)
    told = Notification.objects.get().body["alerts"][0]
    assert (told["topic"], told["subscription"]) == ("", ""), "it is neither"
    assert told["sentence"] == "left on kitchen is as hot as 101 degrees (threshold 100 degrees)."
    assert (told["subject"], told["owner"], told["contact"]) == ("kettle:kitchen/left", "Kitchen", "#kitchen")
    HEAT["kitchen", "left"] = 99
    assert watch.go(None) == ["resolved"]
    assert [row.event for row in Notification.objects.order_by("pk")] == ["fired", "resolved"]


def test_a_round_reads_once_whatever_many_rules_ask(boiling: Rule, watch: Watch) -> None:
    rule("kettle_heat", 200, name="It melts")
    LOOKS.clear()
    watch.go(None, rounds=3)
    assert len(LOOKS) == 3
    assert Evaluation.objects.get().targets == 2 + 3


def test_its_pages_and_answers_are_those_of_every_kind(
    boiling: Rule, signed_in: SignIn, calling: Callable[..., Callable[..., object]]
) -> None:
    client, number = signed_in(Role.EDITOR), Alert.objects.get().pk
    assert "left <span" in client.get("/alerts/").content.decode()
    page = client.get(f"/alerts/{number}/").content.decode()
    assert "It boils: left on kitchen" in page
    assert "101 degrees" in page
    assert "Any kettle on any room is as hot as 100 degrees or more" in client.get("/alerts/rules/").content.decode()
    form = client.get("/alerts/rules/new/?kind=kettle_heat").content.decode()
    for words in ("Heat of a kettle", ">Rooms<", ">Kettles<", "or one room."):
        assert words in form
    answer = calling(Role.VIEWER)("GET", f"alerts/{number}").json()  # type: ignore[attr-defined]
    assert (answer["subject"], answer["namespace"], answer["name"]) == ("kettle:kitchen/left", "kitchen", "left")
    assert (answer["topic"], answer["subscription"]) == ("", ""), "a kettle is neither, nor is its room"


def test_a_preview_and_a_silence_name_what_is_no_topic_by_its_subject(
    boiling: Rule, calling: Callable[..., Callable[..., object]]
) -> None:
    call = calling(Role.OPERATOR)
    number = Alert.objects.get().pk
    made = call("POST", f"alerts/{number}/silence", {"minutes": 5, "reason": "tea"}).json()  # type: ignore[attr-defined]
    assert (made["subject"], made["namespace"], made["name"]) == ("kettle:kitchen/left", "kitchen", "left")
    assert (made["topic"], made["subscription"]) == ("", "")
    wanted = {"name": "x", "kind": "kettle_heat", "threshold": 100}
    found = calling(Role.EDITOR)("POST", "alert-rules/preview", wanted).json()  # type: ignore[attr-defined]
    first = found["lines"][0]
    assert (first["subject"], first["topic"], first["subscription"]) == ("kettle:kitchen/left", "", "")


def test_its_rules_are_narrowed_by_namespace_and_name(boiling: Rule) -> None:
    def shown(**fields: str) -> list[str]:
        found = services.preview(EDITOR, services.RuleDraft("x", "kettle_heat", 1, **fields))  # type: ignore[arg-type]
        return sorted(str(line.subject) for line in found.lines)

    assert shown(topics="garden") == ["kettle:garden/left"]
    assert shown(group="l*t") == ["kettle:garden/left", "kettle:kitchen/left"]
    assert shown(owner="Kitchen", topics="kitchen", group="right") == ["kettle:kitchen/right"]
    with pytest.raises(BadInput, match="is neither a kettle's name nor a pattern"):
        shown(group="a b")


def test_who_sees_another_namespace_does_not_see_it(boiling: Rule) -> None:
    number = Alert.objects.get().pk
    assert services.alert(actor(Role.VIEWER, "kitchen"), number).pk == number
    with pytest.raises(Exception, match="There is no alert"):
        services.alert(actor(Role.VIEWER, "garden"), number)


def test_a_feature_that_comes_later_brings_its_first_rules_once(install: Install) -> None:
    first = services.ensure_defaults()
    install(TOY)
    assert services.ensure_defaults() == 1
    assert Rule.objects.get(name="A kettle boils").kind == "kettle_heat"
    Rule.objects.all().delete()
    assert services.ensure_defaults() == 0
    assert first > 1


def test_a_first_rule_whose_name_is_taken_is_left_out(install: Install) -> None:
    install(TOY)
    rule("lag", 1, name="a kettle BOILS")
    services.ensure_defaults()
    assert [it.kind for it in Rule.objects.filter(name__iexact="A kettle boils")] == ["lag"]


def test_two_kinds_of_one_name_are_refused_at_start(install: Install) -> None:
    install(TOY, AGAIN)
    for start in (lambda: call_command("prepare"), AlertEvaluator):
        with pytest.raises((ConfigurationError, CommandError)) as refused:
            start()
        assert "kettles and teapots both bring an alert kind 'kettle_heat'" in str(refused.value)


def test_a_rule_whose_feature_is_gone_is_shown_as_such_and_breaks_nothing(
    boiling: Rule, watch: Watch, install: Install, signed_in: SignIn, calling: Callable[..., Callable[..., object]]
) -> None:
    rule("lag", 100, name="Backlog")
    install()
    assert watch.go(100) == ["resolved", "firing"], "what nothing measures is over, and the rest goes on"
    alert = Alert.objects.earliest("pk")
    assert "is not installed" in alert.over_because
    client = signed_in(Role.EDITOR)
    rules = client.get("/alerts/rules/").content.decode()
    assert "not installed" in rules
    assert "Nothing: the feature that brings its kind is not installed" in rules
    page = client.get(f"/alerts/rules/{boiling.pk}/").content.decode()
    assert "This rule is not evaluated." in page
    assert "Save" not in page
    for path in ("/alerts/?state=resolved", f"/alerts/{alert.pk}/", f"/alerts/{alert.pk}/chart/", "/"):
        assert client.get(path).status_code == 200, path
    call = calling(Role.EDITOR)
    assert [it["kind"] for it in call("GET", "alert-rules").json()["results"]] == ["lag", "kettle_heat"]  # type: ignore[attr-defined]
    assert call("GET", f"alerts/{alert.pk}").json()["subject"] == "kettle:kitchen/left"  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="is not installed"):
        services.change_rule(SYSTEM, boiling.pk, {"threshold": 90})
    services.delete_rule(SYSTEM, boiling.pk, "its feature is gone")


def test_a_feature_that_comes_back_is_judged_again(boiling: Rule, watch: Watch, install: Install) -> None:
    install()
    watch.go(None)
    install(TOY)
    assert watch.go(None) == ["resolved", "firing"]


def test_a_measure_that_fails_keeps_no_other_rule_from_being_judged(
    boiling: Rule, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule("lag", 100, name="Backlog")

    def broken(now: object) -> None:
        raise ZeroDivisionError("no water")

    monkeypatch.setattr("tests.hbus_console.alerts.toy.alerts._look", broken)
    watch.clock.advance(10)
    watch.sample(100)
    with pytest.raises(RuntimeError, match="It boils could not be judged: ZeroDivisionError: no water"):
        watch.evaluator.tick()
    assert watch.states() == ["firing", "firing"], "its own alert stays as it was"


def test_targets_that_cannot_be_read_fail_their_own_rules_only(boiling: Rule, watch: Watch) -> None:
    rule("lag", 100, name="Backlog")
    HEAT.clear()
    HEAT["kitchen", "\0"] = 1
    watch.clock.advance(10)
    watch.sample(100)
    with pytest.raises(RuntimeError, match="It boils could not be judged: BadInput"):
        watch.evaluator.tick()
    assert watch.states() == ["firing", "firing"]
