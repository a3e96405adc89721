// One training step as a score: compute above, network below it, memory under both, one time axis.

import { MOVED, moved, ring_of, rings, some_stay_inside } from "../model/advice.js";
import { BUFFERS } from "../model/program.js";
import { LINKS, transformer_of } from "../model/specs.js";
import { gaps_of } from "../model/timeline.js";
import { count, duration, say, scaled_size } from "../model/words.js";
import { system_name } from "./bars.js";
import { clamp, html, make_legend, on, on_keys, pool, set, svg, write } from "./dom.js";
import { gutter, last_before, NARROW, nice_above, round, ticks } from "./scale.js";

/** @typedef {import("./explorer.js").Frame} Frame */
/** @typedef {import("../model/timeline.js").Span} Span */
/** @typedef {import("../model/timeline.js").Step} Step */
/** @typedef {{scale: number, window: [number, number]}} Range Seconds at the right edge of the whole step, and the part of it on show. */

const COMPUTE = { y: 26, height: 32 };
const NETWORK = { y: 64, height: 32 };
const SHARDS = { y: 64, height: 16 }; // the network where replicas have a lane of their own under it
const REPLICAS = { y: 82, height: 14 };
const MEMORY = { y: 104, height: 44 };
const HEIGHT = 176;
const COMPUTE_OPS = ["forward", "recompute", "backward", "optimizer"];
const NETWORK_OPS = Object.keys(MOVED);
const FEW_LABELS = 120;

/**
 * @param {import("./explorer.js").View} view
 * @param {number} side which of the systems on show
 * @param {Range} range one for all
 */
