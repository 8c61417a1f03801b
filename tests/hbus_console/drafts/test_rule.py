"""What a rule's draft says of a setting is all that anybody says of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest
from django.http import QueryDict
from django.template import Context, Template

from engine.core.errors import BadInput
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.models import Rule
from hbus_console.alerts.services.rule_draft import MEASURED, SETTINGS, RuleDraft
from hbus_console.api.answers import described
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.drafts.agreement import disagreements
from hbus_console.drafts.setting import Number
from hbus_console.drafts.settings import Settings


@dataclass(frozen=True)
class Wider(RuleDraft):
    """A copy of the list with one setting more."""

    weight: Annotated[float, Number(0.5, label="Weight", column="mass", act=ALERT_EDIT, part=MEASURED)] = 1.0


WIDER = Settings(Wider)
VALUES: dict[str, Any] = {"name": "Backlog", "kind": "lag", "threshold": 100.0}
VALUES = {**{one.name: one.default for one in WIDER.fields}, **VALUES}
ROW: Any = SimpleNamespace(
    **{setting.stored_as: VALUES[name] for name, setting in WIDER.each.items() if setting.stored},
    team=None,
    channels=SimpleNamespace(all=lambda: [SimpleNamespace(name=name) for name in ("on-call", "duty")]),
)


def test_a_new_setting_is_found_in_bodies_answer_and_description() -> None:
    new, change = new_body(WIDER, "New", ""), change_body(WIDER, "Change", "")
    out = answer(WIDER, "Out", "", first=[], last=[])
    sent = {"name": "a", "kind": "lag", "threshold": 1, "weight": 2}
    assert Wider(**msgspec.convert(sent, new).settings()).weight == 2
    assert msgspec.convert({"weight": 3, "revision": 4}, change).changes() == {"weight": 3}
    assert described(new)["properties"]["weight"] == {"type": "number", "default": 1.0}
    assert described(change)["properties"]["weight"] == {"type": "number"}
    assert described(out)["properties"]["weight"] == {"type": "number"}
    assert answered(WIDER, ROW)["weight"] == 1.0


def test_a_new_setting_is_read_from_a_form_checked_and_kept_under_the_name_of_its_column() -> None:
    assert WIDER.typed({"weight": "1,000.5"}, ["weight"]) == {"weight": 1000.5}
    assert WIDER.columns(WIDER.checked(VALUES))["mass"] == 1.0
    with pytest.raises(BadInput, match=r"Weight is not a number from 0\.5 to 1,000,000,000,000") as refused:
        WIDER.checked({**VALUES, "weight": 0.25})
    assert refused.value.field == "weight"


def test_model_and_settings_agree() -> None:
    assert disagreements(SETTINGS, Rule) == []
    assert disagreements(WIDER, Rule) == ["weight: no column"]


def test_no_value_is_a_value_where_the_draft_says_so() -> None:
    change, out = change_body(SETTINGS, "Change", ""), answer(SETTINGS, "Out", "", first=[], last=[])
    assert msgspec.convert({"clear_below": None}, change).changes() == {"clear_below": None}
    assert described(out)["properties"]["clear_below"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"window_s": None}, change)
    assert SETTINGS.checked(VALUES)["clear_below"] is None
    assert SETTINGS.typed({"clear_below": " "}, ["clear_below"]) == {"clear_below": None}


def test_what_hangs_on_the_kind_is_checked_by_it() -> None:
    counted = {**VALUES, "kind": "dead_letter_rate"}
    assert SETTINGS.checked(VALUES)["window_s"] == 0
    assert SETTINGS.checked(counted)["window_s"] == 300
    with pytest.raises(BadInput, match="Window is not a whole number from 30 to 86,400 seconds"):
        SETTINGS.checked({**counted, "window_s": 5})
    with pytest.raises(BadInput, match="Leave the pattern on names empty"):
        SETTINGS.checked({**VALUES, "kind": "publish_failures", "group": "billing"})


def test_a_form_names_channels_leaves_the_window_and_means_everything_by_no_scope() -> None:
    typed = SETTINGS.typed(QueryDict("name=A&channels=on-call&channels=duty&window_s=&topics="), SETTINGS.changeable)
    assert typed["channels"] == ("on-call", "duty")
    assert typed["topics"] == "*"
    assert "window_s" not in typed
    assert "kind" not in typed
    assert typed["enabled"] is False
    assert answered(SETTINGS, ROW)["channels"] == ["duty", "on-call"]
    assert answered(SETTINGS, ROW)["owner"] == ""


def test_the_fields_of_a_rule_stand_on_its_page_with_what_was_refused() -> None:
    fields = Template("{% load drafts %}{% for each in measured %}{% setting each %}{% endfor %}")
    context = {"measured": WIDER.part(MEASURED), "values": VALUES, "errors": {"weight": "Too light."}}
    page = " ".join(fields.render(Context(context)).split())
    assert 'name="threshold" type="text" value="100" required inputmode="decimal"' in page
    assert 'name="weight" type="text" value="1" inputmode="decimal"' in page
    assert "Too light." in page
