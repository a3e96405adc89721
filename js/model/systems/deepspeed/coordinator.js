// Which parameters DeepSpeed's stage 3 gathers and frees, and when: the rules of its coordinator.
// Mirrors src/zerowidget/systems/deepspeed/coordinator.py, where the sources are.

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("./trace.js").Node} Node */
/** @typedef {import("./trace.js").Visit} Visit */

/** @type {any[]} */
const NONE = [];

/**
 * What bounds gathering; all in elements.
 * @typedef {object} Limits
 * @property {number} prefetch stage3_prefetch_bucket_size
 * @property {number} live stage3_max_live_parameters
 * @property {number} reuse stage3_max_reuse_distance
 * @property {number} persistence stage3_param_persistence_threshold
 * @property {boolean} apart zero_hpz_partition_size: a second shard stays in the node
 */

/**
 * One all-gather.
 * @typedef {object} Gather
 * @property {number[]} parameters
 * @property {boolean} near from the second shards, among neighbours
 */

/**
 * Parameters that a module asks for: its own, or ahead for those that follow.
 * @typedef {object} Request
 * @property {string} phase
 * @property {string} module
 * @property {string} why fetch, prefetch
 * @property {number[]} parameters
 * @property {number} elements
 * @property {Gather[]} gathers
 */

/**
 * What happens at a visit.
 * @typedef {object} Moment
 * @property {Visit} visit
 * @property {Request[]} requests
 * @property {number[]} waits gathers that must be over, counted through the micro-step
 * @property {number[]} frees parameters
 * @property {number[]} shards parameters whose second shard is cut now
 */

/**
 * @param {Visit} visit
 * @param {Request[]} [requests]
 * @param {number[]} [waits]
 * @param {number[]} [frees]
 * @param {number[]} [shards]
 * @returns {Moment}
 */
function make_moment(visit, requests = NONE, waits = NONE, frees = NONE, shards = NONE) {
  return { visit, requests, waits, frees, shards };
}

/**
 * The books of stage 3 through one micro-step.
 * @typedef {object} Coordinator
 * @property {number[]} elements per parameter
 * @property {boolean[]} away per parameter: neither gathered nor on its way
 * @property {boolean[]} here gathered
 * @property {number[]} carrier the gather that brought it
 * @property {number[]} recent the latest use that the queue has passed
 * @property {boolean[]} apart a second shard is there
 * @property {boolean[]} inside per node: entered and not left
 * @property {number[][]} users nodes, per parameter
 * @property {number[][]} carried parameters, per gather
 * @property {number} available elements gathered or on their way
 * @property {number} step modules entered
 * @property {number} queued uses that have left the queue
 */

/**
 * What stage 3 gathers and frees at each visit of a micro-step, and at its end. `apart`: the parameters that have a
 * second shard already; it is brought up to date.
 * @param {Layout} layout
 * @param {Node[]} nodes
 * @param {Visit[]} visits
 * @param {Limits} limits
 * @param {boolean[]} apart
 */
export function coordinate(layout, nodes, visits, limits, apart) {
  const elements = layout.parameters.map((parameter) => parameter.elements);
  const persists = elements.map((size) => size <= limits.persistence);
  /** @type {number[][]} */
  const users = elements.map(() => []);
  for (const [number, node] of nodes.entries()) {
    for (const parameter of node.parameters) users[parameter].push(number);
  }
  /** @type {Coordinator} */
  const books = {
    elements,
    away: persists.map((stays) => !stays),
    here: persists.slice(),
    carrier: elements.map(() => -1),
    recent: elements.map(() => -1),
    apart,
    inside: nodes.map(() => false),
    users,
    carried: [],
    available: 0,
    step: 0,
    queued: 0,
  };
  /** @type {[number, number][]} Parameter, and the use. */
  const queue = [];
  /** @type {number[][]} */
  const uses = elements.map(() => []);
  const traversed = [0]; // elements used before each use
  for (const visit of visits) {
    if (visit.kind === "enter") {
      const use = traversed.length - 1;
      let passed = traversed[use];
      for (const parameter of nodes[visit.node].parameters) {
        queue.push([parameter, use]);
        uses[parameter].push(use);
        passed = passed + elements[parameter];
      }
      traversed.push(passed);
    }
  }
  const following = elements.map(() => 0); // place in `uses` of the next use
  /** @type {Moment[]} */
  const moments = [];
  for (const visit of visits) {
    const node = nodes[visit.node];
    if (visit.kind === "enter") {
      moments.push(enter(books, node, visit, limits, queue));
      continue;
    }
    if (visit.kind === "compute") {
      moments.push(make_moment(visit));
      continue;
    }
    if (visit.phase === "forward" || !node.keeps) books.inside[visit.node] = false;
    /** @type {number[]} */
    const free = [];
    for (const parameter of node.parameters) {
      const mine = uses[parameter];
      while (following[parameter] < mine.length && mine[following[parameter]] < books.step) {
        following[parameter] += 1;
      }
      if (persists[parameter] || books.recent[parameter] > books.step) continue;
      if (following[parameter] < mine.length) {
        const use = mine[following[parameter]];
        if (traversed[use] - traversed[books.step] < limits.reuse) continue;
      }
      if (books.here[parameter] && !in_use(books, parameter)) free.push(parameter);
    }
    moments.push(release(books, visit, free, limits.apart));
  }
  /** @type {number[]} */
  const rest = [];
  for (const [parameter, here] of books.here.entries()) {
    if (here && !persists[parameter]) rest.push(parameter);
  }
  const end = { node: 0, kind: "end", phase: "backward", op: "backward" };
  moments.push(release(books, end, rest, limits.apart));
  return moments;
}

