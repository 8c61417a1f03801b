from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from engine.bus.transports.nsq.nodes import Nodes
from engine.core.errors import BadInput, ConfigurationError
from hbus_console.registry.declaration import Feature, ProcessRole
from hbus_console.registry.loading import features
from hbus_console.state import ROOT
from hbus_console.supervisor import roles as roles_module
from hbus_console.supervisor.embedded import nsqd_command, store_command
from hbus_console.supervisor.feature import FEATURE
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import chosen, roles
from tests.nsq import needs_nsqd

HERE = Installation(
    state=Path("/nowhere"),
    bind="127.0.0.1",
    port=8119,
    prefix="t",
    host="localhost",
    external_store="",
    store_port=7000,
)


def _names(words: list[str], *, embedded: bool = True) -> list[tuple[str, int]]:
    return [(role.name, slot) for role, slot in chosen(words, embedded=embedded)]


def test_everything_runs_when_nothing_is_named() -> None:
    assert _names([]) == [("store", 0), ("web", 0), ("consumer", 0), ("keeper", 0), ("cron", 0), ("jobs", 0)]


def test_the_embedded_store_comes_along_unasked() -> None:
    assert _names(["consumer", "web"]) == [("store", 0), ("web", 0), ("consumer", 0)]


def test_with_an_external_store_none_is_started() -> None:
    usual = ["web", "consumer", "keeper", "cron", "jobs"]
    assert _names([], embedded=False) == [(name, 0) for name in usual]
    with pytest.raises(BadInput, match="REDIS_URL names another"):
        chosen(["store", "web"], embedded=False)


def test_an_nsqd_runs_where_topics_need_it_or_it_is_named_and_not_otherwise() -> None:
    assert "nsqd" not in dict(_names([]))
    assert _names(["nsqd", "web"]) == [("store", 0), ("nsqd", 0), ("web", 0)]
    needed = chosen(["web"], embedded=True, needed={"nsqd"})
    assert [role.name for role, _ in needed] == ["store", "nsqd", "web"]
    for role in ("web", "consumer", "keeper"):
        assert "nsqd" in roles()[role].declared.needs


def test_who_wants_the_first_topic_on_nsq_is_told_to_start_all_that_runs_already_and_nsqd() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        Nodes({})
    named = re.findall(r"ROLES=(\S+) make run", refusal.value.remedy)
    assert len(named) == 1
    usual = {name for name, _ in _names([])}
    assert {name for name, _ in _names(named[0].split(","))} == usual | {"nsqd"}
    assert f"ROLES={named[0]} make run" in (ROOT / "docs" / "transports.md").read_text(encoding="utf-8")


def test_with_an_nsqd_of_ones_own_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSQD_URL", "http://10.0.0.1:4151")
    with pytest.raises(BadInput, match="names another"):
        chosen(["nsqd"], embedded=True)


def test_the_embedded_nsqd_keeps_everything_on_disk_and_to_itself(tmp_path: Path) -> None:
    needs_nsqd()
    command = nsqd_command(dataclasses.replace(HERE, state=tmp_path, nsqd_ports=(7001, 7002)))
    assert Path(command[0]).is_file()
    assert {"-mem-queue-size=0", "-tcp-address=127.0.0.1:7001", "-http-address=127.0.0.1:7002"} <= set(command)
    assert (tmp_path / "nsqd").stat().st_mode & 0o077 == 0


def test_a_feature_brings_a_role_and_says_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Feature(
        "toy",
        roles=(ProcessRole("bell", "rings", f"{__name__}:_probed", 31, needs=("store",), usual=False, place=15),),
        needs_role={"bell": f"{__name__}:_wanted"},
    )
    monkeypatch.setattr(roles_module, "features", lambda: (*features(), toy))
    roles.cache_clear()
    try:
        assert "bell" not in dict(_names([]))
        assert _names(["bell"]) == [("store", 0), ("bell", 0)]
        monkeypatch.setattr(roles_module, "features", lambda: (FEATURE, toy))
        roles.cache_clear()
        needed = roles_module.needed()
        assert [role.name for role, _ in chosen(["web"], embedded=True, needed=needed)] == ["store", "web", "bell"]
        bell = roles()["bell"]
        assert bell.probe(HERE, 0, 7) == "process 7 does not ring"
        assert bell.command(HERE, 1)[-4:] == ["role", "bell", "--slot", "1"]
        assert bell.address(HERE) == ""
    finally:
        roles.cache_clear()


def _wanted() -> bool:
    return True


def _probed(at: Installation, slot: int, pid: int) -> str:
    return f"process {pid} does not ring"


def test_a_number_asks_for_several() -> None:
    assert _names(["consumer:3"]) == [("store", 0), ("consumer", 0), ("consumer", 1), ("consumer", 2)]


@pytest.mark.parametrize("words", [["wep"], ["consumer:0"], ["consumer:x"], ["web:2"], ["web", "web"]])
def test_what_makes_no_sense_is_refused_at_the_field(words: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        chosen(words, embedded=True)
    assert refusal.value.field == "ROLES"
    assert refusal.value.remedy


def test_needs_are_roles_and_free_of_circles() -> None:
    done: set[str] = set()
    for role in roles().values():
        assert set(role.declared.needs) <= done, "a role stands after what it needs"
        done.add(role.name)


def test_everything_can_be_stopped_in_five_seconds() -> None:
    others = max(role.declared.grace_s for role in roles().values() if role.name != "store")
    assert others + roles()["store"].declared.grace_s < 5


def test_the_store_gets_a_private_configuration_that_keeps_everything(tmp_path: Path) -> None:
    binary, config = store_command(dataclasses.replace(HERE, state=tmp_path))
    assert Path(binary).is_file()
    written = Path(config).read_text()
    for line in ("bind 127.0.0.1", "port 7000", "appendonly yes", "maxmemory-policy noeviction", "requirepass "):
        assert line in written
    assert Path(config).stat().st_mode & 0o077 == 0
    assert Path(config).parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("bind", "url"),
    [("127.0.0.1", "http://127.0.0.1:8119"), ("0.0.0.0", "http://127.0.0.1:8119"), ("::1", "http://[::1]:8119")],
)
def test_the_url_is_one_a_browser_can_open(bind: str, url: str) -> None:
    assert dataclasses.replace(HERE, bind=bind).console_url == url
