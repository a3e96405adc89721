// The page's side: an explorer without a notebook or a kernel. Mounts itself into every element with a
// data-zerowidget attribute, which holds {"setup": {...}, "steps": [{...}]} as JSON.

import { check, FIELDS, make_setup } from "./model/specs.js";
import { mount } from "./view/explorer.js";

/** @typedef {import("./model/specs.js").Setup} Setup */

const FRAGMENT = "#zerowidget?";
const BODY_MARGIN = 12; // pixels, as src/zerowidget/html.py has it

/**
 * The fields in the page's address that go with `setup`; what cannot be is passed over, for anyone can write an
 * address.
 * @param {Record<string, any>} setup
 */
function fields_of_address(setup) {
  /** @type {Record<string, any>} */
  const fields = {};
  if (!location.hash.startsWith(FRAGMENT)) return fields;
  for (const [name, text] of new URLSearchParams(location.hash.slice(FRAGMENT.length))) {
    if (!Object.hasOwn(FIELDS, name)) continue;
    try {
      fields[name] = check(name, JSON.parse(text));
    } catch {
      // not a value of this field
    }
  }
  try {
    make_setup({ ...setup, ...fields });
  } catch {
    return {};
  }
  return fields;
}

/** The page's address with every field that the page itself does not have so. @param {Setup} page @param {Setup} now */
function address_of(page, now) {
  const query = new URLSearchParams();
  for (const name in FIELDS) {
    const key = /** @type {keyof Setup} */ (name);
    if (now[key] !== page[key]) query.set(name, JSON.stringify(now[key]));
  }
  return `${location.href.split("#")[0]}${FRAGMENT}${query}`;
}

/** What a key asks of a story: a step on, a step back, or nothing. @param {KeyboardEvent} event @param {boolean} alone */
function step_of_key(event, alone) {
  if (event.altKey || event.ctrlKey || event.metaKey) return 0;
  if (event.key === "PageDown") return 1;
  if (event.key === "PageUp") return -1;
  if (!alone) return 0;
  if (event.key === " ")
    return event.composedPath()[0] instanceof HTMLButtonElement ? 0 : event.shiftKey ? -1 : 1;
  return { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
}

/**
 * @param {HTMLElement} element
 * @param {boolean} first of its page: the one that the address speaks of
 */
function start(element, first) {
  const { setup = {}, steps = [] } = JSON.parse(element.dataset.zerowidget ?? "{}");
  const page = make_setup(setup);
  /** @type {Record<string, any>[]} */
  let states = [];
  const begin = () => {
    states = [first ? { ...setup, ...fields_of_address(setup) } : setup];
    for (const step of steps) states.push({ ...states[states.length - 1], ...step });
  };
  begin();
  let fields = states[0];
  let at = 0;
  /** @type {(() => void)[]} */
  const listeners = [];
  const tell = () => {
    for (const listener of listeners) listener();
  };
  const story = {
    count: states.length,
    at: () => at,
    go(/** @type {number} */ index) {
      at = Math.max(0, Math.min(states.length - 1, index));
      fields = states[at];
      tell();
    },
  };
  const linkable = first && location.protocol !== "about:"; // a frame has no address to give
  element.replaceChildren(); // from here on it will be drawn
  mount(element, {
    get: () => fields,
    set(changes) {
      fields = { ...fields, ...changes };
      tell();
    },
    listen(listener) {
      listeners.push(listener);
      return () => listeners.splice(listeners.indexOf(listener), 1);
    },
    story: states.length > 1 ? story : undefined,
    link: linkable ? () => address_of(page, make_setup(fields)) : undefined,
  });
  if (first) {
    addEventListener("hashchange", () => {
      if (!location.hash.startsWith(FRAGMENT)) return;
      begin();
      story.go(0);
    });
  }
  if (states.length === 1) return;
  // In a page of its own the whole page listens; in a deck only what is typed on the explorer, until the story is over.
  const alone = document.body.hasAttribute("data-zerowidget-page");
  (alone ? document : element).addEventListener("keydown", (event) => {
    const step = step_of_key(/** @type {KeyboardEvent} */ (event), alone);
    if (!step || at + step < 0 || at + step >= states.length) return;
    story.go(at + step);
    event.preventDefault();
    event.stopPropagation();
  });
}

/** In a frame that is too low for it, the page shrinks until nothing is cut. */
function fit_frame() {
  const { body } = document;
  if (!body.hasAttribute("data-zerowidget-page") || window === window.top || innerHeight === 0) return;
  body.style.zoom = "1";
  for (let tries = 0; tries < 3; tries += 1) {
    const high = body.getBoundingClientRect().height + 2 * BODY_MARGIN;
    if (high <= innerHeight) return;
    const zoom = (0.99 * Number(body.style.zoom) * innerHeight) / high;
    body.style.zoom = String(Math.max(0.5, zoom));
  }
}

let started = 0;

/** Starts what the page holds and has not been started. */
function boot() {
  for (const element of document.querySelectorAll("[data-zerowidget]")) {
    if (!(element instanceof HTMLElement) || element.dataset.started !== undefined) continue;
    element.dataset.started = "";
    try {
      start(element, started === 0);
    } catch (problem) {
      console.warn(`zerowidget: the static picture stays: ${/** @type {Error} */ (problem).message}`);
    }
    started += 1;
  }
}

Object.assign(window, { zerowidget: { boot } });
boot();
document.addEventListener("DOMContentLoaded", boot);
fit_frame();
addEventListener("resize", fit_frame);
