// What a form can say before it is sent. Without it the server says the same, in its answer.
"use strict";

(() => {
  // ---- a button that needs something ticked: data-needs names the boxes of its form -----------
  function refresh() {
    for (const button of document.querySelectorAll("button[data-needs]")) {
      const boxes = [...(button.form?.elements ?? [])].filter((box) => box.name === button.dataset.needs);
      button.disabled = !boxes.some((box) => box.checked);
    }
  }
  refresh();
  document.addEventListener("change", refresh);
  // Back from another page the browser has ticked what was ticked.
  window.addEventListener("pageshow", refresh);
  // Parts of a page are fetched again, with boxes or buttons in them.
  new MutationObserver(refresh).observe(document.body, { childList: true, subtree: true });
})();
