from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.clock import ManualClock
from hbus_console.access.permissions import Actor
from hbus_console.cluster import concerns, services
from hbus_console.cluster.probes import DatabaseState, StoreState
from hbus_console.cluster.services import Cluster
from hbus_console.jobs.models import Job
from hbus_console.nodes.stamps import Node
from hbus_console.supervisor import status
from hbus_console.ui.concern import Look

pytestmark = pytest.mark.django_db
STORE = StoreState("x", server="Valkey", version="9.1", memory=222_298_112, durable=True)
ALL = ["*"]


def node(role: str, slot: str = "0", *, silent: bool = False, **detail: object) -> Node:
    return Node(f"h:{role}:{slot}", role, slot, "h", 1, 0, 5_000, silent, detail)


def consumer(slot: str = "0", *, silent: bool = False, **line: object) -> Node:
    return node("consumer", slot, silent=silent, consumers=[{"topic": "a", "group": "g", "state": "running", **line}])


def duty(state: str, slot: str = "0", *, silent: bool = False, **more: object) -> Node:
    return node("keeper", slot, silent=silent, duties=[{"name": "collector", "state": state, "ticks": 3, **more}])


def word(name: str, nodes: list[Node], store: StoreState = STORE) -> tuple[str, str]:
    (role,) = [role for role in services.roles(nodes, store, [DatabaseState("default")], ALL) if role.name == name]
    return role.tone, role.note


def test_a_role_is_as_well_as_its_nodes() -> None:
    assert word("consumer", [consumer("0"), consumer("1")]) == ("ok", "2 nodes · 1 subscription")
    assert word("consumer", [consumer("0"), consumer("1", silent=True)]) == ("warn", "1 node alive, 1 silent")
    assert word("consumer", [consumer("0", silent=True)]) == ("bad", "no subscription is read")
    assert word("keeper", []) == ("bad", "delays, outbox and evidence stand still")
    assert word("keeper", [duty("running", last_error="Timeout")]) == ("warn", "1 node · 1 failing of 1 duties")


def test_without_the_store_nothing_is_claimed_about_roles() -> None:
    away = StoreState("x", error="Connection refused")
    assert word("consumer", [], away) == ("warn", "not known while the store does not answer")
    assert word("store", [], away) == ("bad", "Connection refused")


def test_nobody_misses_a_role_that_has_nothing_to_do() -> None:
    assert word("jobs", []) == ("ok", "there is no job")
    Job.objects.create(name="close-of-day", schedule="@daily", kind="http", target="https://1.1.1.1/")
    assert word("jobs", []) == ("bad", "no job runs")


def test_store_and_database_say_what_they_are() -> None:
    assert word("store", []) == ("ok", "Valkey 9.1 · 212 MB · AOF")
    full = DatabaseState("default", engine="SQLite", size=1024, journal="WAL", place="a")
    (role,) = [role for role in services.roles([], STORE, [full, full], ALL) if role.name == "database"]
    assert role.note == "SQLite · WAL · 2 KB"
    broken = services.roles([], STORE, [full, DatabaseState("ledger", error="locked")], ALL)[1]
    assert (broken.tone, broken.note) == ("bad", "ledger: locked")


def test_a_duty_is_shown_where_it_runs() -> None:
    (line,) = services.duties([duty("elsewhere", "0"), duty("running", "1", last_tick_s=0.0031)], ALL)
    assert (line.node, line.state, line.last_tick_us) == ("h:keeper:1", "running", 3_100)
    (line,) = services.duties([duty("running", "0", silent=True)], ALL)
    assert (line.state, line.tone) == ("nowhere", "bad")
    # One that hangs shows, until another node does it.
    (line,) = services.duties([duty("elsewhere", "0"), duty("hung", "1")], ALL)
    assert (line.node, line.state, line.tone) == ("h:keeper:1", "hung", "bad")
    assert word("keeper", [duty("hung")]) == ("bad", "1 node · 1 hung of 1 duties")
    (line,) = services.duties([duty("hung", "0"), duty("running", "1")], ALL)
    assert (line.node, line.state) == ("h:keeper:1", "running")


def test_all_is_not_well_while_duties_fail_or_a_process_is_not_ready() -> None:
    line = status.ProcessLine("web", "0", "running", 7, "h", 9, 0, 1, "", "the store is still reading its data")
    now = services.Cluster([], [line], 0, STORE, [], [], [], 0)
    assert now.worst == "warn"
    assert replace(now, processes=[replace(line, last_error_age_s=60)]).worst == "ok"
    failing = services.roles([duty("running", last_error="Timeout")], STORE, [DatabaseState("default")], ALL)
    assert replace(now, processes=[], roles=[role for role in failing if role.name == "keeper"]).worst == "warn"


def test_consumers_of_a_silent_node_are_silent_and_the_idle_say_why() -> None:
    (line,) = services.consumers([consumer(silent=True, in_flight=3)])
    assert (line.state, line.in_flight) == ("silent", 3)
    waiting = node("consumer", "1", idle=[{"topic": "a", "group": "g", "why": "no handler"}])
    assert services.idle([waiting]) == [("a", "g", "no handler")]
    # One that does not run here but there is not idle.
    assert services.idle([waiting, consumer("0")]) == []


def test_what_a_worker_only_counts_is_idle_as_far_as_no_other_has_a_handler() -> None:
    few, many = node("consumer", "0", consumers=[], idle_unnamed=3), node("consumer", "1", consumers=[], idle_unnamed=9)
    assert services.idle_unnamed([few, many]) == 3
    assert services.idle_unnamed([many]) == 9
    assert services.idle_unnamed([many, node("consumer", "2", consumers=[])]) == 0
    assert services.idle_unnamed([]) == 0