/**
 * Whether a module that uses the parameter is entered and not left.
 * @param {Coordinator} books
 * @param {number} parameter
 */
export function in_use(books, parameter) {
  return books.users[parameter].some((node) => books.inside[node]);
}

/**
 * Gather what the module needs, wait for it, and gather ahead. Ahead means: take uses off the queue until the budget
 * is reached, which the last of them may overshoot. Uses of what is there already are passed by, and remembered so
 * that it is not freed before them.
 * @param {Coordinator} books
 * @param {Node} node
 * @param {Visit} visit
 * @param {Limits} limits
 * @param {[number, number][]} queue
 * @returns {Moment}
 */
export function enter(books, node, visit, limits, queue) {
  /** @type {Request[]} */
  const requests = [];
  const wanted = node.parameters.filter((parameter) => books.away[parameter]);
  if (wanted.length > 0) requests.push(ask(books, node, visit, "fetch", wanted));
  /** @type {number[]} */
  const waits = [];
  let due = 0;
  for (const parameter of node.parameters) {
    if (!books.here[parameter]) {
      const gather = books.carrier[parameter];
      waits.push(gather);
      for (const other of books.carried[gather]) books.here[other] = true;
    }
    if (books.recent[parameter] < books.step) due += 1;
  }
  books.inside[visit.node] = true;
  for (let taken = 0; taken < due; taken += 1) {
    const [parameter, use] = queue[books.queued];
    books.recent[parameter] = use;
    books.queued += 1;
  }
  const budget = Math.min(limits.live - books.available, limits.prefetch);
  /** @type {number[]} */
  const ahead = [];
  let asked = 0;
  while (books.queued < queue.length && asked < budget) {
    const [parameter, use] = queue[books.queued];
    books.queued += 1;
    books.recent[parameter] = Math.max(books.recent[parameter], use);
    if (books.away[parameter]) {
      books.away[parameter] = false;
      ahead.push(parameter);
      asked = asked + books.elements[parameter];
    }
  }
  if (ahead.length > 0) requests.push(ask(books, node, visit, "prefetch", ahead));
  books.step += 1;
  return make_moment(visit, requests, waits);
}

/**
 * Send parameters on their way, those with a second shard first.
 * @param {Coordinator} books
 * @param {Node} node
 * @param {Visit} visit
 * @param {string} why
 * @param {number[]} wanted
 * @returns {Request}
 */
export function ask(books, node, visit, why, wanted) {
  wanted.sort((one, other) => one - other);
  let asked = 0;
  for (const parameter of wanted) {
    books.away[parameter] = false;
    asked = asked + books.elements[parameter];
  }
  books.available = books.available + asked;
  /** @type {Gather[]} */
  const gathers = [];
  for (const near of [true, false]) {
    const group = wanted.filter((parameter) => books.apart[parameter] === near);
    if (group.length > 0) {
      for (const parameter of group) books.carrier[parameter] = books.carried.length;
      books.carried.push(group);
      gathers.push({ parameters: group, near });
    }
  }
  return { phase: visit.phase, module: node.name, why, parameters: wanted, elements: asked, gathers };
}

/**
 * Free parameters; with hpZ the first time cuts a second shard.
 * @param {Coordinator} books
 * @param {Visit} visit
 * @param {number[]} free
 * @param {boolean} apart
 * @returns {Moment}
 */
export function release(books, visit, free, apart) {
  /** @type {number[]} */
  const cut = [];
  for (const parameter of free) {
    books.away[parameter] = true;
    books.here[parameter] = false;
    books.available = books.available - books.elements[parameter];
    if (apart && !books.apart[parameter]) {
      books.apart[parameter] = true;
      cut.push(parameter);
    }
  }
  return make_moment(visit, NONE, NONE, free, cut);
}
