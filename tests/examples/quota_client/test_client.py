"""Two clients as processes and a node in this one share a limit over a live server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from engine.quota import QuotaNode
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.teams import services as teams
from hbus_console.teams.services import TeamDraft
from hbus_console.wiring import quota, store

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"], transaction=True), pytest.mark.above_database]
LIMIT, BURST, LASTS_S = 100, 20, 3.0
#: Asks as fast as it can for so long, and until it had some; says how many it had, and from when to when.
PROGRAM = """
import sys, time
from client import QuotaClient
url, token, node, lasts_s = sys.argv[1:]
limiter = QuotaClient(url, token, node=node, service="search", resource="rooms", timeout_s=5.0)
began, admitted = time.time(), 0
while time.time() < began + float(lasts_s) or admitted < 20:
    if limiter.refused or time.time() > began + 120:
        sys.exit(f"refused: {limiter.refused}")
    if limiter.allow():
        admitted += 1
    else:
        time.sleep(0.002)
print(admitted, began, time.time())
"""


@pytest.fixture
def _installed(settings: Settings, prefix: str, transactional_db: None) -> Iterator[None]:
    store.close()
    settings.HBUS_PREFIX = prefix
    teams.create_team(SYSTEM, TeamDraft("Reservations", "#reservations"))
    create_policy(SYSTEM, PolicyDraft("rooms", "Reservations", LIMIT, BURST, service="search", whose="together"))
    yield
    store.close()


@pytest.mark.usefixtures("_installed")
def test_clients_and_a_node_stay_within_the_limit_together(live_server: LiveServer) -> None:
    person = accounts.create_user(SYSTEM, "search", [ScopedRole(Role.VIEWER, "rooms")]).user
    ends = datetime.now(UTC) + timedelta(days=1)
    token = create_token(actor_of(person), "client", Role.VIEWER, "rooms", ends).raw
    code = Path(__file__).parents[3] / "examples" / "quota_client"
    command = [sys.executable, "-c", PROGRAM, live_server.url, token]
    clients = [
        subprocess.Popen([*command, node, str(LASTS_S)], cwd=code, stdout=subprocess.PIPE, text=True)
        for node in ("one", "two")
    ]
    node = QuotaNode("here", quota.control_plane())
    node.start()
    limiter = node.limiter("search", "rooms", "here")
    began, own = time.time(), 0
    while any(client.poll() is None for client in clients):
        own += limiter.wait(timeout=0.05)
    said = [client.communicate(timeout=10)[0].split() for client in clients]
    ended = time.time()
    node.stop()
    admitted = [own, *(int(each[0]) for each in said)]
    first, last = min(began, *(float(each[1]) for each in said)), max(ended, *(float(each[2]) for each in said))
    assert sum(admitted) <= LIMIT * (last - first) + BURST, (admitted, last - first)
    assert own > 0
