"""Pictures that the server draws without a browser to measure their words: each stays where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils.html import format_html
from playwright.sync_api import Browser

from hbus_console import messages, ui
from hbus_console.messages import attempt_chart, graph
from hbus_console.messages.message_trace import Life
from hbus_console.messages.models import LedgerEvent, LedgerMessage

AT = 1_790_000_000_000
STYLES = [
    *(Path(ui.__path__[0]) / "assets" / name for name in ("tokens.css", "tables.css", "hbus.css")),
    Path(messages.__path__[0]) / "static" / "ledger" / "ledger.css",
]
#: Names of 120 characters: the widest letters, the narrowest, two columns each, pictures, and what people write.
NAMES = ["W" * 120, "i" * 120, "房間預訂已取消退款給客人的訊息" * 8, "🏨" * 120, "reservations-of-the-north." * 5]

#: Words that stand outside of their box, boxes that lie on each other, and how far a picture stands out of its panel.
MISPLACED = """() => {
    const found = [], boxes = [];
    for (const box of document.querySelectorAll("svg.graph g")) {
        const around = box.querySelector("rect").getBoundingClientRect();
        for (const words of box.querySelectorAll("text")) {
            const { left, right, top, bottom } = words.getBoundingClientRect();
            if (left < around.left || right > around.right || top < around.top - 1 || bottom > around.bottom + 1)
                found.push(`${words.textContent} by ${Math.round(right - around.right)}`);
        }
        for (const other of boxes)
            if (
                around.left < other.right && other.left < around.right &&
                around.top < other.bottom && other.top < around.bottom
            ) found.push(`${box.textContent} on another`);
        boxes.push(around);
    }
    const rule = document.querySelector("svg.lanes path.rule").getBoundingClientRect();
    for (const name of document.querySelectorAll("svg.lanes .name"))
        if (name.getBoundingClientRect().right > rule.left) found.push(`${name.textContent} in its lane`);
    const picture = document.querySelector("svg.graph");
    const panel = picture.closest(".panel");
    if (picture.getBoundingClientRect().right > panel.getBoundingClientRect().right)
        found.push("the picture out of its panel");
    return found;
}"""


def message(message_id: str, **more: Any) -> LedgerMessage:
    values = {"topic": "t", "type": "t", "source": "/s", "size": 1, "published_ms": AT, **more}
    return LedgerMessage(message_id=message_id, **values)


def life(name: str, effects: int) -> Life:
    """The tenth of a chain, in which all names are ``name``."""
    return Life(
        message_id=name[:64],
        topic_name="t",
        topic=None,
        entry=message(name[:64], causation_id=name[:64], correlation_id=name),
        events=[LedgerEvent(message_id="m", kind="settled", subscription=name[:100], at_ms=AT + 5, attempt=1)],
        more_events=0,
        letters=[],
        acts=[],
        envelope=None,
        gone="",
        payload=None,
        cause=message(name[:64]),
        effects=[message(f"{number}{name}"[:64], type=name, source=f"/{name}") for number in range(effects)],
    )


@pytest.mark.parametrize("name", NAMES, ids=["widest", "narrowest", "columns", "pictures", "words"])
def test_each_word_of_the_cause_graph_stands_in_its_box_and_no_box_on_another(browser: Browser, name: str) -> None:
    styles = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    page = browser.new_page()
    for effects in (1, 21):
        shown = life(name, effects)
        drawn = format_html(
            '<div class="columns"><div class="panel">{}</div><aside><div class="panel">{}</div></aside></div>',
            attempt_chart.draw(shown),
            graph.draw(shown),
        )
        page.set_content(f"<!doctype html><html><head><style>{styles}</style></head><body>{drawn}</body></html>")
        assert page.locator("svg.graph g").count() == 2 + min(effects, 6)
        for width in (1440, 1024, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert page.evaluate(MISPLACED) == [], f"{effects} effects at {width} px in {scheme}"
    page.close()
