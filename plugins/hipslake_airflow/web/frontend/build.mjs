// Bundles the page into ../page, with the licences of what is bundled. The same sources give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "page");
await mkdir(out, { recursive: true });

const bundled = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  outfile: join(out, "page.js"),
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});
await build({
  absWorkingDir: here,
  entryPoints: ["src/page.css"],
  outfile: join(out, "page.css"),
  minify: true,
  target: "es2022",
});
await copyFile(join(here, "src", "index.html"), join(out, "index.html"));

const packages = new Set();
for (const input of Object.keys(bundled.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
const texts = [];
for (const name of [...packages].sort()) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const text = await readFile(join(folder, "LICENSE"), "utf8");
  texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
const head = "page.js holds parts of these packages.\n";
await writeFile(join(out, "licences.txt"), [head, ...texts].join(`\n${"-".repeat(78)}\n\n`));
