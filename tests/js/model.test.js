// The model against tests/vectors/, which Python writes (tests/make_vectors.py). Every comparison is exact.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { advice, costs_text, explain, formula, movement, rings } from "../../js/model/advice.js";
import { differences } from "../../js/model/compare.js";
import { layout_of } from "../../js/model/layout.js";
import { bytes_per_gpu } from "../../js/model/memory.js";
import { BUFFERS } from "../../js/model/program.js";
import {
  communication_rows,
  memory_rows,
  STAGES,
  steps_of,
  summary,
  timeline_rows,
} from "../../js/model/rows.js";
import {
  but,
  check,
  cluster_of,
  make_setup,
  options,
  parse_count,
  SetupError,
  shown,
  transformer_of,
} from "../../js/model/specs.js";
import { live_bytes, step_of } from "../../js/model/timeline.js";
import {
  amount,
  count,
  duration,
  exponential,
  fixed,
  plain,
  say,
  scaled_size,
  significant,
  size,
  trimmed,
} from "../../js/model/words.js";
import { ink } from "../../js/view/colours.js";

const FORMATS = {
  amount,
  count,
  duration,
  exponential,
  fixed,
  plain,
  scaled_size,
  significant,
  size,
  trimmed,
};
const read = (name) => JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), "utf8"));
const setups = read("setups.json");
const timelines = read("timelines.json");
const texts = read("words.json");

/** Rows as the vectors hold them: lists of values, once the columns are the same in the same order. */
function values_of(rows, columns) {
  for (const row of rows) assert.deepEqual(Object.keys(row), columns);
  return rows.map((row) => Object.values(row));
}

/** The columns of a step, as `fingerprint` of make_vectors.py makes them. */
function fingerprint(setup, step) {
  const rows = timeline_rows(setup, step);
  const numbers = [];
  const names = [];
  for (const row of rows) {
    numbers.push(row.start, row.end, row.elements, row.nbytes, row.waits_for ?? -1, row.exposed);
    numbers.push(row.ranks);
    names.push(row.op, row.group, row.phase, row.stream, row.dtype, row.module);
  }
  for (const live of [...step.live, step.peak]) numbers.push(...Object.values(live));
  return [step.seconds, rows.length, step.live.length, hash_of(numbers, names)];
}

/** A hash of numbers (64-bit floats, little-endian) and texts. */
function hash_of(numbers, names) {
  const bits = Buffer.alloc(8 * numbers.length);
  for (const [index, number] of numbers.entries()) bits.writeDoubleLE(number, 8 * index);
  return createHash("sha256").update(bits).update(names.join("\n")).digest("hex").slice(0, 16);
}

/** All of the layout, as `layout_fingerprint` of make_vectors.py hashes it. */
function layout_fingerprint(setup) {
  const { parameters, modules } = layout_of(setup);
  const numbers = [];
  const names = [];
  for (const { name, elements, rows, flat } of parameters) {
    numbers.push(elements, rows, Number(flat));
    names.push(name);
  }
  for (const { name, group, parameters: members, forward_flops } of modules) {
    numbers.push(forward_flops, ...members);
    names.push(name, group);
  }
  return hash_of(numbers, names);
}

/** A value that JSON cannot hold, as `encoded` of make_vectors.py writes it. */
const decoded = (value) => (value?.number === undefined ? value : Number(value.number));

/** Every vector, and what is wrong with the first ones that fail. */
function all(vectors, name_of, compare) {
  const failed = [];
  for (const vector of vectors) {
    try {
      compare(vector);
    } catch (error) {
      failed.push(`${name_of(vector)}: ${error.message}`);
    }
  }
  const first = failed.slice(0, 3).join("\n\n");
  assert.equal(failed.length, 0, `${failed.length} of ${vectors.length} vectors differ\n\n${first}`);
}

const name_of = ({ name, setup }) => `${name ?? "timeline"} ${JSON.stringify(setup)}`;

test("the vectors are many", () => {
  assert.ok(setups.vectors.length >= 340);
  assert.ok(timelines.vectors.length >= 40);
});

test("memory, communication and summary equal Python's on every vector", () => {
  all(setups.vectors, name_of, (vector) => {
    const setup = make_setup(vector.setup);
    const steps = steps_of(setup);
    const { columns } = setups;
    assert.deepEqual(values_of(memory_rows(setup, steps), columns.memory), vector.memory);
    const sent = communication_rows(setup, steps);
    assert.deepEqual(values_of(sent, columns.communication), vector.communication);
    assert.deepEqual(values_of(differences(setup), columns.differences), vector.differences);
    assert.deepEqual(values_of(summary(setup, steps), columns.summary), vector.summary);
  });
});

test("the parts that follow from a setup equal Python's on every vector", () => {
  all(setups.vectors, name_of, (vector) => {
    const setup = make_setup(vector.setup);
    const { columns } = setups;
    assert.deepEqual(values_of([cluster_of(setup)], columns.cluster), vector.cluster);
    assert.deepEqual(values_of([transformer_of(setup)], columns.transformer), vector.transformer);
    assert.equal(layout_fingerprint(setup), vector.layout);
  });
});

