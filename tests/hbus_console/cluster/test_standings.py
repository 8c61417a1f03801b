"""What features stand on: asked by ``/readyz``, shown on the cluster page, and a concern when it is ill."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from pytest_django import Settings
from structlog.testing import capture_logs

from engine.core.clock import SystemClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.cluster import asking
from hbus_console.cluster.concerns import concerns
from hbus_console.registry.declaration import Feature
from hbus_console.registry.health import Probe, ProbedHealth
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics import carriers
from hbus_console.topics.models import Topic
from tests.hbus_console.overview.test_concerns import look
from tests.hbus_console.ui.conftest import topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

Install = Callable[..., None]
WELL = Feature("mills", probes=(f"{__name__}:well",))
ILL = Feature("kettles", probes=(f"{__name__}:ill",))
NEEDED = Feature("plugs", probes=(f"{__name__}:needed",))
MISTAKEN = Feature("toys", probes=(f"{__name__}:mistaken",))
SLOW = Feature("snails", probes=(f"{__name__}:slow",))

_go_on = threading.Event()
_asked: list[str] = []


def told(name: str, trouble: str = "", note: str = "", needed: bool = False) -> list[Probe]:
    return [Probe(name, lambda: ProbedHealth(name, trouble, note, needed), needed)]


def well() -> list[Probe]:
    return told("grid", note="230 V")


def ill() -> list[Probe]:
    return told("water", "does not run", "since noon")


def needed() -> list[Probe]:
    return told("fuse", "is blown", needed=True)


def mistaken() -> list[Probe]:
    raise KeyError("a mistake of the toy")


def slow() -> list[Probe]:
    def ask() -> ProbedHealth:
        _asked.append("slow")
        _go_on.wait(30)
        return ProbedHealth("shell")

    return [Probe("shell", ask)]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    def install(*features: Feature) -> None:
        monkeypatch.setattr(asking, "features", lambda: features)

    _go_on.clear()
    _asked.clear()
    asking._said.clear()
    yield install
    _go_on.set()


def parts(client: Client) -> tuple[int, dict[str, str]]:
    answer = client.get("/readyz")
    return answer.status_code, {
        name: word for name, word in answer.json()["parts"].items() if "base:" not in name and name != "live"
    }


def test_readyz_names_each_and_is_ready_while_nothing_needed_is_ill(install: Install) -> None:
    install(WELL, ILL)
    assert parts(Client()) == (200, {"store": "ok", "mills:grid": "ok", "kettles:water": "does not run"})
    install(WELL, NEEDED)
    assert parts(Client()) == (503, {"store": "ok", "mills:grid": "ok", "plugs:fuse": "is blown"})


def test_a_mistake_is_that_features_own_and_logged_when_it_begins(install: Install) -> None:
    install(MISTAKEN, WELL)
    with capture_logs() as lines:
        for _ in range(3):
            found = parts(Client())
    assert found == (200, {"store": "ok", "toys": "could not tell, the log says why", "mills:grid": "ok"})
    assert [(line["part"], line["log_level"]) for line in lines if line["event"] == "a part failed"] == [
        ("toys", "error")
    ]


def test_a_slow_probe_is_waited_for_once_and_not_asked_again_before_it_has_answered(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 0.05)
    install(SLOW)
    found = [asking.standings() for _ in range(3)]
    assert [(each.name, each.health.trouble) for (each,) in found] == [
        ("snails:shell", "did not tell within 0.05 s")
    ] * 3
    assert _asked == ["slow"]
    _go_on.set()
    asking._under_way["snails", "shell"].answer.result(10)
    monkeypatch.setattr(asking, "PATIENCE_S", 10)
    assert [each.name for each in asking.standings()] == ["snails:shell"]


def test_the_page_the_endpoint_and_what_needs_a_person_show_them(install: Install, page: Client) -> None:
    install(WELL, ILL)
    html = page.get("/cluster/").content.decode()
    for text in ("mills:grid", "230 V", "kettles:water", "does not run", "since noon", "something is down"):
        assert text in html, text
    answer = page.get("/api/v1/cluster").json()
    assert [(each["feature"], each["name"], each["tone"], each["note"]) for each in answer["standings"]] == [
        ("mills", "grid", "ok", "230 V"),
        ("kettles", "water", "bad", "since noon"),
    ]
    assert answer["worst"] == "bad"
    found = concerns(look(SYSTEM, SystemClock().now_ms(), nodes=[]))
    assert [(each.tone, each.note) for each in found if each.text == "kettles:water does not run"] == [
        ("bad", "since noon")
    ]


def asked() -> ProbedHealth:
    (probe,) = carriers.probes()
    return probe.ask()


def test_a_store_of_topics_own_is_asked_and_missed(own_store: StandaloneStore, settings: Settings) -> None:
    settings.HBUS_STORES = {"probed": own_store.url}
    assert carriers.probes() == [], "no topic is carried there"
    row = topic("booking.probed")
    Topic.objects.filter(pk=row.pk).update(transport="redis_stream@probed")
    found = asked()
    assert (found.name, found.trouble, found.needed) == ("redis_stream@probed", "", False)
    assert found.note.startswith("answers in ")
    own_store.kill()
    found = asked()
    assert found.trouble == "does not answer"
    assert own_store.password not in found.note
    settings.HBUS_TRANSPORT = "redis_stream@probed"
    assert [each.needed for each in carriers.probes()] == [True]
