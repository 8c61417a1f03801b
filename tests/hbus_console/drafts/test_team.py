"""What a team's draft says of a setting is all that anybody says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest
from django.template.loader import render_to_string

from engine.core.errors import BadInput
from hbus_console.api.answers import described
from hbus_console.api.drafts import change_body_without_revision, new_body
from hbus_console.drafts.agreement import disagreements
from hbus_console.drafts.setting import Text
from hbus_console.drafts.settings import Settings
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.teams.models import Team
from hbus_console.teams.services import SETTINGS, TeamDraft


@dataclass(frozen=True)
class Wider(TeamDraft):
    """A copy of the list with one setting more."""

    room: Annotated[str, Text(20, label="Room", placeholder="2nd floor", act=TEAM_EDIT)] = ""


WIDER = Settings(Wider)


def test_a_new_setting_is_found_in_bodies_and_among_the_checks() -> None:
    new, change = new_body(WIDER, "New", ""), change_body_without_revision(WIDER, "Change", "")
    assert Wider(**msgspec.convert({"name": "a", "contact": "b", "room": "c"}, new).settings()).room == "c"
    assert msgspec.convert({"room": "d", "reason": "e"}, change).changes() == {"room": "d"}
    assert described(new)["required"] == ["name", "contact"]
    assert sorted(described(change)["properties"]) == ["contact", "name", "reason", "room"]
    with pytest.raises(BadInput, match="Room has 21 characters") as refused:
        WIDER.checked({"name": "a", "contact": "b", "room": "x" * 21})
    assert refused.value.field == "room"


def test_what_is_required_must_be_there() -> None:
    with pytest.raises(BadInput, match="Contact is needed"):
        SETTINGS.checked({"name": "a", "contact": " "})


def test_a_field_of_the_page_says_what_the_draft_says() -> None:
    page = render_to_string(
        "teams/_field.html", {"id": "room-7", "each": WIDER["room"], "value": "3", "placeholder": ""}
    )
    page = " ".join(page.split())
    assert '<label for="room-7">Room</label>' in page
    assert '<input id="room-7" name="room" maxlength="20" autocomplete="off" value="3">' in page


def test_model_and_settings_agree() -> None:
    assert disagreements(SETTINGS, Team) == []
    assert disagreements(WIDER, Team) == ["room: no column"]