test("advice and explanation equal Python's on every vector", () => {
  all(setups.vectors, name_of, (vector) => {
    const setup = make_setup(vector.setup);
    const steps = steps_of(setup);
    const { columns } = setups;
    assert.deepEqual(values_of([advice(setup, summary(setup, steps))], columns.advice), vector.advice);
    assert.deepEqual(values_of([explain(setup, summary(setup, steps))], columns.explain), vector.explain);
    const said = summary(setup, steps).map((row, stage) => {
      const texts = [costs_text(setup, row), formula(setup, row.stage), movement(setup, row)];
      return [...texts, rings(setup, steps[stage])];
    });
    assert.deepEqual(said, vector.texts);
  });
});

test("every span and every change of what is live equals Python's to the last bit", () => {
  all(setups.vectors, name_of, (vector) => {
    const setup = make_setup(vector.setup);
    const steps = steps_of(setup).map((step) => fingerprint(setup, step));
    assert.deepEqual(steps, vector.steps);
  });
});

test("small timelines equal Python's row by row", () => {
  all(timelines.vectors, name_of, (vector) => {
    const setup = make_setup(vector.setup);
    const step = step_of(setup, setup.stage);
    assert.deepEqual(values_of(timeline_rows(setup, step), timelines.columns), vector.rows);
    assert.deepEqual(values_of(step.live, ["time", ...BUFFERS, "nbytes"]), vector.live);
    assert.deepEqual(Object.values(step.peak), vector.peak);
  });
});

test("tables make their own steps when they are given none", () => {
  const setup = make_setup({ layers: 3, stage: 2 });
  const steps = steps_of(setup);
  assert.deepEqual(memory_rows(setup), memory_rows(setup, steps));
  assert.deepEqual(summary(setup), summary(setup, steps));
  assert.deepEqual(timeline_rows(setup), timeline_rows(setup, steps[2]));
  assert.deepEqual(advice(setup), advice(setup, summary(setup, steps)));
  assert.deepEqual(explain(setup), explain(setup, summary(setup, steps)));
});

test("bytes_per_gpu gives the article's numbers", () => {
  const gib = STAGES.map((stage) => size(bytes_per_gpu(7.5e9, 64, stage), "GiB"));
  assert.deepEqual(gib, ["111.8 GiB", "29.2 GiB", "15.5 GiB", "1.7 GiB"]);
});

test("a bad value is refused in Python's words", () => {
  all(texts.errors, String, ([name, value, language, message]) => {
    assert.throws(() => check(name, decoded(value), language), new SetupError(message));
  });
});

test("a good value is stored as Python stores it", () => {
  all(texts.good, String, ([name, value, stored]) => assert.ok(Object.is(check(name, value), stored)));
});

test("fields that do not go together are refused in Python's words", () => {
  all(texts.disagreeing, JSON.stringify, ([values, message]) => {
    assert.throws(() => make_setup(values), new SetupError(message));
  });
});

test("a setup is frozen, and a field left undefined has its default", () => {
  const setup = make_setup({ n: 8, stage: undefined });
  assert.equal(setup.stage, 3);
  assert.equal(but(setup, { n: 9 }).n, 9);
  assert.equal(setup.n, 8);
  assert.throws(() => {
    setup.n = 9;
  }, TypeError);
});

test("an unknown field is refused by name", () => {
  assert.throws(() => make_setup({ gpus: 8 }), new TypeError("unknown field gpus"));
  assert.throws(() => make_setup({ toString: 8 }), new TypeError("unknown field toString"));
});

test("a choice takes what Python's takes", () => {
  all(texts.options, String, ([name, values]) => assert.deepEqual(options(name), values));
});

test("counts are read as Python reads them", () => {
  all(texts.parse_count, JSON.stringify, ([text, number, message]) => {
    if (message === null) assert.ok(Object.is(parse_count(text), decoded(number)));
    else assert.throws(() => parse_count(text), new SetupError(message));
  });
});

test("numbers are written as Python writes them", () => {
  all(texts.formats, JSON.stringify, ([name, arguments_, text]) => {
    assert.equal(FORMATS[name](...arguments_), text);
  });
});

test("a sentence takes what is put in as it stands", () => {
  all(texts.say, JSON.stringify, ([key, language, values, text]) => {
    assert.equal(say(key, language, values), text);
  });
});

test("what is no field's value is still shown", () => {
  assert.equal(shown(undefined), "None");
  assert.equal(shown(-Infinity), "-inf");
  assert.equal(shown(["a"]), "a");
});

test("frees come before allocations of the same moment, as in Python", () => {
  const span = (start, end, takes, gives) => ({ start, end, cause: null, op: { takes, gives, queues: [] } });
  const layer = [["gathered", 5]];
  const live = live_bytes([span(0, 1, layer, []), span(2, 3, layer, []), span(1, 2, [], layer)]);
  assert.deepEqual(
    live.map(({ time, gathered }) => [time, gathered]),
    [
      [0, 5],
      [2, 5],
    ],
  );
});

test("text on a colour has the ink with the higher contrast (WCAG)", () => {
  const luminance = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const { states, ops } = JSON.parse(
    readFileSync(new URL("../../src/zerowidget/data/encoding.json", import.meta.url), "utf8"),
  );
  const colours = [...Object.values(states), ...Object.values(ops)].flatMap((pair) => Object.values(pair));
  assert.ok(colours.length > 20);
  for (const colour of colours) {
    const other = ink(colour) === "#ffffff" ? "#16181c" : "#ffffff";
    assert.ok(contrast(colour, ink(colour)) >= contrast(colour, other), colour);
  }
});
