// One instruction: what it is, what it costs, and the user's line that it comes from.

const FORMS = ["traced", "normal", "differentiated", "placed", "program"];

function sourceOf(instructions, row) {
  const file = instructions.text("file", row);
  return file ? `${file}:${instructions.line[row]}` : "";
}

// The line itself, where it could be read when the report was made.
async function sourceText(source) {
  const lines = await blob("sources");
  return lines?.[source] ?? "";
}

async function sourceBox(instructions, row) {
  const source = sourceOf(instructions, row);
  if (!source) return note("The source line of this instruction is not known.");
  const text = await sourceText(source);
  return el("div.source", {}, el("code.place", {}, source), text && el("pre", {}, text.trim()));
}

function instructionTitle(instructions, row) {
  const name = instructions.text("name", row);
  return [el("b", {}, instructions.text("op", row)), name ? ` → ${name}` : ""];
}

function instructionFacts(instructions, row, more = []) {
  const at = (name) => (instructions[name][row] >= 0 ? instructions[name][row] : "");
  const cycles = instructions.cycles[row];
  const times = instructions.count[row];
  const module = instructions.text("module", row);
  return facts([
    ...more,
    ["Module", module && el("a", { href: link("graph", { view: "modules", path: module }) }, module)],
    ["Where", [ipuName(instructions.ipu[row]), instructions.tiles[row] ? " I/O tiles" : "", at("stage") !== "" ? ` · stage ${at("stage")}` : "", at("phase") !== "" ? ` · phase ${at("phase")}` : ""].join("")],
    ["Block", instructions.text("block", row)],
    ["Pass", instructions.text("pass", row)],
    ["Cycles", `${count(cycles)} (${seconds(cyclesToSeconds(cycles))})`],
    ["In a run", `${count(times)} times, ${count(cycles * times)} cycles`],
    ["Bytes", bytes(instructions.bytes[row])],
  ]);
}

const rowsOfForms = new Map(); // by form: op_id → rows

// The text of an op in each form, side by side.
async function formsBox(id) {
  const forms = await blob("graph.forms");
  if (!forms || id <= 0) return note("This instruction is of the lowering's own: no op in another form belongs to it.");
  const columns = el("div.forms");
  const known = [...FORMS.filter((form) => forms[form]), ...Object.keys(forms).filter((form) => !FORMS.includes(form))];
  for (const form of known) {
    if (!rowsOfForms.has(form)) rowsOfForms.set(form, indexed(forms[form].op_id));
    const rows = rowsOfForms.get(form).get(id) ?? [];
    const shown = rows.slice(0, 20).map((row) => el("pre", {}, forms[form].text[row].trim()));
    const left = rows.length - shown.length;
    columns.append(
      el("div.form", {}, el("h3", {}, form), ...(shown.length ? shown : [el("p.none", {}, "not there")]), left > 0 && note(`and ${count(left)} more`)),
    );
  }
  return columns;
}

function indexed(ids) {
  const found = new Map();
  ids.forEach((id, row) => {
    if (found.has(id)) found.get(id).push(row);
    else found.set(id, [row]);
  });
  return found;
}
