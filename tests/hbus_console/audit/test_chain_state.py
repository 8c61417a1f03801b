"""The title line of the audit page: what stands is said at once, and what nobody can know is not called unbroken."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from engine.core.clock import ManualClock
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.models import User
from hbus_console.audit import witness
from hbus_console.audit.anchor import AuditAnchor
from hbus_console.audit.beginning import prepare
from hbus_console.audit.state import chain_state, last_verified, verify_now
from hbus_console.wiring import store
from tests.hbus_console.audit.conftest import Tamper, Write

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture(autouse=True)
def own_store(audit_state: Path) -> Iterator[None]:
    store.close()
    witness._away.clear()
    yield
    store.close()
    witness._away.clear()


@pytest.fixture
def folder(write: Write, audit_state: Path) -> Path:
    """``STATE/audit`` of a log that holds, and is anchored and told to the store."""
    services.change_grants(SYSTEM, User.objects.create_user("olga"), [ScopedRole(Role.OPERATOR, "*")])
    services.change_grants(SYSTEM, User.objects.create_user("narrow"), [ScopedRole(Role.OPERATOR, "hotels.*")])
    prepare(print)
    write(4)
    AuditAnchor().tick()
    assert verify_now().holds
    return audit_state


def _page(client: Client, name: str = "olga") -> str:
    client.force_login(User.objects.get(username=name))
    return " ".join(client.get("/audit/").content.decode().split())


def test_the_page_says_at_once_that_an_alarm_stands(folder: Path, client: Client) -> None:
    """Found by a stranger: until the next verification, ten minutes later, the page called the log unbroken."""
    assert chain_state().word == "unbroken"
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    shutil.rmtree(folder)
    assert not verify_now().holds
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    remembered = last_verified()
    assert remembered is not None
    assert remembered.holds, "the folder says that all is well"
    state = chain_state()
    assert state.word == "broken"
    assert "nobody has begun the anchors anew since: no anchor" in state.trouble
    told = _page(client)
    assert '<span class="badge bad">broken</span>' in told
    assert "nobody has begun the anchors anew since: no anchor" in told
    assert "the chain does not hold" in client.get("/audit/2/").content.decode()
    assert "tampered with" in client.get("/").content.decode()
    told = _page(client, "narrow")
    assert "A verification did not hold, and nobody has begun the anchors anew since." in told
    assert "no anchor" not in told


def test_the_page_knows_of_a_head_that_the_store_was_told(folder: Path, write: Write, tamper: Tamper) -> None:
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    length = chain_state().entries
    write(3)
    AuditAnchor().tick()
    tamper("DELETE FROM audit_auditentry WHERE seq > %s", [length])
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    state = chain_state()
    assert (state.word, state.cut_off) == ("broken", length + 3)


def test_what_somebody_else_wrote_into_the_store_is_said(folder: Path) -> None:
    store.client().hset(witness.key(), "head", "{}")
    state = chain_state()
    assert (state.word, state.trouble) == ("broken", "What the store keeps of the log is not what hbus wrote: head.")


def test_while_the_store_hangs_nobody_knows_and_no_page_waits_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    store.close()
    # It takes connections and never answers.
    with socket.create_server(("127.0.0.1", 0)) as deaf, monkeypatch.context() as away:
        away.setattr(settings, "REDIS_URL", f"redis://127.0.0.1:{deaf.getsockname()[1]}/0")
        begun = time.monotonic()
        assert witness.glance() is None
        assert time.monotonic() - begun < 10 * witness.PATIENCE_S
        assert chain_state().word == "not known"
        told = _page(client)
        assert '<span class="badge warn">not known</span>' in told
        assert "not known whether it is unbroken: the store does not answer" in told
        assert ">unbroken<" not in told
        assert "not known: the store does not answer" in client.get("/audit/2/").content.decode()
    store.close()
    witness._away.clear()
    assert chain_state().word == "unbroken"
    assert '<span class="badge ok">unbroken</span>' in _page(client)


def test_a_store_that_gave_no_answer_is_not_asked_again_at_once(
    audit_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    with socket.create_server(("127.0.0.1", 0)) as deaf, monkeypatch.context() as away:
        away.setattr(settings, "REDIS_URL", f"redis://127.0.0.1:{deaf.getsockname()[1]}/0")
        assert [witness.glance(clock) for _ in range(3)] == [None] * 3
        assert _callers(deaf) == 1
        clock.advance(witness.PATIENCE_S)
        assert witness.glance(clock) is None
        assert _callers(deaf) == 1


def _callers(server: socket.socket) -> int:
    """Who has called it since it was asked last."""
    server.setblocking(False)
    found = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            found += 1
    return found
