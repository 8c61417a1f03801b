"""What an advice names is offered beside it, on the page where the act is."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.alerts import standing
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Alert, Rule
from hbus_console.alerts.services import ensure_defaults
from hbus_console.alerts.services.defaults import default_rules
from hbus_console.jobs.models import Job
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.subscriptions.models import Subscription
from tests.hbus_console.alerts.conftest import rule
from tests.hbus_console.alerts.test_pages import now, raised

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

LETTERS = ("Open its dead letters", "/dead-letters/?topic=booking.created&subscription=billing")
#: As links to pages of subjects call them.
SUBJECTS = "subscription|topic|job|quota policy|node that holds to limits"
#: Of targets that go by another word, the kind of a subject of theirs.
CALLED = {"audited-subject": "topic", "spool": "job"}
#: What each first rule leads to, beside the page of its subject, which every alert offers.
OFFERED = {
    "A backlog grows": [("Open its settings", "/subscriptions/booking.created/billing/settings/")],
    "Messages wait too long": [],
    "Nobody serves a subscription": [],
    "Dead letters wait for a decision": [LETTERS],
    "Many messages die at once": [],
    "Dead letters have reached their limit": [LETTERS],
    "Keys are parked": [("Open its order and parked keys", "/subscriptions/booking.created/billing/order/")],
    "Publishes fail": [("Open the cluster", "/cluster/")],
    "Due messages are refused": [("Open its settings", "/topics/booking.created/settings/")],
    "A breaker is open": [],
    "An audit finds something wrong": [("Open the audits", "/audits/")],
    "What NSQ carried is not archived": [("Open the archive", "/archive/")],
    "The disk of the spool runs short": [("Open the archive", "/archive/")],
    "A topic fell silent": [],
    "A job fails": [],
    "A job does not run": [("Open the cluster", "/cluster/")],
    "A job runs late": [("Open the cluster", "/cluster/")],
    "A quota node is cut off": [("Open the cluster", "/cluster/")],
    "A limit refuses much": [("Open its settings", "/quotas/policies/booking.created/settings/")],
}


def fired(made: Rule) -> Alert:
    targets = kinds()[made.kind].targets
    alert = raised(made, group="billing" if targets.within else "")
    alert.subject_kind = CALLED.get(targets.kind, targets.kind)
    if targets.kind in ("policy", "quota-node"):
        # These lie in no namespace.
        alert.namespace, alert.subject_name = "", alert.namespace
    alert.save()
    return alert


def test_each_first_rule_offers_the_page_of_the_act_that_it_names(
    reader: Subscription, signed_in: Callable[..., Client]
) -> None:
    ensure_defaults()
    QuotaPolicy.objects.create(name="booking.created", limit=1, burst=1)
    Job.objects.create(name="booking.created", kind="http", target="https://1.1.1.1/", schedule="@daily")
    client = signed_in(Role.EDITOR)
    assert {it.name for it in default_rules()} == set(OFFERED)
    for made in Rule.objects.all():
        alert = fired(made)
        (row,) = standing.shown([alert], now())
        assert row.ways == OFFERED[made.name], made.name
        page = client.get(f"/alerts/{alert.pk}/").content.decode()
        assert re.search(rf'<a class="button" href="[^"]+">Open ({SUBJECTS})</a>', page), made.name
        for label, address in row.ways:
            assert f'<a class="button" href="{address.replace("&", "&amp;")}">{label}</a>' in page
            assert client.get(address).status_code == 200


def test_advice_of_ones_own_is_read_likewise_and_nothing_is_offered_once_it_is_over(reader: Subscription) -> None:
    alert = raised(rule(advice="Unpark what may be lost, DISCARD the rest. Do not recluster."))
    (row,) = standing.shown([alert], now())
    assert [label for label, _ in row.ways] == ["Open its dead letters", "Open its order and parked keys"]
    alert.state = Alert.State.RESOLVED
    assert standing.shown([alert], now())[0].ways == []
