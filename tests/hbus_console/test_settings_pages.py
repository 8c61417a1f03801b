"""What the pages of settings have in common: who may not change them reads them, and who was overtaken is led on."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from django.db.models import F, Model
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import services as alerts
from hbus_console.alerts.models import Channel, Rule
from hbus_console.alerts.services import RuleDraft
from hbus_console.jobs.models import Job, JobCalendar
from hbus_console.jobs.services.calendars import create_calendar
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from tests.hbus_console.topics.conftest import committed, own_keys, signed_in, team, topic

__all__ = ["committed", "own_keys", "signed_in", "team", "topic"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("things")]

#: What has settings: its page, the model of its row and the counter of its changes there, and what the page tells.
PAGES: dict[str, tuple[str, type[Model], str, str]] = {
    "topic": ("/topics/booking.created/settings/", Topic, "revision", "none: as they come, in parallel"),
    "subscription": ("/subscriptions/booking.created/billing/settings/", Subscription, "revision", "bills the guests"),
    "job": ("/jobs/hotel.close/settings/", Job, "version", "5 3 * * *"),
    "calendar": ("/jobs/calendars/holidays-pt/", JobCalendar, "version", "12-25 Christmas"),
    "rule": ("/alerts/rules/{rule}/", Rule, "revision", "Look at the consumers."),
    "policy": ("/quotas/policies/partners/settings/", QuotaPolicy, "version", "all of them together may so much"),
    "channel": ("/alerts/channels/{channel}/", Channel, "revision", "https://on-call.example/in"),
}
#: A channel leads to what may be a secret by itself: its page asks those alone who may change it.
TOLD = [name for name in PAGES if name != "channel"]


@pytest.fixture
def things(topic: Topic, committed: Callable[..., None]) -> None:
    def make() -> None:
        draft = SubscriptionDraft("booking.created", "billing", "Reservations", description="bills the guests")
        subscriptions.create_subscription(SYSTEM, draft)
        create_job(SYSTEM, JobDraft("hotel.close", "Reservations", "http", "https://1.1.1.1/", "5 3 * * *"))
        create_calendar(SYSTEM, "holidays-pt", "12-25 Christmas", "why")
        alerts.create_rule(SYSTEM, RuleDraft("Dying", "dead_letters", 5, advice="Look at the consumers."))
        create_policy(SYSTEM, PolicyDraft("partners", "Reservations", 50, 100, whose="together"))
        Channel.objects.create(name="on-call", kind="webhook", url="https://on-call.example/in", secret="whsec_hush")

    committed(make)


def _address(name: str) -> str:
    return PAGES[name][0].format(rule=_of(Rule), channel=_of(Channel))


def _of(model: type[Model]) -> int:
    found: int = model._default_manager.get().pk
    return found


class Asked(HTMLParser):
    """The forms of a page that are posted to it: what each asks, and sends unchanged."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.seen: list[str] = []
        self._form: dict[str, str] | None = None
        self._select = self._text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        name, form = found.get("name", ""), self._form
        if tag == "form":
            self._form = {} if found.get("method") == "post" and "action" not in found else None
        if form is None or not (name or tag == "option"):
            return
        if tag in ("input", "select", "textarea") and found.get("type") != "hidden":
            self.seen.append(name)
        if tag == "input" and (found.get("type") not in ("checkbox", "radio") or "checked" in found):
            form[name] = found.get("value", "on")
        elif tag in ("select", "textarea"):
            form[name], self._text = "", name if tag == "textarea" else ""
            self._select = name if tag == "select" else ""
        elif tag == "option" and self._select and ("selected" in found or not form[self._select]):
            form[self._select] = found.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            if self._form:
                self.forms.append(self._form)
            self._form = None
        if tag in ("textarea", "select"):
            self._text = self._select = ""

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._text:
            self._form[self._text] += data


def _html(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("name", TOLD)
def test_who_may_not_change_it_reads_it_and_is_asked_nothing(name: str, signed_in: Callable[..., Client]) -> None:
    """Found by a stranger: a viewer was shown the fields of an editor, which looked as if they could be filled in."""
    path, *_, said = _address(name), *PAGES[name]
    may_not, may = _html(signed_in(Role.VIEWER), path), _html(signed_in(Role.ADMIN), path)
    assert Asked(may_not).seen == []
    assert Asked(may).seen != []
    assert said in " ".join(may_not.split())
    assert "Save" not in may_not


def test_what_is_ticked_is_told_with_what_it_means(signed_in: Callable[..., Client]) -> None:
    html = " ".join(_html(signed_in(Role.VIEWER), _address("policy")).split())
    assert '<span class="label">Shadow</span> <p class="value">no: Only count what it would refuse</p>' in html


@pytest.mark.parametrize("name", PAGES)
def test_whoever_was_overtaken_is_led_to_what_it_is_now(name: str, signed_in: Callable[..., Client]) -> None:
    path, (_, model, counter, _) = _address(name), PAGES[name]
    client = signed_in(Role.ADMIN)
    forms = Asked(_html(client, path)).forms
    assert len(forms) == (2 if name == "topic" else 1)
    model._default_manager.update(**{counter: F(counter) + 1})
    for form in forms:
        answer = client.post(f"{path}?range=1h", {**form, "name": "other", "description": "other", "reason": "why"})
        html = " ".join(answer.content.decode().split())
        assert answer.status_code == 422, html
        assert "was changed by somebody else meanwhile" in html
        assert f'<a href="{path}?range=1h" target="_blank">Open it as it is now</a>' in html
        assert f'name="revision" value="{form["revision"]}"' in html, "sending it again is refused again"
    assert "Open it as it is now" not in _html(client, path)


def test_what_is_refused_for_another_reason_leads_nowhere(signed_in: Callable[..., Client]) -> None:
    client, path = signed_in(Role.ADMIN), _address("policy")
    (form,) = Asked(_html(client, path)).forms
    refused = client.post(path, {**form, "limit": "many"})
    assert refused.status_code == 422
    assert "Open it as it is now" not in refused.content.decode()
