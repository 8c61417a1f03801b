"""Tables in every width that a desk, a tablet and a telephone give them: nothing lies outside its panel, no column is
squeezed until its words stand below each other, and how a thing stands is told everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Watched

WIDTHS = (390, 1024, 1100, 1200, 1280, 1440)
#: Jobs, runs, operations and processes with names, reasons and errors of the usual length, in every state.
_CROWD = """
import json
from django.conf import settings
from engine.core.clock import SystemClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import JobAttempt, JobRun
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job, pause_job
from hbus_console.nodes.stamps import key
from hbus_console.operations.models import Operation
from hbus_console.teams.models import Team
from hbus_console.wiring import store

team = Team.objects.order_by("name").first().name
now_s = SystemClock().now_ms() // 1000
told = {
    "done": {"summary": "2026-10-31: 212 of 212 hotels closed and published", "asked_by": "night-desk@lisbon",
             "asked_why": "the export of yesterday was read half"},
    "skipped": {"reason": "another run of the job was running"},
    "failed": {"reason": "ConnectionRefusedError: [Errno 111] the ledger of the partner does not answer on port 5432"},
    "lost lease": {"reason": "its worker did not renew its lease"},
}
for name in ("hotel.crowd.month-end-invoice", "hotel.crowd.partner-catalogue-sync", "hotel.crowd.rate-parity"):
    create_job(SYSTEM, JobDraft(name, team, "http", "https://1.1.1.1/", "*/5 0-7,20-23 29 2 *"))
    for place in range(24):
        state = [*told][(place + len(name)) % len(told)]
        us = (now_s - 300 * (place + 1)) * 1_000_000
        ran = state != "skipped"
        run = JobRun.objects.create(
            job=name, version=1, slot=now_s - 300 * (place + 1), state=state, node="vm-hotel-07:cron:0",
            kind="manual" if state == "done" else "schedule", key=f"key-{place}", epoch=2 if ran else 0, attempt=2,
            owner="vm-hotel-07:jobs:0:23308#f097a78f10d6" if ran else "", decided_us=us, changed_us=us,
            begun_us=us + 1_400_000 if ran else None, ended_us=us + 115_000_000, **told[state],
        )
        for number in (1, 2) if ran else ():
            JobAttempt.objects.create(
                run=run.pk, number=number, epoch=number, owner=run.owner, begun_us=us, ended_us=us + 90_000_000,
                state=state, reason=told[state].get("reason", ""),
            )
# Those alone that nobody goes on with.
for state in ("paused", "done", "cancelled", "failed"):
    Operation.objects.create(
        kind="replay", title="Replay booking.created into availability-search-index, of partition 3", state=state,
        spec={}, digest=f"crowd-{state}", actor="night-desk@lisbon", actor_kind="person", reason="why", audit_seq=1,
        total=1200, done=900, skipped=250, failed=50, copies=900, settled=700, died=90, unhandled=3, retrying=40,
    )
why = "it did not say that it lives for 61 s, as on a machine without memory, and was ended by signal 9"
consumer = {"topic": "booking.created", "group": "crowd", "state": "running", "in_flight": 1, "turned_ms": now_s * 1000,
            "last_error": why, "last_error_ms": now_s * 1000}
duty = {"name": "crowd", "state": "running", "ticks": 9, "failures": 3, "last_tick_ms": now_s * 1000, "last_error": why}
# As of long ago: their process has stopped, which is said of it as well.
stamp = {"role": "keeper", "pid": 7, "host": "vm-hotel-07", "slot": "0", "started_ms": 1,
         "stamp_ms": (now_s - 90) * 1000, "detail": {"consumers": [consumer], "duties": [duty]}}
store.client().hset(key(settings.HBUS_PREFIX), "vm-hotel-07:keeper:0", json.dumps(stamp))
pause_job(SYSTEM, "hotel.crowd.month-end-invoice", "the ledger of the partner is moved this night")
print(JobRun.objects.filter(job="hotel.crowd.rate-parity", state="failed").first().pk)
"""
#: Of all that, the process that has stopped.
_FORGET = """
from django.conf import settings
from hbus_console.nodes.stamps import key
from hbus_console.wiring import store

