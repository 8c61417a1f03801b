"""Whether a message is stored is told also where no evidence of it came: its topic's log says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.messages import in_log
from tests.hbus_console.messages.conftest import TOPIC, publish

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("installation")]
#: A ULID of November 2023.
OLD = "01HF7YAT000000000000000000"


def look(message_id: str, topic: str = TOPIC, scope: str = "*") -> in_log.InLog:
    user = User.objects.create(username=f"v{User.objects.count()}")
    user.grants.create(role="viewer", scope=scope)
    return in_log.look(actor_of(user), topic, message_id)


def test_what_lies_in_the_log_is_stored_and_what_does_not_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [publish() for _ in range(3)]
    monkeypatch.setattr(in_log, "_AT_ONCE", 1)
    assert [look(each).stored for each in ids] == [True] * 3
    assert look("never-published") == in_log.InLog(
        False, f"It is not stored: the log of {TOPIC} was looked through up to its beginning."
    )
    assert "since its id was made" in look(OLD).said
    monkeypatch.setattr(in_log, "MOST", 2)
    assert look(ids[0]).stored is None


def test_where_nobody_may_or_can_look_nothing_is_claimed() -> None:
    published = publish()
    for topic, scope in ((TOPIC, "stay.*"), ("no.such.topic", "*")):
        found = look(published, topic, scope)
        assert (found.stored, "cannot tell" in found.said) == (None, True)


def test_the_page_of_a_message_without_evidence_says_it(sign_in: Callable[..., Client]) -> None:
    published, client = publish(), sign_in()
    young = client.get(f"/messages/{published}?topic={TOPIC}")
    assert (young.status_code, "It is stored: it lies in" in young.content.decode()) == (202, True)
    missing = client.get(f"/messages/{OLD}?topic={TOPIC}")
    assert (missing.status_code, "It is stored" in missing.content.decode()) == (404, False)
