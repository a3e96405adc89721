// One tooltip for the whole picture; what it says is also said to screen readers.

import { clamp, html, write } from "./dom.js";

/** @param {HTMLElement} root @param {HTMLElement} status the live region */
export function make_tooltip(root, status) {
  const title = html("b");
  const body = html("div");
  const box = html("div", { class: "tip", "aria-hidden": "true" }, title, body);
  box.hidden = true;
  root.append(box);
  return {
    /**
     * Shows `lines` (the first is the title) above the box that `at` gives in pixels of `root`, or below it.
     * @param {string[]} lines
     * @param {{x: number, top: number, bottom: number}} at
     * @param {boolean} aloud
     * @param {boolean} [below]
     */
    show(lines, at, aloud, below = false) {
      write(title, lines[0]);
      write(body, lines.slice(1).join("\n"));
      box.hidden = false;
      const width = root.clientWidth;
      const { offsetWidth, offsetHeight } = box;
      const left = clamp(at.x - offsetWidth / 2, 0, width - offsetWidth);
      const above = at.top - offsetHeight - 8;
      const top = below || above < 0 ? at.bottom + 8 : above;
      box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
      if (aloud) write(status, lines.join(". "));
    },
    hide() {
      box.hidden = true;
    },
  };
}
