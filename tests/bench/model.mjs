// Milliseconds that the model takes in JavaScript: node tests/bench/model.mjs paper:96 paper:1000 deepspeed:96

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
  const [system, layers] = word.split(":");
  const fields = { system, n: 512, layers: Number(layers), hidden: 8192 };
  const setups = Array.from({ length: 400 }, (_, i) => make_setup({ ...fields, N: 7e10 + i * 1e7 }));
  return { one: time((i) => step_of(setups[i], 3)), all: time((i) => steps_of(setups[i])) };
});
console.log(JSON.stringify(found));
