// One stream of live events for all tabs of a browser, which has only six connections for one host. Runs as a shared
// worker; where there is none, a page loads it as a script and each tab has a stream of its own.
//
// A tab sends {say: "join", url, since} when it is looked at and {say: "leave"} when it is not; `since` is the id of the
// last event it knows, or the milliseconds of the epoch at which its page began to be read. It is sent {say: "open"},
// {say: "lost"} and {say: "standing", id, standing, age}, whose `standing.changed` names all that changed since then, and
// which was told by the server `age` milliseconds ago.
"use strict";

(() => {
  const REMEMBERED = 150;
  const RETRY_MS = 10_000;
  // A stream that is open and says nothing for so long may hang somewhere on its way: another one is tried.
  const SILENT_MS = 20_000;
  const tabs = new Set();
  let address = "";
  let source = null;
  let again = 0;
  let last = null;
  // When the stream was opened or spoke, and when it was that `last` came.
  let spoke = 0;
  let told = 0;
  // What changed after `known`, event by event.
  let known = 0;
  let events = [];

  const tell = (said) => tabs.forEach((tab) => tab.postMessage(said));
  const newest = () => events.at(-1)?.id ?? known;

  function open() {
    clearTimeout(again);
    const opened = new EventSource(`${address}?since=${newest()}`);
    source = opened;
    spoke = performance.now();
    opened.addEventListener("open", () => tell({ say: "open" }));
    opened.addEventListener("standing", (event) => {
      last = JSON.parse(event.data);
      spoke = told = performance.now();
      events.push({ id: Number(event.lastEventId), changed: last.changed });
      if (events.length > REMEMBERED) known = events.shift().id;
      tell({ say: "standing", id: newest(), standing: last, age: 0 });
    });
    opened.addEventListener("error", () => {
      tell({ say: "lost" });
      // Refused: the browser does not try again by itself.
      if (opened.readyState !== EventSource.CLOSED || opened !== source) return;
      source = null;
      again = setTimeout(() => tabs.size && open(), RETRY_MS);
    });
  }

  function close() {
    clearTimeout(again);
    source?.close();
    source = last = null;
    events = [];
  }

  function stir() {
    if (!source || performance.now() - spoke <= SILENT_MS) return;
    source.close();
    open();
  }

  function join(tab, { url, since }) {
    tabs.add(tab);
    address = url;
    if (!source) {
      if (!events.length) known = since;
      open();
    } else if (source.readyState === EventSource.OPEN) tab.postMessage({ say: "open" });
    const changed = since < known ? ["*"] : events.filter(({ id }) => id > since).flatMap((event) => event.changed);
    if (last || changed.length) tab.postMessage({ say: "standing", id: newest(), standing: { texts: {}, stale: "", ...last, changed }, age: last ? performance.now() - told : 0 });
  }

  function serve(tab) {
    tab.onmessage = ({ data }) => {
      if (data.say === "join") join(tab, data);
      else if (tabs.delete(tab) && !tabs.size) close();
    };
  }

  setInterval(stir, 1_000);
  if ("onconnect" in self) self.onconnect = ({ ports: [tab] }) => serve(tab);
  else self.hbusStream = serve;
})();
