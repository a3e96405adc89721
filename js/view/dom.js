// Small DOM helpers: make elements, and reuse them from one frame to the next.

export const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element with attributes and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean>} [attributes] false leaves one out
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/**
 * An SVG element with attributes and children.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean>} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/**
 * Sets the attributes that changed; the DOM is slow even when told what it knows.
 * @param {Element & {known?: Record<string, unknown>}} element
 * @param {Record<string, string | number | boolean>} attributes
 */
export function set(element, attributes) {
  element.known ??= {};
  for (const name in attributes) {
    const value = attributes[name];
    if (element.known[name] === value) continue;
    element.known[name] = value;
    if (value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Sets a text that changed.
 * @param {Element & {said?: string}} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.said === text) return;
  element.said = text;
  const [node] = element.childNodes;
  if (node instanceof Text)
    node.data = text; // keeps the layout of what is around it
  else element.textContent = text;
}

/**
 * Listens for some events, named with spaces between.
 * @param {EventTarget} target
 * @param {string} events
 * @param {(event: any) => void} heard
 */
export function on(target, events, heard) {
  for (const event of events.split(" ")) target.addEventListener(event, heard);
}

/**
 * Listens for keys: those that `used` finds a use for, the page and its host do not get.
 * @param {Element} element
 * @param {(event: KeyboardEvent) => boolean} used
 */
export function on_keys(element, used) {
  on(element, "keydown", (event) => {
    if (!used(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * Fills a table with its heads and rows; what comes first in a row heads it.
 * @param {HTMLTableElement} table
 * @param {string[]} heads
 * @param {string[][]} rows
 * @param {(string | false)[]} [classes] of the rows
 */
export function fill(table, heads, rows, classes = []) {
  const head = html("tr", {}, ...heads.map((text) => html("th", { scope: "col" }, text)));
  const body = rows.map(([name, ...cells], i) =>
    html(
      "tr",
      { class: classes[i] ?? false },
      html("th", { scope: "row" }, name),
      ...cells.map((text) => html("td", {}, text)),
    ),
  );
  table.replaceChildren(html("thead", {}, head), html("tbody", {}, ...body));
}

/** The keys of a chart's colours, in a list that is made anew when it changes. */
export function make_legend() {
  const element = html("ul", { class: "legend" });
  let shown = "";
  return {
    element,
    /** @param {{text: string, key: Record<string, string | boolean>, item?: Record<string, string>}[]} items */
    update(items) {
      const now = JSON.stringify(items);
      if (now === shown) return;
      shown = now;
      element.replaceChildren(...items.map(({ text, key, item }) => html("li", item, html("i", key), text)));
    },
  };
}

/** A number no less than `low`, no more than `high`. @param {number} x @param {number} low @param {number} high */
export function clamp(x, low, high) {
  return Math.max(low, Math.min(high, x));
}

/**
 * Elements of one kind under `parent`, reused in order: `next()` for each one wanted, `done()` hides the rest.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Element} parent
 * @param {Tag} tag
 */
export function pool(parent, tag) {
  /** @type {SVGElementTagNameMap[Tag][]} */
  const elements = [];
  let used = 0;
  let shown = 0;
  return {
    /** @param {Record<string, string | number | boolean>} attributes */
    next(attributes) {
      if (used === elements.length) {
        const made = svg(tag);
        elements.push(made);
        parent.append(made);
      }
      const element = elements[used];
      if (used >= shown) element.style.display = "";
      set(element, attributes);
      used += 1;
      return element;
    },
    done() {
      for (let i = used; i < shown; i += 1) elements[i].style.display = "none";
      shown = used;
      used = 0;
    },
  };
}
