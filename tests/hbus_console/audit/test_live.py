"""What moves on open audit pages: entries, and whether the log holds, which no entry tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit import guards, witness
from hbus_console.audit.anchor import AuditAnchor
from hbus_console.audit.gravity import gravest
from hbus_console.audit.live import cells
from hbus_console.audit.state import chain_state, verify_now
from hbus_console.audit.verify import Finding, FindingKind
from hbus_console.audit.witness import Alarm
from hbus_console.wiring import store
from tests.guards import drop
from tests.hbus_console.audit.conftest import Tamper, Write

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW_MS = 1_764_000_000_000


@pytest.fixture(autouse=True)
def own_store(audit_state: Path) -> Iterator[None]:
    store.close()
    witness._away.clear()
    yield
    store.close()
    witness._away.clear()


def chain(*scopes: str) -> object:
    return cells(NOW_MS, scopes or ("*",)).marks["audit/chain"]


def verified(write: Write, tamper: Tamper) -> None:
    verify_now()


def found_broken(write: Write, tamper: Tamper) -> None:
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 2")
    verify_now()


def anchored(write: Write, tamper: Tamper) -> None:
    AuditAnchor().tick()


def alarmed_elsewhere(write: Write, tamper: Tamper) -> None:
    witness.raise_alarm(Alarm(NOW_MS, "Entry 2 does not match its hash."))


@pytest.mark.parametrize("move", [verified, found_broken, anchored, alarmed_elsewhere])
def test_what_is_found_of_the_chain_moves_the_pages_that_tell_of_it(
    write: Write, tamper: Tamper, move: Callable[[Write, Tamper], None]
) -> None:
    write(3)
    before = chain()
    assert chain() == before
    move(write, tamper)
    assert chain() != before


@pytest.mark.parametrize("move", [verified, found_broken, alarmed_elsewhere])
def test_whether_the_log_holds_is_told_to_the_reader_of_any_part_of_it(
    write: Write, tamper: Tamper, move: Callable[[Write, Tamper], None]
) -> None:
    write(3)
    AuditAnchor().tick()
    before = chain("alien.*")
    move(write, tamper)
    assert chain("alien.*") != before


def test_acts_elsewhere_are_not_heard_through_the_chain(write: Write) -> None:
    write(3)
    AuditAnchor().tick()
    before, whole = chain("alien.*"), chain()
    write(1)
    AuditAnchor().tick()
    assert chain("alien.*") == before
    assert chain() != whole


def test_the_pages_that_tell_of_the_chain_are_read_again_for_it(write: Write) -> None:
    reader = User.objects.create_user("reader")
    services.change_grants(SYSTEM, reader, [ScopedRole(Role.ADMIN, "*")])
    browser = Client()
    browser.force_login(reader)
    for address in ("/audit/", "/audit/1/"):
        page = browser.get(address).content.decode()
        shows = page.split('data-shows="', 1)[1].split('"', 1)[0].split()
        assert any(name == "audit/chain" or "audit/chain".startswith(f"{name}/") for name in shows), (address, shows)


def test_of_several_findings_what_was_done_to_an_entry_is_told_first(write: Write, tamper: Tamper) -> None:
    guard, anchor = Finding(FindingKind.UNGUARDED, 0, "guards"), Finding(FindingKind.ANCHOR, 0, "anchors")
    altered, cut = Finding(FindingKind.ALTERED, 94, "altered"), Finding(FindingKind.TRUNCATED, 99, "cut")
    assert gravest([guard, anchor, altered, cut]) == altered
    assert gravest([guard, anchor]) == anchor
    assert gravest([]) is None


def test_the_overview_and_the_alarm_name_the_altered_entry_and_not_the_guards(write: Write, tamper: Tamper) -> None:
    reader = User.objects.create_user("reader")
    services.change_grants(SYSTEM, reader, [ScopedRole(Role.ADMIN, "*")])
    write(3)
    tamper("UPDATE audit_auditentry SET actor = 'bob' WHERE seq = 3")
    for name in guards.installed(connection):
        drop(connection, name)
    found = verify_now().findings
    assert found[0].kind is FindingKind.UNGUARDED, json.dumps([each.what for each in found])
    browser = Client()
    browser.force_login(reader)
    assert "Entry 3 (topic.pause) does not match its hash." in browser.get("/").content.decode()
    told = chain_state().told
    assert told is not None
    assert told.alarm is not None
    assert told.alarm.what == "Entry 3 (topic.pause) does not match its hash."
    guards.install(connection)
