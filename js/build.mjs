// Bundles what the Python package ships: widget.js for notebooks, standalone.js for pages of their own.
//   node js/build.mjs [--watch]
//   node js/build.mjs entry.js out.js    another page from the same sources

import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";
import { minify } from "terser";

const root = fileURLToPath(new URL("..", import.meta.url));
const watching = process.argv.includes("--watch");

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

/**
 * Keys that no view shows: every notebook stores the bundle, so it goes without them. Neither does it say which
 * rule broke what Python has checked before: the shapes of a model, and what follows from them.
 */
const UNSEEN =
  /^(source|used_by|memory_from|title|table_title|error_(near|unknown)|rule_(shapes|counted|only))$|^(chart|export)_/;

/**
 * Properties of objects that never leave the code, which get short names. That is safe for a name that is in no
 * string, for then nothing can ask for it (`smaller` looks), in no row, field or data file (a test looks), and
 * not the browser's.
 */
const INSIDE = `
  accumulated apart available away backward_prefetch carrier carriers cluster collective contiguous dragging
  early element forward_flops forward_prefetch frees gate gathers grad_bytes here lane leaves limits mesh
  modules moments names near offsets overlap padded param param_bytes passing persistence previous queued
  queues recent reduce_bytes regather replicate replicated requests reshard_after_backward reshards reuse
  scalars segment separate_reduce_scatter_group settle shards side sides spanning taking tooltip unreduced
  unshard users visit visits written`
  .trim()
  .split(/\s+/);

/** @type {esbuild.Plugin} */
const data = {
  name: "data",
  setup(build) {
    build.onLoad({ filter: /[\\/]zerowidget[\\/]data[\\/][^\\/]+\.json$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const seen = JSON.parse(text, (key, value) => (UNSEEN.test(key) ? undefined : value));
      if (basename(path) === "words.json") return { contents: oneText(seen), loader: "js" };
      return { contents: JSON.stringify(seen), loader: "json" };
    });
  },
};

/**
 * The sentences as one text, all keys, all English and then all Chinese: hundreds of small objects take more room.
 * What parts them is no rare letter, for that is the cheaper one.
 * @param {Record<string, {en: string, zh: string}>} words
 */
function oneText(words) {
  const all = Object.values(words);
  const parts = [...Object.keys(words), ...all.map(({ en }) => en), ...all.map(({ zh }) => zh)];
  if (parts.some((part) => part.includes('"')))
    throw new Error('words.json: the bundle parts sentences at "');
  return `
    const parts = ${JSON.stringify(parts.join('"'))}.split('"');
    const words = {};
    for (let i = 0; i < ${all.length}; i += 1)
      words[parts[i]] = { en: parts[i + ${all.length}], zh: parts[i + ${2 * all.length}] };
    export default words;`;
}

const kB = (/** @type {Uint8Array} */ bytes) => `${(bytes.length / 1000).toFixed(1)} kB`;

/**
 * What esbuild leaves is made smaller once more; it takes seconds, so `--watch` goes without.
 * @type {esbuild.Plugin}
 */
const smaller = {
  name: "smaller",
  setup(build) {
    if (watching) return;
    build.onEnd(async ({ metafile, errors }) => {
      if (errors.length) return;
      for (const path of Object.keys(metafile?.outputs ?? {})) {
        const code = await readFile(join(root, path), "utf8");
        const named = INSIDE.filter((name) => new RegExp(`\\b${name}\\b`).test(code));
        if (named.length) throw new Error(`in a string, so its name must stay: ${named.join(", ")}`);
        const { ast } = await minify(code, {
          module: true,
          ecma: 2020,
          compress: { passes: 2, pure_getters: true, lhs_constants: false },
          format: { ast: true, code: false },
        });
        const tree = /** @type {any} */ (ast);
        // functions are there before anything runs, wherever they stand: by themselves they compress better
        const is_function = (node) => Number(node.TYPE === "Defun");
        tree.body.sort((one, other) => is_function(one) - is_function(other));
        const small = await minify(tree, { compress: false, mangle: false, format: { comments: false } });
        await writeFile(join(root, path), small.code ?? "");
      }
    });
  },
};

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
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  mangleProps: new RegExp(`^(${INSIDE.join("|")})$`),
  metafile: true,
  logLevel: "warning",
  plugins: [cssText, data, smaller, report],
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

if (watching) {
  for (const options of wanted) await (await esbuild.context(options)).watch();
} else {
  for (const options of wanted)
    await esbuild.build(options).catch((problem) => {
      console.error(problem.message);
      process.exit(1);
    });
}
