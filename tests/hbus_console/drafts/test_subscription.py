"""What a subscription's draft says of a setting is all that anybody says of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest
from django.template.loader import render_to_string

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.api.answers import described
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.drafts.agreement import disagreements
from hbus_console.drafts.setting import Choice, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.draft import POLICIES, SETTINGS, SubscriptionDraft, settings_for


@dataclass(frozen=True)
class Wider(SubscriptionDraft):
    """A copy of the list with one setting more."""

    patience_s: Annotated[
        int, Whole(1, 60, "seconds", label="Patience, in seconds", help="New.", act=SUBSCRIPTION_EDIT, part=POLICIES)
    ] = 7


WIDER = Settings(Wider)
ROW: Any = SimpleNamespace(**{name: SETTINGS[name].default for name in SETTINGS.stored}, team=None, patience_s=9)


def test_a_new_setting_is_taken_by_the_bodies() -> None:
    new, change = new_body(WIDER, "New", "", leave=["topic"]), change_body(WIDER, "Change", "")
    assert msgspec.convert({"group": "a", "owner": "b"}, new).settings()["patience_s"] == 7
    assert msgspec.convert({"patience_s": 3}, change).changes() == {"patience_s": 3}
    assert msgspec.convert({}, change).changes() == {}
    with pytest.raises(msgspec.ValidationError, match=r"patience_s"):
        msgspec.convert({"patience_s": "3"}, change)
    assert described(new)["properties"]["patience_s"] == {"type": "integer", "default": 7}
    assert described(change)["properties"]["patience_s"] == {"type": "integer"}
    assert "patience_s" not in described(change_body(SETTINGS, "Change", ""))["properties"]


def test_a_new_setting_is_answered() -> None:
    out = answer(WIDER, "Out", "", first=[], last=[])
    assert described(out)["properties"]["patience_s"] == {"type": "integer"}
    assert described(out)["properties"]["owner"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert answered(WIDER, ROW)["patience_s"] == 9
    assert answered(WIDER, ROW)["owner"] is None


def test_a_new_setting_is_read_from_a_form_and_stands_on_the_page() -> None:
    names = [name for name in WIDER.changeable if name not in ("webhook_url", "webhook_timeout_s")]
    assert WIDER.typed({"patience_s": "12", "backoff_s": "1, 2"}, names)["patience_s"] == 12
    page = render_to_string(
        "subscriptions/_policies.html",
        {
            "policies": WIDER.part(POLICIES),
            "values": WIDER.snapshot(ROW),
            "errors": {"patience_s": "No patience is not enough."},
        },
    )
    # However the template breaks its lines.
    page = " ".join(page.split())
    assert 'name="patience_s" type="text" value="9"' in page
    assert "Patience, in seconds" in page
    assert "No patience is not enough." in page


def test_a_new_setting_is_checked_compared_and_kept_for_the_audit_log() -> None:
    before = WIDER.snapshot(ROW)
    assert before["patience_s"] == 9
    assert WIDER.differing(before, {"patience_s": 9, "backoff_s": before["backoff_s"]}) == {
        "backoff_s": list(before["backoff_s"])
    }
    assert WIDER.differing(before, {"patience_s": 10}) == {"patience_s": 10}
    with pytest.raises(BadInput, match="Patience is not a whole number from 1 to 60 seconds") as refused:
        WIDER.checked({**before, "patience_s": 61})
    assert refused.value.field == "patience_s"
    assert WIDER.act_of("patience_s") is SUBSCRIPTION_EDIT


def test_an_editor_may_change_all_but_the_owner() -> None:
    governed = [name for name in SETTINGS.changeable if SETTINGS.act_of(name) is not SUBSCRIPTION_EDIT]
    assert governed == ["owner"]
    assert SETTINGS.act_of("owner").needs is Role.GOVERNOR


def test_model_and_settings_agree() -> None:
    assert disagreements(SETTINGS, Subscription) == []


def test_a_model_that_says_something_else_is_found_out() -> None:
    @dataclass(frozen=True)
    class Other(SubscriptionDraft):
        concurrency: Annotated[int, Whole(1, 64, act=SUBSCRIPTION_EDIT)] = 5
        on_failed_head: Annotated[str, Choice({"block": "", "park": ""}, act=SUBSCRIPTION_EDIT)] = "block"
        transactional: Annotated[int, Whole(0, 1, act=SUBSCRIPTION_EDIT)] = 0  # type: ignore[assignment]
        patience_s: Annotated[int, Whole(1, 60, act=SUBSCRIPTION_EDIT)] = 7

    assert disagreements(Settings(Other), Subscription) == [
        "concurrency: default 4 instead of 5",
        "on_failed_head: other words",
        "transactional: Whole in a BooleanField",
        "patience_s: no column",
    ]


def test_what_hangs_on_another_setting_is_checked_after_it() -> None:
    values = {**SETTINGS.snapshot(ROW), "breaker_open_s": 400}
    with pytest.raises(BadInput, match="from 400 to 86,400 seconds") as refused:
        SETTINGS.checked(values)
    assert refused.value.field == "breaker_longest_open_s"
    with pytest.raises(BadInput, match="Breaker open is not a whole number") as refused:
        SETTINGS.checked({**values, "breaker_open_s": "soon"})
    assert refused.value.field == "breaker_open_s"


def test_a_form_leaves_rare_settings_as_they_are_and_asks_only_for_what_the_handler_has() -> None:
    typed = SETTINGS.typed({"concurrency": "", "backoff_s": "1", "breaker_share": ""}, settings_for("code"))
    assert typed["concurrency"] == ""
    assert "breaker_share" not in typed
    assert "webhook_url" not in typed
    assert typed["transactional"] is False
    assert "transactional" not in SETTINGS.typed({"backoff_s": "1"}, settings_for("webhook"))


@pytest.mark.parametrize("typed", ["1, two", "", "1,,2"])
def test_no_number_of_seconds_is_refused_where_it_was_typed(typed: str) -> None:
    with pytest.raises(BadInput, match="is no number of seconds") as refused:
        SETTINGS["backoff_s"].typed({"backoff_s": typed})
    assert refused.value.field == "backoff_s"
    assert SETTINGS["backoff_s"].shown(typed) == typed
