"""A feature that lies in one folder (``tests/toy``) and is named in HBUS_APPS brings all that a feature can bring."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from hbus_console.state import ROOT
from tests.installation import RunningInstallation

pytestmark = pytest.mark.xdist_group("installation")

_CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_PASSWORD = re.compile(r"password\s+(\S+)")
#: More than a booking, a sample and an evaluation take.
_PATIENCE_S = 150.0


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningInstallation]:
    running = RunningInstallation(
        tmp_path_factory.mktemp("toy") / "state", roles="web,keeper,lamplighter", more={"HBUS_APPS": "tests.toy"}
    )
    running.start()
    made = running.manage(
        "shell",
        "--no-imports",
        "-c",
        "from tests.toy.models import Lamp; Lamp.objects.create(street='market', name='lantern-7')",
    )
    assert made.returncode == 0, made.stderr
    yield running
    running.end()


@pytest.fixture(scope="module")
def admin(installation: RunningInstallation) -> Iterator[httpx.Client]:
    """A browser's session of the admin."""
    password = _PASSWORD.search(installation.output())
    assert password
    with httpx.Client(base_url=installation.url, timeout=15, follow_redirects=True) as client:
        form = {"username": "admin", "password": password.group(1), "csrfmiddlewaretoken": token(client, "/login/")}
        assert client.post("/login/", data=form).status_code == 200
        yield client


@pytest.fixture(scope="module")
def switched(admin: httpx.Client) -> str:
    """The page after somebody has switched the lamp on."""
    form = {"street": "market", "name": "lantern-7", "on": "1", "reason": "night falls"}
    answer = admin.post("/lamps/", data={**form, "csrfmiddlewaretoken": token(admin, "/lamps/")})
    assert answer.status_code == 200, answer.text
    return answer.text


def token(client: httpx.Client, path: str) -> str:
    found = _CSRF.search(client.get(path).text)
    assert found
    return found.group(1)


def cookie(client: httpx.Client, prefix: str) -> str:
    """Cookies are named after the port, so that two installations on one machine do not sign each other out."""
    return next(one.value or "" for one in client.cookies.jar if one.name.startswith(prefix))


def until(seen: Callable[[], bool], what: str) -> None:
    """For what other processes do."""
    deadline = time.monotonic() + _PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_a_page_with_its_menu_and_its_count(admin: httpx.Client, switched: str) -> None:
    assert "lantern-7 is switched." in switched
    assert "market lantern-7 burns" in " ".join(switched.split())
    first = admin.get("/").text
    assert 'href="/lamps/"' in first, "in the menu of every page"
    assert "Toys" in first, "under a section of its own"


def test_a_permission(installation: RunningInstallation, admin: httpx.Client, switched: str) -> None:
    mine = admin.get("/api/v1/me").json()
    assert mine["actions"]["lamp.switch"] == ["*"]
    refused = installation.manage(
        "shell",
        "--no-imports",
        "-c",
        "from hbus_console.access.acts import Role; "
        "from hbus_console.access.permissions import Actor, ScopedRole; "
        "from tests.toy.lamps import switch; "
        "switch(Actor('vera', grants=(ScopedRole(Role.VIEWER, '*'),)), 'market', 'lantern-7', False, 'x')",
    )
    assert "vera may not switch lamps on market." in refused.stderr


def test_an_endpoint(admin: httpx.Client, switched: str) -> None:
    assert admin.get("/api/v1/lamps").json() == [{"street": "market", "name": "lantern-7", "burning": True}]


def test_an_audited_act_in_its_own_words_that_leads_to_its_subject(admin: httpx.Client, switched: str) -> None:
    text = admin.get("/audit/").text
    assert "switched the lamp" in text
    assert "night falls" in text
    assert 'href="/lamps/#lantern-7"' in text
    (entry,) = admin.get("/api/v1/audit/entries", params={"action": "lamp.switch"}).json()["results"]
    assert (entry["target_type"], entry["target"], entry["topic"]) == ("lamp", "lantern-7", "market")