export function make_lanes(view, side, range) {
  const title = html("h4");
  const note = html("span", { class: "note" });
  const zooms = ["zoom_in", "zoom_out", "zoom_reset"].map((name) =>
    html("button", { type: "button", class: "quiet", "data-zoom": name }),
  );
  const exposed = svg("path", { class: "exposed" });
  const areas = BUFFERS.map((state) =>
    svg("path", { style: `fill: var(--${state}); opacity: ${state === "gathered" ? 0.4 : 0.55}` }),
  );
  const [compute_paths, network_paths, thin_paths, replica_paths] = [
    COMPUTE_OPS,
    NETWORK_OPS,
    NETWORK_OPS,
    ["all_reduce"],
  ].map(make_paths);
  const axis = svg("path", { class: "axis" });
  const marks = svg("g", { class: "note" });
  const phases = svg("g", { class: "note" });
  const inside = svg("g", { class: "figure", "text-anchor": "middle" });
  const lanes = svg("g", { class: "name" });
  const link = svg("path", { class: "waits" });
  const cause = svg("rect", { class: "ring cause", rx: 2 });
  const ring = svg("rect", { class: "ring", rx: 2 });
  const chart = svg(
    "svg",
    { class: "lanes", tabindex: 0, role: "application", "aria-describedby": `lanes-help-${side}` },
    exposed,
    ...[compute_paths, network_paths, thin_paths, replica_paths].flatMap(Object.values),
    ...areas,
    axis,
    marks,
    phases,
    inside,
    lanes,
    link,
    cause,
    ring,
  );
  const legend = make_legend();
  const buttons = html("span", { class: "buttons" }, ...zooms);
  const help = html("p", { class: "help", id: `lanes-help-${side}` });
  const element = html("section", {}, html("header", {}, title, note, buttons), chart, help, legend.element);
  const tick_labels = pool(marks, "text");
  const phase_labels = pool(phases, "text");
  const brackets = pool(phases, "path");
  const numbers = pool(inside, "text");
  const lane_names = pool(lanes, "text");

  /** @type {Frame} */
  let frame;
  /** @type {Span[]} */
  let spans = [];
  /** @type {number[]} */
  let compute = []; // indices into spans, in order of time
  /** @type {number[]} */
  let network = [];
  /** @type {number[]} */
  let replicas = [];
  /** @type {import("../model/specs.js").Setup} */
  let setup;
  /** @type {Step} */
  let step;
  /** @type {number | undefined} */
  let focused;

  const left = () => gutter(frame.width);
  const right = () => frame.width - 12;
  const from = () => range.scale * range.window[0];
  const shown = () => range.window[1] - range.window[0];
  const per_second = () => (right() - left()) / (range.scale * shown());
  /** @param {number} time */
  const x = (time) => left() + (time - from()) * per_second();

  /** The lane of a stream: its spans, and where it is. @param {string} stream */
  function lane_of(stream) {
    if (stream === "compute") return { lane: compute, place: COMPUTE };
    if (stream === "replicas") return { lane: replicas, place: REPLICAS };
    return { lane: network, place: replicas.length > 0 ? SHARDS : NETWORK };
  }

  /** @param {Frame} next */
  function update(next) {
    frame = next;
    const { width } = frame;
    const before = setup;
    setup = frame.sides[side].setup;
    step = frame.sides[side].steps[setup.stage];
    if (side === 0) {
      const longest = Math.max(...frame.sides.map(({ steps }) => steps[setup.stage].seconds));
      if (!frame.dragging) range.scale = nice_above(longest);
      while (longest > range.scale) range.scale = nice_above(range.scale * 1.9);
    }
    compute = [];
    network = [];
    replicas = [];
    spans = step.spans;
    for (const [index, { op }] of spans.entries()) {
      const { stream } = op;
      (stream === "compute" ? compute : stream === "replicas" ? replicas : network).push(index);
    }
    if (focused !== undefined && (before?.stage !== setup.stage || focused >= spans.length))
      focus(undefined, false);
    set(chart, {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      "aria-label": say("time_title", setup.language, { stage: setup.stage }),
    });
    draw_spans(compute, COMPUTE, compute_paths);
    const { place } = lane_of("comm");
    const mixed = some_stay_inside(step);
    const thin = { y: place.y + place.height / 4, height: place.height / 2 };
    draw_spans(
      network.filter((index) => mixed && !spans[index].op.leaves),
      thin,
      thin_paths,
    );
    draw_spans(
      network.filter((index) => !mixed || spans[index].op.leaves),
      place,
      network_paths,
    );
    draw_spans(replicas, REPLICAS, replica_paths);
    numbers.done();
    draw_exposed(step.seconds);
    draw_memory();
    draw_axis();
    draw_phases();
    write_words();
    if (focused === undefined) mark();
    else focus(focused, false); // what it says has changed
  }

  /**
   * @param {number[]} lane @param {{y: number, height: number}} place
   * @param {Record<string, SVGPathElement>} paths by op
   */
  function draw_spans(lane, { y, height }, paths) {
    /** @type {Record<string, string>} */
    const drawn = {};
    for (const op in paths) drawn[op] = "";
    const low = left();
    const high = right();
    const t0 = from();
    const zoom = per_second();
    const first = Math.max(0, last_before(spans, lane, t0));
    const middle = y + height / 2; // a stroke as wide as the lane needs fewer points than outlines
    let room = FEW_LABELS;
    for (let i = first; i < lane.length; i += 1) {
      const { op, start, end } = spans[lane[i]];
      let x1 = low + (start - t0) * zoom;
      let x2 = low + (end - t0) * zoom;
      if (x1 > high) break;
      if (x2 < low) continue;
      x1 = Math.max(x1, low);
      x2 = Math.min(x2, high);
      const wide = x2 - x1;
      const gap = wide > 3 ? 1 : wide > 1.5 ? 0.4 : 0;
      // thinner than a pixel it shades by its share, so that a dense lane shows its mix and its gaps
      drawn[op.op] +=
        wide < 1
          ? `M${x1.toFixed(3)} ${middle}h${wide.toFixed(3)}`
          : `M${round(x1)} ${middle}h${round(wide - gap)}`;
      if (wide > 15 && height > 15 && room > 0) {
        const text = op.group.startsWith("layer ") ? op.group.slice(6) : "";
        if (text && wide > 4 + 6.5 * text.length) {
          room -= 1;
          const style = `fill: var(--on-${op.op})`;
          write(numbers.next({ x: Math.round((x1 + x2) / 2), y: middle + 4, style }), text);
        }
      }
    }
    for (const op in paths) set(paths[op], { d: drawn[op], "stroke-width": height });
  }

  /** Shades every moment in which compute stands still. @param {number} end */
  function draw_exposed(end) {
    let d = "";
    for (const [start, stop] of gaps_of(spans, end)) {
      const x1 = Math.max(left(), x(start));
      const x2 = Math.min(right(), x(stop));
      if (x2 > x1)
        d += `M${x1.toFixed(2)} ${COMPUTE.y - 3}h${(x2 - x1).toFixed(2)}V${MEMORY.y - 5}H${x1.toFixed(2)}z`;
    }
    set(exposed, { d });
  }

  /** Bytes at the top of the memory lane: a power of two of layers, so that the axis keeps still. */
  function memory_top() {
    const most = Math.max(...frame.sides.map(({ steps }) => steps[setup.stage].peak.nbytes));
    let top = transformer_of(setup).elements * 8;
    while (top < most) top *= 2;
    return top;
  }

  function draw_memory() {
    const floor = MEMORY.y + MEMORY.height;
    const per_byte = MEMORY.height / memory_top();
    const low = left();
    const high = right();
    const t0 = from();
    const zoom = per_second();
    /** @param {number} time */
    const place = (time) => {
      const at = low + (time - t0) * zoom;
      return round(clamp(at, low, high));
    };
    let below = `M${low} ${floor}`;
    const above = ["", "", "", ""]; // by place in BUFFERS; gathered parameters are one outline
    step.live.forEach((live, i) => {
      const at = place(live.time);
      let y1 = round(floor - live.gathered * per_byte);
      below += `H${at}V${y1}`;
      if (live.nbytes === live.gathered) return;
      const until = i + 1 < step.live.length ? place(step.live[i + 1].time) : high;
      let sum = live.gathered;
      for (let kind = 1; kind < BUFFERS.length; kind += 1) {
        const nbytes = /** @type {any} */ (live)[BUFFERS[kind]];
        if (nbytes === 0) continue;
        sum += nbytes;
        const y2 = round(floor - sum * per_byte);
        above[kind] += `M${at} ${y2}H${until}V${y1}H${at}z`;
        y1 = y2;
      }
    });
    above[0] = `${below}H${high}V${floor}z`;
    areas.forEach((area, kind) => {
      set(area, { d: above[kind] });
    });
  }

  function draw_axis() {
    const y = MEMORY.y + MEMORY.height + 4;
    let d = `M${left()} ${y}H${right()}`;
    const stop = range.scale * range.window[1];
    ticks(from(), stop, frame.width < NARROW ? 4 : 9).forEach((time, i) => {
      const at = Math.round(x(time));
      d += `M${at} ${y}v4`;
      const text = tick_text(time, range.scale * shown(), i === 0);
      const anchor = at > right() - 24 ? "end" : "middle";
      write(tick_labels.next({ x: at, y: y + 17, "text-anchor": anchor }), text);
    });
    tick_labels.done();
    set(axis, { d });
  }

  function draw_phases() {
    const { language } = setup;
    /** @type {{name: string, start: number, end: number}[]} */
    const runs = [];
    for (const index of compute) {
      const { op, start, end } = spans[index];
      const name = op.phase;
      const last = runs.at(-1);
      if (name === "step") continue;
      if (last && last.name === name) last.end = end;
      else runs.push({ name, start, end });
    }
    for (const { name, start, end } of runs) {
      const x1 = Math.max(left(), x(start));
      const x2 = Math.min(right(), x(end));
      if (x2 - x1 < 2) continue;
      brackets.next({ class: "bracket", d: `M${x1 + 0.5} 20v-5H${x2 - 1}v5` });
      const text = say(name, language);
      if (x2 - x1 > 8 * text.length) {
        write(phase_labels.next({ x: (x1 + x2) / 2, y: 11, "text-anchor": "middle" }), text);
      }
    }
    brackets.done();
    phase_labels.done();
  }

  function write_words() {
    const { width } = frame;
    const { language, unit } = setup;
    const tokens = transformer_of(setup).tokens;
    const named_system = setup.system !== "paper" || frame.sides.length > 1;
    const whose = named_system ? ` \u00b7 ${system_name(setup, setup.stage)}` : "";
    write(title, say("time_title", language, { stage: setup.stage }) + whose);
    const values = { layers: setup.layers, tokens: tokens < 1e5 ? String(tokens) : count(tokens) };
    write(note, say("time_note", language, { ...values, rings: rings(setup, step) }));
    write(lane_names.next({ x: 0, y: COMPUTE.y + 20 }), say("lane_compute", language));
    write(lane_names.next({ x: 0, y: NETWORK.y + 20 }), say("lane_comm", language));
    write(lane_names.next({ x: 0, y: MEMORY.y + 32 }), say("lane_live", language));
    const top = { x: left() - 6, y: MEMORY.y + 9, "text-anchor": "end", class: "note" };
    write(
      lane_names.next(top),
      width < NARROW || step.live.length === 0 ? "" : scaled_size(memory_top(), unit),
    );
    const empty = step.live.length === 0 ? say(setup.n === 1 ? "moves_alone" : "live_none", language) : "";
    write(lane_names.next({ x: left() + 6, y: MEMORY.y + 32, "text-anchor": "start", class: "note" }), empty);
    lane_names.done();
    zooms.forEach((button, i) => {
      const label = say(/** @type {string} */ (button.dataset.zoom), language);
      write(button, ["+", "−", "↔"][i]);
      set(button, { "aria-label": label, title: label, disabled: i > 0 && shown() === 1 });
    });
    write(help, say("time_help", language));
    write_legend();
  }

  function write_legend() {
    const { language } = setup;
    /** @type {Set<string>} */
    const found = new Set();
    for (const { op } of spans) if (op.elements !== 1) found.add(op.op); // a norm is no reduction of gradients
    const ops = [...COMPUTE_OPS, ...NETWORK_OPS].filter((op) => found.has(op));
    const items = ops.map((op) => ({
      text: MOVED[op] ? moved(op, language) : say(op, language),
      key: { class: "key", style: `--colour: var(--${op})` },
    }));
    const waiting = { text: say("legend_exposed", language), key: { class: "key waiting" } };
    legend.update([...items, { ...waiting, item: { class: "over" } }]);
  }

  /** Outlines the span in focus and what it waits for. */
  function mark() {
    const span = focused === undefined ? undefined : spans[focused];
    const before = span && span.cause !== null ? spans[span.cause] : undefined;
    outline(ring, span);
    outline(cause, before);
    let d = "";
    if (span && before && span.op.stream !== before.op.stream) {
      const at = Math.round(x(before.end));
      if (at >= left() && at <= right()) d = `M${at} ${COMPUTE.y + COMPUTE.height}V${NETWORK.y}`;
    }
    set(link, { d });
  }

  /** @param {SVGRectElement} rect @param {Span | undefined} span */
  function outline(rect, span) {
    const x1 = span ? Math.max(left(), x(span.start)) : 0;
    const x2 = span ? Math.min(right(), x(span.end)) : 0;
    set(rect, { visibility: span && x2 >= x1 ? "visible" : "hidden" });
    if (!span || x2 < x1) return;
    const { y, height } = lane_of(span.op.stream).place;
    set(rect, { x: x1 - 1, y: y - 1, width: Math.max(x2 - x1, 1.5) + 1, height: height + 2 });
  }

  /** @param {number | undefined} index @param {boolean} aloud */
  function focus(index, aloud) {
    focused = index;
    mark();
    if (index === undefined) return view.tooltip.hide();
    const span = spans[index];
    const { y, height } = lane_of(span.op.stream).place;
    const centre = clamp((x(span.start) + x(span.end)) / 2, left(), right());
    const at = view.place(chart.getBoundingClientRect(), centre, y, y + height, frame.width);
    view.tooltip.show(tip(setup, step, index), at, aloud, span.op.stream !== "compute");
  }

  /** The span under the pointer, found by bisection. @param {PointerEvent} event */
  function under(event) {
    const box = chart.getBoundingClientRect();
    const ratio = frame.width / box.width;
    const time = from() + ((event.clientX - box.left) * ratio - left()) / per_second();
    const y = (event.clientY - box.top) * ratio;
    const below = replicas.length > 0 && y >= REPLICAS.y - 1 ? replicas : network;
    const lane = y < NETWORK.y - 3 ? compute : y < MEMORY.y - 6 ? below : [];
    const i = last_before(spans, lane, time);
    const reach = 1.5 / per_second(); // thin spans can be hit too
    if (i >= 0 && time <= spans[lane[i]].end + reach) return lane[i];
    return i + 1 < lane.length && spans[lane[i + 1]].start - time < reach ? lane[i + 1] : undefined;
  }

  /** @param {number} factor @param {number} around share of the window that stays where it is */
  function zoom_by(factor, around) {
    const wide = clamp(shown() * factor, 1e-4, 1);
    pan_to(range.window[0] + (shown() - wide) * around, wide);
  }

  /** @param {number} start @param {number} wide */
  function pan_to(start, wide) {
    const low = clamp(start, 0, 1 - wide);
    range.window = [low, wide === 1 ? 1 : low + wide];
    view.render();
  }

  /** @param {PointerEvent | WheelEvent} event */
  function share(event) {
    const box = chart.getBoundingClientRect();
    const at = ((event.clientX - box.left) * frame.width) / box.width;
    return clamp((at - left()) / (right() - left()), 0, 1);
  }

  on(zooms[0], "click", () => zoom_by(0.5, 0.5));
  on(zooms[1], "click", () => zoom_by(2, 0.5));
  on(zooms[2], "click", () => pan_to(0, 1));

  /** @type {{share: number, start: number, moved: boolean} | undefined} */
  let grabbed;
  on(chart, "pointerdown", (event) => {
    if (shown() === 1 || event.button !== 0) return;
    grabbed = { share: share(event), start: range.window[0], moved: false };
    chart.setPointerCapture(event.pointerId);
  });
  on(chart, "pointermove", (event) => {
    if (!grabbed) return focus(under(event), false);
    const wide = shown();
    const moved = share(event) - grabbed.share;
    if (Math.abs(moved) < 0.003 && !grabbed.moved) return;
    grabbed.moved = true;
    view.tooltip.hide();
    pan_to(grabbed.start - moved * wide, wide);
  });
  on(chart, "pointerup pointercancel", () => {
    grabbed = undefined;
  });
  on(chart, "pointerleave blur", () => focus(undefined, false));
  on(chart, "dblclick", (event) => zoom_by(0.5, share(/** @type {PointerEvent} */ (event))));
  chart.addEventListener(
    "wheel",
    (event) => {
      const wide = shown();
      if (event.ctrlKey || event.metaKey) zoom_by(event.deltaY > 0 ? 1.25 : 0.8, share(event));
      else if (wide < 1 && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
        pan_to(range.window[0] + ((event.deltaX || event.deltaY) / 800) * wide, wide);
      } else return; // the page scrolls
      event.preventDefault();
    },
    { passive: false },
  );
  on_keys(chart, (event) => {
    const wide = shown();
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "+" || event.key === "=") zoom_by(0.5, 0.5);
    else if (event.key === "-") zoom_by(2, 0.5);
    else if (event.key === "0") pan_to(0, 1);
    else if (event.key === "Escape") focus(undefined, false);
    else if (along && event.shiftKey) pan_to(range.window[0] + 0.2 * wide * along, wide);
    else if (along) walk(along);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") change_lane(event.key === "ArrowUp");
    else return false;
    return true;
  });

  /** @param {number} along */
  function walk(along) {
    const { lane } = lane_of(focused === undefined ? "compute" : spans[focused].op.stream);
    const now = focused === undefined ? (along > 0 ? -1 : lane.length) : lane.indexOf(focused);
    go_to(lane[clamp(now + along, 0, lane.length - 1)]);
  }

  /** @param {boolean} up */
  function change_lane(up) {
    const now = focused === undefined ? "comm" : spans[focused].op.stream;
    const deeper = now !== "compute" && replicas.length > 0 ? "replicas" : "comm";
    const { lane } = lane_of(up ? (now === "replicas" ? "comm" : "compute") : deeper);
    const time = focused === undefined ? from() : spans[focused].start;
    go_to(lane[Math.max(0, last_before(spans, lane, time))]);
  }

  /** @param {number | undefined} index */
  function go_to(index) {
    if (index === undefined) return;
    const { start, end } = spans[index];
    const wide = shown();
    const outside = start < from() || end > range.scale * range.window[1];
    if (outside && wide < 1) pan_to(start / range.scale - wide / 2, wide);
    focus(index, true);
  }

  return { element, update };
}

