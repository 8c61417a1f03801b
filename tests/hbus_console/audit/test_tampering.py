"""Whatever is done to the log, its anchors and what is remembered of it is found: by command, by duty, on the page."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit import guards, witness
from hbus_console.audit.anchor import AuditAnchor
from hbus_console.audit.beginning import prepare
from hbus_console.audit.duty import AuditVerification
from hbus_console.audit.state import verify_now
from hbus_console.wiring import store
from tests.guards import drop
from tests.hbus_console.audit import hiding
from tests.hbus_console.audit.intruder import ON_SQLITE, TABLE, Intruder

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: The log of these tests; it was anchored, told to the store and verified at both.
THEN, NOW = 5, 9
Act = Callable[[Intruder], None]


def cut(intruder: Intruder, last: int = THEN) -> None:
    intruder.delete(f"seq > {last}")


def cut_with_anchors(intruder: Intruder) -> None:
    cut(intruder)
    intruder.rolled_back_anchors()


def cut_with_folder(intruder: Intruder) -> None:
    cut(intruder)
    intruder.removed_folder()


def cut_and_grown(intruder: Intruder) -> None:
    """Cut off with its anchors, and as long as before again by genuine acts and the keeper's duty."""
    cut_with_anchors(intruder)
    intruder.write(NOW - THEN + 2)
    intruder.tick()


def emptied_with_all_but_the_store(intruder: Intruder) -> None:
    """As if it had been set up this minute."""
    intruder.delete("seq > 0")
    intruder.removed_folder()
    prepare(print)
    intruder.tick()


def younger(intruder: Intruder) -> None:
    """The anchors alone are rolled back: nothing of the log is missing, but nobody shall do that unnoticed."""
    intruder.rolled_back_anchors()


def without_hashes(intruder: Intruder) -> None:
    """The anchors as a release before their hashes would have left them."""
    intruder.anchor_lines(
        lambda lines: [re.sub(r', "(file|before|mac|verified)": ("\w+"|true)', "", at) for at in lines]
    )


