from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from engine.bus.facts import Fact, batches
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.metrics import count


def test_counters_of_other_processes_are_on_the_page(tmp_path: Path, client: Client) -> None:
    # Given two roles that counted in the shared folder and went away
    code = (
        "import django; django.setup()\n"
        "from hbus_console import metrics\n"
        "from engine.bus.facts import Fact, batches\n"
        "metrics.count(batches([Fact('published', 1, topic='t')] * 3))\n"
    )
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "hbus_console.settings",
    }
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    # When a third one, the web role, is asked
    ask = (
        "import django; django.setup()\n"
        "from django.test import Client\n"
        "print(Client(headers={'host': 'localhost'}).get('/metrics').content.decode())"
    )
    answer = subprocess.run([sys.executable, "-c", ask], env=environment, check=True, capture_output=True, text=True)
    assert 'hbus_published_total{topic="t"} 6.0' in answer.stdout


def test_this_machine_may_look(client: Client) -> None:
    # Counters are there once some process has counted something.
    count(batches([Fact("published", 1, topic="t")]))
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert b"hbus_published_total" in answer.content


def test_no_figure_tells_the_size_of_one_payload(client: Client) -> None:
    """Between two looks one message may have come, and what it masks is all that its length hangs on."""
    client.get("/metrics")
    told = client.get("/metrics").content.decode()
    assert "django_http_requests_total_by_method_total" in told
    assert [line for line in told.splitlines() if line.startswith("django_") and "body" in line] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"X-Real-IP": "203.0.113.9"},
        {"Via": "1.1 edge"},
        {"X-Forwarded-Host": "bus.example"},
    ],
)
def test_what_came_through_a_proxy_is_not_this_machine(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/metrics", headers=headers).status_code == 401


@pytest.mark.parametrize(("proxies", "status"), [(("10.0.0.7",), 200), (("127.0.0.0/8",), 401), (("127.0.0.1",), 401)])
def test_where_a_proxy_stands_on_this_machine_nobody_is_taken_for_it(
    client: Client, settings: Settings, proxies: tuple[str, ...], status: int
) -> None:
    settings.TRUSTED_PROXIES = proxies
    assert client.get("/metrics").status_code == status


@pytest.mark.django_db
@pytest.mark.parametrize(("scope", "status"), [("*", 200), ("booking.*", 401)])
def test_others_need_a_token_that_sees_every_topic(client: Client, scope: str, status: int) -> None:
    new = services.create_user(SYSTEM, "prometheus", [ScopedRole(Role.VIEWER, scope)])
    expires_at = timezone.now() + timedelta(days=1)
    raw = services.create_token(actor_of(new.user), "scrape", Role.VIEWER, scope, expires_at).raw
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    assert client.get("/metrics", **elsewhere).status_code == 401  # type: ignore[arg-type]
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {raw}"}, **elsewhere)  # type: ignore[arg-type]
    assert answer.status_code == status
