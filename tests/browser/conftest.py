"""A whole installation with the hotel example in it, and the real Chromium to look at it.

The browser is started anew for each test file: while Playwright's synchronous API runs, Django's database must not be
used in the same thread. These tests therefore look at the installation from outside only.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.installation import RunningInstallation

#: The first is the same browser without its windows, and takes half of the processor.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1440, "height": 1100}
NARROW = {"width": 390, "height": 844}
_PASSWORD = re.compile(r"password\s+(\S+)")
_STORE_PORT = re.compile(r"^port (\d+)$", re.MULTILINE)
_STORE_PASSWORD = re.compile(r'^requirepass "?([^"\s]+)', re.MULTILINE)
#: What must come ends a wait at once; these are bounds against hanging, on a machine that may lose most of its time.
expect.set_options(timeout=30_000)
SLOWEST_MS = 90_000
#: Bookings that are played: enough for retries, a dead letter and three teams at work.
BOOKINGS = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    # What looks at the empty console comes before anything that fills it.
    ours = sorted((items[place] for place in places), key=lambda item: "console" in _fixtures(item))
    for place, item in zip(places, ours, strict=True):
        items[place] = item
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group("installation"))


def _fixtures(item: pytest.Item) -> list[str]:
    found: list[str] = getattr(item, "fixturenames", [])
    return found


@dataclass
class Console:
    """An installation and a way to sign in to it."""

    installation: RunningInstallation
    password: str
    #: Names of what is there to be looked at, for addresses with holes.
    things: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.installation.url


@pytest.fixture(scope="package")
def empty_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Just started for the first time."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on PATH (Debian: apt install chromium-headless-shell)")
    # The simulator's bookings, also where a file of real ones is named: their story is known. Webhooks may lead here.
    installation = RunningInstallation(
        tmp_path_factory.mktemp("browser") / "state", more={"BOOKINGS": "", "HBUS_WEBHOOK_PRIVATE": "1"}
    ).start()
    found = _PASSWORD.search(installation.output())
    assert found, "the first start prints a password"
    yield Console(installation, found.group(1))
    installation.end()


@pytest.fixture(scope="package")
def console(empty_console: Console) -> Console:
    """With the hotel's bookings played: topics, traffic, one poison message."""
    played = empty_console.installation.manage(
        "hotel_demo", "--limit", str(BOOKINGS), "--fast", "--json", timeout_s=180
    )
    assert played.returncode == 0, played.stdout + played.stderr
    (poison,) = json.loads(played.stdout)["poison"]
    empty_console.things |= {
        "operation": _replayed(empty_console.installation),
        "topic": "booking.cancelled",
        "group": "partner-sync",
        "message": poison["message_id"],
        "room": poison["room"],
        "letter": "1",
        "entry": "1",
        "user": "admin",
    }
    return empty_console


#: A few messages of a topic, played again for one subscription, as a person would from its page.
_REPLAY = """
from hbus_console.wiring import bus
from hbus_console.access.permissions import SYSTEM
from hbus_console.operations import services
first = bus.admin().browse("booking.created", limit=8).entries
spec = {"topic": "booking.created", "into_group": "availability", "until": first[-1].position}
print(services.start(SYSTEM, "replay", spec, reason="the search index lost a night").operation.pk)
"""


def _replayed(installation: RunningInstallation) -> str:
    """The number of an operation that has ended, with results."""
    started = installation.manage("shell", "--no-imports", "-c", _REPLAY)
    assert started.returncode == 0, started.stderr
    number = started.stdout.split()[-1]
    ask = f"from hbus_console.operations.models import Operation; print(Operation.objects.get(pk={number}).state)"
    ended = ("settling", "done")
    deadline = time.monotonic() + 240
    while (state := installation.manage("shell", "--no-imports", "-c", ask).stdout.split()[-1]) not in ended:
        assert state in ("queued", "running"), state
        assert time.monotonic() < deadline, f"it is still {state}"
    return number


@pytest.fixture
def store(console: Console) -> Iterator[redis.Redis]:
    """The embedded store of the played installation, as its files name it."""
    config = (console.installation.state / "store" / "valkey.conf").read_text()
    (port,), (password,) = _STORE_PORT.findall(config), _STORE_PASSWORD.findall(config)
    with redis.Redis(port=int(port), password=password) as client:
        yield client


@contextmanager
def silent(process: psutil.Process) -> Iterator[None]:
    """It stands still; to be used for less than the 20 s after which what is deaf is started anew."""
    process.suspend()
    try:
        yield
    finally:
        process.resume()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@dataclass
class Watched:
    """A page and everything it should not have done."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def attach(self) -> Watched:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._request)
        return self

    def open(self, path: str, status: int = 200) -> Page:
        """Go there and wait until scripts have run and charts are drawn."""
        response = self.page.goto(self.base + path, wait_until="load")
        assert response is not None
        assert response.status == status, f"{path} answered {response.status}"
        expect(self.page.locator(".chart[aria-busy]")).to_have_count(0)
        return self.page

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium reports a page that is rightly a 404 or 400 as an error of its own.
        if message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text:
            self.errors.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.outside.append(request.url)


def sign_in(page: Page, console: Console) -> None:
    page.goto(f"{console.url}/login/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", console.password)
    page.click("button:has-text('Sign in')")
    page.wait_for_url(f"{console.url}/")


@pytest.fixture(scope="module")
def session(browser: Browser, empty_console: Console) -> str:
    """Cookies of a signed-in admin, as a file Playwright reads."""
    context = browser.new_context()
    sign_in(context.new_page(), empty_console)
    path = empty_console.installation.state / "browser-session.json"
    context.storage_state(path=path)
    context.close()
    return str(path)


@pytest.fixture
def new_page(browser: Browser, empty_console: Console, session: str) -> Iterator[Callable[..., Watched]]:
    """``new_page(viewport=…, color_scheme=…)``: a signed-in page of its own, closed after the test."""
    contexts: list[BrowserContext] = []

    def make(**options: object) -> Watched:
        settings = {"viewport": WIDE, "color_scheme": "light", "storage_state": session, **options}
        context = browser.new_context(**settings)  # type: ignore[arg-type]
        context.set_default_timeout(SLOWEST_MS)
        contexts.append(context)
        return Watched(context.new_page(), empty_console.url).attach()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def watched(console: Console, new_page: Callable[..., Watched]) -> Iterator[Watched]:
    """A wide, light page on the played installation; whatever it logs or asks elsewhere fails the test."""
    page = new_page()
    yield page
    assert page.errors == []
    assert page.outside == []


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where photographs go: ``--pictures DIR``, else a temporary folder."""
    folder = Path(request.config.getoption("--pictures") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
