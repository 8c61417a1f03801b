"""Every page, in both themes and on a narrow screen: nothing inaccessible, nothing logged, nothing fetched outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page as BrowserPage

from engine.core.ids import new_id
from tests.browser.conftest import NARROW, WIDE, Console, Watched
from tests.browser.pages import PAGES, Page
from tests.form import WHOLE


@pytest.fixture(scope="module")
def axe() -> Axe:
    return Axe()


#: All that the other results would cost is gathering and carrying over what nobody reads.
EVERYTHING = {"resultTypes": ["violations"]}
#: The rules that look at colours: all that a theme can change.
COLOURS = EVERYTHING | {"runOnly": ["color-contrast", "link-in-text-block"]}


def inaccessible(page: BrowserPage, axe: Axe, options: dict[str, list[str]]) -> str:
    """What axe found, as text; empty when nothing."""
    found = axe.run(page, options=options).response["violations"]
    return "\n".join(
        f"{violation['id']}: {violation['help']}\n"
        + "\n".join(f"    {node['target']} {node['failureSummary']}" for node in violation["nodes"][:4])
        for violation in found
    )


def overflow(page: BrowserPage) -> int:
    """How many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.fixture
def photograph(pictures: Path, request: pytest.FixtureRequest) -> Callable[[BrowserPage, str], None]:
    """Takes a picture where somebody wants them."""
    if not request.config.getoption("--pictures"):
        return lambda page, name: None

    def take(page: BrowserPage, name: str) -> None:
        page.screenshot(path=pictures / f"{name}.png", full_page=True)

    return take


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(
    page: Page, watched: Watched, console: Console, axe: Axe, photograph: Callable[[BrowserPage, str], None]
) -> None:
    path = page.path.format_map({**console.things, "new": new_id(time.time_ns() // 1_000_000)})
    shown = watched.open(path, page.status)
    for theme in ("light", "dark"):
        shown.emulate_media(color_scheme=theme)
        for name, size in (("wide", WIDE), ("narrow", NARROW)):
            shown.set_viewport_size(size)  # type: ignore[arg-type]
            shown.wait_for_timeout(150)
            photograph(shown, f"{page.name}-{theme}-{name}")
            assert overflow(shown) == 0, f"{path} scrolls sideways at {size['width']} px"
            # Colours are the theme's, whatever the width; what a narrow page alone may lack is seen by `make chaos`.
            if (theme == "light" and (name == "wide" or WHOLE)) or (theme, name) == ("dark", "wide"):
                rules = COLOURS if theme == "dark" else EVERYTHING
                assert inaccessible(shown, axe, rules) == "", f"{path} in {theme} at {size['width']} px"
        shown.set_viewport_size(WIDE)  # type: ignore[arg-type]
