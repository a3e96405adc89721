// Small DOM helpers: make elements, and reuse them from one frame to the next.

const SVG = "http://www.w3.org/2000/svg";

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
