"""The form of a policy: what is left empty, what a preview refuses, and that nobody locks themself out with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.policies import change_policy
from tests.hbus_console.quotas.conftest import MakePolicy

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("team")]

FORM = {
    "name": "partners", "owner": "Reservations", "limit": "50", "burst": "100", "whose": "each", "on_loss": "fallback",
    "fallback_percent": "10", "canary_percent": "0", "canary_limit": "0", "canary_burst": "0", "service": "publish",
}  # fmt: skip
NEW, SETTINGS = "/quotas/new/", "/quotas/policies/partners/settings/"


@pytest.fixture
def page(signed_in: Callable[..., Client]) -> Client:
    return signed_in(Role.ADMIN)


def _refused(page: Client, path: str, sent: dict[str, str]) -> dict[str, str]:
    answer = page.post(path, sent)
    assert answer.status_code == 422, answer.content[:500]
    found: dict[str, str] = answer.context["errors"]
    return found


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"name": "No Name"}, ["name"]),
        ({"name": ""}, ["name"]),
        ({"name": "taken"}, ["name"]),
        ({"owner": "Nobody at all"}, ["owner"]),
        ({"reason": "x" * 301}, ["reason"]),
        ({"name": "no name", "limit": "many", "owner": ""}, ["name", "limit", "owner"]),
    ],
)
def test_a_preview_refuses_what_saving_would(
    page: Client, make_policy: MakePolicy, wrong: dict[str, str], fields: list[str]
) -> None:
    """Found by a stranger: a policy was previewed under a name that it could not have."""
    make_policy("taken", 5)
    sent = {**FORM, **wrong}
    saved = _refused(page, NEW, sent)
    assert list(saved) == fields
    assert _refused(page, NEW, {**sent, "preview": "1"}) == saved
    assert page.post(NEW, {**FORM, "preview": "1"}).status_code == 200
    assert QuotaPolicy.objects.count() == 1


def test_a_preview_of_a_change_refuses_what_saving_would(page: Client, make_policy: MakePolicy) -> None:
    make_policy("partners", 5)
    sent = {**FORM, "owner": "Nobody at all", "reason": "x" * 301, "limit": "many"}
    saved = _refused(page, SETTINGS, sent)
    assert list(saved) == ["limit", "owner", "reason"]
    assert _refused(page, SETTINGS, {**sent, "preview": "1"}) == saved
    assert page.post(SETTINGS, {**FORM, "preview": "1"}).status_code == 200
    assert QuotaPolicy.objects.get().limit == 5


@pytest.mark.parametrize("limit", ["many", "-1", ""])
def test_a_burst_that_is_left_empty_is_refused_for_nothing_and_stays_empty(page: Client, limit: str) -> None:
    """Found by a stranger: it became a burst of 0, which was saved once the limit was mended."""
    answer = page.post(NEW, {**FORM, "limit": limit, "burst": ""})
    assert list(answer.context["errors"]) == ["limit"]
    assert 'id="f-burst" name="burst" type="text" value=""' in " ".join(answer.content.decode().split())


def test_a_burst_that_is_left_empty_is_a_second_of_the_limit(page: Client) -> None:
    assert page.post(NEW, {**FORM, "burst": ""}).status_code == 302
    assert QuotaPolicy.objects.get().burst == 50
    assert page.post(SETTINGS, {**FORM, "limit": "70", "burst": ""}).status_code == 302
    assert QuotaPolicy.objects.get().burst == 70


def test_several_faults_of_a_change_are_told_at_once(make_policy: MakePolicy) -> None:
    make_policy("partners", 5)
    with pytest.raises(BadInput) as refused:
        change_policy(SYSTEM, "partners", {"limit": -1, "owner": "Nobody at all"})
    assert [each.field for each in refused.value.each] == ["limit", "owner"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"service": "*"}, True),
        ({"service": "con*"}, True),
        ({"service": "console"}, True),
        ({"service": "publish"}, False),
        ({"service": "*", "shadow": "on"}, False),
    ],
)
def test_who_makes_a_policy_that_holds_on_the_console_is_told(page: Client, more: dict[str, str], told: bool) -> None:
    previewed = page.post(NEW, {**FORM, **more, "preview": "1"}).content.decode()
    assert ("It covers this console too" in previewed) is told
    made = page.post(NEW, {**FORM, **more}, follow=True).content.decode()
    assert ("It holds on the pages of this console too." in made) is told
    form: Any = page.get(NEW).content.decode()
    assert "* for any, this console too" in form
