// What is on screen as one SVG that stands alone: shapes with their styles written out, words as text.

import { html, SVG, set, svg } from "./dom.js";
import { round } from "./scale.js";

/** Properties that a shape or a text cannot do without once its style sheet is gone. */
const SHAPE = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "visibility"];
const TEXT = ["font-family", "font-size", "font-weight", "text-anchor"];
const MARGIN = 8;

/**
 * Everything of `root` but controls, buttons and the table.
 * @param {HTMLElement} root as it is drawn now
 * @param {string} title
 * @returns {SVGSVGElement}
 */
export function snapshot(root, title) {
  const frame = root.getBoundingClientRect();
  const scale = frame.width > 0 ? root.clientWidth / frame.width : 1; // slides are scaled
  const parts = [...root.children].filter((part) => part.matches(".headline, section, .verdict"));
  const top = parts[0].getBoundingClientRect().top;
  const bottom = (parts.at(-1) ?? parts[0]).getBoundingClientRect().bottom;
  const x = (/** @type {number} */ at) => round((at - frame.left) * scale);
  const y = (/** @type {number} */ at) => round((at - top) * scale + MARGIN);
  const width = Math.ceil(frame.width * scale);
  const height = Math.ceil((bottom - top) * scale + 2 * MARGIN);
  const size = { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` };
  const picture = svg("svg", size, svg("title", {}, title));
  const ground = svg("rect", { width, height });
  paint(ground, "fill", computed(root, "var(--ground)"));
  picture.append(ground);
  for (const part of parts) {
    for (const key of part.querySelectorAll("i.key")) picture.append(swatch(key, x, y, scale));
    for (const chart of part.querySelectorAll("svg")) {
      const box = chart.getBoundingClientRect();
      const copy = /** @type {SVGSVGElement} */ (frozen(chart));
      const size = { width: round(box.width * scale), height: round(box.height * scale) };
      set(copy, { x: x(box.left), y: y(box.top), ...size, overflow: "visible" });
      picture.append(copy);
    }
    for (const line of lines_of(part)) {
      const size = Number.parseFloat(getComputedStyle(line.element).fontSize);
      // the base line, from a box that ends with the descenders
      const text = svg("text", { x: x(line.left), y: round(y(line.bottom) - 0.22 * size) }, line.text);
      write_out(line.element, text, [...TEXT, "color"]);
      picture.append(text);
    }
  }
  return picture;
}

/** What a colour is inside of an element. @param {Element} element @param {string} colour */
function computed(element, colour) {
  const probe = html("i", { style: `color: ${colour}` });
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/**
 * Copies computed values from `element` to attributes of `copy`.
 * @param {Element} element
 * @param {Element} copy
 * @param {string[]} names
 */
function write_out(element, copy, names) {
  const style = getComputedStyle(element);
  for (const name of names) {
    const value = style.getPropertyValue(name);
    const attribute = name === "color" ? "fill" : name;
    if (attribute === "fill" || attribute === "stroke") paint(copy, attribute, value);
    else copy.setAttribute(name, value);
  }
}

/**
 * A colour in the words of SVG 1.1, which every editor knows: rgb(), and how opaque it is beside it.
 * @param {Element} copy
 * @param {string} attribute
 * @param {string} value as computed: rgb(…), rgba(…), color(srgb …), url(…) or none
 */
function paint(copy, attribute, value) {
  const numbers = (value.match(/[\d.]+(e-\d+)?/g) ?? []).map(Number);
  if (!/^(rgb|color\()/.test(value) || numbers.length < 3) {
    return copy.setAttribute(attribute, value.replace(/url\("(#[^"]+)"\)/, "url($1)"));
  }
  const [red, green, blue, alpha = 1] = numbers;
  const parts = [red, green, blue].map((part) => Math.round(value.startsWith("color(") ? part * 255 : part));
  copy.setAttribute(attribute, `rgb(${parts.join(", ")})`);
  if (alpha < 1) copy.setAttribute(`${attribute}-opacity`, String(Math.round(alpha * 1000) / 1000));
}

/** A copy of an SVG element, what is hidden left out, that needs no style sheet. @param {Element} element @returns {Element} */
function frozen(element) {
  const copy = /** @type {Element} */ (element.cloneNode(false));
  for (const name of ["style", "class", "tabindex", "role", "aria-label", "data-state"])
    copy.removeAttribute(name);
  if (element instanceof SVGGeometryElement) write_out(element, copy, SHAPE);
  if (element instanceof SVGTextElement) {
    write_out(element, copy, [...TEXT, "fill"]);
    copy.textContent = element.textContent;
    return copy;
  }
  for (const child of element.children) {
    const style = getComputedStyle(child);
    const drawn = child instanceof SVGDefsElement || child.closest("defs") || style.display !== "none";
    if (drawn && style.visibility !== "hidden") copy.append(frozen(child));
  }
  return copy;
}

/**
 * @param {Element} key the square before a legend's word
 * @param {(at: number) => number} x
 * @param {(at: number) => number} y
 * @param {number} scale
 */
function swatch(key, x, y, scale) {
  const box = key.getBoundingClientRect();
  const size = round(box.width * scale);
  const style = getComputedStyle(key);
  const colour = style.getPropertyValue("--colour") || style.backgroundColor;
  const square = svg("rect", { x: x(box.left), y: y(box.top), width: size, height: size, rx: 2 });
  paint(square, "fill", key.getAttribute("data-fill") ?? computed(key, colour));
  return square;
}

/**
 * The lines of text of an HTML part, where the browser broke them.
 * @param {Element} part
 */
function lines_of(part) {
  /** @type {{text: string, left: number, bottom: number, element: Element}[]} */
  const lines = [];
  const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!element || element.closest("svg, button, .help") || !node.textContent?.trim()) continue;
    const words = node.textContent.split(/(?<=\s)|(?<=[\u3000-\u9fff\uff00-\uffef])/);
    let at = 0;
    let last = null;
    for (const word of words) {
      range.setStart(node, at);
      at += word.length;
      range.setEnd(node, at);
      const box = range.getBoundingClientRect();
      if (last && Math.abs(last.bottom - box.bottom) < 2) last.text += word;
      else {
        last = { text: word, left: box.left, bottom: box.bottom, element };
        lines.push(last);
      }
    }
  }
  return lines;
}
