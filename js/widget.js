// The notebook's side: the only file that knows the anywidget model.

import { FIELDS } from "./model/specs.js";
import { mount } from "./view/explorer.js";

const NAMES = Object.keys(FIELDS);

/**
 * A host for the view: the model's traits, one to one.
 * @param {import("@anywidget/types").AnyModel} model
 * @returns {import("./view/explorer.js").Host & {end: () => void}}
 */
function host_of(model) {
  let asked = 0;
  const save = () => {
    asked = 0;
    model.save_changes();
  };
  return {
    get() {
      /** @type {Record<string, any>} */
      const fields = {};
      for (const name of NAMES) {
        const value = model.get(name);
        if (value !== undefined) fields[name] = value;
      }
      if (fields.shapes) {
        delete fields.N; // they follow from the shapes, and come in messages of their own
        delete fields.layers;
      }
      return fields;
    },
    set(changes) {
      for (const name in changes) model.set(name, changes[name]);
      if (!asked) asked = requestAnimationFrame(save); // a drag sends one message per frame
    },
    listen(listener) {
      for (const name of NAMES) model.on(`change:${name}`, listener);
      return () => {
        for (const name of NAMES) model.off(`change:${name}`, listener);
      };
    },
    end() {
      if (!asked) return;
      cancelAnimationFrame(asked);
      save();
    },
  };
}

/** @type {import("@anywidget/types").Render} */
function render({ model, el }) {
  const host = host_of(model);
  const unmount = mount(el, host);
  return () => {
    host.end();
    unmount();
  };
}

export default { render };
