// The controls: a row for what is moved most, the rest behind "more".

import { check, FIELDS, GPUS, LINKS, options, parse_count, RECIPES, shown } from "../model/specs.js";
import { count, exponential, field_name, say } from "../model/words.js";
import { clamp, html, on, set, write } from "./dom.js";

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

const ROW = /** @type {Name[]} */ (["N", "n", "prefetch", "stage", "system", "compare", "gpu", "unit"]);
/** All others, but for two: a model comes with its shapes, and no picture shows the last bucket. */
const MORE = /** @type {Name[]} */ (
  Object.keys(FIELDS).filter((name) => ![...ROW, "shapes", "allgather_bucket_size"].includes(name))
);

/** Whether a system on show reads the field. @param {Setup} setup @param {Name} name */
function reads({ system, compare }, name) {
  const { systems } = FIELDS[name];
  return !systems || systems.includes(system) || (compare !== null && systems.includes(compare));
}

/** The fields that the shapes of a model decide. */
const COUNTED = ["N", "layers"];

/** A value as a text field shows it. @param {Name} name @param {any} value */
function text_of(name, value) {
  if (value === null) return "";
  if (name !== "N") return shown(value);
  const short = count(value);
  return parse_count(short) === value ? short : exponential(value, 15);
}

/** Does what may be refused, and says why it was. @param {Element} error @param {() => void} act */
function tried(error, act) {
  try {
    act();
    write(error, "");
    return true;
  } catch (problem) {
    write(error, /** @type {Error} */ (problem).message);
    return false;
  }
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
    const text = input.value.trim();
    if (tried(error, () => view.set({ [name]: check(name, read_text(name, text, language), language) }))) {
      return clear();
    }
    set(input, { "aria-invalid": "true" });
    refused = view.setup()[name];
  };
  on(input, "input", () => {
    typing = true;
  });
  on(input, "change", apply);
  on(input, "keydown", (event) => {
    event.stopPropagation(); // notebooks and slides have keys of their own
    if (event.key === "Enter") apply();
    if (event.key === "Escape") clear();
  });
  on(input, "blur", () => {
    if (typing && refused === undefined) clear(); // typed and taken back
  });
  return {
    input,
    error,
    /** @param {Setup} setup */
    update(setup) {
      const empty = name === "hidden" ? "unknown" : "by_default";
      set(input, { placeholder: FIELDS[name].optional ? say(empty, setup.language) : "" });
      set(input, { disabled: setup.shapes !== null && COUNTED.includes(name) });
      if (refused !== undefined && refused !== setup[name]) return clear(); // it was set elsewhere since
      if (typing) return;
      const text = input.disabled && name === "N" ? count(setup.N) : text_of(name, setup[name]);
      if (input.value !== text) input.value = text;
    },
  };
}

