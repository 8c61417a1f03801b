from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from django.conf import settings
from django.db import connection

from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput, Conflict
from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit import anchor, chain, guards
from hbus_console.audit import verify as verification
from hbus_console.audit.anchor import AuditAnchor, anchor_file, anchor_head, anchors_path, last_anchor
from hbus_console.audit.anchor_file import Anchor
from hbus_console.audit.beginning import begin_anchors, prepare
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.audit.state import chain_state, last_verified, verify_now
from hbus_console.audit.verify import FindingKind, verify
from tests.guards import drop

Write = Callable[..., list[AuditEntry]]
Tamper = Callable[..., None]


def kinds(verdict: verification.Verdict) -> list[tuple[FindingKind, int]]:
    return [(finding.kind, finding.seq) for finding in verdict.findings]


def anchors() -> list[Anchor]:
    """Of entries, each once."""
    return list(
        {found.seq: found for found in anchor_file().walk() if isinstance(found, Anchor) and found.seq}.values()
    )


def test_an_untouched_log_holds(write: Write) -> None:
    entries = write(7)
    anchor_head()
    verdict = verify()
    assert verdict.holds
    assert (verdict.entries, verdict.last_seq, verdict.head, verdict.anchors) == (7, 7, entries[-1].hash, 1)


def test_an_empty_log_holds(write: Write) -> None:
    assert verify().holds
    assert anchor_head() is None


def test_batches_do_not_matter(write: Write, monkeypatch: pytest.MonkeyPatch, tamper: Tamper) -> None:
    write(7)
    monkeypatch.setattr(verification, "BATCH", 2)
    assert verify().entries == 7
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 3")
    assert kinds(verify()) == [(FindingKind.ALTERED, 3)]


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'bob'",
        "actor_kind = 'system'",
        "action = 'topic.resume'",
        "target = 'stay.completed'",
        "topic = 'stay.completed'",
        "target_type = 'team'",
        "reason = 'approved'",
        "after = '{\"paused\": false}'",
        "before = '{}'",
        "at = '2020-01-01 00:00:00.000001'",
        "address = '10.0.0.1'",
        "request_id = 'x'",
        "correlation_id = 'x'",
    ],
)
def test_every_altered_column_is_found(write: Write, tamper: Tamper, change: str) -> None:
    write(5)
    tamper(f"UPDATE audit_auditentry SET {change} WHERE seq = 3")
    assert kinds(verify()) == [(FindingKind.ALTERED, 3)]


def test_an_entry_altered_together_with_its_hash_is_found_without_the_key(write: Write, tamper: Tamper) -> None:
    write(5)
    entry = AuditEntry.objects.get(seq=3)
    entry.actor = "bob"
    forged = chain.link("a guess", entry.previous_hash, content(entry))
    tamper("UPDATE audit_auditentry SET actor = 'bob', hash = %s WHERE seq = 3", [forged])
    assert kinds(verify()) == [(FindingKind.ALTERED, 3), (FindingKind.REORDERED, 4)]


def test_removed_entries_are_found(write: Write, tamper: Tamper) -> None:
    write(8)
    tamper("DELETE FROM audit_auditentry WHERE seq IN (3, 4, 6)")
    verdict = verify()
    assert kinds(verdict) == [(FindingKind.REMOVED, 3), (FindingKind.REMOVED, 6)]
    assert verdict.findings[0].what == "Entries 3 to 4 are missing."


def test_the_first_entries_removed_are_found(write: Write, tamper: Tamper) -> None:
    write(4)
    tamper("DELETE FROM audit_auditentry WHERE seq < 3")
    assert kinds(verify()) == [(FindingKind.REMOVED, 1)]


def test_removed_and_renumbered_entries_are_found(write: Write, tamper: Tamper) -> None:
    write(5)
    tamper("DELETE FROM audit_auditentry WHERE seq = 3")
    tamper("UPDATE audit_auditentry SET seq = 3 WHERE seq = 4")
    tamper("UPDATE audit_auditentry SET seq = 4 WHERE seq = 5")
    assert not verify().holds
    assert kinds(verify())[0] == (FindingKind.REORDERED, 3)


