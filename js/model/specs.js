// What a user may say: one frozen Setup, checked once, and the parts that follow from it.
// Mirrors src/zerowidget/specs.py. A field that JavaScript is not given, or given as undefined, has its default.

import fields from "../../src/zerowidget/data/fields.json" with { type: "json" };
import gpus from "../../src/zerowidget/data/gpus.json" with { type: "json" };
import links from "../../src/zerowidget/data/links.json" with { type: "json" };
import recipes from "../../src/zerowidget/data/recipes.json" with { type: "json" };
import { plain, say } from "./words.js";

/** @typedef {string | number | boolean | null} Value */
/** @typedef {number[] | string} Shape Lengths, or the name of the earlier parameter whose memory it shares. */

/**
 * @typedef {object} Field
 * @property {"number" | "whole" | "choice" | "bool" | "reshard" | "shapes"} type
 * @property {Value} default
 * @property {number} [min]
 * @property {number} [max]
 * @property {string | Value[]} [options]
 * @property {boolean} [optional]
 * @property {string[]} [systems] that read it; all of them when not given
 */

/**
 * @typedef {object} Gpu
 * @property {string} label
 * @property {number} memory_MiB
 * @property {number} flops
 * @property {number} memory_bandwidth
 * @property {string} link
 */

/**
 * @typedef {object} Link
 * @property {string} label
 * @property {Record<string, string>} [detail]
 * @property {"inside" | "between"} scope
 * @property {number} bandwidth
 * @property {"gpu" | "node"} per
 * @property {number} latency
 */

/**
 * @typedef {object} RecipeEntry
 * @property {Record<string, string>} label
 * @property {[string, string, number][]} states
 * @property {string} param_dtype
 * @property {string} grad_dtype
 * @property {string} used_by
 */

/** @type {Record<string, Field>} */
export const FIELDS = /** @type {any} */ (fields);
/** @type {Record<string, Gpu>} */
export const GPUS = gpus;
/** @type {Record<string, Link>} */
export const LINKS = /** @type {any} */ (links);
/** @type {Record<string, RecipeEntry>} */
export const RECIPES = /** @type {any} */ (recipes);

/** Bound on layers x accumulation: past it the timeline is longer than anyone can read. */
export const MAX_LAYER_STEPS = 16384;

/** @type {Record<string, number>} */
export const DTYPE_BYTES = { float32: 4, bfloat16: 2, float16: 2 };

/** Bounds on what is taken as the shapes of a model. */
export const MAX_SHAPES = 4096;
export const MAX_NAME = 200;
export const MAX_DIMENSIONS = 8;
export const MAX_LENGTH = 2 ** 40;

/** As the rule says them. */
const SHAPE_LIMITS = { most: MAX_SHAPES, letters: MAX_NAME, dimensions: MAX_DIMENSIONS };

/** A value that its field cannot take; Python's ValueError. */
export class SetupError extends Error {
  name = "SetupError";
}

/**
 * The values a choice field takes.
 * @param {string} name
 * @returns {Value[]}
 */
export function options(name) {
  const listed = FIELDS[name].options;
  if (listed === "links") return Object.keys(LINKS).filter((key) => LINKS[key].scope === "between");
  if (listed === "gpus") return Object.keys(GPUS);
  if (listed === "recipes") return Object.keys(RECIPES);
  return /** @type {Value[]} */ (listed).slice();
}

/** @type {Record<string, Value[]>} Made once: a drag checks every field many times. */
const ALLOWED = Object.fromEntries(
  Object.keys(FIELDS)
    .filter((name) => FIELDS[name].type === "choice")
    .map((name) => [name, options(name)]),
);

/**
 * A value as an error prints it, in Python's spelling.
 * @param {unknown} value
 */
