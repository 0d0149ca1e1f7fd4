// The page of a run: its id can be copied, and folds are open on paper.
"use strict";

(() => {
  const said = JSON.parse(document.currentScript.dataset.words);
  const id = document.querySelector(".lb-bar__facts code");
  if (id && navigator.clipboard) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "lb-copy";
    button.textContent = said.copy_id;
    button.setAttribute("aria-label", `${said.copy_id} ${id.textContent}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(id.textContent);
      button.textContent = said.copied;
      setTimeout(() => (button.textContent = said.copy_id), 1500);
    });
    id.after(" ", button);
  }

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".md-content details:not([open])")];
    for (const fold of opened) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });
})();