/** What a text field's text means. @param {Name} name @param {string} text @param {string} language */
function read_text(name, text, language) {
  if (text === "" && FIELDS[name].optional) return null;
  if (FIELDS[name].type === "reshard" && /^(true|false|none)$/i.test(text)) {
    return { t: true, f: false, n: null }[text[0].toLowerCase()];
  }
  return parse_count(text, language);
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
  // refused where a size that must divide n does not
  on(range, "input", () => tried(field.error, () => view.set({ [name]: value(Number(range.value)) }, true)));
  // a drag that ends where it began makes no change event
  on(range, "change pointerup pointercancel blur", () => view.settle());
  on(range, "keydown", (event) => event.stopPropagation());
  return {
    element,
    update(setup) {
      const text = field_name(name, setup.language);
      write(label, text);
      const place = String(clamp(at(/** @type {number} */ (setup[name])), 0, max));
      if (value(Number(range.value)) !== setup[name] && range.value !== place) range.value = place;
      set(range, { "aria-label": text, "aria-valuetext": text_of(name, setup[name]) });
      set(range, { disabled: setup.shapes !== null && COUNTED.includes(name) });
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
      write(label, field_name(name, setup.language));
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
  if (name === "system" || (name === "compare" && key)) return say(`system_${key}`, language);
  if (name === "compare") return say("compare_none", language);
  if (name === "offload" && key === "none") return say("compare_none", language);
  return key || say("by_default", language);
}

/** The values of a choice, or of a yes or no that may be left open. @param {Name} name @returns {any[]} */
function choices_of(name) {
  return FIELDS[name].type === "bool" ? [true, false] : options(name);
}

/** @param {any} value */
function text_of_choice(value) {
  return value === null ? "" : String(value);
}

/** A choice from a list. @param {View} view @param {Name} name @returns {Control} */
function choice(view, name) {
  const select = html("select");
  const label = html("span");
  const error = html("span", { class: "error", role: "alert" });
  let spoken = ""; // the language the options are in
  if (FIELDS[name].optional) select.append(html("option", { value: "" }));
  for (const key of choices_of(name)) select.append(html("option", { value: String(key) }));
  on(select, "change", () => {
    const chosen = choices_of(name).find((key) => String(key) === select.value) ?? null;
    if (tried(error, () => view.set({ [name]: chosen }))) return;
    select.value = text_of_choice(view.setup()[name]); // fields that do not go together
  });
  on(select, "keydown", (event) => event.stopPropagation());
  return {
    element: html("div", { class: `control choice ${name}` }, html("label", {}, label, select), error),
    update(setup) {
      if (spoken !== setup.language) {
        spoken = setup.language;
        write(label, field_name(name, spoken));
        for (const option of select.options) write(option, option_text(name, option.value, spoken));
      }
      const value = text_of_choice(setup[name]);
      if (select.value !== value) select.value = value;
    },
  };
}

/** @param {View} view @param {Name} name @returns {Control} */
function checkbox(view, name) {
  const box = html("input", { type: "checkbox" });
  const label = html("span");
  on(box, "change", () => view.set({ [name]: box.checked }));
  return {
    element: html("div", { class: "control" }, html("label", { class: "check" }, box, label)),
    update(setup) {
      write(label, field_name(name, setup.language));
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
    on(input, "change", () => view.set({ [name]: key }));
    inputs.push(input);
    choices.append(html("label", {}, input, html("span", {}, String(key))));
  }
  on(group, "keydown", (event) => {
    event.stopPropagation();
    const named = inputs.find((input) => input.value === event.key);
    if (!named) return;
    named.focus();
    view.set({ [name]: check(name, Number(event.key)) });
  });
  return {
    element: group,
    update(setup) {
      write(legend, field_name(name, setup.language));
      for (const input of inputs) input.checked = input.value === String(setup[name]);
    },
  };
}

/** @param {View} view @param {Name} name */
function panel_control(view, name) {
  const { type, optional } = FIELDS[name];
  if (type === "bool" && !optional) return checkbox(view, name);
  return type === "choice" || type === "bool" ? choice(view, name) : number(view, name);
}

/**
 * @param {View} view
 * @param {string} id unique on the page
 * @param {ReturnType<typeof import("./menu.js").make_menu>} menu
 */
export function make_controls(view, id, menu) {
  const row = ROW.map((name) => {
    if (name in SLIDERS) return slider(view, /** @type {keyof typeof SLIDERS} */ (name));
    return ["gpu", "system", "compare"].includes(name) ? choice(view, name) : radios(view, name, id);
  });
  /** @type {Control[]} made when the panel first opens: they are many */
  const more = [];
  const button = html("button", { type: "button", class: "more", "aria-expanded": "false" }, "⋯");
  const panel = html("div", { class: "panel" });
  panel.hidden = true;
  on(button, "click", () => {
    panel.hidden = !panel.hidden;
    if (more.length === 0) {
      for (const name of MORE) more.push(panel_control(view, name));
      panel.append(...more.map((control) => control.element));
    }
    set(button, { "aria-expanded": String(!panel.hidden) });
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
  let drawn; // what the controls show
  let unfolded = false;
  return {
    element,
    /** @param {import("./explorer.js").Frame} frame */
    update({ setup }) {
      const before = drawn;
      const anew = before?.language !== setup.language;
      const other = before?.system !== setup.system || before?.compare !== setup.compare;
      row.forEach((control, i) => {
        if (other) control.element.hidden = !reads(setup, ROW[i]);
        if (anew || before?.[ROW[i]] !== setup[ROW[i]] || before?.shapes !== setup.shapes)
          control.update(setup);
      });
      if (!panel.hidden) {
        more.forEach((control, i) => {
          if (other || !unfolded) control.element.hidden = !reads(setup, MORE[i]);
          if (other || anew || !unfolded || before?.[MORE[i]] !== setup[MORE[i]]) control.update(setup);
        });
      }
      unfolded = !panel.hidden;
      drawn = setup;
      const text = say("more", setup.language);
      set(button, { "aria-label": text, title: text });
      if (anew) menu.update(setup);
    },
  };
}
