// The controls: a row for what is moved most, the rest behind "more".

import { check, FIELDS, GPUS, LINKS, options, parse_count, RECIPES } from "../model/specs.js";
import { count, exponential, plain, say } from "../model/words.js";
import { html, set, write } from "./dom.js";

/** @typedef {import("../model/specs.js").Setup} Setup */
/** @typedef {import("./explorer.js").View} View */
/** @typedef {keyof Setup & string} Name */
/** @typedef {{element: HTMLElement, update: (setup: Setup) => void}} Control */

/** How a slider's whole-number position becomes a value, and back. */
const SLIDERS = {
  N: {
    max: 1400, // two hundred steps per power of ten, from 1e6 to 1e13
    value: (/** @type {number} */ at) => Number((10 ** (6 + at / 200)).toPrecision(2)),
    at: (/** @type {number} */ value) => Math.round((Math.log10(value) - 6) * 200),
  },
  n: {
    max: 14, // powers of two up to 16384
    value: (/** @type {number} */ at) => 2 ** at,
    at: (/** @type {number} */ value) => Math.round(Math.log2(value)),
  },
  prefetch: {
    max: 8,
    value: (/** @type {number} */ at) => at,
    at: (/** @type {number} */ value) => value,
  },
};

const ROW = /** @type {Name[]} */ (["N", "n", "prefetch", "stage", "gpu", "unit"]);
const MORE = /** @type {Name[]} */ ([
  "recipe",
  "layers",
  "hidden",
  "seq_len",
  "micro_batch",
  "accumulation",
  "gpus_per_node",
  "link",
  "utilization",
  "recompute",
  "language",
]);

/** @param {Name} name @param {string} language */
function label_of(name, language) {
  return say(name === "recompute" ? "recompute_field" : name, language);
}

/** A value as a text field shows it. @param {Name} name @param {any} value */
function text_of(name, value) {
  if (value === null) return "";
  if (name !== "N") return plain(value);
  const short = count(value);
  return parse_count(short) === value ? short : exponential(value, 15);
}

/**
 * A text field that keeps what was typed when it cannot be used, and says why.
 * @param {View} view
 * @param {Name} name
 */
function text_field(view, name) {
  const input = html("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    spellcheck: "false",
  });
  const error = html("span", { class: "error", role: "alert" });
  let typing = false;
  /** @type {unknown} */
  let refused; // the field's value when what was typed was refused
  const clear = () => {
    typing = false;
    refused = undefined;
    write(error, "");
    set(input, { "aria-invalid": false });
    input.value = text_of(name, view.setup()[name]);
  };
  const apply = () => {
    if (!typing) return; // Enter, then the change event that follows it
    const { language } = view.setup();
    try {
      const text = input.value.trim();
      const value = text === "" && FIELDS[name].optional ? null : parse_count(text, language);
      view.set({ [name]: check(name, value, language) });
    } catch (problem) {
      write(error, /** @type {Error} */ (problem).message);
      set(input, { "aria-invalid": "true" });
      refused = view.setup()[name];
      return;
    }
    clear();
  };
  input.addEventListener("input", () => {
    typing = true;
  });
  input.addEventListener("change", apply);
  input.addEventListener("keydown", (event) => {
    event.stopPropagation(); // notebooks and slides have keys of their own
    if (event.key === "Enter") apply();
    if (event.key === "Escape") clear();
  });
  input.addEventListener("blur", () => {
    if (typing && refused === undefined) clear(); // typed and taken back
  });
  return {
    input,
    error,
    /** @param {Setup} setup */
    update(setup) {
      set(input, { placeholder: FIELDS[name].optional ? say("unknown", setup.language) : "" });
      if (refused !== undefined && refused !== setup[name]) return clear(); // it was set elsewhere since
      if (typing) return;
      const text = text_of(name, setup[name]);
      if (input.value !== text) input.value = text;
    },
  };
}

/** A slider with a field for exact values. @param {View} view @param {"N" | "n" | "prefetch"} name @returns {Control} */
function slider(view, name) {
  const { max, value, at } = SLIDERS[name];
  const range = html("input", { type: "range", min: 0, max, step: 1 });
  const field = text_field(view, name);
  const label = html("span");
  const element = html(
    "div",
    { class: `control ${name}` },
    html("label", {}, label, field.input),
    range,
    field.error,
  );
  range.addEventListener("input", () => view.set({ [name]: value(Number(range.value)) }, true));
  // a drag that ends where it began makes no change event
  for (const end of ["change", "pointerup", "pointercancel", "blur"])
    range.addEventListener(end, () => view.settle());
  range.addEventListener("keydown", (event) => event.stopPropagation());
  return {
    element,
    update(setup) {
      const text = label_of(name, setup.language);
      write(label, text);
      const place = String(Math.max(0, Math.min(max, at(/** @type {number} */ (setup[name])))));
      if (value(Number(range.value)) !== setup[name] && range.value !== place) range.value = place;
      set(range, { "aria-label": text, "aria-valuetext": text_of(name, setup[name]) });
      range.style.setProperty("--filled", `${(100 * Number(range.value)) / max}%`);
      field.update(setup);
    },
  };
}

