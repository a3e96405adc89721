// One file per system. Each answers what a rank holds and what it does in one step.
// Mirrors src/zerowidget/systems/__init__.py.
//
// hold(setup, stage): what a rank holds at rest, in drawing order.
// program(setup, stage): the ops of one step, in issue order.

import { collected } from "../program.js";
import * as deepspeed from "./deepspeed/index.js";
import * as fsdp2 from "./fsdp2/index.js";
import * as paper from "./paper.js";

/**
 * @typedef {object} System
 * @property {(setup: Readonly<import("../specs.js").Setup>, stage: number) => import("../program.js").Held[]} hold
 * @property {(setup: Readonly<import("../specs.js").Setup>, stage: number) => import("../program.js").Op[]} program
 */

/** @type {Record<string, System>} Of each module these two: the whole of it would go into the bundle. */
const SYSTEMS = {
  paper: { hold: paper.hold, program: paper.program },
  deepspeed: { hold: deepspeed.hold, program: deepspeed.program },
  fsdp2: { hold: fsdp2.hold, program: fsdp2.program },
};

/**
 * The module of the system that `setup` names.
 * @param {Readonly<import("../specs.js").Setup>} setup
 */
export function system_of(setup) {
  return SYSTEMS[setup.system];
}

/**
 * What one step communicates, a row per phase and kind. The textbook's are counted in whole tensors, so that N
 * comes out as N and not as a sum over layers.
 * @param {Readonly<import("../specs.js").Setup>} setup
 * @param {number} stage
 * @param {import("../program.js").Op[]} ops its program
 */
export function collectives_of(setup, stage, ops) {
  return setup.system === "paper" ? paper.collectives(setup, stage) : collected(ops);
}
