"""One sheet serves every tenant of the list, and fields suggest names while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console, Watched

_POLICIES = """
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.teams.services import TeamDraft, create_team
create_team(SYSTEM, TeamDraft("Search desk", "search@hotel.example"))
for n in range(30):
    create_policy(SYSTEM, PolicyDraft(f"search-{n:02}", "Search desk", 5.0 + n, 9.0, service="probe"))
"""


@pytest.fixture
def filled(empty_console: Console, new_page: Callable[..., Watched]) -> Iterator[Watched]:
    watched = new_page()
    page = watched.open("/quotas/plans/several/")
    page.fill("[name=lines]", "globetrek gold\nada/nightly silver\nstayfinder gold")
    page.click("button:has-text('Set them')")
    page.wait_for_url("**/quotas/plans/")
    yield watched
    assert (watched.errors, watched.outside) == ([], [])


def test_the_sheet_begins_with_what_the_row_says(filled: Watched) -> None:
    page = filled.page
    sheet = page.locator("#set-plan")

    def change(tenant: str) -> None:
        page.locator(f"tr:has-text('{tenant}') button:has-text('Change')").click()
        expect(sheet).to_be_visible()

    change("ada/nightly")
    expect(sheet.locator("[name=tenant]")).to_have_value("ada/nightly")
    expect(sheet.locator("[name=plan]")).to_have_value("silver")
    expect(sheet.locator("[name=plan]")).to_be_focused()
    # What is chosen is replaced by what is written.
    page.keyboard.type("platinum")
    sheet.locator("[name=reason]").fill("not this time")
    sheet.locator("button:has-text('Cancel')").click()
    change("stayfinder")
    expect(sheet.locator("[name=plan]")).to_have_value("gold")
    expect(sheet.locator("[name=reason]")).to_have_value("")
    page.keyboard.type("bronze")
    sheet.locator("button:has-text('Set it')").click()
    expect(page.locator("tr:has-text('stayfinder') td").first).to_have_text("bronze no policy")
    page.click("button:has-text('Set a plan…')")
    expect(sheet.locator("[name=tenant]")).to_have_value("")
    expect(sheet.locator("[name=tenant]")).to_be_focused()


def test_a_policy_is_found_by_writing_a_part_of_its_name(
    empty_console: Console, new_page: Callable[..., Watched]
) -> None:
    made = empty_console.installation.manage("shell", "--no-imports", "-c", _POLICIES)
    assert made.returncode == 0, made.stderr
    page = new_page().open("/quotas/try/")
    options = page.locator("#f-policy-options option")
    expect(options).to_have_count(20)
    page.locator("#f-policy").press_sequentially("ch-29")
    expect(options).to_have_count(1)
    expect(options).to_have_attribute("value", "search-29")
    page.fill("#f-policy", "search-29")
    page.click("button:has-text('Play')")
    page.wait_for_url("**policy=search-29**")
    expect(page.locator("#f-policy")).to_have_value("search-29")
