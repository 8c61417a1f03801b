"""Nothing that an audit tells who may not reveal depends on whether a guess at a masked payload was right, however many
messages of one's own are stored twice beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.test import Client
from msgspec.structs import replace

from engine.bus import Message
from engine.bus.facts import Fact
from engine.bus.message import encode
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock, to_rfc3339
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.hashing import hash_text
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits import working
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.audits.keeping import packed, unpacked
from hbus_console.pipelines.models import AuditedTopic, BusAudit
from hbus_console.pipelines.newest_audit import StoredAgain, stored_again
from hbus_console.pipelines.services import archive_topic
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.pipelines.conftest import WHY, MakeUser, work
from tests.hbus_console.pipelines.ledger import book

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

RIGHT, WRONG = "guess.right", "guess.wrong"
GUESSED = "a-guess"


def _of_one_hash(id_: str) -> str:
    """Another id that hashes as this one of 16 characters does."""

    def mixed(eight: bytes) -> int:
        first = 0x9E3779B185EBCA87
        made = ((16 * first ^ int.from_bytes(eight, "little")) * first) % 2**64
        return made ^ made >> 29

    begins, ends = id_[:8].encode(), int.from_bytes(id_[8:].encode(), "little")
    for number in range(100_000):
        other = f"{number:08}"
        made = (mixed(begins) ^ mixed(other.encode()) ^ ends).to_bytes(8, "little")
        if all(33 <= each < 127 for each in made):
            return other + made.decode()
    raise AssertionError(id_)


def _guessed(
    governor: Actor, name: str, guess: bytes, own: Sequence[str], at_ms: int, *, under: Sequence[str] = (GUESSED,) * 2
) -> None:
    """Copies of one's own, each as it was, and a guess under the id of another's message; all of one moment."""
    Topic.objects.create(name=name, team=Topic.objects.get(name="payment.taken").team, masked_fields=["n"])
    bus.admin().create_topic(name)
    archive_topic(governor, name, WHY)
    sent = [(under[0], b'{"n":1}'), (under[1], guess), *((each, b'{"n":7}') for each in own for _ in "ab")]
    for id_, data in sent:
        made = Message(id=id_, source="/tests", type="t", partitionkey="k", time=to_rfc3339(at_ms), data=data)  # type: ignore[arg-type]
        bus.transport().publish(name, [Outgoing(id_, encode(made))])
    for (id_, _), each in zip(sent, bus.admin().browse(name, limit=100).entries, strict=True):
        book(Fact("published", each.at_ms, name, message_id=id_, source="/tests", position=each.position))


def _audited(topics: Sequence[str], tmp_path: Path, governor: Actor, monkeypatch: pytest.MonkeyPatch) -> BusAudit:
    run_archive(wanted_topics([]), in_this_process)
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(working, "SystemClock", lambda: clock)
    work(ask_audit(governor, WantedAudit(topics, reason=WHY)), tmp_path)
    return BusAudit.objects.latest("pk")


def _said(client: Client, audit: BusAudit, name: str, ids: Sequence[str]) -> list[str]:
    """All that is told of the topic, without what differs between any two: its name, and when and where it was
    stored, which is told by its place in the order."""
    whole = client.get(f"/api/v1/audits/{audit.pk}").json()
    assert [each["topic"] for each in whole["topics"]] == [name]
    findings = whole["topics"][0]["findings"]
    assert "repeated" in [each["kind"] for each in findings]
    shown = "".join(client.get(f"/audits/{audit.pk}/{page}").content.decode() for page in ("", "findings/"))
    said = re.findall(
        r'<section class="panel" aria-label="(?:What was checked|Topics|Finding)".*?</section>', shown, re.S
    )
    assert len(said) == 2 + len(findings)
    said.append(b"".join(client.get(f"/audits/{audit.pk}/audit.csv")).decode())
    said.append(client.get(f"/audits/{audit.pk}/audit.html").content.decode().partition("</p>")[2])
    assert client.get(f"/audits/{audit.pk}/audit.parquet").status_code == 404
    messages = [client.get(f"/messages/{id_}?topic={name}").content.decode() for id_ in ids]
    said += [page.partition('text-warn">Stored ')[2].partition("</p>")[0] for page in messages]
    said += [str(findings), str(whole["topics"][0]["repeated"]), str(whole["verdict"])]
    order = [each.position for each in bus.admin().browse(name, limit=100).entries]
    assert len(order) == len(set(order))
    return [_alike(each, name, order, audit) for each in said]


def _alike(said: str, name: str, order: Sequence[str], audit: BusAudit) -> str:
    for number, position in enumerate(order):
        said = re.sub(rf"\b{position}\b", f"place {number}", said)
    said = said.replace(name, "the topic").replace(name.replace(".", ".<wbr>"), "the topic")
    said = re.sub(rf"(?i)audits?[ /]{audit.pk}\b", "audit", said)
    said = re.sub(r"\d{13}", "then", said)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+Z?", "then", said)


@pytest.mark.parametrize("number", [0, 4, 5, 6, 30])
def test_no_audit_tells_by_its_samples_whether_a_guess_was_right(
    number: int, governor: Actor, make_user: MakeUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a stranger: five samples of each kind, put together and cut, are not those of both kinds together."""
    own, at_ms = [f"own-{each}" for each in range(number)], round(time.time() * 1000)
    told = []
    for name, guess in ((RIGHT, b'{"n":1}'), (WRONG, b'{"n":2}')):
        _guessed(governor, name, guess, own, at_ms)
        user = make_user("operator", name, f"op-{name}")
        client = Client()
        client.force_login(user)
        audit = _audited([name], tmp_path / name, governor, monkeypatch)
        told.append(_said(client, audit, name, [GUESSED, *own[:6]]))
        seen = AuditedTopic.objects.get(audit=audit)
        kinds = {each.kind for each in unpacked(seen.report).findings}
        assert ("conflicting" in kinds) is (name == WRONG), "a guess that is not told apart shows nothing"
    right, wrong = told
    for one, other in zip(right, wrong, strict=True):
        assert one == other
    assert number or [each for each in right if each.startswith("2 times")], "that there are two is told"


