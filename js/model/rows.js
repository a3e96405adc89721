// The tidy rows: the only shape in which numbers leave the core. Column names are the contract.
// Mirrors src/zerowidget/rows.py.

import { ROUNDS, seconds, wire_bytes } from "./comms.js";
import { at_rest, nbytes_of, on_top } from "./memory.js";
import { cluster_of, total } from "./specs.js";
import { collectives_of } from "./systems/index.js";
import { step_of } from "./timeline.js";

/** @typedef {import("./specs.js").Setup} Setup */
/** @typedef {import("./timeline.js").Step} Step */

/**
 * @typedef {object} MemoryRow
 * @property {number} stage
 * @property {string} state
 * @property {string} device
 * @property {"rest" | "peak"} when rest, or peak: on top of rest
 * @property {number} nbytes
 * @property {boolean} falls whether it shrinks as n grows
 */

/**
 * `elements` and `nbytes` are of the full tensors of all `count` collectives together, `wire_bytes` is what one
 * rank sends for them, `between_bytes` as much of it as goes round rings that leave a node, `seconds` their time
 * one after the other, `latency` the part of it that no bandwidth takes away, `ranks` how many take part in one.
 * @typedef {object} CommunicationRow
 * @property {number} stage
 * @property {string} phase
 * @property {string} op
 * @property {string} dtype
 * @property {number} count
 * @property {number} elements
 * @property {number} nbytes
 * @property {number} wire_bytes
 * @property {number} seconds
 * @property {number} latency
 * @property {number} ranks
 * @property {number} between_bytes
 */

/**
 * @typedef {object} TimelineRow
 * @property {number} stage
 * @property {number} index
 * @property {string} op
 * @property {string} group
 * @property {string} phase
 * @property {string} stream
 * @property {number} start seconds from the start of the step
 * @property {number} end
 * @property {number} elements
 * @property {string} dtype
 * @property {number} nbytes
 * @property {number | null} waits_for index of the row whose end let this one start, null when it starts at once
 * @property {number} exposed
 * @property {number} ranks that take part in a collective
 * @property {string} module the part of the group, where a system works on parts
 */

/**
 * Bytes and seconds. `volume`: elements a rank sends and receives, as the paper counts them (2N, 2N, 2N, 3N).
 * `relative`: wire bytes against plain data parallelism, the system's own stage 0; null on a single GPU.
 * `messages`: collectives; `latency`: the part of their time that has nothing to do with bytes.
 * @typedef {object} SummaryRow
 * @property {number} stage
 * @property {number} rest
 * @property {number} peak
 * @property {boolean} fits at rest
 * @property {boolean} fits_peak
 * @property {number} volume
 * @property {number} wire_bytes
 * @property {number} between_bytes
 * @property {number | null} relative
 * @property {number} messages
 * @property {number} latency
 * @property {number} compute
 * @property {number} communication
 * @property {number} exposed
 * @property {number} step
 */

export const STAGES = [0, 1, 2, 3];

/**
 * The steps of all stages: pass them on where several tables are made of one setup.
 * @param {Readonly<Setup>} setup
 * @returns {Step[]}
 */
export function steps_of(setup) {
  return STAGES.map((stage) => step_of(setup, stage));
}

/**
 * Bytes per GPU.
 * @param {Readonly<Setup>} setup
 * @param {Step[]} [steps]
 * @returns {MemoryRow[]}
 */
export function memory_rows(setup, steps = steps_of(setup)) {
  /** @type {MemoryRow[]} */
  const rows = [];
  steps.forEach((step, stage) => {
    for (const when of /** @type {const} */ (["rest", "peak"])) {
      const held = when === "rest" ? at_rest(setup, stage) : on_top(step);
      for (const { state, device, nbytes, falls } of held) {
        rows.push({ stage, state, device, when, nbytes, falls });
      }
    }
  });
  return rows;
}

/**
 * What one step communicates.
 * @param {Readonly<Setup>} setup
 * @param {Step[]} [steps]
 * @returns {CommunicationRow[]}
 */
export function communication_rows(setup, steps = steps_of(setup)) {
  /** @type {CommunicationRow[]} */
  const rows = [];
  steps.forEach((step, stage) => {
    const ops = step.spans.map(({ op }) => op);
    for (const kind of collectives_of(setup, stage, ops)) {
      const { phase, op, dtype, count, elements, nbytes, ranks, leaves } = kind;
      const sent = wire_bytes(op, nbytes, ranks);
      const ring = cluster_of(setup, ranks, leaves ? setup.gpus_per_node : 1);
      rows.push({
        stage,
        phase,
        op,
        dtype,
        count,
        elements,
        nbytes,
        wire_bytes: sent,
        seconds: kind.seconds,
        latency: count * seconds(op, 0, ring),
        ranks,
        between_bytes: leaves ? sent : 0,
      });
    }
  });
  return rows;
}

/**
 * One step of the selected stage, in issue order.
 * @param {Readonly<Setup>} setup
 * @param {Step} [step]
 * @returns {TimelineRow[]}
 */
export function timeline_rows(setup, step = step_of(setup, setup.stage)) {
  const { stage } = setup;
  return step.spans.map(({ op: line, start, end, cause }, index) => {
    const { op, group, phase, stream, elements, dtype, nbytes, ranks, module } = line;
    const exposed = step.exposed[index];
    return {
      stage,
      index,
      op,
      group,
      phase,
      stream,
      start,
      end,
      elements,
      dtype,
      nbytes,
      waits_for: cause,
      exposed,
      ranks,
      module,
    };
  });
}

/**
 * One row per stage.
 * @param {Readonly<Setup>} setup
 * @param {Step[]} [steps]
 * @returns {SummaryRow[]}
 */
export function summary(setup, steps = steps_of(setup)) {
  const { capacity } = cluster_of(setup);
  const sent = communication_rows(setup, steps);
  const plain = total(sent.filter((row) => row.stage === 0).map((row) => row.wire_bytes));
  return steps.map((step, stage) => {
    const mine = sent.filter((row) => row.stage === stage);
    const sum = (/** @type {(row: CommunicationRow) => number} */ of) => total(mine.map(of));
    const rest = nbytes_of(at_rest(setup, stage));
    const peak = rest + nbytes_of(on_top(step));
    const wire = sum((row) => row.wire_bytes);
    let compute = 0;
    let communication = 0;
    for (const { op } of step.spans) {
      if (op.stream === "compute") compute = compute + op.seconds;
      else communication = communication + op.seconds;
    }
    return {
      stage,
      rest,
      peak,
      fits: rest <= capacity,
      fits_peak: peak <= capacity,
      volume: sum((row) => ROUNDS[row.op] * row.elements),
      wire_bytes: wire,
      between_bytes: sum((row) => row.between_bytes),
      relative: plain > 0 ? wire / plain : null,
      messages: sum((row) => row.count),
      latency: sum((row) => row.latency),
      compute,
      communication,
      exposed: total(step.exposed),
      step: step.seconds,
    };
  });
}

/**
 * The setup and all its rows, from one schedule.
 * @param {Readonly<Setup>} setup
 */
export function tables(setup) {
  const steps = steps_of(setup);
  return {
    setup,
    summary: summary(setup, steps),
    memory: memory_rows(setup, steps),
    communication: communication_rows(setup, steps),
    timeline: timeline_rows(setup, steps[setup.stage]),
  };
}