def test_a_stamp_of_another_version_does_not_break_the_page() -> None:
    odd = node("consumer", consumers="many", idle=None, duties={"a": 1})
    assert services.consumers([odd]) == []
    assert services.duties([odd], ALL) == []


def test_a_reader_of_a_scope_learns_nothing_of_what_lies_beyond_it() -> None:
    nodes = [
        node("consumer", consumers=[{"topic": name, "group": "g"} for name in ("booking.created", "payment.taken")]),
        duty("running", last_error="payment.taken could not be sampled"),
    ]
    (role,) = [it for it in services.roles(nodes, STORE, [], ["booking.*"]) if it.name == "consumer"]
    assert role.note == "1 node · 1 subscription"
    (line,) = services.duties(nodes, ["booking.*"])
    assert (line.last_error, line.tone) == (services.UNSAID, "warn"), "that it fails is everybody's"
    (line,) = services.duties(nodes, ["booking.*", "*"])
    assert line.last_error == "payment.taken could not be sampled"


@pytest.mark.django_db(databases=["default", "ledger"])
def test_what_a_process_died_of_is_said_to_who_may_see_everything(
    admin_actor: Actor, viewer_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = duty("running", last_error="payment.taken could not be sampled")
    monkeypatch.setattr(services, "living", lambda clock: ([failing], ""))
    line = status.ProcessLine("keeper", "0", "failed", 1, "h", 0, 3, 0, "", "payment.taken")
    snapshot = status.Status(True, "", "", [line])
    monkeypatch.setattr(status, "collect", lambda *_, **__: snapshot)
    seen, known = services.cluster(viewer_actor), services.cluster(admin_actor)
    assert "payment" not in repr(seen)
    assert [line.last_error for line in known.processes] == ["payment.taken"]
    assert concern_notes(viewer_actor, failing) == [services.UNSAID]
    assert concern_notes(admin_actor, failing) == ["payment.taken could not be sampled"]


def concern_notes(who: Actor, failing: Node) -> list[str]:
    look = Look(who, 0, {concerns.store: STORE, concerns.nodes: [failing]})
    return [found.note for found in concerns.concerns(look) if "collector" in found.text]


def test_nobody_knows_whether_a_silent_process_is_up(tmp_path: Path) -> None:
    found = [node("consumer", "0"), node("consumer", "1", silent=True)]
    lines = status.collect(tmp_path, found, ManualClock(90_000), clock_alarm_ms=1_000).lines
    assert [(line.state, line.uptime_s) for line in lines] == [("beating", 90), ("silent", 0)]


def test_what_a_consumer_has_recovered_from_is_told_as_over() -> None:
    (line,) = services.consumers([consumer(last_error="Timeout", last_error_ms=1_000, recovered_ms=2_000)])
    assert (line.error, line.error_ms, line.recovered) == ("Timeout", 1_000, True)
    for since in ({"last_error_ms": 3_000, "recovered_ms": 2_000}, {"last_error_ms": 1_000}, {}):
        (line,) = services.consumers([consumer(last_error="Timeout", **since)])
        assert not line.recovered


def test_of_many_duties_that_fail_none_is_left_out(admin_actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"duty-{number}" for number in range(6)]
    # Each for a reason of its own: what fails alike is one line.
    failing = [{"name": name, "state": "running", "last_error": f"no {name}"} for name in names]
    monkeypatch.setattr(services, "living", lambda clock: ([node("keeper", duties=failing)], ""))
    told = [each for each in concerns._processes(Look(admin_actor, 1)) if "dut" in each.text]
    assert [each.text for each in told] == [*(f"The duty {name} fails" for name in names[:4]), "2 more duties fail"]
    assert told[-1].note == "duty-4 and duty-5"


@pytest.mark.parametrize(
    ("known", "answer", "shown"),
    [
        (("store", "ready"), StoreState("x", error="Timeout"), "does not answer"),
        (("store", "ready"), StoreState("x", error="it reads its log", condition="reads its log"), "not ready"),
        (("store", "backing off"), StoreState("x", error="Timeout"), "backing off"),
        (("store", "ready"), STORE, "ready"),
        (("web", "ready"), StoreState("x", error="Timeout"), "ready"),
    ],
)
@pytest.mark.django_db(databases=["default", "ledger"])
def test_a_store_that_does_not_answer_is_not_called_ready_beside_it(
    admin_actor: Actor, monkeypatch: pytest.MonkeyPatch, known: tuple[str, str], answer: StoreState, shown: str
) -> None:
    role, state = known
    line = status.ProcessLine(role, "0", state, 1, "", 0, 0, 0, "", "")
    monkeypatch.setattr(status, "collect", lambda *_, **__: status.Status(True, "", "", [line]))
    monkeypatch.setattr(services.probes, "store_state", lambda: answer)
    assert [line.state for line in services.cluster(admin_actor).processes] == [shown]


def test_what_several_have_recovered_from_is_told_once() -> None:
    lines = services.consumers(
        [consumer(str(n), last_error=f"{n % 2} away", last_error_ms=1_000 + n, recovered_ms=2_000) for n in range(4)]
        + [consumer("9", last_error="Timeout", last_error_ms=3_000)]
    )
    found = Cluster([], [], 0, STORE, [], lines, [], 0)
    assert found.over == [("0 away", 2, 1_002), ("1 away", 2, 1_003)]
