// What leaves the picture from the browser: pictures, rows, and the setup as text.

import { memory_rows, tables, timeline_rows } from "../model/rows.js";
import { FIELDS, shown } from "../model/specs.js";
import { exponential, plain, say } from "../model/words.js";
import { html, on, set, write } from "./dom.js";
import { snapshot } from "./snapshot.js";

/** @typedef {import("../model/specs.js").Setup} Setup */

/** The fields that differ from their default, N and n always. @param {Setup} setup @returns {Record<string, any>} */
export function chosen(setup) {
  /** @type {Record<string, any>} */
  const fields = {};
  for (const name in FIELDS) {
    const value = setup[/** @type {keyof Setup} */ (name)];
    if (setup.shapes !== null && (name === "N" || name === "layers")) continue; // they follow
    if (name === "N" || name === "n" || value !== FIELDS[name].default) fields[name] = value;
  }
  return fields;
}

/** 'ZeroExplorer(N=7.5e9, n=64, stage=1)'. @param {Setup} setup */
export function python_call(setup) {
  const fields = Object.entries(chosen(setup)).map(([name, value]) => {
    if (name === "shapes") return `shapes=${JSON.stringify(value)}`;
    if (name !== "N") return `${name}=${shown(value)}`;
    return `N=${value >= 1e5 ? exponential(value, 15) : plain(value)}`;
  });
  return `ZeroExplorer(${fields.join(", ")})`;
}

/** Rows as CSV (RFC 4180). The cells are numbers and words of this package: none can be a formula. @param {Record<string, any>[]} rows */
export function csv_of(rows) {
  const cell = (/** @type {unknown} */ value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))];
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

/** Gives the user a file. @param {BlobPart} content @param {string} type @param {string} name */
function download(content, type, name) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  html("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {SVGSVGElement} picture */
function svg_text(picture) {
  return `${new XMLSerializer().serializeToString(picture)}\n`; // UTF-8, as XML is where nothing else is said
}

/** The picture in twice its pixels. @param {SVGSVGElement} picture @returns {Promise<Blob | null>} */
async function png_of(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg_text(picture))}`;
  await image.decode();
  const canvas = html("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done));
}

/**
 * @param {HTMLElement} root what a picture is taken of
 * @param {import("./explorer.js").View} view
 * @param {(() => string) | undefined} link the page's address with the state in it, where there is such a page
 */
export function make_menu(root, view, link) {
  const button = html("button", { type: "button", class: "more", "aria-haspopup": "menu" }, "⤓");
  const list = html("div", { class: "menu", role: "menu" });
  const told = html("span");
  const text = html("code", { tabindex: -1 }); // takes the focus, so that the menu stays while it is copied
  const note = html("p", { class: "told", "aria-live": "polite" }, told, text);
  list.hidden = true;

  /** @param {string} wanted */
  async function copy(wanted) {
    const { language } = view.setup();
    try {
      await navigator.clipboard.writeText(wanted);
      write(told, say("copied", language));
      write(text, "");
    } catch {
      // a frame without permission: leave the text where it can be taken
      write(told, say("copy_this", language));
      write(text, wanted);
    }
  }
  const picture = () => snapshot(root, view.said());
  const base = () => `zerowidget-stage-${view.setup().stage}`;
  /** @param {Record<string, any>[]} rows @param {string} name */
  const csv = (rows, name) => download(csv_of(rows), "text/csv", `zerowidget-${name}.csv`);

  /** @type {Record<string, () => unknown>} */
  const actions = {
    save_svg: () => download(svg_text(picture()), "image/svg+xml", `${base()}.svg`),
    save_png: async () => {
      const content = await png_of(picture());
      if (content) download(content, content.type, `${base()}.png`);
    },
    save_memory: () => csv(memory_rows(view.setup()), "memory"),
    save_timeline: () => csv(timeline_rows(view.setup()), "timeline"),
    save_json: () => {
      const content = JSON.stringify(tables(view.setup()), null, 1);
      download(content, "application/json", "zerowidget.json");
    },
    copy_call: () => copy(python_call(view.setup())),
  };
  if (link) actions.copy_link = () => copy(link());
  const items = Object.entries(actions).map(([name, act]) => {
    const item = html("button", { type: "button", role: "menuitem", "data-action": name });
    on(item, "click", () => {
      if (!name.startsWith("copy")) open(false);
      act();
    });
    return item;
  });
  list.append(...items, note);

  /** @param {boolean} wanted */
  function open(wanted) {
    list.hidden = !wanted;
    set(button, { "aria-expanded": String(wanted) });
    write(told, "");
    write(text, "");
    if (wanted) items[0].focus();
    else if (list.contains(/** @type {ShadowRoot} */ (root.getRootNode()).activeElement)) button.focus();
  }

  on(button, "click", () => open(Boolean(list.hidden)));
  on(list, "focusout", (event) => {
    if (event.relatedTarget !== button && !list.contains(/** @type {Node | null} */ (event.relatedTarget)))
      open(false);
  });
  on(list, "keydown", (event) => {
    event.stopPropagation();
    const at = items.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    if (event.key === "Escape") {
      open(false);
      button.focus();
    } else if (event.key === "ArrowDown") items[(at + 1) % items.length].focus();
    else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length].focus();
    else return;
    event.preventDefault();
  });
  return {
    button,
    list,
    /** @param {Setup} setup */
    update({ language }) {
      const label = say("menu", language);
      set(button, { "aria-label": label, title: label });
      for (const item of items) write(item, say(/** @type {string} */ (item.dataset.action), language));
    },
  };
}
