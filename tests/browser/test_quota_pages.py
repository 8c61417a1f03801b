"""Pages of quotas as they look: one line a policy where it fits, and on the bench one limit that is in force."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, Console, Watched

#: Policies of the usual names and limits, with badges and with what waited.
_POLICIES = """
import time
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.models import QuotaUse
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.teams.models import Team

team = Team.objects.order_by("name").first().name
for name, limit, burst, more in (
    ("seen-together", 2_000, 4_000, {"whose": "together", "service": "files"}),
    ("seen-narrower", 50, 100, {"service": "files", "resource": "hotels.*", "tenant": "globetrek",
                                "canary_percent": 20, "canary_limit": 80, "canary_burst": 90}),
    ("seen-shadow", 30, 60, {"service": "files", "resource": "booking.created", "shadow": True}),
    ("seen-nightly-imports", 10_000_000, 0, {"service": "files", "plan": "partner", "period": "month"}),
):
    create_policy(SYSTEM, PolicyDraft(name, team, limit, burst, **more))
QuotaUse.objects.create(minute=int(time.time()) // 60 * 60, service="files", resource="hotels.rates",
                        tenant="globetrek", admitted=900, refused=212, delayed=1_234)
"""
#: How high each row is that the test has made.
_ROWS = """() => [...document.querySelectorAll("section[aria-label=Policies] tbody tr")]
    .filter((row) => row.textContent.includes("seen-")).map((row) => Math.round(row.getBoundingClientRect().height))"""
_ONE_LINE = 34


@pytest.fixture(scope="module")
def policies(console: Console) -> None:
    made = console.installation.manage("shell", "--no-imports", "-c", _POLICIES)
    assert made.returncode == 0, made.stderr


def test_a_policy_has_one_line_on_a_desk_and_lies_in_its_panel_on_a_telephone(
    policies: None, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open("/quotas/?q=seen")
    heights = page.evaluate(_ROWS)
    assert len(heights) == 4
    assert max(heights) <= _ONE_LINE
    narrow = new_page(viewport=NARROW).open("/quotas/?q=seen")
    box = narrow.get_by_role("region", name="Policies, table")
    assert box.evaluate("it => it.scrollWidth - it.clientWidth") == 0


@pytest.mark.parametrize("script", [True, False], ids=["with a script", "without"])
def test_on_the_bench_a_policy_takes_the_place_of_a_limit_of_ones_own(
    policies: None, new_page: Callable[..., Watched], script: bool
) -> None:
    bench: Page = new_page(java_script_enabled=script).page
    base = new_page().base
    bench.goto(f"{base}/quotas/try/")
    own, says = bench.locator("#f-limit, #f-burst, #f-on_loss, #f-fallback_percent"), bench.get_by_text("Its own limit")
    expect(own).to_have_count(4)
    expect(own.first).to_be_visible()
    expect(says).to_be_hidden()
    bench.locator("#f-policy").fill("seen-together")
    for field in own.all():
        expect(field).to_be_hidden()
    expect(says).to_be_visible()
    bench.get_by_role("button", name="Play").click()
    expect(bench.locator("main")).to_contain_text("2,000/s · burst 4,000")
    expect(own.first).to_be_hidden()
    bench.locator("#f-policy").fill("")
    expect(own.first).to_be_visible()
