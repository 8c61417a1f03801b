"""Lists of messages and alerts, the breadcrumb and the search field in the widths of a telephone, a tablet, a desk."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import RequestFactory
from playwright.sync_api import Browser, Page, expect

from hbus_console import deadletters, messages, ui
from hbus_console.alerts.models import Alert, Rule
from hbus_console.alerts.standing import AlertRow
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.search import Outcome
from hbus_console.messages.views import MessageRow
from hbus_console.ui.formats import breakable

STYLES = [
    *(Path(ui.__path__[0]) / "assets" / name for name in ("tokens.css", "tables.css", "hbus.css")),
    Path(messages.__path__[0]) / "static" / "ledger" / "ledger.css",
    Path(deadletters.__path__[0]) / "static" / "deadletters" / "letters.css",
]
AT = datetime(2026, 11, 20, 14, 2, 11, 204_000, tzinfo=UTC)
#: How much wider the table is than its panel, in pixels.
OVERHANG = """() => {
    const panel = document.querySelector(".scroll");
    return panel.scrollWidth - panel.clientWidth;
}"""
#: How far the badge of the search field stands into the place of its words, in pixels.
COVERED = """() => {
    const field = document.querySelector(".search input");
    const words = field.getBoundingClientRect().right - parseFloat(getComputedStyle(field).paddingRight);
    return words - document.querySelector(".search > kbd").getBoundingClientRect().left;
}"""


#: The entries of a breadcrumb that end in an ellipsis.
CUT = """() => {
    const shown = [...document.querySelectorAll(".crumbs li")].filter((each) => each.offsetParent);
    const widths = () => shown.map((each) => each.getBoundingClientRect().width);
    const found = widths();
    document.querySelector(".crumbs").style.flex = "none";
    return widths().flatMap((whole, place) => (whole - found[place] > 0.02 ? [shown[place].innerText] : []));
}"""


def row(topic: str, type_: str) -> MessageRow:
    message = LedgerMessage(
        message_id="01K9LETTER0000000000000007", topic=topic, type=type_, key="booking/00000000048213", size=412,
        source="/hotels/reservations-api", published_ms=round(AT.timestamp() * 1000),
    )  # fmt: skip
    return MessageRow(message, Outcome(settled={"billing", "search"}, failed=2), 0, True, True)


def show(page: Page, width: int, content: str) -> None:
    styles = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    page.set_viewport_size({"width": width, "height": 900})
    shell = (
        f'<div class="shell"><div class="rail hide-narrow"></div><div><main class="page">{content}</main></div></div>'
    )
    page.set_content(f"<!doctype html><html><head><style>{styles}</style></head><body>{shell}</body></html>")


def test_a_message_tells_its_time_topic_and_key_in_every_width_that_has_room_for_them(browser: Browser) -> None:
    request = RequestFactory().get("/messages/")
    listed = [row("booking.changed", "booking.changed"), row("booking.changed", "booking.moved")]
    rows = render_to_string("messages/_rows.html", {"rows": listed, "request": request})
    page = browser.new_page()
    for width in (390, 800, 1024, 1180, 1440):
        show(page, width, f'<section class="panel">{rows}</section>')
        for place, told in enumerate(("booking.changed", "booking.moved on booking.changed")):
            line = page.locator("tbody tr").nth(place)
            text = line.inner_text()
            assert told in " ".join(text.split()), (width, text)
            expect(line.locator("time:visible")).to_have_count(1)
            assert ("booking/00000000048213" in text) is (width > 980), (width, text)
        assert page.evaluate(OVERHANG) <= 0, width
    page.close()


def test_the_words_of_the_search_field_end_before_its_badge(browser: Browser) -> None:
    page = browser.new_page()
    field = render_to_string("components/search.html", {"request": RequestFactory().get("/")})
    for width in (1200, 1440):
        show(page, width, f'<div class="bar">{field}</div>')
        assert page.evaluate(COVERED) <= -4, width
    # Below, the place is the breadcrumb's.
    show(page, 1024, f'<div class="bar">{field}</div>')
    expect(page.locator(".search > kbd")).to_be_hidden()
    page.close()


@pytest.mark.parametrize("width", [390, 1024, 1181, 1440])
def test_a_breadcrumb_is_cut_nowhere_with_names_of_the_usual_length(browser: Browser, width: int) -> None:
    page = browser.new_page()
    range_ = "Last hour · UTC" if width > 390 else "◷"
    names = ("Subscriptions", "booking.cancelled", "partner-sync", "Order")
    field = render_to_string("components/search.html", {"request": RequestFactory().get("/")})
    crumbs = "".join(f"<li><a href='#'>{name}</a></li>" for name in names[:-1])
    bar = (
        '<header class="bar"><nav class="crumbs"><ol><li class="faint">Bus</li>'
        f'{crumbs}<li aria-current="page">{names[-1]}</li></ol></nav>{field}'
        f'<button class="button">{range_}</button>'
        f"{render_to_string('components/live.html').replace('Not live', 'Live')}</header>"
    )
    show(page, width, bar)
    assert page.evaluate(CUT) == [], width
    assert page.locator(".crumbs li:visible").last.inner_text() == "Order"
    # A dot alone says nothing to who does not see its colour, or does not know it.
    expect(page.locator(".live-word")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_an_alert_fits_in_every_width_and_breaks_no_name_where_there_is_room(browser: Browser) -> None:
    request = RequestFactory().get("/alerts/")
    made = Rule(
        pk=1, name="Many messages die at once, look at once", kind="dead_letter_rate", threshold=20, window_s=300,
        clear_s=300,
    )  # fmt: skip
    alert = Alert(
        pk=1, rule=made, rule_name=made.name, kind=made.kind, severity="critical", state="firing", threshold=20,
        value=0, peak=1_412, began_ms=1, fired_ms=1, measured_ms=1, subject_kind="subscription",
        namespace="booking.cancelled", subject_name="partner-sync", acknowledged_ms=1, acknowledged_by="ada",
    )  # fmt: skip
    rows = render_to_string("alerts/_rows.html", {"rows": [AlertRow(alert, None)], "request": request})
    page = browser.new_page()
    for width in (390, 1024, 1440):
        show(page, width, f'<section class="panel">{rows}</section>')
        assert page.evaluate(OVERHANG) <= 0, width
        line = " ".join(page.locator("tbody tr").inner_text().split())
        for told in ("partner-sync on booking.cancelled", made.name, "ada looks at it", "fires until clear for 5 m"):
            assert told in line, (width, line)
        if width > 390:
            height = page.locator("tbody th a").evaluate("it => it.getBoundingClientRect().height")
            assert height <= 2 * 20, width
    page.close()


def test_a_long_cause_is_cut_after_a_few_lines_and_pushes_nothing_out(browser: Browser) -> None:
    page = browser.new_page()
    cause = "com.example.partners.catalogue.synchronisation.UnknownRoomCodeException: the room is not known " * 3
    topic = breakable("reservations.booking.cancelled")
    link = f'<a href="#"><svg width="14" height="14"></svg> <span class="said">{cause}</span></a>'
    cells = (
        f'<th scope="row" class="cause">{link}<span class="mono faint hide-medium">7c1f9a</span></th>'
        f'<td class="hide-narrow where">partner-sync <span class="muted">on {topic}</span></td>'
        '<td class="hide-narrow"><span class="owner">DI Distribution</span></td>'
        '<td class="hide-narrow"><svg width="80" height="20"></svg></td>'
        '<td class="num">7</td><td class="num nowrap">08:02</td>'
    )
    table = f'<section class="panel"><div class="scroll"><table class="grid"><tr>{cells}</tr></table></div></section>'
    aside = '<aside><section class="panel">Redrive</section></aside>'
    beside = f'<div class="columns narrow-aside letters">{table}{aside}</div>'
    for width in (390, 1024, 1180, 1200, 1360, 1440):
        for content, lines in ((table, 2), (beside, 3)):
            show(page, width, content)
            assert page.evaluate(OVERHANG) == 0, f"{width}, {lines}"
            said = page.locator(".said").bounding_box()
            assert said is not None
            assert said["width"] > 100, f"{width}, {lines}"
            assert said["height"] <= lines * 24, f"{width}, {lines}"
            if width > 390:
                cut = page.locator(".where").evaluate("it => it.scrollWidth - it.clientWidth")
                assert cut <= 0, f"{width}, {lines}: the topic is cut"


LONG = "eyes." + "verylongname" * 5


@pytest.mark.parametrize("width", [390, 1440])
def test_a_name_of_the_greatest_length_is_cut_neither_in_a_heading_nor_in_a_lead(browser: Browser, width: int) -> None:
    page = browser.new_page()
    head = f'<div class="panel-head"><h2>Payload for {LONG}</h2><span class="meta">JSON</span></div>'
    head = f'<section class="panel">{head}</section>'
    show(page, width, f'<div class="page-head"><div><div class="lead">A webhook on {LONG}.</div></div></div>{head}')
    for place in (".lead", ".panel-head h2", ".panel"):
        assert page.locator(place).evaluate("each => each.scrollWidth - each.clientWidth") <= 0, (place, width)
    page.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_what_is_ticked_in_a_list_stands_apart_from_what_leads_on(browser: Browser, width: int) -> None:
    page = browser.new_page()
    cell = '<td><input type="checkbox" aria-label="Choose"> <a class="mono" href="#">01K9</a></td>'
    rows = f'<tr class="sub">{cell}</tr>' * 3
    show(page, width, f'<section class="panel"><table class="grid"><tbody>{rows}</tbody></table></section>')
    boxes = [each.bounding_box() for each in page.locator("input").all()]
    link = page.locator("a").first.bounding_box()
    middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box is not None]
    assert link is not None
    assert link["x"] - middles[0][0] >= 12
    assert all(below[1] - above[1] >= 24 for above, below in pairwise(middles))
    page.close()