def test_what_was_kept_before_samples_were_chosen_so_names_none(
    governor: Actor, make_user: MakeUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_ms = round(time.time() * 1000)
    _guessed(governor, WRONG, b'{"n":2}', ["own"], at_ms)
    row = AuditedTopic.objects.get(audit=_audited([WRONG], tmp_path, governor, monkeypatch))
    operator = actor_of(make_user("operator", WRONG, "op"))

    def again(who: Actor) -> StoredAgain | None:
        return stored_again(who, WRONG, GUESSED, "/tests", at_ms)

    seen, whole = again(operator), again(governor)
    assert seen is not None
    assert whole is not None
    assert (seen.conflicting, whole.conflicting) == (False, True)
    row.report = packed(replace(unpacked(row.report), repeated=()))
    row.save()
    assert again(operator) is None
    assert again(governor) == whole


@pytest.mark.parametrize("guess", [b'{"n":1}', b'{"n":2}'], ids=["right", "wrong"])
def test_an_id_that_hashes_alike_is_no_way_to_ask(
    guess: bytes, governor: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who makes one was told that a message was stored again if its payload was the same, and nothing if not."""
    ids = ("sixteen-letters!", _of_one_hash("sixteen-letters!"))
    assert hash_text(ids[0]) == hash_text(ids[1])
    _guessed(governor, RIGHT, guess, [], round(time.time() * 1000), under=ids)
    row = AuditedTopic.objects.get(audit=_audited([RIGHT], tmp_path, governor, monkeypatch))
    told = unpacked(row.report)
    assert told.repeated == []
    assert not {"duplicate", "conflicting"} & {each.kind.value for each in told.findings}
