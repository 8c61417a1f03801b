// Time-series charts: every <div class="chart" data-chart-url> is drawn by uPlot from that address's JSON:
//   {t: [epoch seconds], unit: "/s", series: [{name, tone, values, area, steps}], marks: [{t, label, href}]}
// With from_start they are seconds from a beginning that was at no time of day: 0 s to 60 s.
// What is counted in whole numbers is drawn in steps: between one failure and two there is nothing.
// The page's own time range is passed on. Selecting a stretch narrows the page's range; figures refresh while live.
"use strict";

(() => {
  const REFRESH_MS = 10_000;
  const zone = document.documentElement.dataset.zone || "UTC";
  const charts = new Map();

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const toneColour = (tone) => css(`--${{ warn: "warn-fill", muted: "ink-3", neutral: "ink-3" }[tone] || tone}`);
  const clip = (value, least, most) => Math.max(least, Math.min(most, value));
  const time = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
  const asMinute = time({ hour: "2-digit", minute: "2-digit" });
  const asSecond = time({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const asDay = time({ day: "numeric", month: "short" });

  const fromStart = (second) => `${+second.toFixed(2)} s`;

  function number(value) {
    if (value === null || value === undefined) return "–";
    const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toLocaleString("en-US", { maximumFractionDigits: digits });
  }

  /** Where values stand that have no neighbour to draw a line to. */
  function alone(values) {
    const none = (index) => values[index] === null || values[index] === undefined;
    return values.flatMap((value, index) => (!none(index) && none(index - 1) && none(index + 1) ? [index] : []));
  }

  /** The least of 1, 2, 2.5 or 5 times a power of ten of which at most four reach `most`: the distance of two grid lines. */
  function roundStep(most) {
    if (!(most > 0)) return 0.25;
    const step = most / 4;
    const power = 10 ** Math.floor(Math.log10(step));
    return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= step * 0.9999);
  }

  /**
   * What the scale has to hold: all that is visible, unless peaks would press the rest onto the axis; then that rest,
   * and some. Peaks are what lasts for less than a seventh of the time: what lasts longer is the flow itself.
   */
  const PEAK = 8;
  function toShow(data, most) {
    const values = data.series.filter((series) => !series.quiet).flatMap((series) => series.values).filter((value) => value > 0).sort((one, other) => one - other);
    const usual = values[Math.floor(values.length * 0.85)] ?? 0;
    return values.length >= 20 && most > PEAK * usual ? 2 * usual : most;
  }

  const roundTop = (most) => Math.max(1, Math.ceil(most / roundStep(most) - 1e-9)) * roundStep(most);

  function address(box) {
    const url = new URL(box.dataset.chartUrl, location.href);
    for (const name of ["range", "from", "to"]) {
      const value = new URLSearchParams(location.search).get(name);
      if (value && !url.searchParams.has(name)) url.searchParams.set(name, value);
    }
    return url;
  }

  function drawMarks(u, marks) {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--act");
    ctx.lineWidth = scale;
    ctx.font = `${11 * scale}px ${css("--sans")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const places = marks.map((mark) => Math.round(u.valToPos(mark.t, "x", true)));
    let free = bbox.left;
    // Above the plot, where no line strikes it through: a threshold may be the top of the scale.
    const above = bbox.top - 12 * scale;
    for (const [index, mark] of marks.entries()) {
      const x = places[index];
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.setLineDash([3 * scale, 3 * scale]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(x, bbox.top, 3.5 * scale, 0, 2 * Math.PI);
      ctx.fill();
      const width = ctx.measureText(mark.label).width;
      const right = x + 8 * scale;
      const left = x - 8 * scale - width;
      const end = Math.min(bbox.left + bbox.width, places[index + 1] ?? Infinity);
      const at = right + width <= end ? right : left;
      // A label that would lie on another mark stays for the crosshair to read.
      if (at >= free && at >= bbox.left) {
        ctx.fillText(mark.label, at, above);
        free = Math.max(free, at + width + 10 * scale, x + 10 * scale);
      } else {
        free = Math.max(free, x + 10 * scale);
      }
    }
    ctx.restore();
  }

  /** Failures at their slots: a bar from the axis, tall enough to be seen however few they are. */
  function drawQuiet(u, data) {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio || 1;
    const bottom = bbox.top + bbox.height;
    const width = Math.max(2 * scale, data.t.length > 1 ? (u.valToPos(data.t[1], "x", true) - u.valToPos(data.t[0], "x", true)) * 0.7 : 0);
    ctx.save();
    for (const series of data.series.filter((each) => each.quiet)) {
      ctx.fillStyle = toneColour(series.tone);
      series.values.forEach((value, index) => {
        if (!value) return;
        const height = clip(bottom - u.valToPos(value, "y", true), 5 * scale, bbox.height);
        ctx.fillRect(u.valToPos(data.t[index], "x", true) - width / 2, bottom - height, width, height);
      });
    }
    ctx.restore();
  }

  /** Each stretch that runs over the scale, by its highest value; the highest first. */
  function peaksOver(data, top) {
    const lines = data.series.filter((each) => !each.quiet);
    const peaks = [];
    let peak = null;
    data.t.forEach((second, index) => {
      const value = Math.max(0, ...lines.map((each) => each.values[index] ?? 0));
      if (value <= top) peak = null;
      else if (!peak) peaks.push((peak = { value, index }));
      else if (value > peak.value) Object.assign(peak, { value, index });
    });
    return peaks.sort((one, other) => other.value - one.value);
  }

  /** What runs over the scale is told in figures where it does; where two have no room beside each other, the higher. */
  function drawPeaks(u, data) {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio || 1;
    const taken = [];
    ctx.save();
    ctx.strokeStyle = css("--panel");
    ctx.lineWidth = 5 * scale;
    ctx.fillStyle = css("--ink-2");
    ctx.font = `${11 * scale}px ${css("--sans")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const peak of peaksOver(data, u.scales.y.max)) {
      const x = u.valToPos(data.t[peak.index], "x", true);
      for (const text of [`↑ ${number(peak.value)}${data.unit || ""}`, "↑"]) {
        const width = ctx.measureText(text).width;
        const left = x > bbox.left + bbox.width / 2 ? x - 8 * scale - width : x + 8 * scale;
        if (taken.some((other) => left < other.right && other.left < left + width)) continue;
        taken.push({ left: left - 6 * scale, right: left + width + 6 * scale });
        // On a patch of the panel, so that no line runs through it.
        ctx.strokeText(text, left, bbox.top + 16 * scale);
        ctx.fillText(text, left, bbox.top + 16 * scale);
        break;
      }
    }
    ctx.restore();
  }

  /** The chart in words, for who cannot see it. */
  function inWords(box, data, top) {
    const label = box.dataset.chartLabel || data.series.map((series) => series.name).join(", ");
    const peaks = peaksOver(data, top);
    const unit = data.unit || "";
    return peaks.length ? `${label}; the scale goes to ${number(top)}${unit}, peaks above it to ${peaks.slice(0, 3).map((peak) => number(peak.value) + unit).join(", ")}` : label;
  }

  function readout(box, data) {
    const panel = document.createElement("div");
    panel.className = "readout";
    panel.hidden = true;
    box.append(panel);
    const line = (name, value, tone, className = "") => {
      const row = document.createElement("div");
      row.className = className;
      const label = document.createElement("span");
      label.textContent = name;
      if (tone) label.className = tone === "warn" ? "text-warn" : `tone-${tone}`;
      const figure = document.createElement("b");
      figure.textContent = value;
      row.append(label, figure);
      return row;
    };
    return (u) => {
      const { idx, left, top } = u.cursor;
      panel.hidden = idx === null || idx === undefined || left < 0;
      if (panel.hidden) return;
      const second = data().t[idx];
      const step = data().t.length > 1 ? data().t[1] - data().t[0] : 60;
      const near = data().marks.filter((mark) => Math.abs(u.valToPos(mark.t, "x") - left) < 6);
      panel.replaceChildren(
        line(data().from_start ? fromStart(second) : `${step >= 3600 ? `${asDay.format(second * 1000)} ` : ""}${asSecond.format(second * 1000)}`, "", "", "when"),
        ...data().series.filter((series) => !series.quiet || series.values[idx]).map((series) => line(series.name, `${number(series.values[idx])} ${data().unit || ""}`.trim(), series.tone)),
        ...near.map((mark) => line(mark.label, "", "act")),
      );
      const room = u.over.clientWidth;
      const x = left + 14 + panel.offsetWidth > room ? left - 14 - panel.offsetWidth : left + 14;
      panel.style.left = `${u.over.offsetLeft + clip(x, 0, Math.max(0, room - panel.offsetWidth))}px`;
      panel.style.top = `${u.over.offsetTop + clip(top - 20, 6, Math.max(6, u.over.clientHeight - panel.offsetHeight))}px`;
    };
  }

  function narrow(u) {
    if (u.select.width < 6) return;
    const [from, to] = [u.select.left, u.select.left + u.select.width].map((x) => Math.round(u.posToVal(x, "x") * 1000));
    const query = new URLSearchParams(location.search);
    for (const name of ["range", "cursor"]) query.delete(name);
    query.set("from", from);
    query.set("to", to);
    location.search = query;
  }

  function options(box, data, read) {
    const axis = { stroke: () => css("--ink-2"), font: `11px ${css("--sans")}`, ticks: { show: false }, border: { show: false } };
    const unit = data().unit ?? "";
    const units = unit && unit !== "/s" ? ` ${unit}` : "";
    return {
      width: box.clientWidth,
      height: box.clientHeight,
      padding: [() => (data().marks.length ? 24 : 10), 26, 0, 0],
      tzDate: (second) => uPlot.tzDate(new Date(second * 1000), zone),
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: !data().from_start, y: false, setScale: false } },
      scales: { x: { time: !data().from_start }, y: { range: (u, least, most) => [0, roundTop(toShow(data(), most))] } },
      axes: [
        {
          ...axis, grid: { show: false }, size: 26, gap: 6, space: 74,
          values: (u, splits, index, space, step) => data().from_start ? splits.map(fromStart) : splits.map((second) => (step >= 86_400 ? asDay : step < 60 ? asSecond : asMinute).format(second * 1000)),
        },
        {
          ...axis, grid: { stroke: () => css("--line"), width: 1 }, gap: 8, space: 34,
          size: (u, values) => (values ? Math.max(28, ...values.map((value) => 8 + value.length * 6.6)) : 40),
          splits: (u, index, least, most) => {
            const step = roundStep(most) * (u.height > 150 ? 1 : 2);
            return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, count) => count * step);
          },
          values: (u, splits) => {
            const step = splits.length > 1 ? splits[1] - splits[0] : 1;
            const digits = [0, 1, 2, 3, 4, 5, 6].find((count) => Math.abs(step * 10 ** count - Math.round(step * 10 ** count)) < 1e-6) ?? 6;
            // A rate is named once, at the top; what is short stands at each value.
            return splits.map((value, place) => value.toLocaleString("en-US", { maximumFractionDigits: digits }) + (units || (place === splits.length - 1 ? unit : "")));
          },
        },
      ],
      series: [
        {},
        ...data().series.map((series) => ({
          label: series.name,
          stroke: () => toneColour(series.tone),
          fill: series.area ? () => `color-mix(in srgb, ${toneColour(series.tone)} 11%, transparent)` : undefined,
          width: 1.5,
          paths: series.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
          // A value between two gaps has no line: it is a point, or it is not there.
          points: { show: false, size: 4, filter: (u, number) => alone(u.data[number]) },
          show: !series.quiet,
        })),
      ],
      hooks: { setCursor: [read], setSelect: [narrow], draw: [(u) => drawQuiet(u, data()), (u) => drawPeaks(u, data()), (u) => drawMarks(u, data().marks), (u) => u.root.setAttribute("aria-label", inWords(box, data(), u.scales.y.max))] },
    };
  }

  function legend(box, data) {
    const panel = box.closest(".panel");
    const list = panel && panel.querySelector("[data-legend]");
    if (!list) return;
    const entries = data.series.filter((series) => !series.quiet || series.values.some((value) => value)).map((series) => [series.name, series.tone]);
    if (data.marks.length) entries.push(["change", "act"]);
    list.replaceChildren(
      ...entries.map(([name, tone]) => {
        const entry = document.createElement("li");
        const colour = document.createElement("i");
        colour.className = tone;
        entry.append(colour, name);
        return entry;
      }),
    );
  }

  function say(box, text) {
    let line = box.querySelector(".chart-say");
    if (!line && text) {
      line = document.createElement("p");
      line.className = "chart-say";
      box.append(line);
    }
    if (line) {
      line.textContent = text;
      line.hidden = !text;
    }
  }

  async function load(box) {
    const answer = await fetch(address(box), { headers: { Accept: "application/json" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    const data = await answer.json();
    data.marks = (data.marks || []).sort((one, other) => one.t - other.t);
    return data;
  }

  async function draw(box) {
    let chart = charts.get(box);
    if (!chart) box.setAttribute("aria-busy", "true");
    let data;
    try {
      data = await load(box);
    } catch (error) {
      // A chart that is already there keeps its last figures; the live indicator says that they are old.
      if (!chart) say(box, `The figures could not be read (${error.message}). Reload the page to try again.`);
      return;
    } finally {
      box.removeAttribute("aria-busy");
    }
    const columns = [data.t, ...data.series.map((series) => series.values)];
    const something = data.series.some((series) => series.values.some((value) => value));
    say(box, something ? "" : box.dataset.chartEmpty || "Nothing flowed in this time.");
    legend(box, data);
    if (chart && chart.plot.series.length === columns.length) {
      chart.data = data;
      chart.plot.setData(columns);
      return;
    }
    if (chart) chart.plot.destroy();
    chart = { data, plot: null };
    charts.set(box, chart);
    chart.plot = new uPlot(options(box, () => chart.data, readout(box, () => chart.data)), columns, box);
    chart.plot.root.setAttribute("role", "img");
    new ResizeObserver(() => chart.plot.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
  }

  function start(root) {
    for (const box of root.querySelectorAll(".chart[data-chart-url]:not([data-drawn])")) {
      box.dataset.drawn = "";
      draw(box);
    }
  }

  start(document);
  document.addEventListener("htmx:load", (event) => start(event.target));
  document.addEventListener("hbus:refreshed", (event) => start(event.target));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot.redraw()));

  let drawn = Date.now();
  document.addEventListener("hbus:live", () => {
    const moving = !new URLSearchParams(location.search).get("to");
    if (!moving || document.hidden || Date.now() - drawn < REFRESH_MS) return;
    drawn = Date.now();
    for (const box of charts.keys()) if (box.isConnected) draw(box);
  });
})();