export function shown(value) {
  if (typeof value === "number") {
    if (Number.isFinite(value)) return Math.abs(value) < 1e21 ? plain(value) : String(value);
    return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  const letters = [...spelled(value)];
  return letters.length <= 60 ? letters.join("") : `${letters.slice(0, 57).join("")}...`;
}

/**
 * Whether it is a number; true and false are not meant as 1 and 0.
 * @param {unknown} value
 * @returns {value is number}
 */
export function is_number(value) {
  return typeof value === "number";
}

/** @type {Record<string, string>} */
const ESCAPED = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * What Python's `repr` makes of a value that is no number.
 * @param {unknown} value
 */
function spelled(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "string") return String(value);
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  let text = value.replace(/[\\\n\r\t]/g, (letter) => ESCAPED[letter]);
  if (quote === "'") text = text.split("'").join("\\'");
  return quote + text + quote;
}

/**
 * What a value that breaks a rule throws.
 * @param {string} name
 * @param {string} rule
 * @param {string} value
 * @param {string} [language]
 */
function broken(name, rule, value, language = "en") {
  return new SetupError(say("error", language, { name, rule, value }));
}

/**
 * `value` as the field `name` stores it. Throws SetupError, naming field, rule and value, when the field
 * cannot take it.
 * @param {string} name
 * @param {any} value
 * @param {string} [language]
 * @returns {any}
 */
export function check(name, value, language = "en") {
  const rule = FIELDS[name];
  /** @type {(key: string, values?: Record<string, string>) => SetupError} */
  const refuse = (key, values) => broken(name, say(key, language, values), shown(value), language);
  if ((value === null || value === undefined) && rule.optional) return null;
  if (rule.type === "shapes") return check_shapes(name, value, language);
  if (rule.type === "bool") {
    if (value !== true && value !== false) throw refuse("rule_bool");
    return value;
  }
  if (rule.type === "reshard") {
    if (value === true || value === false) return value;
    if (!is_number(value) || !Number.isInteger(value) || value < 1) throw refuse("rule_reshard");
    return value;
  }
  if (rule.type === "choice") {
    const allowed = ALLOWED[name];
    if (!allowed.includes(value)) {
      const others = allowed.slice(0, -1);
      const last = String(allowed[allowed.length - 1]);
      throw others.length > 0
        ? refuse("rule_choice", { others: others.join(", "), last })
        : refuse("rule_only", { last });
    }
    return allowed[allowed.indexOf(value)];
  }
  if (!is_number(value) || !Number.isFinite(value)) {
    throw refuse(rule.type === "number" ? "rule_number" : "rule_whole");
  }
  if (rule.type === "whole" && !Number.isInteger(value)) throw refuse("rule_whole");
  const min = /** @type {number} */ (rule.min);
  const max = /** @type {number} */ (rule.max);
  if (value < min) throw refuse("rule_min", { limit: plain(min) });
  if (value > max) throw refuse("rule_max", { limit: plain(max) });
  return value === 0 ? 0 : value; // Python's int(-0.0) is 0
}

/** @type {WeakSet<object>} Lists of shapes that were found good: a drag checks every field many times. */
const CHECKED = new WeakSet();

/**
 * The shapes of a model's parameters, by name, in the order of the model: a list of pairs. Throws SetupError,
 * naming the entry, when they are none.
 * @param {string} name
 * @param {any} value
 * @param {string} [language]
 * @returns {[string, Shape][]}
 */
export function check_shapes(name, value, language = "en") {
  /** @type {(entry: unknown) => SetupError} */
  const refuse = (entry) => broken(name, say("rule_shapes", language, SHAPE_LIMITS), shown(entry), language);
  if (typeof value === "object" && CHECKED.has(value)) return value;
  if (!Array.isArray(value) || value.length < 1 || value.length > MAX_SHAPES) throw refuse(value);
  /** @type {Map<string, Shape>} */
  const stored = new Map();
  let elements = 0;
  for (const pair of value) {
    if (!Array.isArray(pair) || pair.length !== 2) throw refuse(pair);
    const [parameter, shape] = pair;
    if (
      typeof parameter !== "string" ||
      [...parameter].length < 1 ||
      [...parameter].length > MAX_NAME ||
      stored.has(parameter)
    ) {
      throw refuse(parameter);
    }
    if (typeof shape === "string") {
      if (!Array.isArray(stored.get(shape))) throw refuse(`${parameter}: ${shape}`);
      stored.set(parameter, shape);
      continue;
    }
    const fits = (/** @type {unknown} */ length) =>
      is_number(length) && Number.isInteger(length) && length >= 1 && length <= MAX_LENGTH;
    if (!Array.isArray(shape) || shape.length > MAX_DIMENSIONS || !shape.every(fits)) {
      throw refuse(`${parameter}: ${shape}`);
    }
    stored.set(parameter, shape);
    elements = elements + elements_of(shape);
  }
  if (elements > /** @type {number} */ (FIELDS.N.max)) throw refuse(`${elements} elements`);
  CHECKED.add(value);
  return value;
}

