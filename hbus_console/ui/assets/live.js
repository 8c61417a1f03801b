// Live pages. Single figures come as texts; of everything else the stream names what changed. When a page shows it
// (main[data-shows]), its own address is fetched again and put in place: the same view, the same template, so what
// stands here is what a reload would show. What a person has in hand or reads waits, and says from when it is.
"use strict";

(() => {
  const { morph, named } = window.hbusMorph;
  const body = document.body;
  const page = document.querySelector("#content");
  const indicator = document.querySelector("[data-live-indicator]");
  const why = document.querySelector("[data-live-why]");
  if (!body.dataset.stream || !indicator) return;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // The least between two refreshes; a refresh also takes at most a tenth of the time, where that keeps ages young.
  const LEAST_MS = 1_500;
  const SHARE = 10;
  // What has changed stands here for no longer before the page says that it is behind.
  const LATE_MS = 5_000;
  // Ages and charts move by the clock alone, and what is remembered on the way is at most as old.
  const MOST_MS = 15_000;
  // Figures are remembered for so long by each web process, so the page may be as much older than its answer.
  const REMEMBERED_MS = 2_500;
  const PATIENCE_MS = 20_000;
  // A page that takes longer to be read than this, and than twice the time before, hung.
  const HUNG_MS = 500;
  // Changes when the store goes away or comes back.
  const STORE = "store";
  // Changes when a process falls silent or is back: a page that tells of any is read at once, however long that takes.
  const ALIVE = "alive";
  const TELLS_OF_IT = ["roles", "nodes"];
  // Each look of the server is told, every two seconds where it has time: after so long without one nobody looks, whether
  // the stream is open or not. More than the 15 seconds in which the server lets a sign of life wait.
  const SILENT_MS = 20_000;
  // A page nobody looks at leaves the stream.
  const AWAY_MS = 20_000;

  // ---- what the indicator says ----------------------------------------------------------------
  const standing = { connected: false, begun: false, stale: "", trouble: "", gone: false };
  const clock = new Intl.DateTimeFormat("en-GB", { timeZone: document.documentElement.dataset.zone || "UTC", timeStyle: "medium" });
  let from = Date.now();
  // When the reading began that is put in place.
  let asked = from;
  const whole = () => page.querySelector(".as-of")
    ? `At ${clock.format(trueAt)} this page was what a reload would show, but for what says from when it is.`
    : `At ${clock.format(trueAt)} this page was what a reload would show; ages are at most ${MOST_MS / 1_000} seconds old.`;
  function tell() {
    hushed = silent();
    const [state, words, title] = standing.trouble
      ? ["waiting", "Behind", `${standing.trouble} What stands here is of ${clock.format(from)}.`]
      : !standing.connected
        ? standing.begun ? ["waiting", "Reconnecting", "The connection was lost; trying again."] : ["off", "Not live", "Not connected yet."]
        : standing.stale ? ["waiting", "Behind", standing.stale]
          : silent() ? ["waiting", "Behind", `Nothing was heard since ${clock.format(heardAt)} of what changes. What stands here is of ${clock.format(from)}.`]
          : doubted > readAt ? ["waiting", "Behind", `The store went away or came back meanwhile; this page is read again. What stands here is of ${clock.format(from)}.`]
          : late() ? ["waiting", "Behind", `Something has changed since, and this page takes long to be read. What stands here is of ${clock.format(from)}.`]
          : shows.length ? ["live", "Live", whole()]
            : ["still", "Still", `Only the figures of the menu move by themselves. What stands here is of ${clock.format(from)}.`];
    mourn(standing.gone ? title : "");
    indicator.dataset.state = state;
    indicator.title = title;
    if (why.textContent !== title) why.textContent = title;
    const word = indicator.querySelector(".live-word");
    if (word.textContent !== words) word.textContent = words;
  }

  // What the page told of is not there, or not for this reader: that stands where one reads, not over a dot alone, and
  // what the page would still do waits. Where it can be read again, it lives on.
  const ACTS = "[popovertarget], form[method=post] button:not([type=button])";
  function mourn(words) {
    let line = page.querySelector(":scope > .said > .mourns");
    page.toggleAttribute("data-mourned", Boolean(words));
    for (const act of all(words ? ACTS : "[data-mourned]", page)) {
      if (words ? act.disabled : !("mourned" in act.dataset)) continue;
      for (const mark of ["data-mourned", "data-held", "disabled"]) act.toggleAttribute(mark, Boolean(words));
    }
    if (!words) return line?.remove();
    if (!line) {
      line = document.createElement("div");
      line.className = "notice warn mourns";
      line.setAttribute("role", "alert");
      line.append(document.createElement("div"));
      page.querySelector(":scope > .said")?.append(line);
    }
    if (line.textContent !== words) line.firstChild.textContent = words;
  }

  // What was said once of an act was true then. Beneath it the page goes on: from its first reading anew on, the words
  // say from when they are, and are green no longer.
  const OF_THEN = "[data-said-at]";
  const loadedAt = Date.now();
  function dateWhatWasSaid() {
    for (const line of all(":scope > .said > [role=status]", page)) {
      if (line.querySelector(OF_THEN)) continue;
      line.classList.replace("ok", "info");
      const at = document.createElement("div");
      at.className = "muted small tnum";
      at.dataset.saidAt = "";
      at.textContent = `Said at ${clock.format(answeredAt ?? loadedAt)}; how it stands now is shown below.`;
      (line.querySelector(":scope > div") ?? line).append(at);
    }
  }
  // A form's answer takes the place of the page, with words of its own.
  let answeredAt;
  body.addEventListener("hbus:answered", () => { answeredAt = Date.now(); });

  // ---- single figures -------------------------------------------------------------------------
  function figures(texts) {
    for (const place of all("[data-live]")) {
      // Cells of a row name only the end of their key.
      const row = place.dataset.live.startsWith("/") ? place.closest("[data-live-row]")?.dataset.liveRow : "";
      const text = texts[`${row}${place.dataset.live}`];
      if (text === undefined || place.textContent === text) continue;
      place.textContent = text;
      if (place.dataset.tone) {
        place.classList.toggle(`hot-${place.dataset.tone}`, text !== "0");
        place.classList.toggle("zero", text === "0");
      }
      if (place.classList.contains("count")) place.hidden = text === "0";
    }
  }

  // ---- what a person has in hand --------------------------------------------------------------
  const TYPED = "textarea, select, input:not([type=hidden], [type=checkbox], [type=radio], [type=submit], [type=button])";
  function touched(control) {
    // What was typed in a sheet that is shut stays there, and holds nothing up.
    if (!control.checkVisibility()) return false;
    if (control === document.activeElement) return true;
    if (control.tagName !== "SELECT") return control.value !== control.defaultValue;
    const options = [...control.options];
    const given = options.some((option) => option.defaultSelected);
    return options.some((option, place) => option.selected !== (given ? option.defaultSelected : place === 0));
  }
  function inHand() {
    const held = new Set(all(".sheet:popover-open, dialog[open]", page));
    for (const control of all(TYPED, page)) {
      const holder = control.closest(".sheet") ?? control.closest(".panel") ?? control.closest("form") ?? control;
      if (!held.has(holder) && touched(control)) held.add(holder);
    }
    return held;
  }

  function note(place, words, link = "") {
    let line = place.querySelector(":scope > .as-of");
    if (!line) {
      line = document.createElement("p");
      line.className = "as-of";
      line.setAttribute("role", "status");
      line.dataset.from = clock.format(from);
      place.prepend(line);
    }
    const said = words.replace("{from}", line.dataset.from);
    if (line.dataset.said === link + said) return line;
    line.dataset.said = link + said;
    line.replaceChildren(said);
    if (!link) return line;
    const anchor = document.createElement("a");
    anchor.href = location.pathname + location.search;
    anchor.textContent = link;
    line.prepend(anchor, " ");
    return line;
  }
  // A count that does not change must not look as if nobody counted. Read aloud is what changed, not this.
  function counted(line) {
    const at = line.querySelector(":scope > [data-counted]") ?? document.createElement("span");
    at.dataset.counted = "";
    at.setAttribute("aria-hidden", "true");
    at.textContent = ` Counted at ${clock.format(asked)}.`;
    line.append(at);
  }
  const kept = (place) => place.matches(".sheet, .panel, form, dialog") && note(place, "As of {from}. It follows when you are done here.");

  // ---- lists that are being read --------------------------------------------------------------
  const ROWS = "tbody > tr, ul.rows > li";
  const rowsOf = (list) => new Map([...named(all(ROWS, list))].filter(([, row]) => row));
  // Each row says where it stands in the order of its list, newest first (data-place, written as cursors are), and
  // which rows it stands among, where a table has several kinds (data-among).
  const kindOf = (row) => row.dataset.among ?? "";
  const placeOf = (row) => row.dataset.place.split("-").map(Number);
  function isBehind(row, end) {
    const place = placeOf(row);
    const at = place.findIndex((number, which) => number !== end[which]);
    return at >= 0 && place[at] < end[at];
  }
  // Where each kind of rows ended when its list began to be read: rows that stay may move meanwhile.
  const ends = new WeakMap();
  function endsOf(list) {
    if (!ends.has(list)) ends.set(list, new Map(all(ROWS, list).filter((row) => row.dataset.place).map((row) => [kindOf(row), placeOf(row)])));
    return ends.get(list);
  }
  /** How many of the rows that came are new, by their kind. A list shows so many of its rows: where one goes, that which
   *  waited behind the last moves up, and is no news. */
  function newAmong(came, gone, ended) {
    const counts = new Map();
    for (const kind of new Set(came.map(kindOf))) {
      const [its, left] = [came, gone].map((rows) => rows.filter((row) => kindOf(row) === kind));
      const end = ended.get(kind);
      const behind = end ? its.filter((row) => isBehind(row, end)).length : 0;
      const count = its.length - Math.min(behind, left.length);
      if (count) counts.set(kind, count);
    }
    return counts;
  }
  /** "2 or more new causes, 1 new letter", by the words of the list: data-still="kind one many …", with "-" for no kind. */
  function newSaid(list, counts, more) {
    const words = list.dataset.still.split(" ");
    const said = [...counts].map(([kind, count]) => {
      const word = words[words.indexOf(kind || "-") + (count === 1 && !more ? 1 : 2)];
      return `${count}${more} new ${word}`;
    });
    return said.join(", ");
  }
  /** Whether a row that does not stand in the list any more may merely have been pushed behind its end: it would stand
   *  there, and the list is as long as it was. */
  function pushedOut(here, there) {
    const last = new Map(there.filter((row) => row.dataset.place).map((row) => [kindOf(row), placeOf(row)]));
    const many = (rows, kind) => rows.filter((row) => kindOf(row) === kind).length;
    return (row) => {
      const [kind, end] = [kindOf(row), last.get(kindOf(row))];
      return Boolean(row.dataset.place && end && isBehind(row, end) && many(there, kind) >= many(here, kind));
    };
  }
  function follows(list) {
    ends.delete(list);
    return false;
  }
  /** Rows that both have are brought up to date; what is new is counted and not put in. */
  function still(old, fresh, node) {
    const [here, there] = [rowsOf(old), rowsOf(fresh)];
    // Of nothing, and by nothing, nobody's reading is disturbed.
    if (!here.size || !there.size) return follows(old);
    const ended = endsOf(old);
    const pushed = pushedOut([...here.values()], [...there.values()]);
    for (const [name, row] of here) {
      if (there.has(name)) node(row, there.get(name));
      row.toggleAttribute("data-gone", !there.has(name) && !pushed(row));
    }
    const only = (some, others) => [...some].filter(([name]) => !others.has(name)).map(([, row]) => row);
    const [came, gone] = [only(there, here), only(here, there)];
    const placed = (rows) => rows.filter((row) => row.dataset.place);
    const unseen = newAmong(placed(came), placed(gone), ended);
    if (unseen.size) counted(note(old, "The list is of {from}.", newSaid(old, unseen, came.length === there.size ? " or more" : "")));
    else if (came.length || gone.length) counted(note(old, "The list is of {from}.", "It has changed"));
    else {
      old.querySelector(":scope > .as-of")?.remove();
      // The same rows in their places: what stands around them, such as how many were looked at, follows too.
      return String([...here.keys()]) !== String([...there.keys()]) || all(ROWS, old).length !== all(ROWS, fresh).length || follows(old);
    }
    return true;
  }

  // ---- what grows at its end ------------------------------------------------------------------
  // Who has scrolled back reads; who stands at the end follows it.
  const atEnd = (tail) => tail.scrollHeight - tail.scrollTop - tail.clientHeight < 30;
  const toEnd = (tail) => { tail.scrollTop = tail.scrollHeight; };
  for (const tail of all("[data-tail]", page)) toEnd(tail);

  // ---- the page -------------------------------------------------------------------------------
  let shows = (page.dataset.shows ?? "").split(/\s+/).filter(Boolean);
  // Of a page that shows nothing live, not even everything ("*") is a change.
  const concerns = (name) => shows.some((shown) => name === "*" || name === shown || name.startsWith(`${shown}:`) || name.startsWith(`${shown}/`));
  let due = false;
  let busy = false;
  let leaving = false;
  let began = Number(body.dataset.began);
  let looked = performance.now();
  let took = null;
  // Since when a change is known that does not stand here, and the first that came while the page was being read.
  let unmet = 0;
  let later = 0;
  // When what stands here began to be read, and from when on it must be: what was read while the store was away tells of
  // that, whatever it is about.
  let readAt = 0;
  let doubted = 0;
  let hurried = false;
  // When the newest look was heard of, by the clock that does not leap and by the one on the wall.
  let heard = performance.now();
  let heardAt = Date.now();
  // Until when nothing is known to have changed that does not stand here.
  let trueAt = heardAt;
  let hushed = false;
  const silent = () => performance.now() - heard > SILENT_MS;
  const late = () => unmet && performance.now() - unmet > LATE_MS;

  class Trouble extends Error {}
  class Gone extends Trouble {}
  async function read() {
    const answer = await fetch(location.pathname + location.search, {
      headers: { Accept: "text/html", "HBUS-Panels": "1" },
      credentials: "same-origin",
      cache: "no-store",
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (answer.type === "opaqueredirect") throw new Trouble("You are signed out, or this page has moved. Sign in in another tab, or reload it.");
    const Refused = [403, 404, 410].includes(answer.status) ? Gone : Trouble;
    if (!answer.ok) throw new Refused(`This page cannot be read any more (${answer.status}). Reload it.`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!fresh.querySelector("#content")?.dataset.shows.trim()) throw new Gone("There is another page at this address now. Reload it.");
    return fresh;
  }

  async function refresh() {
    busy = true;
    due = hurried = false;
    later = 0;
    looked = performance.now();
    const begun = looked;
    asked = Date.now();
    const wanted = shows;
    // Meanwhile a form may have been answered: what it shows is newer, and stands nowhere else.
    const past = () => leaving || shows !== wanted;
    try {
      const fresh = await read();
      if (past()) return;
      const tails = all("[data-tail]", page).filter(atEnd);
      dateWhatWasSaid();
      morph(page, fresh.querySelector("#content"), { held: inHand(), kept, still });
      for (const tail of tails) toEnd(tail);
      document.title = fresh.title;
      began = Number(fresh.body.dataset.began);
      from = asked;
      readAt = begun;
      if (doubted > readAt) due = true;
      unmet = later;
      trueAt = unmet ? asked : Math.max(asked, heardAt);
      standing.trouble = "";
      standing.gone = false;
      htmx.process(page);
      body.dispatchEvent(new CustomEvent("hbus:refreshed", { bubbles: true }));
    } catch (error) {
      if (past()) return;
      due = true;
      standing.gone = error instanceof Gone;
      standing.trouble = error instanceof Trouble ? error.message : "This page could not be read again; it is tried further.";
      if (!(error instanceof Trouble || error instanceof TypeError || error.name === "TimeoutError")) console.error(error);
    } finally {
      const lasted = performance.now() - looked;
      // One that hung says little of how long the next one takes.
      took = took === null ? lasted : Math.min(lasted, Math.max(2 * took, HUNG_MS));
      busy = false;
      tell();
    }
  }

  function check() {
    if (unmet || silent() !== hushed) tell();
    if (!shows.length || busy || leaving || document.hidden) return;
    const since = performance.now() - looked;
    // What it took while the store was away is not what it takes.
    const share = doubted > readAt || hurried ? 0 : took * SHARE;
    if (since >= Math.min(MOST_MS, Math.max(due ? LEAST_MS : MOST_MS, share))) refresh();
  }

  // A part of the page asks for all of it anew. Loaded anew, it would take from a person what is in hand.
  body.addEventListener("htmx:beforeOnLoad", (event) => {
    const asks = (header) => event.detail.xhr.getResponseHeader(header);
    if (!inHand().size) return;
    if (asks("HX-Redirect")) {
      // Its session has ended, and what is sent from here says so.
      event.preventDefault();
      if (shows.length) standing.trouble = "You were signed out. What is in hand here stays: sign in in another tab.";
      return tell();
    }
    if (asks("HX-Refresh") !== "true" || !shows.length) return;
    event.preventDefault();
    due = true;
    check();
  });

  // The answer to a form stands here now: no reload would show it.
  body.addEventListener("hbus:answered", ({ detail }) => {
    shows = [];
    due = false;
    unmet = later = doubted = 0;
    from = detail.asked;
    standing.trouble = "";
    standing.gone = false;
    tell();
  });

  // ---- the stream -----------------------------------------------------------------------------
  let seen = 0;
  function listen({ data }) {
    if (data.say === "standing") {
      seen = data.id;
      // A look that had ended before this page was read tells nothing of now, and one that had begun before it has
      // figures that may be older than those that stand here.
      if (data.id >= began) {
        heard = performance.now() - (data.age ?? 0);
        heardAt = Date.now() - (data.age ?? 0);
      }
      if (!(data.standing.of < began)) figures(data.standing.texts);
      standing.stale = data.standing.stale;
      if (data.standing.changed.includes(STORE) && shows.length) {
        due = true;
        doubted = performance.now() + REMEMBERED_MS;
      }
      if (data.standing.changed.includes(ALIVE) && TELLS_OF_IT.some((name) => shows.includes(name))) due = hurried = true;
      if (data.standing.changed.some(concerns)) {
        due = true;
        unmet ||= performance.now();
        if (busy) later ||= performance.now();
      }
      if (!unmet) trueAt = heardAt;
      body.dispatchEvent(new CustomEvent("hbus:live", { bubbles: true, detail: data.standing }));
      check();
    }
    standing.connected = data.say !== "lost";
    standing.begun = true;
    tell();
  }
  function port() {
    try {
      // Its name keeps the streams of two people apart who use one browser after each other.
      return new SharedWorker(body.dataset.streamWorker, { name: body.dataset.streamName }).port;
    } catch {
      const { port1, port2 } = new MessageChannel();
      window.hbusStream(port2);
      return port1;
    }
  }
  const stream = port();
  stream.onmessage = listen;
  const join = () => stream.postMessage({ say: "join", url: body.dataset.stream, since: seen || began - REMEMBERED_MS });
  const leave = () => stream.postMessage({ say: "leave" });

  let away = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(away);
    if (document.hidden) away = setTimeout(leave, AWAY_MS);
    else {
      join();
      check();
    }
  });
  window.addEventListener("pagehide", () => {
    leaving = true;
    leave();
  });
  window.addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    leaving = false;
    due = true;
    join();
  });
  if (!document.hidden) join();
  setInterval(check, 500);
})();
