// What each GPU holds: a bar per stage, solid at rest, hatched on top at the peak.

import { at_rest, on_top } from "../model/memory.js";
import { cluster_of, GPUS, recipe_of } from "../model/specs.js";
import { system_of } from "../model/systems/index.js";
import { amount, in_unit, say, scaled_size, size, trimmed } from "../model/words.js";
import { html, pool, set, svg, write } from "./dom.js";
import { gutter, NARROW, round } from "./scale.js";

/** @typedef {import("./explorer.js").Frame} Frame */
/** @typedef {{stage: number, state: string, nbytes: number, peak: boolean, x: number, width: number}} Segment */

const TOP = 20; // room for the label of the capacity line
const ROW = 42;
const BAR = 26;

/**
 * @param {import("./explorer.js").View} view
 * @param {string} id unique on the page, for the hatches
 */
export function make_bars(view, id) {
  const title = html("h4");
  const note = html("span", { class: "note" });
  const zoom = html("button", { type: "button", class: "quiet" });
  const legend = html("ul", { class: "legend" });
  const hatches = svg("defs");
  const band = svg("path", { class: "band" });
  const edge = svg("path", { class: "edge" });
  const bars = svg("g");
  /** @type {Record<string, SVGPathElement>} by state: one path for its segments in all bars */
  const paths = {};
  const figures = svg("g", { class: "figure" });
  const labels = svg("g", { class: "labels" });
  const ring = svg("rect", { class: "ring", rx: 2 });
  const line = svg("path", { class: "limit" });
  const limit = svg("text", { class: "limit-label", y: 12 });
  const chart = svg(
    "svg",
    { class: "bars", tabindex: 0, role: "application", "aria-describedby": "bars-help" },
    hatches,
    band,
    edge,
    bars,
    line,
    figures,
    labels,
    limit,
    ring,
  );
  const help = html("p", { class: "help", id: "bars-help" });
  const element = html("section", {}, html("header", {}, title, note, zoom), legend, chart, help);
  const numbers = pool(figures, "text");
  const names = pool(labels, "text");
  /** @type {Segment[]} */
  let segments = [];
  /** @type {Segment | undefined} */
  let focused;
  let zoomed = false;
  let scale = 1; // bytes at the right edge
  /** @type {Frame} */
  let frame;

  const hatched = ["gathered", "buckets"];
  for (const state of hatched) {
    hatches.append(
      svg(
        "pattern",
        {
          id: `${id}-${state}`,
          width: 6,
          height: 6,
          patternUnits: "userSpaceOnUse",
          patternTransform: "rotate(45)",
        },
        svg("rect", { width: 6, height: 6, style: `fill: var(--${state}); opacity: 0.22` }),
        svg("rect", { width: 2.6, height: 6, style: `fill: var(--${state})` }),
      ),
    );
  }

  /** @param {string} state */
  function path_of(state) {
    if (!(state in paths)) {
      const fill = hatched.includes(state) ? `url(#${id}-${state})` : `var(--${state})`;
      paths[state] = svg("path", { class: "segments", "data-state": state, style: `fill: ${fill}` });
      bars.append(paths[state]);
    }
    return paths[state];
  }

  /** @param {Frame} next */
  function update(next) {
    frame = next;
    const { setup, width, rows, steps } = frame;
    const { language, unit } = setup;
    const left = gutter(width);
    const right = width - (width < NARROW ? 78 : 92);
    const capacity = cluster_of(setup).capacity;
    const wanted = zoomed ? rows[setup.stage].peak : Math.max(...rows.map((row) => row.peak));
    if (!frame.dragging) scale = wanted;
    const x = (/** @type {number} */ nbytes) => left + ((right - left) * nbytes) / scale;
    const height = TOP + ROW * rows.length;

    set(chart, { viewBox: `0 0 ${width} ${height}`, "aria-label": say("bars_title", language) });
    const y = TOP + ROW * setup.stage;
    set(band, { d: `M-8 ${y}h${width + 16}v${ROW}h${-width - 16}z` });
    set(edge, { d: `M-8 ${y}v${ROW}` });
    segments = [];
    /** @type {Record<string, string>} */
    const drawn = {};
    for (const state in paths) drawn[state] = "";
    rows.forEach((row, stage) => {
      const rest = at_rest(setup, stage);
      const middle = TOP + ROW * stage + ROW / 2;
      let from = 0;
      [...rest, ...on_top(steps[stage])].forEach(([state, , nbytes], index) => {
        const peak = index >= rest.length;
        const x1 = Math.min(x(from), right);
        const wide = Math.min(x(from + nbytes), right) - x1;
        from += nbytes;
        segments.push({ stage, state, nbytes, peak, x: x1, width: wide });
        const inset = peak ? 2 : 0;
        const drawn_wide = round(wide > 3 ? wide - 1 : wide);
        const y1 = middle - BAR / 2 + inset;
        drawn[state] =
          `${drawn[state] ?? ""}M${round(x1)} ${y1}h${drawn_wide}v${BAR - 2 * inset}h${-drawn_wide}z`;
        const text = amount(in_unit(nbytes, unit));
        if (!peak && wide > 12 + 7 * text.length) {
          const style = `fill: var(--on-${state})`;
          write(numbers.next({ x: Math.round(x1 + 7), y: middle + 4, style }), text);
        }
      });
      const torn = x(row.peak) > right + 0.5; // it goes on past the edge
      if (torn) write(names.next({ x: right + 3, y: middle + 4, class: "torn" }), "»");
      const beside = torn ? right + 16 : Math.round(x(row.peak) + 8);
      const chosen = stage === setup.stage ? "name chosen" : "name";
      write(names.next({ x: 0, y: middle - 1, class: chosen }), say("stage_name", language, { stage }));
      if (width >= NARROW)
        write(names.next({ x: 0, y: middle + 13, class: "note" }), say(`stage_${stage}`, language));
      write(names.next({ x: beside, y: middle - 1, class: chosen }), size(row.rest, unit));
      const under = say("peak", language, { peak: amount(in_unit(row.peak, unit)) });
      write(names.next({ x: beside, y: middle + 13, class: row.fits_peak ? "note" : "note over" }), under);
    });
    for (const state in drawn) set(path_of(state), { d: drawn[state] });
    numbers.done();
    names.done();

    const seen = x(capacity) <= right;
    const at = seen ? x(capacity) : width - 4;
    set(line, { d: seen ? `M${at} ${TOP - 4}V${height}` : "" });
    const held = say("holds", language, { gpu: GPUS[setup.gpu].label, capacity: size(capacity, unit) });
    write(limit, seen ? held : `${held} →`);
    const long = 7.2 * held.length;
    const flip = at + long > width;
    set(limit, { x: flip ? Math.max(at, Math.min(long, width)) : at, "text-anchor": flip ? "end" : "start" });

    write(title, say("bars_title", language));
    write(note, say("bars_note", language));
    write(help, say("bars_help", language));
    write(zoom, zoomed ? say("zoom_bars_off", language) : say("zoom_bars", language));
    set(zoom, { "aria-pressed": zoomed ? "true" : "false" });
    write_legend(setup);
    if (focused) focus(find(focused.stage, focused.state), false); // what it says has changed
  }

  /** @param {number} stage @param {string} state */
  function find(stage, state) {
    return segments.find((segment) => segment.stage === stage && segment.state === state);
  }

  let legend_of = "";
  /** @param {import("../model/specs.js").Setup} setup */
  function write_legend(setup) {
    const key = setup.recipe + setup.language;
    if (legend_of === key) return;
    legend_of = key;
    const states = recipe_of(setup).states.map(([state]) => state);
    const item = (/** @type {string} */ state) =>
      html(
        "li",
        {},
        html("i", {
          class: hatched.includes(state) ? "key hatched" : "key",
          style: `--colour: var(--${state})`,
          "data-fill": hatched.includes(state) ? `url(#${id}-${state})` : false,
        }),
        say(state, setup.language),
      );
    legend.replaceChildren(...[...states, ...hatched].map(item));
  }

  function mark() {
    const segment = focused && find(focused.stage, focused.state);
    set(ring, { visibility: segment ? "visible" : "hidden" });
    if (!segment) return;
    const y = TOP + ROW * segment.stage + (ROW - BAR) / 2 - 1;
    set(ring, { x: segment.x - 1, y, width: Math.max(segment.width, 2) + 1, height: BAR + 2 });
  }

  /** @param {Segment | undefined} segment @param {boolean} aloud */
  function focus(segment, aloud) {
    focused = segment;
    mark();
    if (!segment) return view.tooltip.hide();
    const box = chart.getBoundingClientRect();
    const top = TOP + ROW * segment.stage + (ROW - BAR) / 2;
    const centre = segment.x + segment.width / 2;
    view.tooltip.show(tip(frame, segment), view.place(box, centre, top, top + BAR, frame.width), aloud);
  }

  /** @param {PointerEvent} event @returns {{stage: number, segment: Segment | undefined}} */
  function under(event) {
    const box = chart.getBoundingClientRect();
    const zoom_x = frame.width / box.width;
    const x = (event.clientX - box.left) * zoom_x;
    const stage = Math.floor(((event.clientY - box.top) * zoom_x - TOP) / ROW);
    const near = segments.filter((s) => s.stage === stage && x >= s.x - 1 && x <= s.x + Math.max(s.width, 2));
    return { stage, segment: near.at(-1) };
  }

  chart.addEventListener("pointermove", (event) => {
    const { stage, segment } = under(event);
    chart.style.cursor = stage >= 0 && stage < 4 ? "pointer" : "";
    focus(segment, false);
  });
  chart.addEventListener("pointerleave", () => focus(undefined, false));
  chart.addEventListener("blur", () => focus(undefined, false));
  chart.addEventListener("click", (event) => {
    const { stage } = under(/** @type {PointerEvent} */ (event));
    if (stage >= 0 && stage < frame.rows.length) view.set({ stage });
  });
  chart.addEventListener("keydown", (event) => {
    const { stage } = frame.setup;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (/^[0-3]$/.test(event.key)) view.set({ stage: Number(event.key) });
    else if (step) {
      const next = Math.max(0, Math.min(frame.rows.length - 1, stage + step));
      const state = focused?.state;
      focus(undefined, false);
      view.set({ stage: next });
      if (state) focus(find(next, state), true);
    } else if (along) {
      const mine = segments.filter((s) => s.stage === stage);
      const now = mine.findIndex((s) => s.state === focused?.state && s.stage === focused?.stage);
      focus(mine[Math.max(0, Math.min(mine.length - 1, now + along))], true);
    } else if (event.key === "Escape") focus(undefined, false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  zoom.addEventListener("click", () => {
    zoomed = !zoomed;
    view.render();
  });

  return { element, update };
}

/** @param {Frame} frame @param {Segment} segment @returns {string[]} */
function tip({ setup, rows }, { stage, state, nbytes, peak }) {
  const { language, unit } = setup;
  const lines = [`${say("stage_name", language, { stage })} · ${say(state, language)}`];
  const text = scaled_size(nbytes, unit);
  if (peak) {
    lines.push(say("tip_peak", language, { size: text }));
    lines.push(say(state === "gathered" ? "tip_prefetch" : "tip_waiting", language));
    return lines;
  }
  const percent = trimmed((100 * nbytes) / rows[stage].rest, 1);
  lines.push(say("tip_share", language, { size: text, percent }));
  const [, kind] = recipe_of(setup).states.find(([name]) => name === state) ?? ["", "parameters"];
  const sharded = stage >= /** @type {Record<string, number>} */ (system_of(setup).SHARDED_FROM)[kind];
  lines.push(sharded ? say("tip_sharded", language, { n: setup.n }) : say("tip_whole", language));
  return lines;
}