/**
 * Everything a user chooses; every number of the model is a function of it. Fields: docs/model.md.
 * @typedef {object} Setup
 * @property {number} N
 * @property {number} n
 * @property {number} stage
 * @property {string} system
 * @property {string | null} compare
 * @property {string} recipe
 * @property {number} layers
 * @property {number | null} hidden
 * @property {[string, Shape][] | null} shapes
 * @property {number} seq_len
 * @property {number} micro_batch
 * @property {number} accumulation
 * @property {boolean} recompute
 * @property {string} gpu
 * @property {number} gpus_per_node
 * @property {string} link
 * @property {number} utilization
 * @property {number} prefetch
 * @property {string} param_dtype
 * @property {string | null} reduce_dtype
 * @property {string | null} grad_accum_dtype
 * @property {boolean | number | null} reshard_after_forward
 * @property {number | null} shard_size
 * @property {boolean} sync_every_micro_batch
 * @property {number} stage3_prefetch_bucket_size
 * @property {number} stage3_max_live_parameters
 * @property {number} stage3_max_reuse_distance
 * @property {number} stage3_param_persistence_threshold
 * @property {number} reduce_bucket_size
 * @property {number} allgather_bucket_size
 * @property {boolean | null} overlap_comm
 * @property {boolean} contiguous_gradients
 * @property {boolean} use_multi_rank_bucket_allreduce
 * @property {number} zero_hpz_partition_size
 * @property {boolean} zero_quantized_weights
 * @property {boolean} zero_quantized_gradients
 * @property {string} offload
 * @property {string} unit
 * @property {string} language
 */

/**
 * A Setup of these values, defaults for the others. Throws SetupError for a value that its field cannot take,
 * TypeError for an unknown field.
 * @param {Partial<Setup>} [values]
 * @returns {Readonly<Setup>}
 */
export function make_setup(values = {}) {
  for (const name in values) {
    if (!Object.hasOwn(FIELDS, name)) throw new TypeError(say("error_unknown", "en", { name }));
  }
  /** @type {Record<string, any>} */
  const given = values.shapes ? { ...counted(check("shapes", values.shapes)), ...values } : values;
  /** @type {any} */
  const setup = {};
  for (const name in FIELDS) {
    const value = given[name];
    setup[name] = check(name, value === undefined ? FIELDS[name].default : value);
  }
  agree(setup);
  return Object.freeze(setup);
}

/** @type {WeakMap<object, {N: number, layers: number}>} Asked for by every copy of a setup. */
const COUNTED = new WeakMap();

/**
 * The fields that follow from the shapes of a model: its elements, and the layers they are in.
 * @param {[string, Shape][]} shapes
 * @returns {{N: number, layers: number}}
 */
export function counted(shapes) {
  const known = COUNTED.get(shapes);
  if (known !== undefined) return known;
  let elements = 0;
  /** @type {Set<string>} */
  const layers = new Set();
  for (const [name, shape] of shapes) {
    if (typeof shape !== "string") elements = elements + elements_of(shape);
    layers.add(layer_name(name));
  }
  layers.delete("");
  const found = { N: elements, layers: Math.max(1, layers.size) };
  COUNTED.set(shapes, found);
  return found;
}

