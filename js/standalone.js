// The page's side: an explorer without a notebook or a kernel. Mounts itself into every element with a
// data-zerowidget attribute, which holds {"setup": {...}, "steps": [{...}]} as JSON.

import { check, FIELDS, make_setup } from "./model/specs.js";
import { mount } from "./view/explorer.js";
import { chosen } from "./view/menu.js";

const FRAGMENT = "#zerowidget?";

/** The fields in the page's address; what cannot be is passed over, for anyone can write an address. */
function fields_of_address() {
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
    make_setup(fields);
  } catch {
    return {};
  }
  return fields;
}

/** @param {Record<string, any>} fields */
function address_of(fields) {
  const query = new URLSearchParams();
  for (const name in fields) query.set(name, JSON.stringify(fields[name]));
  return `${location.href.split("#")[0]}${FRAGMENT}${query}`;
}

/**
 * @param {HTMLElement} element
 * @param {boolean} first of its page: the one that the address speaks of
 */
function start(element, first) {
  const { setup = {}, steps = [] } = JSON.parse(element.dataset.zerowidget ?? "{}");
  const states = [setup];
  for (const step of steps) states.push({ ...states[states.length - 1], ...step });
  let fields = first ? { ...setup, ...fields_of_address() } : setup;
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
  element.replaceChildren();
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
    link: first ? () => address_of(chosen(make_setup(fields))) : undefined,
  });
  if (states.length === 1) return;
  // In a page of its own the whole page listens; in a deck only what is typed on the explorer, until the story is over.
  const alone = document.body.hasAttribute("data-zerowidget-page");
  (alone ? document : element).addEventListener("keydown", (event) => {
    const { key } = /** @type {KeyboardEvent} */ (event);
    const step = { PageDown: 1, PageUp: -1, ...(alone ? { ArrowRight: 1, ArrowLeft: -1, " ": 1 } : {}) }[key];
    if (!step || at + step < 0 || at + step >= states.length) return;
    if (alone && event.composedPath()[0] instanceof HTMLButtonElement && key === " ") return;
    story.go(at + step);
    event.preventDefault();
    event.stopPropagation();
  });
}

let started = 0;

/** Starts what the page holds and has not been started. */
function boot() {
  for (const element of document.querySelectorAll("[data-zerowidget]")) {
    if (!(element instanceof HTMLElement) || element.dataset.started !== undefined) continue;
    element.dataset.started = "";
    start(element, started === 0);
    started += 1;
  }
}

Object.assign(window, { zerowidget: { boot } });
boot();
document.addEventListener("DOMContentLoaded", boot);
