"""What a topic's draft says of a setting is all that anybody says of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest
from django.template.loader import render_to_string

from engine.core.errors import BadInput
from hbus_console.api.answers import described
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.drafts.agreement import disagreements
from hbus_console.drafts.setting import Flag
from hbus_console.drafts.settings import Settings
from hbus_console.topics.feature import TOPIC_EDIT, TOPIC_GOVERN
from hbus_console.topics.models import Topic
from hbus_console.topics.services.draft import GOVERNANCE, SETTINGS, WORKINGS, TopicDraft, settings_of

ASKED = Flag("Leaves the house", label="Export", act=TOPIC_GOVERN, part=GOVERNANCE)


@dataclass(frozen=True)
class Wider(TopicDraft):
    """A copy of the list with one setting more."""

    exported: Annotated[bool, ASKED] = False


WIDER = Settings(Wider)
ROW: Any = SimpleNamespace(
    **{name: SETTINGS[name].default for name in SETTINGS.stored}, team=SimpleNamespace(name="Finance"), exported=True
)


def test_a_new_setting_is_found_in_bodies_answer_and_description() -> None:
    new, change, out = (
        new_body(WIDER, "New", ""),
        change_body(WIDER, "Change", ""),
        answer(WIDER, "Out", "", first=[], last=[]),
    )
    assert Wider(**msgspec.convert({"name": "a", "owner": "b"}, new).settings()).exported is False
    assert msgspec.convert({"exported": True}, change).changes() == {"exported": True}
    assert described(new)["properties"]["exported"] == {"type": "boolean", "default": False}
    assert described(change)["properties"]["exported"] == {"type": "boolean"}
    assert described(out)["properties"]["exported"] == {"type": "boolean"}
    assert answered(WIDER, ROW)["exported"] is True


def test_a_new_setting_is_found_on_the_page_in_the_form_and_among_the_checks() -> None:
    page = render_to_string(
        "topics/_governance.html",
        {"governance": WIDER.part(GOVERNANCE), "values": WIDER.snapshot(ROW), "errors": {}, "teams": ["Finance"]},
    )
    # However the template breaks its lines.
    assert '<input type="checkbox" name="exported" checked> Leaves the house' in " ".join(page.split())
    assert WIDER.typed({"exported": "on"}, ["exported"]) == {"exported": True}
    assert WIDER.typed({}, ["exported"]) == {"exported": False}
    assert WIDER.snapshot(ROW)["exported"] is True
    with pytest.raises(BadInput, match="Exported is neither true nor false") as refused:
        WIDER.checked({**WIDER.snapshot(ROW), "exported": "yes"})
    assert refused.value.field == "exported"
    assert WIDER.acts_of(["exported", "ordering"]) == [TOPIC_EDIT, TOPIC_GOVERN]


def test_model_and_settings_agree() -> None:
    assert disagreements(SETTINGS, Topic) == []
    assert disagreements(WIDER, Topic) == ["exported: no column"]


def test_what_is_left_open_is_filled_in_from_the_rest() -> None:
    values = {name: SETTINGS[name].default for name in SETTINGS.stored}
    plain, ordered = SETTINGS.checked(values), SETTINGS.checked({**values, "ordering": "key"})
    assert (plain["partitions"], plain["priorities"]) == (1, True)
    assert (ordered["partitions"], ordered["priorities"]) == (8, False)


def test_each_form_asks_for_its_own_half() -> None:
    asked = [settings_of(WORKINGS), settings_of(GOVERNANCE)]
    assert sorted([*asked[0], *asked[1]]) == sorted(SETTINGS.changeable)
    assert asked[1] == [
        "owner",
        "classification",
        "masked_fields",
        "nothing_to_mask",
        "compatibility",
        "retention_hours",
        "retention_messages",
        "transport",
    ]
    for name in SETTINGS.each:
        if part := SETTINGS[name].part:
            assert SETTINGS.act_of(name) is {WORKINGS: TOPIC_EDIT, GOVERNANCE: TOPIC_GOVERN}[part], name


def test_nobody_can_leave_out_what_changing_a_setting_takes() -> None:
    with pytest.raises(TypeError, match="act"):
        Flag("Leaves the house")  # type: ignore[call-arg]