/**
 * The product of the lengths.
 * @param {number[]} shape
 */
export function elements_of(shape) {
  let elements = 1;
  for (const length of shape) elements = elements * length;
  return elements;
}

/**
 * The part of a parameter's name that tells its layer: "blocks.0.qkv.weight" is in "blocks.0". Layers are what
 * stands in a list: the name up to its first number. "" for what is in no list.
 * @param {string} name
 */
export function layer_name(name) {
  return name.match(/^(.*?\.)?\d+(?=\.)/)?.[0] ?? "";
}

/**
 * Throws SetupError when fields do not go together; rules of fields that no system on show has rest.
 * @param {Setup} setup
 */
export function agree(setup) {
  const counts = { layers: setup.layers, shapes: setup.shapes === null ? 0 : setup.shapes.length };
  for (const [name, count] of Object.entries(counts)) {
    if (count * setup.accumulation > MAX_LAYER_STEPS) {
      const rule = say("rule_max", "en", { limit: MAX_LAYER_STEPS });
      throw broken(`${name} x accumulation`, rule, `${count} x ${setup.accumulation}`);
    }
  }
  if (setup.shapes !== null) {
    for (const [name, value] of Object.entries(counted(setup.shapes))) {
      const found = setup[/** @type {"N" | "layers"} */ (name)];
      if (found !== value)
        throw broken(name, say("rule_counted", "en", { value: plain(value) }), shown(found));
    }
  }
  let ranks = setup.n;
  for (const name of /** @type {const} */ ([
    "shard_size",
    "reshard_after_forward",
    "zero_hpz_partition_size",
  ])) {
    const size = setup[name];
    const systems = FIELDS[name].systems ?? [];
    if (!systems.includes(setup.system) && !systems.includes(setup.compare ?? "")) continue;
    if (typeof size !== "number") continue;
    if (size < ranks && ranks % size !== 0)
      throw broken(name, say("rule_divides", "en", { ranks }), String(size));
    if (name === "shard_size") ranks = Math.min(ranks, size);
  }
}

/**
 * A copy with some fields changed, checked again.
 * @param {Readonly<Setup>} setup
 * @param {Partial<Setup>} values
 */
export function but(setup, values) {
  return make_setup({ ...setup, ...values });
}

/**
 * The setup on `n` GPUs as far as rest at `stage` goes: of the sizes that must divide n one matters. FSDP2 shards
 * over `shard_size` ranks whatever n is: more GPUs than that hold what those hold.
 * @param {Readonly<Setup>} setup
 * @param {number} n
 * @param {number} stage
 */
export function resized(setup, n, stage) {
  let ranks = n;
  if (setup.shard_size !== null && setup.system === "fsdp2" && stage >= 2)
    ranks = Math.min(n, setup.shard_size);
  return but(setup, {
    n: ranks,
    shard_size: null,
    reshard_after_forward: null,
    zero_hpz_partition_size: 1,
  });
}

/** @type {Record<string, number>} */
const SCALES = { K: 1e3, M: 1e6, B: 1e9, G: 1e9, T: 1e12 };

/**
 * A count as people write it: "7.5e9", "7.5B", "70b", "350 M", "1,000". Throws SetupError when it is no number.
 * @param {string} text
 */
export function parse_count(text, language = "en") {
  let digits = text.trim().replace(/[_ ]/g, "");
  const scale = SCALES[digits.slice(-1).toUpperCase()] ?? 1;
  digits = without_commas(scale === 1 ? digits : digits.slice(0, -1));
  const value = /^[0-9.eE+-]+$/.test(digits) ? Number(digits) : Number.NaN;
  if (Number.isNaN(value)) throw new SetupError(say("error_count", language, { text: shown(text) }));
  return value * scale;
}

/**
 * Thousands groups joined: "1,000" is "1000". A comma that is none stays, for "7,5" is not 75.
 * @param {string} digits
 */
