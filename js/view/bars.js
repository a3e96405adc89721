// What each GPU holds: a bar per stage, solid at rest, hatched on top at the peak.

import { origin, system_key } from "../model/compare.js";
import { at_rest, on_top } from "../model/memory.js";
import { BUFFERS } from "../model/program.js";
import { cluster_of, GPUS } from "../model/specs.js";
import { amount, in_unit, say, scaled_size, size, trimmed } from "../model/words.js";
import { clamp, html, make_legend, on, on_keys, pool, set, svg, write } from "./dom.js";
import { gutter, NARROW, round } from "./scale.js";

/** @typedef {import("./explorer.js").Frame} Frame */
/** @typedef {import("./explorer.js").Side} Side */
/** @typedef {import("../model/program.js").Held} Held */
/** @typedef {{stage: number, side: number, part: Held, peak: boolean, x: number, width: number, y: number, height: number}} Segment */

const TOP = 20; // room for the label of the capacity line
const ROW = 42;
const BAR = 26;
const SECOND = 30; // what a stage takes more where another system stands under it
const THIN = 18;

/**
 * @param {import("./explorer.js").View} view
 * @param {string} id unique on the page, for the hatches
 */
export function make_bars(view, id) {
  const title = html("h4");
  const note = html("span", { class: "note" });
  const zoom = html("button", { type: "button", class: "quiet" });
  const legend = make_legend();
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
  const element = html("section", {}, html("header", {}, title, note, zoom), legend.element, chart, help);
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

  for (const state of BUFFERS) {
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
      const fill = state.startsWith("peak ") ? `url(#${id}-${state.slice(5)})` : fill_of(state);
      paths[state] = svg("path", { class: "segments", "data-state": state, style: `fill: ${fill}` });
      bars.append(paths[state]);
    }
    return paths[state];
  }

  /** How far apart the stages are. */
  const pitch = () => (frame.sides.length > 1 ? ROW + SECOND : ROW);

  /** @param {Frame} next */
  function update(next) {
    frame = next;
    const { setup, width, rows, sides } = frame;
    const { language, unit } = setup;
    const left = gutter(width);
    const right = width - (width < NARROW ? 78 : 92);
    const capacity = cluster_of(setup).capacity;
    const shown = sides.flatMap((side) => (zoomed ? side.rows[setup.stage] : side.rows));
    if (!frame.dragging) scale = Math.max(...shown.map((row) => row.peak));
    const x = (/** @type {number} */ nbytes) => left + ((right - left) * nbytes) / scale;
    const tall = pitch();
    const height = TOP + tall * rows.length;

    set(chart, { viewBox: `0 0 ${width} ${height}`, "aria-label": say("bars_title", language) });
    const y = TOP + tall * setup.stage;
    set(band, { d: `M-8 ${y}h${width + 16}v${tall}h${-width - 16}z` });
    set(edge, { d: `M-8 ${y}v${tall}` });
    segments = [];
    /** @param {number} x @param {number} y @param {string} style @param {string} text */
    const label = (x, y, style, text) => write(names.next({ x, y, class: style }), text);
    /** @type {Record<string, string>} */
    const drawn = {};
    for (const state in paths) drawn[state] = "";
    /** @param {Side} side @param {number} which @param {number} stage @param {number} middle @param {number} thick */
    const draw = (side, which, stage, middle, thick) => {
      const row = side.rows[stage];
      const rest = at_rest(side.setup, stage).filter(({ device }) => device === "gpu");
      let start = 0;
      [...rest, ...on_top(side.steps[stage])].forEach((part, index) => {
        const peak = index >= rest.length;
        const x1 = Math.min(x(start), right);
        const wide = Math.min(x(start + part.nbytes), right) - x1;
        start += part.nbytes;
        const y0 = middle - thick / 2;
        segments.push({ stage, side: which, part, peak, x: x1, width: wide, y: y0, height: thick });
        const inset = peak ? 2 : 0;
        const drawn_wide = round(wide > 3 ? wide - 1 : wide);
        const key = peak ? `peak ${part.state}` : part.state;
        drawn[key] =
          `${drawn[key] ?? ""}M${round(x1)} ${y0 + inset}h${drawn_wide}v${thick - 2 * inset}h${-drawn_wide}z`;
        const text = amount(in_unit(part.nbytes, unit));
        if (!peak && which === 0 && wide > 12 + 7 * text.length) {
          const style = BUFFERS.includes(part.state) ? "" : `fill: var(--on-${part.state})`;
          write(numbers.next({ x: Math.round(x1 + 7), y: middle + 4, style }), text);
        }
      });
      const torn = x(row.peak) > right + 0.5; // it goes on past the edge
      if (torn) label(right + 3, middle + 4, "torn", "»");
      return torn ? right + 16 : Math.round(x(row.peak) + 8);
    };
    rows.forEach((row, stage) => {
      const middle = TOP + tall * stage + ROW / 2;
      const beside = draw(sides[0], 0, stage, middle, BAR);
      const chosen = stage === setup.stage ? "name chosen" : "name";
      const over = (/** @type {typeof row} */ of) => (of.fits_peak ? "note" : "note over");
      const peak_of = (/** @type {typeof row} */ of) =>
        say("peak", language, { peak: amount(in_unit(of.peak, unit)) });
      label(0, middle - 1, chosen, say("stage_name", language, { stage }));
      const under = sides.length > 1 ? system_name(setup, stage) : say(`stage_${stage}`, language);
      if (width >= NARROW) label(0, middle + 13, "note", under);
      label(beside, middle - 1, chosen, size(row.rest, unit));
      label(beside, middle + 13, over(row), peak_of(row));
      if (sides.length < 2) return;
      const low = TOP + tall * stage + ROW + SECOND / 2 - 6;
      const other = sides[1].rows[stage];
      const at = draw(sides[1], 1, stage, low, THIN);
      const both = `${size(other.rest, unit)} \u00b7 ${peak_of(other)}`;
      const room = width - at > 7 * both.length;
      label(0, low + 4, "note", system_name(sides[1].setup, stage));
      label(at, low + 4, over(other), room ? both : size(other.rest, unit));
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
    write(zoom, say(zoomed ? "zoom_bars_off" : "zoom_bars", language));
    set(zoom, { "aria-pressed": String(zoomed) });
    write_legend();
    if (focused) focus(find(focused.stage, focused), false); // what it says has changed
  }

  /** The segment of a stage that shows what another one shows. @param {number} stage @param {Segment} like */
  function find(stage, like) {
    const { side, part, peak } = like;
    return segments.find(
      (s) => s.stage === stage && s.side === side && s.part.state === part.state && s.peak === peak,
    );
  }

  function write_legend() {
    const { language } = frame.setup;
    /** @type {Set<string>} */
    const solid = new Set();
    /** @type {Set<string>} */
    const hatched = new Set();
    for (const { part, peak } of segments) (peak ? hatched : solid).add(part.state);
    const above = BUFFERS.filter((state) => hatched.has(state));
    legend.update([
      ...[...solid].map((state) => ({
        text: say(state, language),
        key: { class: "key", style: `--colour: ${fill_of(state)}` },
      })),
      ...above.map((state) => ({
        text: say(state, language),
        key: {
          class: "key hatched",
          style: `--colour: var(--${state})`,
          "data-fill": `url(#${id}-${state})`,
        },
      })),
    ]);
  }

  function mark() {
    const segment = focused && find(focused.stage, focused);
    set(ring, { visibility: segment ? "visible" : "hidden" });
    if (!segment) return;
    const { x, y, width, height } = segment;
    set(ring, { x: x - 1, y: y - 1, width: Math.max(width, 2) + 1, height: height + 2 });
  }

  /** @param {Segment | undefined} segment @param {boolean} aloud */
  function focus(segment, aloud) {
    focused = segment;
    mark();
    if (!segment) return view.tooltip.hide();
    const box = chart.getBoundingClientRect();
    const { y, height } = segment;
    const centre = segment.x + segment.width / 2;
    view.tooltip.show(tip(frame, segment), view.place(box, centre, y, y + height, frame.width), aloud);
  }

  /** @param {PointerEvent} event @returns {{stage: number, segment: Segment | undefined}} */
  function under(event) {
    const box = chart.getBoundingClientRect();
    const zoom_x = frame.width / box.width;
    const x = (event.clientX - box.left) * zoom_x;
    const y = (event.clientY - box.top) * zoom_x;
    const stage = Math.floor((y - TOP) / pitch());
    const second = frame.sides.length > 1 && y > TOP + pitch() * stage + ROW - 4 ? 1 : 0;
    const near = segments.filter(
      (s) => s.stage === stage && s.side === second && x >= s.x - 1 && x <= s.x + Math.max(s.width, 2),
    );
    return { stage, segment: near.at(-1) };
  }

  on(chart, "pointermove", (event) => {
    const { stage, segment } = under(event);
    chart.style.cursor = stage >= 0 && stage < 4 ? "pointer" : "";
    focus(segment, false);
  });
  on(chart, "pointerleave blur", () => focus(undefined, false));
  on(chart, "click", (event) => {
    const { stage } = under(/** @type {PointerEvent} */ (event));
    if (stage >= 0 && stage < frame.rows.length) view.set({ stage });
  });
  on_keys(chart, (event) => {
    const { stage } = frame.setup;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (/^[0-3]$/.test(event.key)) view.set({ stage: Number(event.key) });
    else if (step) {
      const next = clamp(stage + step, 0, frame.rows.length - 1);
      const before = focused;
      focus(undefined, false);
      view.set({ stage: next });
      if (before) focus(find(next, before), true);
    } else if (along) {
      const mine = segments.filter((s) => s.stage === stage);
      const now = mine.findIndex((s) => focused && s === find(stage, focused));
      focus(mine[clamp(now + along, 0, mine.length - 1)], true);
    } else if (event.key === "Escape") focus(undefined, false);
    else return false;
    return true;
  });
  on(zoom, "click", () => {
    zoomed = !zoomed;
    view.render();
  });

  return { element, update };
}

/** The colour of a state at rest: a buffer that is always there has a paler one. @param {string} state */
function fill_of(state) {
  return BUFFERS.includes(state)
    ? `color-mix(in srgb, var(--${state}) 45%, var(--ground))`
    : `var(--${state})`;
}

/** What the system of a setup is called at a stage. @param {import("../model/specs.js").Setup} setup @param {number} stage */
export function system_name(setup, stage) {
  return say(`system_${system_key(setup, stage)}`, setup.language);
}

/** @param {Frame} frame @param {Segment} segment @returns {string[]} */
function tip({ setup, sides }, { stage, side, part, peak }) {
  const { language, unit } = setup;
  const { state, nbytes, each, over, falls } = part;
  const lines = [`${say("stage_name", language, { stage })} \u00b7 ${say(state, language)}`];
  const own = sides[side].setup;
  if (sides.length > 1) lines[0] = `${system_name(own, stage)} \u00b7 ${lines[0]}`;
  const text = scaled_size(nbytes, unit);
  if (peak) lines.push(say("tip_peak", language, { size: text }));
  else {
    const percent = trimmed((100 * nbytes) / sides[side].rows[stage].rest, 1);
    lines.push(say("tip_share", language, { size: text, percent }));
  }
  if (over > 1) lines.push(say("tip_sharded", language, { n: over }));
  else if (each > 0) lines.push(say("tip_whole", language));
  const why = origin(own, stage, state, peak ? "peak" : "rest");
  if (why !== "" && (peak || own.system !== "paper")) lines.push(say(why, language));
  lines.push(say(falls ? "tip_falls" : "tip_floor", language));
  return lines;
}
