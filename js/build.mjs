// Bundles what the Python package ships: widget.js for notebooks, standalone.js for pages of their own.
//   node js/build.mjs [--watch]
//   node js/build.mjs entry.js out.js    another page from the same sources

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/** `import css from "./x.css"` gives the minified text, for a shadow root's <style>. @type {esbuild.Plugin} */
const cssText = {
  name: "css-text",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const css = await readFile(path, "utf8");
      const { code } = await esbuild.transform(css, {
        loader: "css",
        minify: true,
        charset: "utf8",
        sourcefile: path,
      });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

/** Keys that no view shows: every notebook stores the bundle, so it goes without them. */
const UNSEEN = /^(source|used_by|memory_from|table_title|error_near)$|^(chart|export)_/;

/** @type {esbuild.Plugin} */
const dataWithoutSources = {
  name: "data-without-sources",
  setup(build) {
    build.onLoad({ filter: /[\\/]zerowidget[\\/]data[\\/][^\\/]+\.json$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const data = JSON.parse(text, (key, value) => (UNSEEN.test(key) ? undefined : value));
      return { contents: JSON.stringify(data), loader: "json" };
    });
  },
};

const kB = (/** @type {Uint8Array} */ bytes) => `${(bytes.length / 1000).toFixed(1)} kB`;

/** @type {esbuild.Plugin} */
const report = {
  name: "report",
  setup(build) {
    build.onEnd(async ({ metafile, errors }) => {
      if (errors.length) return;
      for (const path of Object.keys(metafile?.outputs ?? {})) {
        const bundle = await readFile(join(root, path));
        console.log(`${path}: ${kB(bundle)}, ${kB(gzipSync(bundle))} gzip`);
      }
    });
  },
};

/** @type {esbuild.BuildOptions} */
const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  target: "es2021",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
  plugins: [cssText, dataWithoutSources, report],
};

const [entry, outfile] = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const folder = "src/zerowidget/static";
/** @type {esbuild.BuildOptions[]} */
const wanted = entry
  ? [{ ...common, format: "esm", entryPoints: [entry], outfile }]
  : [
      { ...common, format: "esm", entryPoints: ["js/widget.js"], outfile: `${folder}/widget.js` },
      { ...common, format: "iife", entryPoints: ["js/standalone.js"], outfile: `${folder}/standalone.js` },
    ];

if (process.argv.includes("--watch")) {
  for (const options of wanted) await (await esbuild.context(options)).watch();
} else {
  for (const options of wanted) await esbuild.build(options).catch(() => process.exit(1));
}
