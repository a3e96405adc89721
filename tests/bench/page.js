// What a drag step costs: the explorer as it is, against the same with one rectangle per span.

import { explain } from "../../js/model/advice.js";
import { steps_of, summary } from "../../js/model/rows.js";
import { make_setup } from "../../js/model/specs.js";
import { make_bars } from "../../js/view/bars.js";
import { COLOURS } from "../../js/view/colours.js";
import { make_controls } from "../../js/view/controls.js";
import { html, pool, set, svg } from "../../js/view/dom.js";
import { make_lanes } from "../../js/view/lanes.js";
import { make_menu } from "../../js/view/menu.js";
import STYLE from "../../js/view/style.css";
import { make_headline, make_verdict } from "../../js/view/verdict.js";

const WIDTH = 1180;

/** The timeline as one would draw it first: a rectangle per span, no labels, no memory lane. */
function make_rects() {
  const spans = svg("g");
  const chart = svg("svg", { class: "lanes", viewBox: `0 0 ${WIDTH} 176` }, spans);
  const rects = pool(spans, "rect");
  return {
    element: html("section", {}, chart),
    update({ setup, steps }) {
      const step = steps[setup.stage];
      const zoom = (WIDTH - 124) / step.seconds;
      for (const { op, start, end } of step.spans) {
        const y = op.stream === "compute" ? 26 : 64;
        const style = `fill: var(--${op.op})`;
        rects.next({
          x: 112 + start * zoom,
          y,
          width: Math.max(0.4, (end - start) * zoom - 1),
          height: 32,
          style,
        });
      }
      rects.done();
    },
  };
}

/** The parts of the explorer in a page, with the timeline that `lanes` makes. */
function build(lanes) {
  let setup = make_setup({});
  const tooltip = { show() {}, hide() {} };
  const view = {
    setup: () => setup,
    said: () => "",
    set() {},
    settle() {},
    render() {},
    tooltip,
    place: () => ({}),
  };
  const parts = [
    make_controls(view, "bench", make_menu(document.body, view)),
    make_headline(),
    make_bars(view, "bench"),
    lanes(view),
    make_verdict(),
  ];
  const holder = html("div");
  const root = html("div", { class: "zw" }, ...parts.map((part) => part.element));
  holder.attachShadow({ mode: "open" }).append(html("style", {}, STYLE, COLOURS), root);
  document.body.append(holder);
  return {
    holder,
    /** One drag step: script and layout, in milliseconds. */
    step(fields) {
      const before = performance.now();
      setup = make_setup(fields);
      const steps = steps_of(setup);
      const rows = summary(setup, steps);
      const sides = [{ setup, steps, rows }];
      const said = explain(setup, rows, steps[setup.stage]);
      for (const part of parts)
        part.update({ setup, steps, rows, sides, said, width: WIDTH, dragging: true });
      root.getBoundingClientRect();
      return performance.now() - before;
    },
  };
}

const kinds = {
  paths: (view) => make_lanes(view, 0, { scale: 1, window: [0, 1] }),
  rects: make_rects,
};

/** Times of `count` drag steps, one a frame. */
window.drag = async (kind, count, fields) => {
  document.body.replaceChildren();
  const built = build(kinds[kind]);
  const times = [];
  for (let i = 0; i < count; i += 1) {
    await new Promise(requestAnimationFrame);
    times.push(built.step({ ...fields, N: 5e10 + i * 1e8 }));
  }
  set(built.holder, { "data-done": kind });
  return times;
};