/**
 * One path for all spans of an op in a lane: many times cheaper than one each.
 * @param {string[]} ops
 * @returns {Record<string, SVGPathElement>}
 */
function make_paths(ops) {
  return Object.fromEntries(
    ops.map((op) => [op, svg("path", { class: "spans", style: `stroke: var(--${op})` })]),
  );
}

/** A tick of an axis that spans `range` seconds, with its unit if `named`. @param {number} time @param {number} range @param {boolean} named */
function tick_text(time, range, named) {
  const [scale, unit] = range >= 2 ? [1, "s"] : range >= 2e-3 ? [1e3, "ms"] : [1e6, "µs"];
  const text = String(Number((time * scale).toPrecision(6)));
  return named ? `${text} ${unit}` : text;
}

/** What a span is, how long, what it waits for. @param {import("../model/specs.js").Setup} setup @param {Step} step @param {number} index @returns {string[]} */
function tip(setup, step, index) {
  const { language, unit } = setup;
  const { op, start, end, cause } = step.spans[index];
  const lines = [name_of(op, language)];
  if (op.stream === "compute") lines.push(say("tip_compute", language, { duration: duration(op.seconds) }));
  else {
    const link = LINKS[ring_of(setup, op).link].label;
    const sent = { size: scaled_size(op.nbytes, unit), duration: duration(op.seconds), link };
    lines.push(say("tip_bytes", language, sent));
    if (op.ranks !== setup.n) lines.push(say("tip_ranks", language, { ranks: op.ranks, dtype: op.dtype }));
    else if (op.dtype) lines.push(op.dtype);
  }
  lines.push(say("tip_when", language, { start: duration(start), end: duration(end) }));
  if (op.stream !== "compute") {
    const waits = step.exposed[index];
    lines.push(
      waits > 0 ? say("tip_exposed", language, { duration: duration(waits) }) : say("tip_hidden", language),
    );
  }
  const what = cause === null ? "" : name_of(step.spans[cause].op, language);
  lines.push(cause === null ? say("tip_first", language) : say("tip_waits", language, { what }));
  return lines;
}

/** 'all-gather · layer 19 · backward'. @param {import("../model/program.js").Op} op @param {string} language */
function name_of(op, language) {
  const parts = [say(op.op, language)];
  if (op.group) parts.push(group_name(op, language));
  if (op.phase !== op.op && op.op !== "optimizer") parts.push(say(op.phase, language));
  return parts.join(" · ");
}

/** 'layer 19 up', 'bucket 3', 'outside the layers'. @param {import("../model/program.js").Op} op @param {string} language */
function group_name({ group, module }, language) {
  const [kind, i = ""] = group.split(" ");
  return [say(kind, language, { i }), module].filter(Boolean).join(" ");
}
