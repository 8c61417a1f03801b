// What a form can say before it is sent, and what became of it when its answer was lost. Without it the server says
// what it can in its answer.
"use strict";

(() => {
  const focused = new Set();
  // A button that is held back here says so: nothing is to set it free that only knows the server's page.
  function hold(button, held) {
    if (held && button === document.activeElement) focused.add(button);
    button.disabled = held;
    button.toggleAttribute("data-held", held);
    // Whoever is disabled loses the focus to nobody.
    if (!held && focused.delete(button) && document.activeElement === document.body) button.focus();
  }

  // What was pressed is held until its answer is there, whatever is ticked or made anew meanwhile.
  const underWay = new WeakSet();
  function send(button) {
    underWay.add(button);
    hold(button, true);
  }
  function release(button) {
    underWay.delete(button);
    // On a page that is gone it waits with the others for the page to be read again.
    if (button.closest("[data-mourned]")) button.dataset.mourned = "";
    else hold(button, false);
    refresh();
  }

  // ---- a button that needs something ticked: data-needs names the boxes of its form -----------
  function refresh() {
    for (const button of document.querySelectorAll("button[data-needs]")) {
      // When the page is read again, the line that mourns it goes, and that is heard of here.
      if (underWay.has(button) || button.closest("[data-mourned]")) continue;
      const boxes = [...(button.form?.elements ?? [])].filter((box) => box.name === button.dataset.needs);
      hold(button, !boxes.some((box) => box.checked));
    }
  }
  refresh();
  document.addEventListener("change", refresh);
  // Back from another page the browser has ticked what was ticked.
  window.addEventListener("pageshow", refresh);
  document.addEventListener("hbus:refreshed", refresh);
  // Parts of a page are fetched again, with boxes or buttons in them.
  new MutationObserver(refresh).observe(document.body, { childList: true, subtree: true });

  // ---- posting --------------------------------------------------------------------------------
  // A form is posted from here under a key of its own and stays until its answer is there. When the connection is lost
  // nobody need guess: what became of the key is asked for, and said in the form.
  const AGAIN_MS = 2_000;
  const body = document.body;
  if (!body.dataset.posted) return;
  const posts = new WeakMap();

  function fresh() {
    return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  // The same words again are the same act: only what has changed gets another key.
  function keyFor(form, address, sent) {
    const known = posts.get(form);
    if (known?.address === address && known.sent === sent) return known.key;
    const key = fresh();
    posts.set(form, { address, sent, key });
    return key;
  }

  function say(form, tone, words, link = "", href = "", beside = false) {
    let line = form.querySelector(":scope > [data-said]");
    if (!line) {
      line = document.createElement("div");
      line.dataset.said = "";
      line.setAttribute("role", "alert");
      form.prepend(line);
    }
    line.className = `notice ${tone}`;
    const text = document.createElement("div");
    text.textContent = words;
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = href;
      anchor.textContent = link;
      if (beside) anchor.target = "_blank";
      text.append(" ", anchor);
    }
    line.replaceChildren(text);
    line.scrollIntoView({ block: "nearest" });
    return text;
  }
  // Under its key hbus refuses for good what it may have done before. Whoever has looked may want it all the same.
  function offerAnew(form, button, text) {
    const anew = document.createElement("button");
    anew.type = "button";
    anew.className = "button small";
    anew.textContent = "Send it as a new act";
    anew.addEventListener("click", () => {
      posts.delete(form);
      form.requestSubmit(button?.form === form ? button : null);
    });
    text.append(" ", anew);
  }

  // ---- a session that has ended ---------------------------------------------------------------
  // What comes first is done in another tab, so that what was typed stays here. Signed in anew, one has another token:
  // whose it is has been said, and nothing is sent under it by itself.
  const FIRST = "HBUS-First";
  const FRESH_TOKEN = "HBUS-CSRF";
  const sayFirst = (form, words, first) => say(form, "warn", words, "Do that in a new tab", first, true);
  function renew(token) {
    for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]")) field.value = field.defaultValue = token;
    body.setAttribute("hx-headers", JSON.stringify({ "X-CSRFToken": token }));
  }
  body.addEventListener("htmx:afterRequest", ({ detail }) => {
    const token = detail.xhr?.getResponseHeader(FRESH_TOKEN);
    if (token) renew(token);
  });

  // What an answer found wrong has nothing to do with what becomes of the next try.
  const wrongs = (root) => [...root.querySelectorAll("[role=alert], .error")];
  function forget(form) {
    for (const wrong of document.querySelectorAll("[data-refusal]")) wrong.remove();
    form.querySelector(":scope > [data-said]")?.remove();
    for (const field of form.querySelectorAll("[aria-invalid]")) {
      field.removeAttribute("aria-invalid");
      field.removeAttribute("aria-describedby");
    }
  }

  function show(text, hash, asked) {
    const there = new DOMParser().parseFromString(text, "text/html");
    const page = there.querySelector("#content");
    const here = document.querySelector("#content");
    if (!page || !here) return false;
    for (const link of there.querySelectorAll("head link[rel=stylesheet]")) {
      if (!document.querySelector(`head link[href="${CSS.escape(link.getAttribute("href"))}"]`)) document.head.append(document.importNode(link, true));
    }
    here.dataset.shows = "";
    const stood = new Set(wrongs(here).filter((wrong) => !("refusal" in wrong.dataset)).map((wrong) => wrong.textContent));
    here.replaceChildren(...[...page.childNodes].map((node) => document.importNode(node, true)));
    for (const wrong of wrongs(here)) if (!stood.has(wrong.textContent)) wrong.dataset.refusal = "";
    document.title = there.title;
    body.dispatchEvent(new CustomEvent("hbus:answered", { bubbles: true, detail: { asked } }));
    htmx.process(here);
    body.dispatchEvent(new CustomEvent("hbus:refreshed", { bubbles: true }));
    const place = here.querySelector("[aria-invalid=true], [autofocus]") ?? (hash && here.querySelector(hash));
    if (place) {
      place.scrollIntoView({ block: "center" });
      place.focus?.();
    } else {
      window.scrollTo(0, 0);
      if (keys) toOutcome();
    }
    return true;
  }

  // Who acts by keys goes on where the outcome is said, and from there to what the page offers next.
  const LED = "hbus:led";
  let keys = false;
  document.addEventListener("keydown", () => { keys = true; }, true);
  document.addEventListener("pointerdown", () => { keys = false; }, true);
  function toOutcome() {
    const said = document.querySelector("#content > .said > [role]") ?? document.querySelector("#content");
    if (!said.hasAttribute("tabindex")) said.tabIndex = -1;
    said.focus({ preventScroll: true });
  }
  if (sessionStorage.getItem(LED)) {
    sessionStorage.removeItem(LED);
    if (!location.hash && document.activeElement === document.body) toOutcome();
  }

  /** A form that was answered with a file is done: its sheet closes, and the page says so and goes on. */
  function exported(form, file) {
    posts.delete(form);
    form.reset();
    form.closest("[popover]")?.hidePopover();
    const place = document.querySelector("#content > .said");
    place?.querySelector("[data-exported]")?.remove();
    const line = document.createElement("div");
    line.className = "notice ok";
    line.dataset.exported = "";
    line.setAttribute("role", "status");
    line.append(document.createElement("div"));
    line.firstChild.textContent = `It was exported, as ${file}.`;
    place?.append(line);
    line.scrollIntoView({ block: "nearest" });
  }

  async function whatBecame(form, key, path) {
    try {
      const answer = await fetch(body.dataset.posted, {
        method: "POST",
        body: new URLSearchParams({ key, path }),
        headers: { "HBUS-Form": "1" },
        credentials: "same-origin",
        redirect: "error",
      });
      if (answer.status === 401) sayFirst(form, "You were signed out. Sign in: what you typed is kept here, and whether it was done is said then.", body.dataset.signIn);
      if (!answer.ok) return null;
      return await answer.json();
    } catch {
      return null;
    }
  }

  /** Says what became of `key` as soon as that is known. `refused`: why hbus does not do it under this key (again). */
  async function lost(form, key, button, path, refused = "") {
    say(form, "warn", refused ? `${refused} What you typed is kept here.` : "The connection was lost. What you typed is kept here; whether it was done is said as soon as hbus answers.");
    let why = refused;
    for (;;) {
      await new Promise((then) => setTimeout(then, AGAIN_MS));
      if (!form.isConnected) return;
      const found = await whatBecame(form, key, path);
      if (!found) continue;
      const on = found.location || location.pathname + location.search;
      if (found.state === "done") return say(form, "ok", "It was done; only its answer was lost.", "Go on", on);
      if (found.state === "answered") return say(form, "info", "It was answered, and the answer was lost on its way.", "See how it stands", on);
      if (found.state === "unknown" || (found.state === "nothing" && why)) {
        if (button) release(button);
        why ||= "It was begun, and nobody knows whether it was done: no answer came.";
        return offerAnew(form, button, say(form, "warn", `${why} Look at how it stands before you send it again; what you typed is kept here.`, "See how it stands", on));
      }
      if (found.state === "nothing") {
        if (button) release(button);
        // Its key is given up: what of it is still on its way is refused.
        if (posts.get(form)?.key === key) posts.delete(form);
        return say(form, "warn", "It was not done. What you typed is still here: send it again.");
      }
      if (found.state === "not come") {
        if (button) release(button);
        return say(form, "warn", "It has not come so far, and may still. What you typed is still here: sent again as it is, it is not done twice.", "See how it stands", on);
      }
      // Refused because it was under way: what comes of that is no refusal.
      why = "";
      if (!refused) say(form, "warn", "hbus answers again. Whether it was done is not decided yet; it will be said here.");
    }
  }

  async function post(form, button, address, sent) {
    const key = keyFor(form, address.href, sent);
    if (button) send(button);
    forget(form);
    const asked = Date.now();
    let answer, text, file;
    try {
      answer = await fetch(address, {
        method: "POST",
        body: sent,
        headers: { "Content-Type": "application/x-www-form-urlencoded;charset=UTF-8", Accept: "text/html", "HBUS-Form": "1", "Idempotency-Key": key, "X-Correlation-ID": `form-${key}` },
        credentials: "same-origin",
      });
      file = /^attachment; filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
      if (file) text = await answer.blob();
      else text = await answer.text();
    } catch {
      return lost(form, key, button, address.pathname);
    }
    const on = answer.headers.get("HBUS-Location");
    if (on !== null) {
      const there = new URL(on, location.href);
      // A link to a place of this very page would only scroll.
      const same = there.pathname + there.search === location.pathname + location.search;
      if (keys) sessionStorage.setItem(LED, "1");
      location.assign(there);
      if (same && there.hash) location.reload();
      return;
    }
    const first = answer.headers.get(FIRST), token = answer.headers.get(FRESH_TOKEN);
    if (first !== null || token !== null) {
      if (token !== null) renew(token);
      if (button) release(button);
      if (first === null) say(form, "warn", text);
      else sayFirst(form, text, first);
      return;
    }
    if (file) {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(text);
      link.download = file;
      link.click();
      URL.revokeObjectURL(link.href);
      if (button) release(button);
      return exported(form, file);
    }
    if (answer.status === 409 && answer.headers.get("Content-Type") === "application/json") return lost(form, key, button, address.pathname, JSON.parse(text).detail);
    // A sentence alone is said where it was asked: the page around the form stays as it is, and goes on living.
    const plain = answer.headers.get("Content-Type")?.startsWith("text/plain");
    const kept = answer.status < 500 || answer.headers.get("HBUS-Form") === "kept";
    if (kept && !plain && show(text, address.hash, asked)) return;
    if (button) release(button);
    const words = plain ? text : new DOMParser().parseFromString(text, "text/html").querySelector("#content")?.textContent.replace(/\s+/g, " ").trim().slice(0, 300);
    const said = say(form, "bad", `${words || `hbus could not do it (${answer.status}).`} What you typed is kept here.`);
    // Under its key it is refused for good.
    if (answer.status === 409 && plain) offerAnew(form, button, said);
  }

  document.addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter;
    const asked = (name) => button?.getAttribute(`form${name}`) ?? form.getAttribute(name) ?? "";
    if (event.defaultPrevented || asked("method").toLowerCase() !== "post" || form.querySelector("input[type=file]")) return;
    const address = new URL(asked("action") || location.href, location.href);
    if (address.origin !== location.origin) return;
    event.preventDefault();
    if (button?.disabled) return;
    post(form, button, address, new URLSearchParams(new FormData(form, button)).toString());
  });
  // Back from where an answer led, what was pressed can be pressed again.
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) for (const button of document.querySelectorAll("button[data-held]")) release(button);
  });
})();
