"""A filter tried on the archive: on its newest messages, under the rights and masks of the topic itself."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from engine.bus.producer import Receipt
from hbus_console.audit.models import AuditEntry
from hbus_console.replays import masked, trying
from hbus_console.topics.models import Topic
from hbus_console.wiring.lake import lake
from tests.hbus_console.replays.archived import archive_all
from tests.hbus_console.replays.conftest import TOPIC, MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture(autouse=True)
def a_lake(settings: Settings, tmp_path: Path) -> None:
    settings.HBUS_LAKE = str(tmp_path / "lake")


def client(make_user: MakeUser, role: str, name: str) -> Client:
    made = Client()
    made.force_login(make_user(role, name=name))
    return made


def tried(who: Client, text: str, status: int = 200, **more: str) -> str:
    answer = who.get(f"/replays/{TOPIC}/test/", {"read_from": "archive", "filter": text, **more})
    assert answer.status_code == status
    return answer.content.decode()


def test_it_finds_what_the_topic_holds_no_more_and_shows_it_masked(
    published: list[Receipt], make_user: MakeUser
) -> None:
    originals = archive_all()
    said = tried(client(make_user, "editor", "edith"), 'payload.hotel == "Resort"')
    assert re.search(r"Tried on the newest 40 messages of them, back to [0-9T:.-]+Z: matched 10.", said)
    assert "none was read" not in said
    ids = re.findall(r"/messages/([0-9A-Z]+)", said)
    assert ids == [each.id for each in originals[::-1] if each.json()["n"] % 4 == 0][:5]
    assert "g36" not in said, "the guest is masked"
    keyed = tried(client(make_user, "editor", "eve"), 'payload.hotel == "Resort"', key="H-1")
    assert "newest 20 messages" in keyed
    assert "matched 0" in keyed


def test_a_masked_field_takes_the_right_and_is_recorded_before_it_is_answered(
    published: list[Receipt], make_user: MakeUser
) -> None:
    archive_all()
    text = 'payload.guest == "g7"'
    refused = client(make_user, "editor", "edith").get(
        f"/replays/{TOPIC}/test/", {"read_from": "archive", "filter": text}
    )
    assert refused.status_code == 403
    assert not AuditEntry.objects.filter(action="payload.reveal").exists()
    said = tried(client(make_user, "governor", "gova"), text)
    assert "matched 1." in said
    (entry,) = AuditEntry.objects.filter(action="payload.reveal")
    assert (entry.actor, entry.reason, entry.after["fields"]) == ("gova", masked.WHY, ["guest"])
    assert "g7" not in json.dumps(entry.after)


def test_what_is_older_than_the_topic_is_left_aside(published: list[Receipt], make_user: MakeUser) -> None:
    archive_all()
    Topic.objects.filter(name=TOPIC).update(created_at=timezone.now() + timedelta(seconds=1))
    said = tried(client(make_user, "governor", "gova"), "payload.n > 3")
    assert "newest 0 messages of them; what is older than the topic was left aside." in said
    assert "/messages/" not in said


def test_only_so_many_are_looked_at(
    published: list[Receipt], make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_all()
    monkeypatch.setattr(trying, "MOST", 10)
    said = tried(client(make_user, "editor", "edith"), 'payload.hotel == "Resort"')
    assert "newest 10 messages" in said
    assert "matched 2." in said


def test_a_damaged_file_and_a_second_try_at_once_are_told(published: list[Receipt], make_user: MakeUser) -> None:
    archive_all()
    who = client(make_user, "editor", "edith")
    with trying._trying:
        assert "try again" in tried(who, "payload.n > 3")
    (file,) = lake().state().files_of(TOPIC)
    path = lake().root / file.path
    path.chmod(0o600)
    path.write_bytes(b"PAR1")
    assert "has other content than was committed" in tried(who, "payload.n > 3")


def test_the_form_offers_no_positions_for_the_archive(published: list[Receipt], make_user: MakeUser) -> None:
    archive_all()
    who = client(make_user, "editor", "edith")

    def offered(**asked: str) -> list[str]:
        shown = who.get(f"/replays/{TOPIC}/", asked).content.decode()
        return re.findall(r'<input[^>]* name="(after|until)"[^>]* autocomplete', shown)

    assert offered() == ["after", "until"]
    assert offered(read_from="archive") == []
    # What was refused stands there, with why.
    assert offered(read_from="archive", after="1-0", into_group="billing", dry="run") == ["after", "until"]
