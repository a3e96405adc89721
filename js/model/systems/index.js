// One file per system. Each answers what a rank holds and what it does in one step.
// Mirrors src/zerowidget/systems/__init__.py.
//
// hold(setup, stage): [state, device, bytes][] at rest, in drawing order.
// collectives(setup, stage): what one step communicates, a row per phase and op.
// program(setup, stage): the ops of one step, in issue order.

import * as paper from "./paper.js";

/** @type {Record<string, typeof paper>} */
export const SYSTEMS = { paper };

/**
 * The module of the system that `setup` names.
 * @param {Readonly<import("../specs.js").Setup>} setup
 */
export function system_of(setup) {
  return SYSTEMS[setup.system];
}