KINDS: dict[str, tuple[Act, str]] = {
    # --- entries
    **{
        f"change {column}": (lambda it, change=f"{column} = {value}": it.set(change), "Entry 3 (topic.pause) does not")
        for column, value in {
            "actor": "'bob'",
            "actor_kind": "'system'",
            "target": "'stay.completed'",
            "reason": "'approved'",
            "before": "'{}'",
            "after": "'{\"paused\": false}'",
            "at": "'2020-01-01 00:00:00.000001+00:00'",
            "address": "'10.0.0.1'",
            "correlation_id": "'x'",
        }.items()
    },
    "change the action": (lambda it: it.set("action = 'topic.resume'"), "Entry 3 (topic.resume) does not match"),
    "change a hash": (lambda it: it.set(f"hash = '{'f' * 64}'"), "Entry 4 does not follow the entry before it"),
    "change the newest entry": (lambda it: it.set("reason = 'x'", NOW), f"Entry {NOW} (topic.pause) does not match"),
    "swap two": (Intruder.swapped, "Entry 2 does not follow the entry before it"),
    "delete the first": (lambda it: it.delete("seq = 1"), "Entry 1 is missing"),
    "delete in the middle": (lambda it: it.delete("seq IN (3, 4)"), "Entries 3 to 4 are missing"),
    "delete the last": (lambda it: it.delete(f"seq = {NOW}"), f"The log ends at entry {NOW - 1}"),
    "delete the last n": (cut, f"The log ends at entry {THEN}, but entry {NOW} was anchored"),
    "delete and renumber": (Intruder.renumbered, "Entry 3 does not follow the entry before it"),
    "insert at the end": (lambda it: it.insert(NOW + 1), f"Entry {NOW + 1} (topic.pause) does not match its hash"),
    "insert further on": (lambda it: it.insert(NOW + 5), f"Entries {NOW + 1} to {NOW + 4} are missing"),
    "insert before the first": (lambda it: it.insert(0), "Entry 0 stands before the first one"),
    "rebuild without the key": (lambda it: it.chained("a guess"), "Entry 1 (topic.pause) does not match its hash"),
    "rebuild with the key": (lambda it: it.chained(settings.AUDIT_KEY), "is not the one that was anchored"),
    "empty the table": (lambda it: it.delete("seq > 0"), f"The log ends at entry 0, but entry {NOW} was anchored"),
    "empty all but the store": (emptied_with_all_but_the_store, f"entry {NOW} is known to the store"),
    "another installation's log": (Intruder.other_installation, "Entry 1 (topic.pause) does not match its hash"),
    # --- the database rolled back, with and without what lies beside it
    "roll back the database and the anchors": (cut_with_anchors, f"entry {NOW} is known to the store"),
    "cut off, with the folder": (cut_with_folder, f"entry {NOW} is known to the store"),
    "cut off and grown again": (cut_and_grown, f"Entry {NOW} is no longer the one that is known to the store"),
    # --- guards
    **{
        f"drop {name}": (lambda it, name=name: drop(connection, name), f"{name} missing")
        for name in sorted(guards.expected(connection))
    },
    "an empty guard": (Intruder.emptied_guard, "is not what hbus made"),
    "a guard that never fires": (Intruder.conditional_guard, "is not what hbus made"),
    "a trigger that swallows": (Intruder.swallowing_trigger, "could swallow entries: "),
    # --- what entries are found by
    "an index without an entry": (hiding.partial, "not what hbus made, and could hide some: audit_topic"),
    # --- anchors
    "edit an anchor": (
        lambda it: it.anchor_lines(it.edited),
        "The anchor file is not what hbus wrote, from the anchor",
    ),
    "take out an anchor": (lambda it: it.anchor_lines(lambda at: at[:1] + at[2:]), "The anchor file is not what hbus"),
    "take out the first anchor": (lambda it: it.anchor_lines(lambda at: at[1:]), "The anchor file is not what hbus"),
    "cut off the anchors": (lambda it: it.anchor_lines(lambda at: at[:2]), "lines were taken out of it"),
    "swap two anchors": (lambda it: it.anchor_lines(lambda at: [at[1], at[0], *at[2:]]), "is not what hbus wrote"),
    "anchors without hashes": (without_hashes, "The anchors are without their keyed hashes"),
    "an anchor of others": (
        lambda it: it.anchor_lines(lambda at: [*at, '{"seq": 9, "hash": "ab", "at": "2026-01-01T00:00:00.000Z"}']),
        "is not one that hbus wrote",
    ),
    "5,000 bytes behind the anchors": (
        lambda it: it.behind_the_anchors(b"x" * 5_000),
        "A line of the anchor file is no anchor: 'xxx",
    ),
    "5,000 bytes behind the anchors, and cut off": (
        lambda it: it.behind_the_anchors(b"x" * 5_000) or cut(it),
        f"The log ends at entry {THEN}, but entry {NOW} was anchored",
    ),
    "rubbish behind the anchors, and cut off": (
        lambda it: it.behind_the_anchors(b'{"hash": 1}\n' * 2_000) or cut(it),
        f"The log ends at entry {THEN}, but entry {NOW} was anchored",
    ),
    "an anchor that no hash can be made of": (
        lambda it: it.behind_the_anchors(b'{"seq": 9, "hash": "\\ud800", "at": "2026-01-01T00:00:00Z", "mac": "x"}\n'),
        "A line of the anchor file is no anchor",
    ),
    "roll back the anchors": (younger, "lines were taken out of it"),
    "empty the anchor file": (lambda it: it.anchors.write_text("") and None, "no anchor: nothing on this host tells"),
    "remove the anchor file": (lambda it: it.anchors.unlink(), "no anchor: nothing on this host tells"),
    "remove the folder": (Intruder.removed_folder, "no anchor: nothing on this host tells"),
    "link the anchors elsewhere": (lambda it: it.linked(it.anchors), "is no file that hbus made, but a link"),
    # --- what was remembered
    "forge the verdict": (Intruder.forged_verdict, "verified.json was taken away or is not what hbus wrote"),
    "remove the verdict": (lambda it: it.verified.unlink(), "verified.json was taken away or is not what hbus wrote"),
    "link the verdict elsewhere": (lambda it: it.linked(it.verified), "verified.json was taken away or is not"),
    "forge what the store knows": (Intruder.forged_witness, "What the store keeps of the log is not what hbus wrote"),
}
if ON_SQLITE:
    KINDS |= {
        "another time zone": (
            lambda it: it.set("at = strftime('%Y-%m-%d %H:%M:%f', at, '+2 hours') || '+02:00'"),
            "Entry 3 (topic.pause)",
        ),
        "a blank in JSON": (
            lambda it: it.set("after = replace(after, ':', ' :')"),
            "is not spelled as it was written: after",
        ),
        "a field twice in JSON": (
            lambda it: it.set("""after = '{"paused": false, ' || substr(after, 2)"""),
            "is not spelled as it was written: after",
        ),
        "indexes without an entry, told as they were": (
            hiding.rebuilt,
            f"Entry {hiding.HIDDEN} is hidden from lists: it is missing in audit_",
        ),
        "an index with an entry under another key": (
            hiding.under_another_key,
            f"Entry {hiding.HIDDEN} is hidden from lists: it is missing in audit_target_alone",
        ),
        "an index of another order": (
            lambda it: it.ddl("DROP INDEX audit_actor", f"CREATE INDEX audit_actor ON {TABLE} (actor COLLATE NOCASE)"),
            "could hide some: audit_actor",
        ),
        "a column of numbers": (
            lambda it: hiding.rewrite(it, "sql = replace(sql, '\"target\" varchar', '\"target\" numeric')", TABLE),
            "could hide some: column target",
        ),
        "a column of another collation": (
            lambda it: hiding.rewrite(it, "sql = replace(sql, '(200) NOT', '(200) COLLATE RTRIM NOT')", TABLE),
            "could hide some: a collation",
        ),
        "a byte that is no text": (
            lambda it: it.set("reason = CAST(x'ff41' AS TEXT)"),
            "Entry 3 (topic.pause) does not match its hash",
        ),
        "a byte that is no text, in the action": (
            lambda it: it.set("action = CAST(x'ff41' AS TEXT)"),
            "Entry 3 (\ufffdA) does not match its hash",
        ),
        "bytes for a text": (
            lambda it: it.set("reason = CAST(reason AS BLOB)"),
            "Entry 3 (topic.pause) holds what its columns do not: reason",
        ),
        "a word for an instant": (
            lambda it: it.set("at = 'yesterday'"),
            "Entry 3 (topic.pause) does not match its hash",
        ),
        "half a number": (lambda it: it.set("seq = 3.5"), "The number of an entry is '3.5'"),
        "null in JSON": (lambda it: it.set("before = 'null'"), "is not spelled as it was written: before"),
    }