def test_swapped_entries_are_found(write: Write, tamper: Tamper) -> None:
    write(5)
    for old, new in ((2, 90), (3, 2), (90, 3)):
        tamper(f"UPDATE audit_auditentry SET seq = {new} WHERE seq = {old}")
    found = kinds(verify())
    assert (FindingKind.REORDERED, 2) in found
    assert (FindingKind.REORDERED, 3) in found


def test_a_log_cut_off_behind_an_anchor_is_found(write: Write, tamper: Tamper) -> None:
    write(6)
    anchor_head()
    tamper("DELETE FROM audit_auditentry WHERE seq > 4")
    verdict = verify()
    assert kinds(verdict) == [(FindingKind.TRUNCATED, 5)]
    assert verdict.findings[0].what == "The log ends at entry 4, but entry 6 was anchored."


def test_an_emptied_log_is_found(write: Write, tamper: Tamper) -> None:
    write(3)
    anchor_head()
    tamper("DELETE FROM audit_auditentry")
    assert kinds(verify()) == [(FindingKind.TRUNCATED, 1)]


def test_a_log_rebuilt_with_the_key_is_found_by_its_anchors(write: Write, tamper: Tamper) -> None:
    write(3)
    anchor_head()
    previous = chain.GENESIS
    for entry in AuditEntry.objects.order_by("seq"):
        entry.reason, entry.previous_hash = "rewritten", previous
        previous = chain.link(settings.AUDIT_KEY, previous, content(entry))
        tamper(
            "UPDATE audit_auditentry SET reason = %s, previous_hash = %s, hash = %s WHERE seq = %s",
            ["rewritten", entry.previous_hash, previous, entry.seq],
        )
    assert kinds(verify()) == [(FindingKind.REWRITTEN, 3)]


def test_missing_guards_are_found(write: Write) -> None:
    write(2)
    lost = min(guards.expected(connection))
    drop(connection, lost)
    verdict = verify()
    assert kinds(verdict) == [(FindingKind.UNGUARDED, 0)]
    assert lost in verdict.findings[0].what
    guards.install(connection)
    assert verify().holds


