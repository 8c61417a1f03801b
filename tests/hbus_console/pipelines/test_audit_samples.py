"""What the pages and exports of an audit tell of single messages: where they lie, why, and what is known of a loss."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path

import pytest
from django.test import Client
from msgspec.structs import replace

from engine.bus.facts import Fact
from engine.bus.transport import Outgoing
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.audit.report import Report
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits import reading
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.models import BusAudit
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, WHY, publish, work
from tests.hbus_console.pipelines.ledger import book

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


def test_what_is_no_envelope_says_why_and_leads_to_its_place(page: Client, archived: Actor, tmp_path: Path) -> None:
    bus.transport().publish(TOPIC, [Outgoing("odd", b'{"specversion":"1.0","id":"odd"}')])
    (stored,) = bus.admin().browse(TOPIC, limit=1, newest_first=True).entries
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([TOPIC], reason=WHY)), tmp_path)
    newest = BusAudit.objects.first()
    assert newest is not None

    address = f"/audits/{newest.pk}/findings/?check=form"
    said = page.get(address).content.decode()
    assert "missing required field `source`" in said
    link = f"/messages/?in=log&amp;topic={TOPIC}&amp;from={stored.at_ms}&amp;to={stored.at_ms + 1}"
    assert f'href="{link}"' in said
    shown = page.get(unescape(link)).content.decode()
    assert stored.position in shown
    assert "unreadable" in shown
    (row,) = [
        each
        for each in csv.DictReader(io.StringIO(b"".join(page.get(f"/audits/{newest.pk}/audit.csv")).decode()))
        if each["finding"] == "malformed"
    ]
    assert row["samples"] == stored.position

    bus.admin().delete_topic(TOPIC)
    Topic.objects.get(name=TOPIC).delete()
    assert "in=log" not in page.get(address).content.decode()


def test_the_page_of_a_message_says_that_it_is_stored_twice_and_where(
    page: Client, audited: BusAudit, archived: Actor
) -> None:
    copies = bus.admin().browse(TOPIC, limit=2, newest_first=True).entries
    book(Fact("published", copies[0].at_ms, TOPIC, message_id="twice", source="/tests", position=copies[0].position))
    address = f"/messages/twice?topic={TOPIC}"
    said = page.get(address).content.decode()
    told = said.partition("Stored 2 times")[2].partition("</p>")[0]
    assert f"/audits/{audited.pk}/findings/?check=duplicates&amp;topic={TOPIC}" in told
    for each in copies:
        assert f"from={each.at_ms}&amp;to={each.at_ms + 1}" in told
    assert re.findall(r">(\d+-\d+)<", told) == [each.position for each in reversed(copies)]
    samples = page.get(f"/audits/{audited.pk}/findings/?check=duplicates").content.decode()
    assert re.findall(r">(\d+-\d+)<", samples) == [each.position for each in reversed(copies)]

    ((_, told_of),) = reading.seen_audit(archived, audited.pk).reports({TOPIC})
    keep_report(Report(1, [replace(told_of, findings=[], to_ms=told_of.from_ms + 1)], 0, 0), AskedAudit(1), b"")
    assert "Stored 2 times" in page.get(address).content.decode(), "the newer one did not look at that time"
    keep_report(Report(1, [replace(told_of, findings=[])], 0, 0), AskedAudit(1), b"")
    assert "Stored 2 times" not in page.get(address).content.decode()


def test_a_loss_tells_what_its_commit_knows(page: Client, archived: Actor, tmp_path: Path) -> None:
    (last,) = bus.admin().browse(TOPIC, limit=1, newest_first=True).entries
    publish(10)
    bus.admin().trim(TOPIC, older_than_ms=None, keep_at_most=4)
    run_archive(wanted_topics([]), in_this_process)
    work(ask_audit(archived, WantedAudit([TOPIC], reason=WHY)), tmp_path)
    newest = BusAudit.objects.first()
    assert newest is not None

    said = page.get(f"/audits/{newest.pk}/findings/?check=loss").content.decode()
    told = said.partition("6 were gone before they were archived")[2].partition("</section>")[0]
    assert f'<th scope="row" class="mono break">{last.position}</th>' in told
    assert "6 messages, let go of before they were archived; " in told
    assert "The earliest 1, as the commits tell" in told
    assert "without an id" not in told
    export = page.get(f"/audits/{newest.pk}/audit.html").content.decode()
    assert re.search(rf"after <code>{last.position}</code>\s+6 messages, let go of", export)


def test_page_and_export_say_the_same_beside_the_checks(page: Client, audited: BusAudit, archived: Actor) -> None:
    audited.topics.filter(topic=OTHER).update(owner="", replayed=3)
    also = reading.seen_audit(archived, audited.pk).also
    assert [(each.title, each.says, each.count, each.tone) for each in also] == [
        ("Ownership", f"nobody answers for {OTHER}", 1, "warn"),
        ("Replays", "copies by replays are among what is archived, each names its cause", 3, "ok"),
        ("Replayed", "no message was replayed since", 0, "ok"),
    ]
    shown = page.get(f"/audits/{audited.pk}/").content.decode()
    exported = page.get(f"/audits/{audited.pk}/audit.html").content.decode()
    for said in (shown, exported):
        titles = re.findall(r"<(?:th scope=\"row\"|td)>([A-Z][a-z ]+)</t[hd]>", said)
        assert [title for title in titles if title in ("Loss", "Ownership", "Replays")] == [
            "Loss",
            "Ownership",
            "Replays",
        ]
        assert all(each.says in said for each in also)
    assert "3 of them copies by replays" in exported


@pytest.mark.parametrize("tab", ["", "history/"])
def test_the_pages_of_a_topic_lead_to_its_newest_audit(
    page: Client, audited: BusAudit, archived: Actor, tmp_path: Path, tab: str
) -> None:
    work(ask_audit(archived, WantedAudit([OTHER], reason=WHY)), tmp_path)
    newest = BusAudit.objects.latest("pk")
    for topic, number, says in ((TOPIC, audited.pk, "something is wrong"), (OTHER, newest.pk, "holds")):
        said = page.get(f"/topics/{topic}/{tab}").content.decode()
        link = said.partition(f'<a href="/audits/{number}/">audit {number}</a>')[2].partition("</dd>")[0]
        assert f">{says}</span>" in link
    BusAudit.objects.all().delete()
    assert "<dt>audited</dt>" not in page.get(f"/topics/{TOPIC}/{tab}").content.decode()
