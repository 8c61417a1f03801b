"""A chart stays readable after a peak: its scale is that of what is usual, and the peak is told in figures."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from hbus_console import ui
from hbus_console.state import ROOT

ASSETS = Path(ui.__path__[0]) / "assets"
FILES = {
    "/uplot.js": ROOT / "node_modules" / "uplot" / "dist" / "uPlot.iife.min.js",
    "/uplot.css": ROOT / "node_modules" / "uplot" / "dist" / "uPlot.min.css",
    "/charts.js": ASSETS / "charts.js",
    "/tokens.css": ASSETS / "tokens.css",
    "/hbus.css": ASSETS / "hbus.css",
}
PAGE = """<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="/uplot.css">
<link rel="stylesheet" href="/tokens.css"><link rel="stylesheet" href="/hbus.css">
<script src="/uplot.js" defer></script><script src="/charts.js" defer></script></head>
<body><div class="panel"><div class="chart" data-chart-url="/data"></div></div></body></html>"""
#: How high the line of a series stands at a slot, as a part of the chart's height.
HEIGHT = """(part) => {
    const canvas = document.querySelector("canvas"), over = document.querySelector(".u-over").getBoundingClientRect();
    const whole = canvas.getBoundingClientRect(), scale = canvas.width / whole.width;
    const left = Math.round((over.left - whole.left + over.width * part) * scale);
    const top = Math.round((over.top - whole.top) * scale), height = Math.round(over.height * scale);
    const { data } = canvas.getContext("2d").getImageData(left, top, 1, height);
    for (let row = 0; row < height; row++) {
        const [red, green, blue] = data.slice(row * 4, row * 4 + 3);
        if (data[row * 4 + 3] > 90 && blue - red > 60 && blue - green > 40) return 1 - row / height;
    }
    return 0;
}"""

#: Notes where the canvas gets the labels of marks, and the dots that stand on the upper edge of the plot.
NOTED = """() => {
    window.noted = { labels: {}, dots: [] };
    const own = CanvasRenderingContext2D.prototype, { fillText, arc } = own;
    own.fillText = function (text, x, y) { noted.labels[text] = y; return fillText.apply(this, arguments); };
    own.arc = function (x, y) { noted.dots.push(y); return arc.apply(this, arguments); };
}"""


class Served:
    """What the chart asks for."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.marks: list[dict[str, Any]] = []
        self.url = ""
        self.from_start = False

    def data(self) -> dict[str, Any]:
        lines = [("published", "accent", self.values), ("settled", "ok", [value / 2 for value in self.values])]
        times = [slot / 2 if self.from_start else 1_790_000_000 + 60 * slot for slot in range(len(self.values))]
        return {
            "t": times,
            **({"from_start": True} if self.from_start else {}),
            "unit": "/s",
            "series": [{"name": name, "tone": tone, "values": values} for name, tone, values in lines],
            "marks": self.marks,
        }


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            kinds = {".js": "text/javascript", ".css": "text/css"}
            if path in FILES:
                body, kind = FILES[path].read_bytes(), kinds[Path(path).suffix]
            elif path == "/data":
                body, kind = json.dumps(found.data()).encode(), "application/json"
            else:
                body, kind = PAGE.encode(), "text/html"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()


def with_peaks(*peaks: tuple[int, float], slots: int = 60) -> list[float]:
    values = [5.0] * slots
    for slot, value in peaks:
        values[slot] = value
    return values


def test_the_scale_is_readable_after_peaks_and_each_is_told(browser: Browser, served: Served) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 400})
    chart = page.locator(".chart [role=img]")

    # Two peaks, of which one lasts for a while: together a tenth of the time.
    served.values = with_peaks(*((slot, 1_000.0) for slot in range(10, 15)), (40, 700.0))
    page.goto(served.url)
    told = re.compile(r"published, settled; the scale goes to 10/s, peaks above it to 1,000/s, 700/s$")
    expect(chart).to_have_attribute("aria-label", told)
    assert 0.4 < page.evaluate(HEIGHT, 0.5) < 0.6

    # The scale is that of what is visible: without the peaks there is nothing to tell.
    served.values = with_peaks()
    page.goto(served.url)
    expect(chart).to_have_attribute("aria-label", "published, settled")
    assert page.evaluate(HEIGHT, 0.5) > 0.7

    # What lasts is the flow itself, and is held whole.
    served.values = with_peaks(*((slot, 1_000.0) for slot in range(20, 40)))
    page.goto(served.url)
    expect(chart).to_have_attribute("aria-label", "published, settled")
    assert page.evaluate(HEIGHT, 0.5) > 0.7
    page.close()


def test_the_label_of_a_mark_stands_above_the_plot_where_no_line_strikes_it_through(
    browser: Browser, served: Served
) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 400})
    page.add_init_script(f"({NOTED})()")
    served.values = [10.0] * 60
    served.marks = [{"t": 1_790_000_000 + 60 * 20, "label": "fired"}]
    page.goto(served.url)
    expect(page.locator(".chart [role=img]")).to_have_attribute("aria-label", "published, settled")
    noted = page.evaluate("window.noted")
    # Half of the letters' height, and a little air.
    assert noted["dots"][-1] - noted["labels"]["fired"] >= 8
    assert noted["labels"]["fired"] >= 6
    page.close()


def test_what_was_at_no_time_of_day_is_drawn_by_seconds_from_its_beginning(browser: Browser, served: Served) -> None:
    page = browser.new_page(viewport={"width": 900, "height": 400})
    page.add_init_script(f"({NOTED})()")
    served.values, served.from_start = [10.0] * 121, True
    served.marks = [{"t": 30, "label": "cut off"}]
    page.goto(served.url)
    expect(page.locator(".chart [role=img]")).to_have_attribute("aria-label", "published, settled")
    labels = page.evaluate("Object.keys(window.noted.labels)")
    assert {"0 s", "30 s", "60 s", "cut off"} <= set(labels), labels
    assert not [label for label in labels if re.search(r"\d:\d\d", label)]
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    middle = over["x"] + over["width"] / 2, over["y"] + over["height"] / 2
    page.mouse.move(*middle)
    expect(page.locator(".readout .when")).to_have_text("30 s")
    # There is no range of the page that a stretch of it could be.
    page.mouse.down()
    page.mouse.move(middle[0] + 90, middle[1])
    page.mouse.up()
    assert page.url == served.url
    page.close()
