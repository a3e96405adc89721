// The whole picture: one frame is computed from the setup, then every part draws itself from it.

import { explain } from "../model/advice.js";
import { steps_of, summary } from "../model/rows.js";
import { but, make_setup } from "../model/specs.js";
import { say } from "../model/words.js";
import { make_bars } from "./bars.js";
import { COLOURS, is_dark } from "./colours.js";
import { make_controls } from "./controls.js";
import { make_differences } from "./differences.js";
import { html, on, set, write } from "./dom.js";
import { make_lanes } from "./lanes.js";
import { make_menu } from "./menu.js";
import { NARROW } from "./scale.js";
import { make_story } from "./story.js";
import STYLE from "./style.css";
import { make_tooltip } from "./tooltip.js";
import { make_headline, make_table, make_verdict } from "./verdict.js";

/** @typedef {import("../model/specs.js").Setup} Setup */

/**
 * What the picture is a view of: a notebook's model, or an object in the page.
 * @typedef {object} Host
 * @property {() => Record<string, any>} get the fields as they are now
 * @property {(changes: Record<string, any>) => void} set changes fields; tells the listeners
 * @property {(listener: () => void) => () => void} listen returns what ends it
 * @property {import("./story.js").Story} [story]
 * @property {() => string} [link] the page's address with the state in it
 */

/**
 * All that one drawing needs.
 * @typedef {object} Frame
 * @property {Setup} setup
 * @property {import("../model/timeline.js").Step[]} steps of all stages
 * @property {ReturnType<typeof summary>} rows
 * @property {Side[]} sides the system itself, and the one it is compared with, if any
 * @property {ReturnType<typeof explain>} said
 * @property {number} width of the drawing, in its own units: pixels unless the page is very wide
 * @property {boolean} dragging scales hold still until it ends
 */

/**
 * One of the systems on show.
 * @typedef {object} Side
 * @property {Setup} setup
 * @property {import("../model/timeline.js").Step[]} steps of all stages
 * @property {ReturnType<typeof summary>} rows
 */

/**
 * What the parts may ask of the whole.
 * @typedef {object} View
 * @property {() => Setup} setup
 * @property {() => string} said the headline
 * @property {(changes: Record<string, any>, dragging?: boolean) => void} set
 * @property {() => void} settle a drag is over
 * @property {() => void} render
 * @property {ReturnType<typeof make_tooltip>} tooltip
 * @property {(box: DOMRect, x: number, top: number, bottom: number, width: number) => {x: number, top: number, bottom: number}} place
 *   a box of a chart, in pixels of the whole
 */

let mounted = 0;
const PADDING = 10; // pixels of the root, left and right, as style.css has it
const COMFORTABLE = 1280; // pixels; on anything wider, a projector say, all type grows along

/**
 * Puts the explorer into `element`. Returns what takes it out again, with every listener.
 * @param {HTMLElement} element
 * @param {Host} host
 */
