"""What an audit came too early to judge is told as that, and neither as none nor as checked."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.core.management.base import OutputWrapper
from django.test import Client
from msgspec.structs import replace

from engine.core.verdicts import AuditVerdict
from engine.pipeline.audit.report import Amount, Report, TopicAudit
from examples.hotel.management.commands.hotel_demo import Command
from examples.hotel.proving import _proof
from hbus_console.access.permissions import Actor
from hbus_console.pipelines.audits import reading
from hbus_console.pipelines.audits.comparing import compare
from hbus_console.pipelines.audits.heat import heat_of
from hbus_console.pipelines.audits.keeping import AskedAudit, keep_report
from hbus_console.pipelines.models import BusAudit
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def reports(audited: BusAudit, archived: Actor) -> list[TopicAudit]:
    """Of both topics; nothing of the first could be judged, as where the archive had not caught up with its ledger."""
    told = {row.topic: report for row, report in reading.seen_audit(archived, audited.pk).reports()}
    none = Amount(0, 0)
    whole = told[TOPIC]
    assert 0 < whole.held_from_ms <= whole.held_until_ms
    early = replace(
        whole,
        verdict=AuditVerdict.OPEN,
        to_ms=whole.from_ms,
        published=none,
        archived=none,
        findings=[],
        windows=[],
        subscriptions=[],
        complete=None,
    )
    return [early, told[OTHER]]


@pytest.fixture
def early(reports: list[TopicAudit]) -> BusAudit:
    return keep_report(Report(1, reports, 0, 0), AskedAudit(1), b"")


def test_its_row_says_so_on_the_page_and_in_exports(page: Client, early: BusAudit) -> None:
    said = page.get(f"/audits/{early.pk}/").content.decode()
    (row,) = [each for each in re.findall(r"<tr>.*?</tr>", said, re.DOTALL) if f"/topics/{TOPIC}/" in each]
    assert "not judged yet" in row
    assert not re.search(r">\s*0\s*<", row)
    assert "2 topics, 1 of them judged" in said
    assert 'class="heat open"' in said
    exported = page.get(f"/audits/{early.pk}/audit.html").content.decode()
    assert "Not judged yet." in exported.partition(f"<h2>{TOPIC}")[2].partition("</p>")[0]
    assert "2 topics, 1 of them judged" in exported
    lines = csv.DictReader(io.StringIO(b"".join(page.get(f"/audits/{early.pk}/audit.csv")).decode()))  # type: ignore[arg-type]
    (line,) = [each for each in lines if each["topic"] == TOPIC]
    assert (line["published"], line["archived"]) == ("", "")


def test_a_check_says_on_how_many_topics_it_was_made(early: BusAudit, audited: BusAudit, archived: Actor) -> None:
    answers = reading.seen_audit(archived, early.pk).answers
    assert all(str(each.says[-1]).endswith("of 1 of 2 topics") for each in answers)
    dead = next(each for each in answers if each.check.name == "dead")
    assert dead.says == ["no message became a dead letter, of 1 of 2 topics"]
    assert not any("topics" in line for each in reading.seen_audit(archived, audited.pk).answers for line in each.says)


def test_its_lane_has_a_colour_where_the_archive_has_it(reports: list[TopicAudit]) -> None:
    early, judged = reports
    drawn = heat_of(reports)
    assert drawn is not None
    tones = {row.topic: [cell.tone for cell in row.cells] for row in drawn.rows}
    assert "open" in tones[TOPIC]
    assert "open" not in tones[OTHER]
    assert {cell.title.partition(": ")[2] for cell in drawn.rows[0].cells if cell.tone} == {"not judged yet"}
    assert drawn.has_unjudged
    alone = heat_of([early])
    assert alone is not None
    assert alone.has_unjudged, "not as where the archive has nothing"
    assert heat_of([early], early.held_from_ms) is None, "beyond what was asked for nothing is awaited"
    whole = heat_of([judged])
    assert whole is not None
    assert not whole.has_unjudged


def test_what_was_judged_in_part_is_open_behind_that(reports: list[TopicAudit]) -> None:
    _, judged = reports
    behind = judged.windows[-1].from_ms + 3 * judged.window_ms
    part = replace(judged, verdict=AuditVerdict.OPEN, to_ms=behind, held_until_ms=behind + judged.window_ms)
    drawn = heat_of([part])
    assert drawn is not None
    tones = [cell.tone for cell in drawn.rows[0].cells]
    assert tones[-1] == "open"
    assert "" in tones, "in between nothing happened"


def test_a_comparison_counts_nothing_that_was_not_judged(
    page: Client, early: BusAudit, audited: BusAudit, archived: Actor
) -> None:
    found = compare(reading.seen_audit(archived, early.pk), reading.seen_audit(archived, audited.pk))
    assert {each.topic: each.archived for each in found.topics} == {TOPIC: ("not judged", "42"), OTHER: ("7", "7")}
    said = page.get(f"/audits/{early.pk}/compare/?with={audited.pk}").content.decode()
    assert ">not judged</td>" in said


def test_the_demo_says_how_many_topics_were_judged(reports: list[TopicAudit]) -> None:
    said = io.StringIO()
    command = Command(stdout=OutputWrapper(said))
    command._tell_proof(_proof(1, Report(1, reports, 0, 0), 1.0))
    assert "messages of 1 of 2 topics, the others not judged yet, were published" in said.getvalue()
