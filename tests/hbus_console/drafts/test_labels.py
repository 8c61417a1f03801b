"""A refusal on a page calls its field as the page does; programs and logs know it by its name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template import Context, Template
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.web import field_errors
from hbus_console.alerts.services import channel_draft, rule_draft
from hbus_console.drafts.setting import Setting
from hbus_console.faults import Unfit
from hbus_console.jobs.services import draft as job_draft
from hbus_console.quotas.services import draft as policy_draft
from hbus_console.state import ROOT
from hbus_console.subscriptions.services import draft as subscription_draft
from hbus_console.teams import services as teams
from hbus_console.topics.services import draft as topic_draft
from tests.hbus_console.topics.conftest import Caller, calling, own_keys, signed_in, team

__all__ = ["calling", "own_keys", "signed_in", "team"]

DRAFTS = (channel_draft, rule_draft, job_draft, policy_draft, subscription_draft, teams, topic_draft)
#: Every setting that is asked for by its label. A choice among a few buttons cannot be got wrong.
ASKED = [
    pytest.param(each, id=f"{draft.__name__.split('.')[1]}-{each.name}")
    for draft in DRAFTS
    for each in draft.SETTINGS.each.values()
    if each.label and each.widget not in ("alerts/_channel_kind.html",)
]
#: An error that a template writes out as it came.
BARE = re.compile(r"\{\{ *(?:errors?|reason\.error)\b(?![^}]*\|labelled)[^}]*\}\}")


@pytest.mark.parametrize("each", ASKED)
def test_each_setting_is_refused_by_the_label_that_it_has_on_the_form(each: Setting) -> None:
    errors = field_errors(Unfit(each.name, "does not fit.", remedy="Mend it."))
    page = {"each": each, "errors": errors, "values": {each.name: each.default}, "teams": [], "all_channels": []}
    html = Template("{% load drafts %}{% setting each %}").render(Context(page))
    label = each.label.removeprefix("… ").partition(" (")[0]
    assert f"“{label[0].upper()}{label[1:]}” does not fit. Mend it." in html
    assert errors[each.name].startswith(each.name.removesuffix("_s").replace("_", " ").capitalize())


def test_no_template_writes_out_a_refusal_without_the_label_of_its_field() -> None:
    found = {
        str(path.relative_to(ROOT / "templates")): BARE.findall(text)
        for path in (ROOT / "templates").rglob("*.html")
        if BARE.search(text := path.read_text(encoding="utf-8"))
    }
    assert found == {}


FORM = {
    "name": "partners", "owner": "Reservations", "limit": "50", "burst": "100", "whose": "each", "on_loss": "fallback",
    "fallback_percent": "10", "canary_percent": "20", "canary_limit": "80", "canary_burst": "90",
}  # fmt: skip


@pytest.mark.django_db(databases=["default", "ledger"])
@pytest.mark.parametrize(
    ("field", "typed", "says"),
    [
        ("canary_percent", "200", "“Try another limit at so many percent of the tenants” is not a whole number"),
        (
            "canary_limit",
            "many",
            "“The limit that is tried” is not a number from 0 to 1,000,000,000,000. 'many' was given.",
        ),
        ("fallback_percent", "-1", "“Share of the limit meanwhile, in percent” is not a whole number from 0 to 100"),
        ("whose", "mine", "“Whose limit it is” cannot be 'mine'"),
        ("canary_burst", "0.5", "With a burst of 0.5 nothing ever passes"),
    ],
)
def test_the_form_of_a_policy_speaks_as_it_asks(
    signed_in: Any, team: object, field: str, typed: str, says: str
) -> None:
    """Found by a stranger: “Canary percent” is on no form."""
    client: Client = signed_in(Role.ADMIN)
    tried = {"canary_limit": "5"} if field == "canary_burst" else {}
    html = client.post("/quotas/new/", {**FORM, **tried, field: typed}).content.decode().replace("&#x27;", "'")
    assert says in html
    assert not re.search(r"canary (percent|limit|burst)|fallback percent", html, re.IGNORECASE)


@pytest.mark.django_db(databases=["default", "ledger"])
def test_a_program_is_told_the_name_that_it_sent(calling: Any, team: object) -> None:
    call: Caller = calling(Role.ADMIN)
    sent = {"name": "partners", "owner": "Reservations", "limit": 50, "burst": 100, "canary_percent": 200}
    told = call("post", "quota/policies", sent).json()
    assert (told["field"], told["detail"][:14]) == ("canary_percent", "Canary percent")