def test_all_findings_are_counted_and_some_are_described(
    write: Write, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(9)
    monkeypatch.setattr(verification, "SHOWN", 4)
    tamper("UPDATE audit_auditentry SET actor = 'bob'")
    verdict = verify()
    assert (verdict.findings_total, len(verdict.findings)) == (9, 4)


# --- anchors


def test_the_duty_anchors_the_head_when_it_moved_and_only_then(write: Write, audit_state: Path) -> None:
    clock = ManualClock()
    duty = AuditAnchor(clock=clock)
    duty.tick()
    assert anchors() == []
    write(2)
    duty.tick()
    duty.tick()
    write(1)
    clock.advance(60)
    duty.tick()
    found = anchors()
    assert [anchor.seq for anchor in found] == [2, 3]
    assert last_anchor() == found[-1]
    line = json.loads(anchors_path().read_text().splitlines()[-1])
    assert (len(line.pop("mac")), len(line.pop("file"))) == (64, 16)
    assert line == {"seq": 3, "hash": AuditEntry.objects.get(seq=3).hash, "at": "2026-09-21T14:14:20.000Z"}


def test_the_log_stream_hears_of_each_head_once(write: Write) -> None:
    entries = write(2)
    # By a command, or by the commit of the act itself.
    anchor_head()
    duty = AuditAnchor()
    with structlog.testing.capture_logs() as lines:
        duty.tick()
        duty.tick()
        entries += write(1)
        duty.tick()
    said = [(line["seq"], line["hash"]) for line in lines if line["event"] == "audit head anchored"]
    assert said == [(2, entries[1].hash), (3, entries[2].hash)]


def test_a_torn_line_is_passed_over_and_then_removed(write: Write) -> None:
    write(2)
    anchor_head()
    with anchors_path().open("ab") as file:
        file.write(b'{"seq": 3, "ha')
    assert verify().holds
    assert last_anchor() is not None
    write(2)
    anchor_head()
    assert [anchor.seq for anchor in anchors()] == [2, 4]
    assert verify().holds


def test_an_anchor_file_that_was_edited_is_found(write: Write) -> None:
    write(2)
    anchor_head()
    write(2)
    anchor_head()
    path = anchors_path()
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\nrubbish\n{second}\n")
    assert kinds(verify()) == [(FindingKind.ANCHOR, 0)]
    path.write_text(f"{second}\n{first}\n")
    assert kinds(verify()) == [(FindingKind.ANCHOR, 4)], "the line where it is no longer what was written"


@pytest.mark.django_db(transaction=True)
def test_every_act_is_anchored_when_it_is_committed(audit_state: Path, transactional_db: None) -> None:
    from django.db import transaction

    from hbus_console.audit.services import record
    from tests.hbus_console.audit.conftest import ANNA

    prepare(print)
    for _ in range(3):
        with transaction.atomic():
            record(ANNA, "topic.pause", Subject("topic", "a.b"))
            record(ANNA, "topic.resume", Subject("topic", "a.b"))
    assert [anchor.seq for anchor in anchors()] == [2, 4, 6]


# --- what is remembered


def test_verifying_remembers_how_far_the_log_holds(write: Write) -> None:
    clock = ManualClock()
    write(3)
    assert chain_state().word == "not verified"
    assert verify_now(clock=clock).holds
    known = last_verified()
    assert known is not None
    assert (known.holds, known.seq, known.at_ms, known.full_at_ms) == (True, 3, clock.now_ms(), clock.now_ms())
    write(2)
    state = chain_state()
    assert (state.entries, state.word, state.unverified, state.unanchored) == (5, "unbroken", 2, 5)


def test_a_big_log_is_verified_from_where_it_held_last(
    write: Write, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.state.FULL_UP_TO", 2)
    clock = ManualClock()
    write(4)
    verify_now(clock=clock)
    full_at = clock.now_ms()
    clock.advance(3600)
    write(3)
    verdict = verify_now(clock=clock)
    assert verdict.holds
    assert (verdict.first_seq, verdict.entries, verdict.last_seq) == (5, 3, 7)
    known = last_verified()
    assert known is not None
    assert (known.seq, known.at_ms, known.full_at_ms) == (7, clock.now_ms(), full_at)

    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    assert verify_now(clock=clock).holds, "an increment looks at new entries only"
    assert kinds(verify_now(full=True, clock=clock)) == [(FindingKind.ALTERED, 2)]


def test_an_increment_finds_its_own_starting_point_replaced(
    write: Write, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.state.FULL_UP_TO", 2)
    write(4)
    verify_now()
    tamper("UPDATE audit_auditentry SET hash = %s WHERE seq = 4", ["f" * 64])
    write(1)
    assert (FindingKind.REWRITTEN, 4) in kinds(verify_now())


def test_after_a_verification_that_failed_the_next_one_walks_everything(
    write: Write, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.audit.state.FULL_UP_TO", 2)
    write(5)
    verify_now()
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    verify_now(full=True)
    write(1)
    assert kinds(verify_now()) == [(FindingKind.ALTERED, 2)]
    assert chain_state().word == "broken"


def test_what_was_verified_before_counts_as_an_anchor(write: Write, tamper: Tamper) -> None:
    write(5)
    verify_now()
    tamper("DELETE FROM audit_auditentry WHERE seq = 5")
    assert kinds(verify_now()) == [(FindingKind.TRUNCATED, 5)]


def test_a_remembered_verdict_that_we_did_not_write_is_not_believed(write: Write, audit_state: Path) -> None:
    write(2)
    verify_now()
    path = audit_state / "verified.json"
    found: dict[str, Any] = json.loads(path.read_text())
    found["verified"]["seq"] = 999
    path.write_text(json.dumps(found))
    assert last_verified() is None


# --- no anchor at all


@pytest.fixture
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing written in this test is young any more."""
    monkeypatch.setattr(anchor, "_wall", ManualClock(SystemClock().now_ms() + 7_200_000))


@pytest.mark.usefixtures("an_hour_later")
def test_a_log_cut_off_together_with_its_anchors_is_found_and_stays_found(
    write: Write, tamper: Tamper, audit_state: Path
) -> None:
    prepare(print)
    write(6)
    AuditAnchor().tick()
    assert verify_now().holds
    tamper("DELETE FROM audit_auditentry WHERE seq > 4")
    shutil.rmtree(audit_state)
    AuditAnchor().tick()
    write(1)
    AuditAnchor().tick()
    for _ in range(2):
        verdict = verify_now()
        assert kinds(verdict) == [(FindingKind.ANCHOR, 0), (FindingKind.TRUNCATED, 6)], (
            "no duty makes it look as if nothing had been there"
        )
        assert [finding.what for finding in verdict.findings] == [
            "no anchor: nothing on this host tells whether the log was cut off behind entry 5.",
            "The log ends at entry 5, but entry 6 is known to the store.",
        ]
    assert chain_state().word == "broken"


@pytest.mark.usefixtures("an_hour_later")
def test_anchors_that_a_person_begins_anew_are_an_entry_with_its_reason(write: Write, audit_state: Path) -> None:
    entries = write(3)
    assert not verify_now().holds
    begun = begin_anchors(SYSTEM, "restored from Monday's backup")
    assert begun is not None
    assert begun.seq == 4
    entry = AuditEntry.objects.get(seq=4)
    assert (entry.action, entry.reason) == ("audit.anchor", "restored from Monday's backup")
    assert entry.after == {"seq": 3, "hash": entries[-1].hash}
    verdict = verify_now()
    assert (verdict.holds, verdict.anchors) == (True, 1)
    write(1)
    AuditAnchor().tick()
    assert [found.seq for found in anchors()] == [4, 5], "and the duty goes on"
    with pytest.raises(Conflict, match="Entry 5 is anchored on this host already"):
        begin_anchors(SYSTEM, "again")


def test_beginning_anchors_takes_a_reason_and_an_admin(write: Write) -> None:
    write(1)
    with pytest.raises(BadInput, match="reason"):
        begin_anchors(SYSTEM, " ")
    with pytest.raises(Forbidden):
        begin_anchors(Actor("greta", grants=(ScopedRole(Role.GOVERNOR, "*"),)), "because")
    assert AuditEntry.objects.count() == 1
    assert last_anchor() is None


def test_the_anchors_of_a_new_installation_begin_with_its_empty_log(
    write: Write, request: pytest.FixtureRequest
) -> None:
    prepare(print)
    begun = last_anchor()
    assert begun is not None
    assert (begun.seq, begun.hash) == (0, chain.GENESIS)
    write(2)
    request.getfixturevalue("an_hour_later")
    assert verify().holds, "an installation may be set up today and started next week"
    prepare(print)
    AuditAnchor().tick()
    assert [found.seq for found in anchors()] == [2], "and its duty goes on"


def test_a_young_log_without_anchors_says_that_nothing_tells_of_its_end(write: Write, audit_state: Path) -> None:
    """Found by a stranger: emptied of its end and its folder, it said that 0 anchored heads agree."""
    write(3)
    assert not (audit_state / "anchors.jsonl").exists()
    verdict = verify()
    assert verdict.holds
    assert "unbroken; there are no anchors to tell whether its end was cut off" in verdict.sentence()
    anchor_head(begin=True)
    assert "1 anchored head agrees" in verify().sentence()
