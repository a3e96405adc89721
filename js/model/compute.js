// Seconds that one GPU computes. Mirrors src/zerowidget/compute.py.

import { bytes_of } from "./specs.js";

/** @typedef {import("./specs.js").Cluster} Cluster */
/** @typedef {import("./specs.js").Recipe} Recipe */
/** @typedef {import("./specs.js").Transformer} Transformer */

/**
 * Forward pass of one layer over one micro-batch.
 * @param {Transformer} transformer
 * @param {Cluster} cluster
 */
export function forward_seconds(transformer, cluster) {
  return transformer.forward_flops / cluster.flops;
}

/**
 * Backward pass of one layer: gradients of inputs and of parameters, twice the forward.
 * @param {Transformer} transformer
 * @param {Cluster} cluster
 */
export function backward_seconds(transformer, cluster) {
  return (2 * transformer.forward_flops) / cluster.flops;
}

/**
 * Optimizer step over `elements` parameters, bound by memory: optimizer states are read and written, gradients
 * read, parameters written.
 * @param {number} elements
 * @param {Recipe} recipe
 * @param {Cluster} cluster
 */
export function optimizer_seconds(elements, recipe, cluster) {
  const nbytes =
    2 * bytes_of(recipe, "optimizer") + bytes_of(recipe, "gradients") + bytes_of(recipe, "parameters");
  return (nbytes * elements) / cluster.memory_bandwidth;
}
