// A lecturer's story: a row of states to walk through, by buttons and by the keys of a presenter.

import { say } from "../model/words.js";
import { html, on, set, write } from "./dom.js";

/**
 * @typedef {object} Story
 * @property {number} count states, the first included
 * @property {() => number} at which one is shown, from 0
 * @property {(index: number) => void} go
 */

/** @param {Story} story */
export function make_story(story) {
  const previous = html("button", { type: "button", "data-step": "-1" }, "‹");
  const next = html("button", { type: "button", "data-step": "1" }, "›");
  const place = html("span", { class: "note" });
  for (const button of [previous, next]) {
    on(button, "click", () => story.go(story.at() + Number(button.dataset.step)));
  }
  return {
    element: html("nav", { class: "story" }, previous, place, next),
    /** @param {import("./explorer.js").Frame} frame */
    update({ setup: { language } }) {
      const at = story.at();
      write(place, say("story_at", language, { i: at + 1, k: story.count }));
      set(previous, { "aria-label": say("story_previous", language), disabled: at === 0 });
      set(next, { "aria-label": say("story_next", language), disabled: at === story.count - 1 });
    },
  };
}