else:
    KINDS |= {
        "disable the triggers": (
            lambda it: it.ddl(f"ALTER TABLE {TABLE} DISABLE TRIGGER USER"),
            "audit_refuse_change is not what hbus made, audit_refuse_truncate is not what hbus made",
        ),
        "triggers for replicas alone": (
            lambda it: it.ddl(f"ALTER TABLE {TABLE} ENABLE REPLICA TRIGGER audit_refuse_change"),
            "audit_refuse_change is not what hbus made",
        ),
        "an empty function behind them": (
            lambda it: it.ddl(
                "CREATE OR REPLACE FUNCTION hbus_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RETURN OLD; END $$"
            ),
            "audit_refuse_change is not what hbus made, audit_refuse_truncate is not what hbus made",
        ),
        "an index by a comparison of one's own": (hiding.strange_order, "could hide some: fast"),
        "an equality of one's own": (hiding.strange_equality, "could hide some: operator ="),
        "another place for what is compared by": (
            lambda it: it.ddl("SET LOCAL search_path = public, pg_catalog"),
            "could hide some: search_path",
        ),
        "a column of another type": (
            lambda it: it.ddl(f"ALTER TABLE {TABLE} ALTER COLUMN address TYPE name"),
            "could hide some: column address of type name",
        ),
        "an instant that is none": (
            lambda it: it.set("at = 'infinity'"),
            "Entry 3 (topic.pause) does not match its hash",
        ),
        "row-level security": (
            lambda it: it.ddl(f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY"),
            "could swallow entries: row-level security",
        ),
        "a policy": (
            lambda it: it.ddl(f"CREATE POLICY hidden ON {TABLE} USING (seq < 3)"),
            "could swallow entries: policy hidden",
        ),
        "a table that inherits": (
            lambda it: it.ddl(f"CREATE TABLE more () INHERITS ({TABLE})"),
            "could swallow entries: inheriting table more",
        ),
        "a session that fires no guard": (
            lambda it: it.ddl("SET LOCAL session_replication_role = replica"),
            "could swallow entries: session_replication_role",
        ),
        "truncate": (lambda it: it.sql(f"TRUNCATE {TABLE}"), f"The log ends at entry 0, but entry {NOW} was anchored"),
    }


@pytest.fixture
def reader(client: Client, audit_state: Path) -> Client:
    user = User.objects.create_user("olga")
    services.change_grants(SYSTEM, user, [ScopedRole(Role.OPERATOR, "*")])
    client.force_login(user)
    # The log of these tests begins with their own entries.
    Intruder(audit_state, audit_state, lambda _: None, lambda: None).delete("seq > 0")
    return client


@pytest.fixture
def intruder(reader: Client, write: Any, audit_state: Path, tmp_path: Path) -> Intruder:
    duty = AuditAnchor()
    prepare(print)
    for count in (2, THEN - 2):
        write(count)
        duty.tick()
    assert verify_now().holds
    shutil.copytree(audit_state, tmp_path / "older")
    for count in (2, NOW - THEN - 2):
        write(count)
        duty.tick()
    assert verify_now().holds
    return Intruder(audit_state, tmp_path / "older", write, duty.tick)


def by_command() -> str:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("audit", "verify", stdout=out)
    assert ended.value.code == 1
    return out.getvalue()


def by_duty() -> str:
    with structlog.testing.capture_logs() as lines:
        AuditVerification().tick()
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["the audit log does not hold"]
    found = verify_now()
    return " ".join(finding.what for finding in found.findings)


def on_page(reader: Client) -> str:
    reader.post("/audit/verify/")
    page = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", reader.get("/audit/").content.decode())))
    assert "the chain does not hold" in page
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_found_by_command_by_duty_and_on_the_page(
    intruder: Intruder, reader: Client, tmp_path: Path, kind: str
) -> None:
    act, words = KINDS[kind]
    act(intruder)
    left = tmp_path / "as-it-was-left"
    if intruder.folder.exists():
        shutil.copytree(intruder.folder, left, symlinks=True)
    for find in (by_command, by_duty, lambda: on_page(reader)):
        assert words in find()
        shutil.rmtree(intruder.folder, ignore_errors=True)
        if left.exists():
            shutil.copytree(left, intruder.folder, symlinks=True)


def test_the_log_that_nobody_touched_holds_for_all_three(intruder: Intruder, reader: Client) -> None:
    out = StringIO()
    call_command("audit", "verify", stdout=out)
    assert out.getvalue() == f"{NOW} entries verified: unbroken; 4 anchored heads agree, and so does the store.\n"
    AuditVerification().tick()
    reader.post("/audit/verify/")
    assert "unbroken" in reader.get("/audit/").content.decode()


@pytest.mark.parametrize("kind", ["delete the last n", "empty the table"])
def test_a_log_that_was_cut_off_is_broken_on_the_page_before_anybody_verifies(
    intruder: Intruder, reader: Client, kind: str
) -> None:
    KINDS[kind][0](intruder)
    page = html.unescape(reader.get("/audit/").content.decode())
    assert f", but entry {NOW} was anchored, verified or told to the store." in page
    assert "the chain does not hold" in page
    assert "The audit log has been tampered with" in reader.get("/").content.decode()


@pytest.mark.parametrize("kind", ["remove the verdict", "roll back the database and the anchors", "remove the folder"])
def test_what_was_found_stays_found_until_a_person_begins_the_anchors_anew(intruder: Intruder, kind: str) -> None:
    KINDS[kind][0](intruder)
    for _ in range(2):
        assert not verify_now().holds
        intruder.write(3)
        intruder.tick()
    if intruder.folder.exists():
        intruder.folder.rename(intruder.folder.with_name("aside"))
    call_command("audit", "anchor", "--begin", "--reason", "compared with Monday's backup", stdout=StringIO())
    verdict = verify_now()
    assert verdict.holds, verdict.findings
    assert verdict.store == "agrees"


def test_a_store_that_forgot_is_told_again_and_raises_no_alarm(intruder: Intruder) -> None:
    store.client().delete(witness.key())
    verdict = verify_now()
    assert (verdict.holds, verdict.store) == (True, "knows none")
    intruder.tick()
    assert verify_now().store == "agrees"


def test_a_store_that_does_not_answer_is_said_and_is_no_finding(
    intruder: Intruder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    with monkeypatch.context() as away:
        away.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
        verdict = verify_now()
    store.close()
    assert verdict.holds
    assert verdict.sentence().endswith("anchored heads agree; the store did not answer.")


def test_an_alarm_stays_although_the_folder_is_put_back_as_it_was(intruder: Intruder) -> None:
    """Found by a stranger: who can write ``STATE/audit`` made it go away, and the store agreed."""
    assert verify_now().holds
    intruder.tick()
    kept = intruder.folder.with_name("kept")
    shutil.copytree(intruder.folder, kept)
    shutil.rmtree(intruder.folder)
    assert not verify_now().holds
    shutil.rmtree(intruder.folder)
    shutil.copytree(kept, intruder.folder)
    for _ in range(2):
        verdict = verify_now()
        assert not verdict.holds
        assert "nobody has begun the anchors anew since: no anchor" in verdict.findings[0].what
        intruder.write(3)
        intruder.tick()
    intruder.folder.rename(intruder.folder.with_name("aside"))
    call_command("audit", "anchor", "--begin", "--reason", "it was the night shift", stdout=StringIO())
    assert verify_now().holds
    intruder.tick()
    assert verify_now().holds