/** A number by keyboard. @param {View} view @param {Name} name @returns {Control} */
function number(view, name) {
  const field = text_field(view, name);
  const label = html("span");
  return {
    element: html("div", { class: "control" }, html("label", {}, label, field.input), field.error),
    update(setup) {
      write(label, label_of(name, setup.language));
      field.update(setup);
    },
  };
}

/** What an option is called. @param {Name} name @param {string} key @param {string} language @returns {string} */
function option_text(name, key, language) {
  if (name === "gpu") return GPUS[key].label;
  if (name === "link") return [LINKS[key].label, LINKS[key].detail?.[language]].filter(Boolean).join(", ");
  if (name === "recipe") return RECIPES[key].label[language];
  if (name === "language") return { en: "English", zh: "中文" }[key] ?? key;
  return key;
}

/** A choice from a list. @param {View} view @param {Name} name @returns {Control} */
function choice(view, name) {
  const select = html("select");
  const label = html("span");
  let spoken = ""; // the language the options are in
  for (const key of options(name)) select.append(html("option", { value: String(key) }));
  select.addEventListener("change", () => view.set({ [name]: select.value }));
  select.addEventListener("keydown", (event) => event.stopPropagation());
  return {
    element: html("div", { class: `control choice ${name}` }, html("label", {}, label, select)),
    update(setup) {
      if (spoken !== setup.language) {
        spoken = setup.language;
        write(label, label_of(name, spoken));
        for (const option of select.options) write(option, option_text(name, option.value, spoken));
      }
      const value = String(setup[name]);
      if (select.value !== value) select.value = value;
    },
  };
}

/** @param {View} view @param {Name} name @returns {Control} */
function checkbox(view, name) {
  const box = html("input", { type: "checkbox" });
  const label = html("span");
  box.addEventListener("change", () => view.set({ [name]: box.checked }));
  return {
    element: html("div", { class: "control" }, html("label", { class: "check" }, box, label)),
    update(setup) {
      write(label, label_of(name, setup.language));
      box.checked = Boolean(setup[name]);
    },
  };
}

/**
 * A choice of few as a row of buttons: one tab stop, arrows or the keys themselves choose.
 * @param {View} view @param {Name} name @param {string} id @returns {Control}
 */
function radios(view, name, id) {
  const legend = html("legend");
  const choices = html("div");
  const group = html("fieldset", { class: `control radios ${name}` }, legend, choices);
  /** @type {HTMLInputElement[]} */
  const inputs = [];
  for (const key of options(name)) {
    const input = html("input", { type: "radio", name: `${id}-${name}`, value: String(key) });
    input.addEventListener("change", () => view.set({ [name]: key }));
    inputs.push(input);
    choices.append(html("label", {}, input, html("span", {}, String(key))));
  }
  group.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const named = inputs.find((input) => input.value === event.key);
    if (!named) return;
    named.focus();
    view.set({ [name]: check(name, Number(event.key)) });
  });
  return {
    element: group,
    update(setup) {
      write(legend, label_of(name, setup.language));
      for (const input of inputs) input.checked = input.value === String(setup[name]);
    },
  };
}

/**
 * @param {View} view
 * @param {string} id unique on the page
 * @param {ReturnType<typeof import("./menu.js").make_menu>} menu
 */
export function make_controls(view, id, menu) {
  const row = ROW.map((name) => {
    if (name in SLIDERS) return slider(view, /** @type {keyof typeof SLIDERS} */ (name));
    return name === "gpu" ? choice(view, name) : radios(view, name, id);
  });
  const more = MORE.map((name) => {
    if (FIELDS[name].type === "bool") return checkbox(view, name);
    return FIELDS[name].type === "choice" ? choice(view, name) : number(view, name);
  });
  const button = html("button", { type: "button", class: "more", "aria-expanded": "false" }, "⋯");
  const panel = html("div", { class: "panel" }, ...more.map((control) => control.element));
  panel.hidden = true;
  button.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    set(button, { "aria-expanded": panel.hidden ? "false" : "true" });
    view.render();
  });
  const element = html(
    "div",
    { class: "controls" },
    html(
      "div",
      { class: "row" },
      ...row.map((control) => control.element),
      html("div", { class: "handles" }, menu.button, button, menu.list),
    ),
    panel,
  );
  /** @type {Setup | undefined} */
  let shown; // what the controls show
  let unfolded = false;
  return {
    element,
    /** @param {import("./explorer.js").Frame} frame */
    update({ setup }) {
      const before = shown;
      const anew = before?.language !== setup.language;
      row.forEach((control, i) => {
        if (anew || before?.[ROW[i]] !== setup[ROW[i]]) control.update(setup);
      });
      if (!panel.hidden) {
        more.forEach((control, i) => {
          if (anew || !unfolded || before?.[MORE[i]] !== setup[MORE[i]]) control.update(setup);
        });
      }
      unfolded = !panel.hidden;
      shown = setup;
      const text = say("more", setup.language);
      set(button, { "aria-label": text, title: text });
      if (anew) menu.update(setup);
    },
  };
}
