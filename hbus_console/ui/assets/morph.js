// Makes a part of the page what the server would render now, and leaves in place what a person has in hand: focus,
// scrolling, open details and sheets, ticked boxes, what was typed. Nodes that stay are the same nodes afterwards.
"use strict";

(() => {
  // Drawn or filled by scripts, or said once.
  const OURS = ".chart, [data-legend], [data-keep]";
  // Set by scripts on nodes of the server; what they hold back (data-held), the server would let be pressed.
  const MARKED = /^(open|data-htmx-powered|data-drawn|data-held|data-mourned|aria-busy)$/;
  const isMarked = (node, name) => MARKED.test(name) || (name === "disabled" && "held" in node.dataset);
  // What became of a form, said in it by a script: it stays until the form is sent again.
  const SAID = "form > [data-said]:not(.as-of)";

  /** What a node is about, to find it again; empty when only its place tells. */
  function nameOf(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (node.id) return `#${node.id}`;
    if (node.dataset.liveRow) return node.dataset.liveRow;
    if (node.matches("section[aria-label]")) return node.getAttribute("aria-label");
    if (node.matches("tr, ul.rows > li")) return node.querySelector("a[href]")?.getAttribute("href") ?? "";
    return "";
  }

  /** `node`, or the first after it that the server has made. */
  function past(node) {
    while (node?.nodeType === Node.ELEMENT_NODE && node.matches(SAID)) node = node.nextSibling;
    return node;
  }

  /** Whether one may become the other: of what only its place tells, a notice becomes no column, and a table no list. */
  function kin(one, other) {
    if (one.nodeType !== other.nodeType || one.nodeName !== other.nodeName) return false;
    if (one.nodeType !== Node.ELEMENT_NODE || (!one.classList.length && !other.classList.length)) return true;
    return [...one.classList].some((each) => other.classList.contains(each));
  }

  function named(nodes) {
    const found = new Map();
    for (const node of nodes) {
      const name = nameOf(node);
      // Of two with one name neither can be told from the other.
      if (name) found.set(name, found.has(name) ? null : node);
    }
    return found;
  }

  /** `old` becomes as `fresh`. `held`: what a person has in hand, and `kept(node)` is told of
   *  each; `still(old, fresh, node)` brings a list that is read up to date, and says whether it did. */
  function morph(old, fresh, { held, kept, still }) {
    const inHand = (node) => node.nodeType === Node.ELEMENT_NODE && (held.has(node) || [...held].some((each) => node.contains(each)));

    function attributes(one, other) {
      for (const { name, value } of other.attributes) {
        if (name === "class" && one.classList.contains("cursor")) one.className = `${value} cursor`;
        else if (!isMarked(one, name) && one.getAttribute(name) !== value) one.setAttribute(name, value);
      }
      for (const { name } of [...one.attributes]) {
        const ours = isMarked(one, name) || (name === "class" && one.classList.contains("cursor"));
        if (!ours && !other.hasAttribute(name)) one.removeAttribute(name);
      }
    }

    function node(one, other) {
      if (one.nodeType !== Node.ELEMENT_NODE) {
        if (one.nodeValue !== other.nodeValue) one.nodeValue = other.nodeValue;
      } else if (held.has(one)) kept(one);
      else if (one.matches(OURS)) {
        // A chart of other figures is drawn anew.
        if (one.dataset.chartUrl !== other.dataset.chartUrl) one.replaceWith(document.importNode(other, true));
      } else if (one.matches("[data-still]") && still(one, other, node)) return;
      else if (!one.isEqualNode(other)) {
        attributes(one, other);
        children(one, other);
      }
    }

    function children(parent, other) {
      const here = named(parent.children);
      const wanted = named(other.children);
      const isWanted = (each) => Boolean(nameOf(each) && here.get(nameOf(each)) === each && wanted.get(nameOf(each)));
      let at = past(parent.firstChild);
      for (const next of [...other.childNodes]) {
        const name = nameOf(next);
        let match = (wanted.get(name) === next && here.get(name)) || null;
        if (!match) {
          match = at;
          const fits = () => !isWanted(match) && nameOf(match) === name && kin(match, next);
          while (match && !fits()) match = past(match.nextSibling);
        } else if (match.nodeName !== next.nodeName) match = null;
        // What stands between and nobody wants any more goes, so that what stays need not be moved.
        while (match && at && at !== match && !isWanted(at) && !inHand(at)) {
          const gone = at;
          at = past(at.nextSibling);
          gone.remove();
        }
        if (!match) parent.insertBefore(document.importNode(next, true), at);
        else {
          if (match === at) at = past(at.nextSibling);
          else parent.insertBefore(match, at);
          node(match, next);
        }
      }
      while (at) {
        const gone = at;
        at = past(at.nextSibling);
        if (!inHand(gone)) gone.remove();
        // The page has it no more: it stays for who holds it, and says so.
        else for (const each of held) if (gone.contains(each)) kept(each);
      }
    }

    node(old, fresh);
  }

  window.hbusMorph = { morph, named };
})();