store.client().hdel(key(settings.HBUS_PREFIX), "vm-hotel-07:keeper:0")
"""
PAGES = {
    "jobs": "/jobs/?q=hotel",
    "a job": "/jobs/hotel.crowd.rate-parity/",
    "runs": "/runs/",
    "a run": "/jobs/hotel.crowd.rate-parity/runs/{run}/",
    "nodes and leases": "/jobs/nodes/",
    "simulation": "/jobs/simulation/?q=hotel&days=1",
    "calendars": "/jobs/calendars/",
    "tags": "/jobs/tags/",
    "overview": "/?range=15m",
    "topics": "/topics/",
    "a topic": "/topics/{topic}/?range=15m",
    "subscriptions": "/subscriptions/",
    "a subscription": "/subscriptions/{topic}/{group}/?range=15m",
    "an order": "/subscriptions/{topic}/{group}/order/",
    "messages": "/messages/",
    "dead letters": "/dead-letters/",
    "operations": "/operations/",
    "an operation": "/operations/{operation}/",
    "quotas": "/quotas/",
    "a quota policy": "/quotas/policies/hotel-search-partner/",
    "a trial of a limit": "/quotas/try/",
    "plans of tenants": "/quotas/plans/",
    "alerts": "/alerts/",
    "audit": "/audit/",
    "access": "/access/",
    "teams": "/teams/",
    "cluster": "/cluster/",
}
#: What is wrong with the tables of a page, each in a few words.
WRONG = r"""() => {
  const found = new Set();
  const shown = (node) => Boolean(node?.checkVisibility());
  function height(cell) {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.round(range.getBoundingClientRect().height);
  }
  for (const table of document.querySelectorAll("table.grid")) {
    if (!shown(table)) continue;
    const section = table.closest("section");
    const about = section?.getAttribute("aria-label") ?? section?.querySelector("h2")?.innerText;
    const panel = (table.closest(".scroll") ?? table.parentElement).getBoundingClientRect();
    for (const cell of table.querySelectorAll("td, th")) {
      const column = table.tHead?.rows[0]?.cells[cell.cellIndex]?.textContent.trim() || cell.innerText.slice(0, 30);
      const wrong = (words) => found.add(`${about}, ${column} ${words}`);
      if (!shown(cell)) {
        const tells = ["State", "Lease", "Marker"].includes(column) && cell.colSpan === 1;
        if (tells && !shown(cell.closest("tr").querySelector("th .badge"))) wrong("is hidden");
        continue;
      }
      const box = cell.getBoundingClientRect();
      if (box.right > panel.right + 1) wrong(`lies outside by ${Math.round(box.right - panel.right)}`);
      // More than three lines, in less than half of a telephone.
      if (box.width < 180 && height(cell) > 70) wrong(`is ${Math.round(box.width)} wide and ${height(cell)} high`);
    }
  }
  const page = document.documentElement.scrollWidth;
  if (page > innerWidth) found.add(`the page is ${page} wide`);
  return [...found];
}"""
#: Words of names that begin on one line and end on the next.
BROKEN = r"""() => {
  const links = [...document.querySelectorAll("table.grid tbody th > a")].filter((link) => link.checkVisibility());
  const texts = links.flatMap((link) => [...link.childNodes]).filter((node) => node.nodeType === Node.TEXT_NODE);
  return texts.flatMap((text) => [...text.data.matchAll(/[^\s-]+-?/g)].map((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1 ? word[0] : "";
  })).filter(Boolean);
}"""


@pytest.fixture(scope="module")
def crowded(console: Console) -> Iterator[Console]:
    """With jobs whose rows have everything that a row may have."""
    made = console.installation.manage("shell", "--no-imports", "-c", _CROWD)
    assert made.returncode == 0, made.stderr
    yield Console(console.installation, console.password, console.things | {"run": made.stdout.split()[-1]})
    # Where something has stopped the others find nothing well.
    gone = console.installation.manage("shell", "--no-imports", "-c", _FORGET)
    assert gone.returncode == 0, gone.stderr


def _in_each_width(page: Page, script: str) -> dict[int, Any]:
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if wrong := page.evaluate(script):
            found[width] = wrong
    return found


@pytest.mark.parametrize("name", PAGES, ids=[name.replace(" ", "-") for name in PAGES])
def test_no_cell_lies_outside_its_panel_is_squeezed_or_hides_a_state(
    crowded: Console, new_page: Callable[..., Watched], name: str
) -> None:
    page = new_page().open(PAGES[name].format(**crowded.things))
    assert not _in_each_width(page, WRONG)


@pytest.mark.parametrize("path", ["/jobs/?q=hotel", "/runs/"], ids=["jobs", "runs"])
def test_no_name_of_a_job_is_broken_within_a_word(
    crowded: Console, new_page: Callable[..., Watched], path: str
) -> None:
    assert not _in_each_width(new_page().open(path), BROKEN)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_job_says_in_every_width_that_it_is_paused_or_fails(
    crowded: Console, new_page: Callable[..., Watched], width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 900}).open("/jobs/?q=hotel.crowd")
    rows = page.locator("table.grid tbody tr")
    expect(rows.filter(has_text="month-end-invoice").locator(".badge:visible", has_text="paused")).to_have_count(1)
    for other in ("partner-catalogue-sync", "rate-parity"):
        said = rows.filter(has_text=other).locator(".badge:visible").all_inner_texts()
        assert [each for each in said if "failed" in each or "lost lease" in each or "failing" in each], said


def test_what_a_row_says_of_a_run_takes_two_lines_at_most_and_its_title_has_the_whole(
    crowded: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open("/jobs/hotel.crowd.rate-parity/")
    tall = "() => Math.max(...[...document.querySelectorAll('table.grid tbody tr')].map((row) => row.offsetHeight))"
    for width in (1024, 1200, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(tall) <= 56, width
        said = page.locator("td.why:visible span", has_text="ConnectionRefusedError").first
        assert (said.get_attribute("title") or "").endswith("on port 5432")
