"""What a channel's draft says of a setting is all that anybody says of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest
from django.http import QueryDict
from django.template import Context, Template
from pytest_django import Settings as DjangoSettings

from engine.core.errors import BadInput
from hbus_console.alerts.api import shapes
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel
from hbus_console.alerts.services import ChannelDraft
from hbus_console.alerts.services import channel_draft as drafts
from hbus_console.alerts.services.channel_draft import DESTINATIONS, SETTINGS, asked_of, settings_for
from hbus_console.api.answers import described
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.drafts.agreement import disagreements
from hbus_console.drafts.setting import Whole
from hbus_console.drafts.settings import Settings


@dataclass(frozen=True)
class Patient(ChannelDraft):
    """A copy of the list with one setting more."""

    patience_s: Annotated[int, Whole(1, 60, "seconds", label="Patience", column="waits", act=ALERT_CHANNEL)] = 10


PATIENT = Settings(Patient)
WEBHOOK = ChannelDraft("on-call", "webhook", "https://on-call.example/in")
ROW: Any = SimpleNamespace(**asdict(WEBHOOK), waits=10)


def test_a_new_setting_is_found_in_bodies_answer_form_and_column() -> None:
    new, change = new_body(PATIENT, "New", ""), change_body(PATIENT, "Change", "")
    sent = {"name": "a", "kind": "webhook", "patience_s": 2}
    assert Patient(**msgspec.convert(sent, new).settings()).patience_s == 2
    assert msgspec.convert({"patience_s": 3, "revision": 4}, change).changes() == {"patience_s": 3}
    assert described(new)["properties"]["patience_s"] == {"type": "integer", "default": 10}
    assert "patience_s" in described(answer(PATIENT, "Out", "", first=[], last=[]))["properties"]
    assert answered(PATIENT, ROW)["patience_s"] == 10
    assert PATIENT.typed({"patience_s": "5"}, ["patience_s"]) == {"patience_s": 5}
    assert PATIENT.columns({"patience_s": 5}) == {"waits": 5}


def test_model_and_settings_agree() -> None:
    assert disagreements(SETTINGS, Channel) == []
    assert disagreements(PATIENT, Channel) == ["patience_s: no column"]


def test_a_form_asks_each_kind_for_where_it_leads() -> None:
    assert settings_for("webhook") == ["name", "url", "enabled"]
    assert settings_for("email") == ["name", "recipients", "enabled"]
    assert [one.required for one in asked_of("webhook")] == [True, True, False]
    typed = SETTINGS.typed(
        QueryDict("name=Desk&url=x&recipients=a@b.example, c@d.example%0D%0A%0D%0A"), settings_for("email")
    )
    assert typed == {"name": "Desk", "recipients": ("a@b.example", "c@d.example"), "enabled": False}


def test_where_it_leads_is_hidden_from_who_may_not_change_it() -> None:
    assert DESTINATIONS == ["url", "recipients"]
    described_out = described(shapes.ChannelOut)["properties"]
    assert described_out["url"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    row = Channel(pk=1, name="on-call", kind="webhook", url="https://on-call.example/hush")
    assert shapes.channel(row, whole=True)["url"] == "https://on-call.example/hush"
    assert (shapes.channel(row, whole=False)["url"], shapes.channel(row, whole=False)["recipients"]) == (None, None)


def test_only_what_differs_is_checked_again_and_no_name_is_looked_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def check(url: str) -> str:
        looked_up.append(url)
        return url

    monkeypatch.setattr(drafts, "check_url", check)
    row = Channel(name="on-call", kind="webhook", url="http://127.0.0.1/saved-long-ago")
    asked = {"url": row.url, "enabled": False}
    assert drafts.changed(row, asked) == asked
    assert looked_up == []
    drafts.changed(row, {"url": "https://on-call.example/in"})
    assert looked_up == ["https://on-call.example/in"]


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("webhook", {"recipients": ("a@b.example",)}, "A webhook has no recipients"),
        ("email", {"url": "https://x.example/"}, "An e-mail has no address of a webhook"),
        ("email", {"recipients": ()}, "An e-mail goes to 1 to 20 addresses"),
    ],
)
def test_a_channel_leads_where_its_kind_does(
    kind: str, changes: dict[str, Any], said: str, settings: DjangoSettings
) -> None:
    settings.EMAIL_HOST = "mail.example"
    there = {"url": "https://x.example/"} if kind == "webhook" else {"recipients": ["c@d.example"]}
    with pytest.raises(BadInput, match=said) as refused:
        drafts.changed(Channel(name="x", kind=kind, **there), changes)
    assert refused.value.field in changes


def test_the_fields_of_a_channel_stand_on_its_page_with_what_was_refused() -> None:
    fields = Template("{% load drafts %}{% for each in asked %}{% setting each %}{% endfor %}")
    values = {**asdict(WEBHOOK), "recipients": ["a@b.example", "c@d.example"]}
    context = {"asked": list(SETTINGS.each.values()), "values": values, "errors": {"url": "Too far."}}
    page = " ".join(fields.render(Context(context)).split())
    assert 'name="url" type="text" value="https://on-call.example/in"' in page
    assert "Too far." in page
    assert 'value="webhook" checked' in page
    assert "(needs EMAIL_HOST)" in page
    assert ">a@b.example c@d.example</textarea>" in page
    assert 'name="enabled" checked> on' in page