def test_a_fact_that_is_counted_and_booked(
    installation: RunningInstallation, admin: httpx.Client, switched: str
) -> None:
    until(
        lambda: 'hbus_lamp_switched_total{street="market"} 1.0' in admin.get("/metrics").text,
        "the fact was not counted",
    )

    def booked() -> bool:
        told = installation.manage(
            "shell",
            "--no-imports",
            "-c",
            "from hbus_console.evidence.models import Evidence as E; "
            "print([(e.kind, str(e.subject), e.detail) for e in E.objects.all()])",
        )
        return "[('lamp_switched', 'lamp:market/lantern-7', 'night falls')]" in told.stdout

    until(booked, "the fact was not booked")
    (told,) = admin.get("/api/v1/evidence", params={"subject": "lamp:market/lantern-7"}).json()["results"]
    assert (told["kind"], told["namespace"], told["detail"]) == ("lamp_switched", "market", "night falls")
    page = admin.get("/evidence/", params={"subject": "lamp:market/lantern-7"}).text
    assert "somebody switched a lamp" in page
    assert 'href="/lamps/#lantern-7"' in page
    assert "Evidence of a subject" in admin.get("/search/", params={"q": "lamp:market/lantern-7"}).text


def test_a_duty_and_a_role(installation: RunningInstallation, admin: httpx.Client, switched: str) -> None:
    assert installation.role("lamplighter")["state"] in ("ready", "running", "alive")
    page = admin.get("/cluster/").text
    assert "lamplighter" in page
    until(lambda: "lamp-timer" in admin.get("/cluster/").text, "the duty is not among those of the cluster")
    looked = installation.manage(
        "shell", "--no-imports", "-c", "from tests.toy.models import Lamp; print(Lamp.objects.get().looks)"
    )
    assert int(looked.stdout.split()[-1]) > 0, "the keeper ticks it"


def test_an_alert_rule(installation: RunningInstallation, admin: httpx.Client, switched: str) -> None:
    rule = {"name": "Lamps by day", "kind": "lamp_burning", "threshold": 1, "for_s": 0}
    made = admin.post("/api/v1/alert-rules", json=rule, headers={"X-CSRFToken": cookie(admin, "hbus_csrf")})
    assert made.status_code == 201, made.text

    def stands(state: str) -> bool:
        rows = admin.get("/api/v1/alerts").json()["results"]
        return [(row["subject"], row["state"]) for row in rows] == [("lamp:market/lantern-7", state)]

    until(lambda: stands("pending"), "the rule was not evaluated")
    # One that has just started waits until its evidence is caught up: this one is told that it has run for long.
    told = installation.manage(
        "shell",
        "--no-imports",
        "-c",
        "from hbus_console.alerts.models import Evaluation; Evaluation.objects.update(watching_ms=0)",
    )
    assert told.returncode == 0, told.stderr
    until(lambda: stands("firing"), "the rule did not fire")


def test_what_needs_a_person_and_what_the_search_finds(admin: httpx.Client, switched: str) -> None:
    assert "The lamp lantern-7 of market burns" in admin.get("/").text
    found = admin.get("/search/", params={"q": "lantern"}).text
    assert "Lamps" in found
    assert "lantern-7" in found


def test_a_figure_that_moves(admin: httpx.Client, switched: str) -> None:
    with admin.stream("GET", "/live/", headers={"Accept-Encoding": "identity"}) as stream:
        first = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert '"lamps": "1"' in first


def test_no_other_file_knows_of_it() -> None:
    here = Path(__file__)
    named = [
        path.relative_to(ROOT)
        for folder in ("engine", "hbus_console", "templates", "examples", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".html", ".js", ".css", ".lua"}
        and path != here
        and not path.is_relative_to(ROOT / "tests" / "toy")
        and re.search(r"\blamps?\b|tests\.toy", path.read_text(encoding="utf-8"))
    ]
    assert named == []
