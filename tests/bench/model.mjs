// Milliseconds that the model takes in JavaScript: node tests/bench/model.mjs 96 1000

import { steps_of } from "../../js/model/rows.js";
import { make_setup } from "../../js/model/specs.js";
import { step_of } from "../../js/model/timeline.js";

const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];

function time(run) {
  const times = [];
  for (let i = 0; i < 400; i += 1) {
    const before = performance.now();
    run(i);
    times.push(performance.now() - before);
  }
  return median(times.slice(200));
}

const found = process.argv.slice(2).map((word) => {
  const layers = Number(word);
  const setups = Array.from({ length: 400 }, (_, i) => make_setup({ N: 7e10 + i * 1e7, n: 512, layers, hidden: 8192 }));
  return { layers, one: time((i) => step_of(setups[i], 3)), all: time((i) => steps_of(setups[i])) };
});
console.log(JSON.stringify(found));