export function without_commas(digits) {
  const [whole, ...rest] = digits.split(".");
  const [first, ...groups] = whole.split(",");
  const grouped = /^[+-]*\d{1,3}$/.test(first) && groups.every((group) => /^\d{3}$/.test(group));
  return grouped ? [[first, ...groups].join(""), ...rest].join(".") : digits;
}

/**
 * Plain left-to-right addition.
 * @param {number[]} values
 */
export function total(values) {
  let result = 0;
  for (const value of values) result = result + value;
  return result;
}

/**
 * What a training recipe keeps per parameter.
 * @typedef {object} Recipe
 * @property {[string, string, number][]} states (state, kind, bytes per parameter) in drawing order; kind is
 *   parameters, gradients or optimizer
 * @property {string} param_dtype what travels in all-gathers
 * @property {string} grad_dtype what travels in gradient reductions
 */

/**
 * Bytes per parameter of one kind of state.
 * @param {Recipe} recipe
 * @param {string} kind
 */
export function bytes_of(recipe, kind) {
  return total(recipe.states.filter(([, of]) => of === kind).map(([, , nbytes]) => nbytes));
}

/**
 * The model as the timeline sees it: equal layers. FLOPs are per micro-step and GPU.
 * @typedef {object} Transformer
 * @property {number} layers
 * @property {number} elements parameters of one layer
 * @property {number} tokens per GPU and micro-step
 * @property {number} forward_flops of one layer; the backward pass takes twice as many
 */

/**
 * What one rank computes and sends with.
 * @typedef {object} Cluster
 * @property {number} n
 * @property {number} capacity bytes of GPU memory that a program can allocate
 * @property {number} flops FLOP/s reached, peak times utilization
 * @property {number} memory_bandwidth bytes/s
 * @property {number} bandwidth bytes/s, one direction, on the slowest link crossed
 * @property {number} latency seconds per ring step
 * @property {string} link key in data/links.json
 * @property {boolean} leaves whether the ring leaves a node
 */

/**
 * The recipe that `setup` names.
 * @param {Readonly<Setup>} setup
 * @returns {Recipe}
 */
export function recipe_of(setup) {
  const { states, param_dtype, grad_dtype } = RECIPES[setup.recipe];
  return { states, param_dtype, grad_dtype };
}

/**
 * N spread evenly over the layers; 2 FLOPs per parameter and token forward, and 4 s h per token and layer for
 * attention when `hidden` is known. Sources: specs.py.
 * @param {Readonly<Setup>} setup
 * @returns {Transformer}
 */
export function transformer_of(setup) {
  const elements = setup.N / setup.layers;
  const tokens = setup.seq_len * setup.micro_batch;
  const attention = setup.hidden === null ? 0 : 4 * setup.seq_len * setup.hidden;
  return { layers: setup.layers, elements, tokens, forward_flops: (2 * elements + attention) * tokens };
}

/**
 * The GPU, and the slowest link that a ring over `ranks` ranks crosses; `apart`: the distance between neighbours
 * of the ring. Rings that far apart run beside each other and share the ports.
 * @param {Readonly<Setup>} setup
 * @param {number | null} [ranks] all n when not given
 * @param {number} [apart]
 * @returns {Cluster}
 */
export function cluster_of(setup, ranks = null, apart = 1) {
  const n = ranks ?? setup.n;
  const gpu = GPUS[setup.gpu];
  const inside = gpu.link;
  const between = setup.link;
  const ports = LINKS[between].per === "gpu" ? setup.gpus_per_node : 1;
  const across = (LINKS[between].bandwidth * ports) / Math.min(apart, setup.gpus_per_node);
  const leaves = n * apart > setup.gpus_per_node && n > 1;
  const crossed = leaves && across < LINKS[inside].bandwidth;
  return {
    n,
    capacity: gpu.memory_MiB * 1048576,
    flops: gpu.flops * setup.utilization,
    memory_bandwidth: gpu.memory_bandwidth,
    bandwidth: crossed ? across : LINKS[inside].bandwidth,
    latency: LINKS[leaves ? between : inside].latency,
    link: crossed ? between : inside,
    leaves,
  };
}