export function mount(element, host) {
  mounted += 1;
  const id = `zw${mounted}`;
  const holder = html("div");
  const shadow = holder.attachShadow({ mode: "open" }); // no style of a notebook or a deck leaks in
  const status = html("div", { class: "hidden", role: "status" });
  const failure = html("p", { class: "error", role: "alert" });
  const root = html("div", { class: "zw" });
  shadow.append(html("style", {}, STYLE, COLOURS), root);
  element.append(holder);

  let width = 960; // until the page says otherwise; a slide not yet shown has none
  let dragging = false;
  let asked = 0;
  /** @type {Setup} */
  let setup = make_setup({});
  let headline = "";
  let announced = ""; // what screen readers were told last; nothing at first

  /** @type {View} */
  const view = {
    setup: () => setup,
    said: () => headline,
    set(changes, drags = false) {
      dragging = drags;
      but(setup, changes); // throws when the fields do not go together
      host.set(changes);
      if (drags) ask();
      else draw();
    },
    settle() {
      if (!dragging) return;
      dragging = false;
      ask();
    },
    render: () => draw(),
    tooltip: make_tooltip(root, status),
    place(box, x, top, bottom, wide) {
      const outer = root.getBoundingClientRect();
      const ratio = outer.width > 0 ? root.clientWidth / outer.width : 1; // slides are scaled
      const pixels = box.width / wide;
      const down = (/** @type {number} */ y) => (box.top - outer.top + y * pixels) * ratio;
      return { x: (box.left - outer.left + x * pixels) * ratio, top: down(top), bottom: down(bottom) };
    },
  };
  const menu = make_menu(root, view, host.link);
  /** @type {import("./lanes.js").Range} */
  const range = { scale: 1, window: [0, 1] };
  const parts = [
    make_controls(view, id, menu),
    make_headline(),
    make_bars(view, id),
    make_lanes(view, 0, range),
    when_compared(() => make_lanes(view, 1, range)),
    when_compared(make_differences),
    make_verdict(),
  ];
  parts.push(make_table(() => view.render()));
  if (host.story) parts.unshift(make_story(host.story));
  // letters and digits are commands to a notebook: what is typed here is not meant for it
  on(root, "keydown", (event) => {
    if (/^.$/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  root.append(failure, ...parts.map((part) => part.element), status);

  function draw() {
    if (asked) cancelAnimationFrame(asked);
    asked = 0;
    /** @type {Side[]} */
    let sides;
    try {
      setup = make_setup(host.get());
      sides = systems_of(setup).map((system) => side_of(setup, system));
    } catch (problem) {
      return write(failure, say("not_drawn", "en", { reason: /** @type {Error} */ (problem).message }));
    }
    write(failure, "");
    const [{ steps, rows }] = sides;
    const said = explain(setup, rows, steps[setup.stage]);
    headline = said.headline;
    const frame = { setup, steps, rows, sides, said, width, dragging };
    for (const part of parts) part.update(frame);
    set(root, { lang: setup.language });
    const news = `${said.headline}. ${said.costs}`;
    if (dragging || news === announced) return;
    if (announced) write(status, news);
    announced = news;
  }

  function ask() {
    if (!asked) asked = requestAnimationFrame(draw);
  }

  function theme() {
    root.classList.toggle("dark", is_dark(getComputedStyle(root).color));
  }

  /** @param {number} inner pixels inside the padding; none in a slide that is not shown yet */
  function fit(inner) {
    if (inner < 1) return;
    const larger = Math.max(1, Math.min(1.6, inner / COMFORTABLE));
    root.style.fontSize = `${13 * larger}px`;
    width = Math.max(240, Math.round(inner / larger));
    root.classList.toggle("narrow", width < NARROW);
  }

  const sizes = new ResizeObserver(([entry]) => {
    const before = width;
    fit(entry.contentRect.width);
    if (width !== before) draw();
  });
  const themes = new MutationObserver(() => requestAnimationFrame(theme));
  for (const watched of [document.documentElement, document.body]) {
    if (watched) themes.observe(watched, { attributes: true });
  }
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  on(scheme, "change", theme);
  const deaf = host.listen(ask);
  theme();
  fit(root.clientWidth - 2 * PADDING);
  draw();
  sizes.observe(root);

  return () => {
    deaf();
    sizes.disconnect();
    themes.disconnect();
    scheme.removeEventListener("change", theme);
    if (asked) cancelAnimationFrame(asked);
    holder.remove();
  };
}

/** The systems that a setup puts on show, its own first. @param {Setup} setup */
function systems_of({ system, compare }) {
  return compare === null || compare === system ? [system] : [system, compare];
}

/** @param {Setup} setup @param {string} system @returns {Side} */
function side_of(setup, system) {
  const own = system === setup.system ? setup : but(setup, { system });
  const steps = steps_of(own);
  return { setup: own, steps, rows: summary(own, steps) };
}

/**
 * A part that is in the page only while two systems are on show, and made when it is first wanted.
 * @param {() => {element: Element, update: (frame: Frame) => void}} make
 */
function when_compared(make) {
  const place = document.createComment("");
  /** @type {ReturnType<typeof make> | undefined} */
  let part;
  return {
    element: place,
    /** @param {Frame} frame */
    update(frame) {
      if (frame.sides.length < 2) return part?.element.replaceWith(place);
      part ??= make();
      place.replaceWith(part.element);
      part.update(frame);
    },
  };
}
