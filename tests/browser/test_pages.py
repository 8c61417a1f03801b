"""Every page, in both themes and on a narrow screen: nothing inaccessible, nothing logged, nothing fetched outside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page as BrowserPage

from engine.core.ids import new_id
from tests.browser.conftest import NARROW, WIDE, Console, Watched
from tests.browser.pages import PAGES, Page


@pytest.fixture(scope="module")
def axe() -> Axe:
    return Axe()


#: The rules that look at colours: all that a theme can change.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}


def inaccessible(page: BrowserPage, axe: Axe, options: dict[str, list[str]] | None = None) -> str:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Page, watched: Watched, console: Console, axe: Axe, pictures: Path) -> None:
    path = page.path.format_map({**console.things, "new": new_id(time.time_ns() // 1_000_000)})
    shown = watched.open(path, page.status)
    for theme in ("light", "dark"):
        shown.emulate_media(color_scheme=theme)
        for name, size in (("wide", WIDE), ("narrow", NARROW)):
            shown.set_viewport_size(size)  # type: ignore[arg-type]
            shown.wait_for_timeout(150)
            shown.screenshot(path=pictures / f"{page.name}-{theme}-{name}.png", full_page=True)
            assert overflow(shown) == 0, f"{path} scrolls sideways at {size['width']} px"
            rules = COLOURS if theme == "dark" else None
            assert inaccessible(shown, axe, rules) == "", f"{path} in {theme} at {size['width']} px"
        shown.set_viewport_size(WIDE)  # type: ignore[arg-type]
