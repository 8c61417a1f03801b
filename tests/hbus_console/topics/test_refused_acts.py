"""A governed act that is refused is in the audit log, however little whoever tried it may see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.audit.models import AuditEntry
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.mark.parametrize("scope", ["booking.*", "invoice.*"])
@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/topics/booking.created/pause/", "topic.pause.refused"),
        ("/topics/booking.created/delete/", "topic.delete.refused"),
        ("/subscriptions/booking.created/billing/resume/", "subscription.operate.refused"),
    ],
)
def test_inside_and_outside_of_a_scope(
    path: str, action: str, scope: str, topic: Topic, signed_in: Callable[..., Client]
) -> None:
    answer = signed_in(Role.VIEWER, scope).post(path, {"reason": "at night"})
    assert answer.status_code == 403
    entry = AuditEntry.objects.order_by("-seq")[0]
    assert (entry.action, entry.namespace) == (action, "booking.created")


def test_a_page_that_is_refused_is_not(topic: Topic, signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.VIEWER, "invoice.*")
    before = AuditEntry.objects.count()
    assert client.get("/topics/booking.created/").status_code == 403
    assert AuditEntry.objects.count() == before
