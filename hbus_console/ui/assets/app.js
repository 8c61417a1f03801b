// Progressive behaviour of every page: copying, keys, menus, fresh times. All can be read without it.
"use strict";

(() => {
  document.documentElement.classList.add("js");
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function toast(text) {
    const note = document.createElement("div");
    note.className = "notice";
    note.textContent = text;
    find("#toasts").append(note);
    setTimeout(() => note.remove(), 4000);
  }

  // ---- copying ------------------------------------------------------------------------------
  // A command inside a form repeats what was typed there: fields of the form that its body has, too.
  function asTyped(button) {
    const form = button.closest("form"), split = button.dataset.copy.lastIndexOf(" \\\n  -d ");
    if (!form || !button.dataset.body || split < 0) return button.dataset.copy;
    const body = JSON.parse(button.dataset.body);
    for (const [name, was] of Object.entries(body)) {
      const field = form.elements[name], typed = field?.value?.trim();
      if (!typed || field.type === "password" || field.type === "checkbox") continue;
      if (typeof was === "string") body[name] = typed;
      if (typeof was === "number" && Number.isFinite(Number(typed))) body[name] = Number(typed);
    }
    const quoted = JSON.stringify(body).replaceAll("'", `'"'"'`);
    return `${button.dataset.copy.slice(0, split)} \\\n  -d '${quoted}'`;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = asTyped(button);
    try {
      await navigator.clipboard.writeText(text);
      button.classList.add("done");
      toast("Copied.");
      setTimeout(() => button.classList.remove("done"), 1500);
    } catch {
      // Without https the browser keeps the clipboard to itself; the text can still be taken by hand.
      window.prompt("Copy this text:", text);
    }
  });

  // ---- times --------------------------------------------------------------------------------
  const UNITS = [[86_400_000, "day"], [3_600_000, "hour"], [60_000, "minute"], [1000, "second"]];
  function relative(distance) {
    const size = Math.abs(distance);
    for (const [length, name] of UNITS) {
      if (size < length) continue;
      const count = Math.floor(size / length);
      const words = `${count} ${name}${count === 1 ? "" : "s"}`;
      return distance > 0 ? `${words} ago` : `in ${words}`;
    }
    return "just now";
  }
  function refreshTimes() {
    if (document.hidden) return;
    for (const time of all("time[data-ago]")) {
      const text = relative(Date.now() - Date.parse(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }
  setInterval(refreshTimes, 5000);

  // ---- one time range on every page ----------------------------------------------------------
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
    const here = new URLSearchParams(location.search);
    const there = new URL(link.href);
    if (["range", "from", "to"].some((name) => there.searchParams.has(name)) || there.pathname.startsWith("/api/")) return;
    for (const name of ["range", "from", "to"]) if (here.get(name)) there.searchParams.set(name, here.get(name));
    link.href = there;
  });

  // ---- menus and dialogs ---------------------------------------------------------------------
  document.addEventListener("click", (event) => {
    for (const menu of all("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!event.target.closest("[data-search]")) find("#found")?.replaceChildren();
    const opener = event.target.closest("[data-dialog]");
    if (opener) find(`#${opener.dataset.dialog}`)?.showModal();
  });

  // One sheet serves many rows: the button that opens it says what its fields begin with, data-fill-NAME.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[popovertarget]"), fills = Object.entries(opener?.dataset ?? {}).filter(([key]) => key.startsWith("fill"));
    const sheet = fills.length && document.getElementById(opener.getAttribute("popovertarget"));
    if (!sheet) return;
    find("form", sheet).reset();
    find("form > [data-said]", sheet)?.remove();
    let last = null;
    for (const [key, value] of fills) {
      const field = find(`[name="${key.slice(4).toLowerCase()}"]`, sheet);
      field.value = value;
      if (value) last = field;
    }
    // What is known stands there; what is to be another is chosen already.
    if (last) sheet.addEventListener("toggle", () => last.select(), { once: true });
  });

  // A sheet is answered or left before anything behind it: Tab goes round inside.
  const REACHED = "a[href], button:not([disabled]), input:not([type=hidden], [disabled]), select:not([disabled]), textarea:not([disabled])";
  document.addEventListener("keydown", (event) => {
    const sheet = event.key === "Tab" && event.target.closest?.(".sheet:popover-open");
    if (!sheet) return;
    const stops = all(REACHED, sheet).filter((each) => each.checkVisibility());
    const [edge, other] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
    if (event.target !== edge) return;
    event.preventDefault();
    other.focus();
  });

  // ---- keys ---------------------------------------------------------------------------------
  if (/^(Mac|iP)/.test(navigator.platform)) all(".search > kbd").forEach((key) => (key.textContent = "⌘K"));
  let prefix = 0;
  function move(step) {
    const rows = all("table[data-rows] > tbody > tr:not(.detail)");
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("cursor"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))];
    rows[at]?.classList.remove("cursor");
    next.classList.add("cursor");
    next.scrollIntoView({ block: "nearest" });
  }
  function pick(step) {
    const hits = all("#found a");
    if (!hits.length) return;
    const at = hits.findIndex((hit) => hit.classList.contains("cursor"));
    hits[at]?.classList.remove("cursor");
    const next = hits[(at + step + hits.length) % hits.length];
    next.classList.add("cursor");
    next.scrollIntoView({ block: "nearest" });
  }
  function focusSearch() {
    const field = find("#search");
    field?.focus();
    field?.select();
  }
  function inSearch(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      pick(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      const chosen = find("#found a.cursor");
      if (!chosen) return;
      event.preventDefault();
      chosen.click();
    } else if (event.key === "Escape") {
      find("#found").replaceChildren();
      event.target.blur();
    }
  }
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      focusSearch();
      return;
    }
    if (event.target.id === "search") {
      inSearch(event);
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest("input, select, textarea, [contenteditable], dialog, [popover]:popover-open")) return;
    if (Date.now() - prefix < 2500) {
      prefix = 0;
      find(`[data-go="${CSS.escape(event.key)}"]`)?.click();
      return;
    }
    if (event.key === "g") prefix = Date.now();
    else if (event.key === "/") {
      event.preventDefault();
      focusSearch();
    } else if (event.key === "?") find("#help")?.showModal();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && event.target === document.body) find("tr.cursor a[href]")?.click();
    else if (event.key === "Escape") all("details[data-menu][open]").forEach((menu) => (menu.open = false));
  });
})();
