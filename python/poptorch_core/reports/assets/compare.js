// What differs between two reports, by module.

let compared; // the other report, once one is loaded: { head, modules }

definePage("compare", "Compare", async (section, state, isOpen) => {
  compared ??= await blob("other");
  const modules = await table("graph.modules");
  if (!isOpen()) return;
  const body = el("div.views");
  const picker = el("input", { type: "file", accept: ".json,.pop,application/json", id: "other-report" });
  const problem = el("p.problem", { role: "alert", hidden: true });
  picker.addEventListener("change", async () => {
    try {
      compared = reduceReport(JSON.parse(await picker.files[0].text()));
      problem.hidden = true;
      await compareViews(body, modules);
    } catch (error) {
      problem.textContent = `${picker.files[0]?.name}: ${error.message}`;
      problem.hidden = false;
    }
  });
  section.append(el("div.toolbar", {}, el("label", { for: "other-report" }, "Compare this report with the report.json of another: "), picker), problem, body);
  if (compared) await compareViews(body, modules);
  else body.append(note("No other report is loaded. Choose its report.json above, or write this page with --compare."));
});

// What a comparison needs of a whole report.json.
function reduceReport(data) {
  if (data.format !== "poptorch-report") throw new Error(`format is ${JSON.stringify(data.format)}, expected "poptorch-report": choose a report.json`);
  const { modules } = data.graph;
  const paths = modules.path.map((path) => (typeof path === "number" ? data.strings[path] : path));
  const { model, target, summary, compile } = data;
  return { head: { model, target, summary, compile, memory: { ipus: data.memory.ipus } }, modules: { ...modules, path: paths } };
}

// Both reports' modules by path; a tree of the paths of either.
function pairModules(mine, other) {
  const rows = new Map();
  const note_ = (side, path, parent, cycles, memory) => {
    if (!rows.has(path)) rows.set(path, { path, parent, a: undefined, b: undefined });
    rows.get(path)[side] = { cycles, memory };
  };
  const add = (side, modules, pathOf) => {
    for (let row = 0; row < modules.path.length; ++row) {
      const parent = modules.parent[row] < 0 ? undefined : pathOf(modules.parent[row]);
      note_(side, pathOf(row), parent, modules.cycles[row], modules.parameter_bytes[row] + modules.activation_bytes[row]);
    }
  };
  add("a", mine, (row) => mine.text("path", row));
  add("b", other, (row) => other.path[row]);
  const children = new Map();
  for (const row of rows.values()) {
    if (row.parent === undefined) continue;
    if (!children.has(row.parent)) children.set(row.parent, []);
    children.get(row.parent).push(row);
  }
  return { rows: [...rows.values()], children };
}

const sideOf = (row, side, what) => row[side]?.[what] ?? 0;
const differenceOf = (row, what) => sideOf(row, "b", what) - sideOf(row, "a", what);

function difference(a, b, format, lessIsBetter = true) {
  const change = b - a;
  const text = `${signed(change, format)}${a && change ? ` (${signed(change / a, percent)})` : ""}`;
  const better = change === 0 ? "same" : change < 0 === lessIsBetter ? "better" : "worse";
  return el(`span.${better}`, {}, text);
}

async function compareViews(body, modules) {
  disposeCharts();
  body.replaceChildren();
  const { rows, children } = pairModules(modules, compared.modules);
  body.append(card("Whole", wholeTable()));
  const cycles = card("Cycles: the modules with the largest differences, without submodules");
  const memory = card("Memory: the modules with the largest differences, without submodules");
  body.append(el("div.two", {}, cycles, memory));
  const column = (title, side, what, format) => ({ title, value: (row) => sideOf(row, side, what), cell: (row) => (row[side] ? format(sideOf(row, side, what)) : "–"), numeric: true });
  const change = (title, what, format) => ({ title, value: (row) => Math.abs(differenceOf(row, what)), cell: (row) => difference(sideOf(row, "a", what), sideOf(row, "b", what), format), numeric: true, width: "minmax(130px, 1.4fr)" });
  const tree = new TreeTable({
    label: "Modules of both reports",
    roots: rows.filter((row) => row.parent === undefined),
    children: (row) => children.get(row.path) ?? [],
    name: (row) => (row.parent && row.path.startsWith(row.parent + ".") ? row.path.slice(row.parent.length + 1) : row.path || "(the whole model)"),
    height: 480,
    columns: [
      column("Cycles, this", "a", "cycles", short),
      column("Other", "b", "cycles", short),
      change("Difference", "cycles", short),
      column("Memory, this", "a", "memory", bytes),
      column("Other", "b", "memory", bytes),
      change("Difference", "memory", bytes),
    ],
  });
  body.append(card("By module, including its submodules", note("Memory counts parameters and the results of forward ops."), tree.element));
  await Promise.all([differenceChart(cycles, rows, children, "cycles", short), differenceChart(memory, rows, children, "memory", bytes)]);
}

function wholeTable() {
  const most = (report) => Math.max(...report.memory.ipus.map((ipu) => ipu.needed), 0);
  const line = (name, a, b, format, lessIsBetter) => [name, format(a), format(b), difference(a, b, format, lessIsBetter)];
  const other = compared.head;
  const lines = [
    ["Model", head.model.name, other.model.name, ""],
    ["Strategy", head.model.strategy, other.model.strategy, ""],
    ["Bound by", head.summary.bound_by, other.summary.bound_by, ""],
    line("Time of a run", head.summary.seconds_per_run, other.summary.seconds_per_run, seconds),
    line("Cycles of a run", head.summary.cycles_per_run, other.summary.cycles_per_run, count),
    head.summary.samples_per_second && other.summary.samples_per_second && line("Samples per second", head.summary.samples_per_second, other.summary.samples_per_second, digits, false),
    line("Memory of the fullest IPU", most(head), most(other), bytes),
    ...memoryLines(line, head.memory.ipus, other.memory.ipus),
    line("Compilation", head.compile.seconds, other.compile.seconds, seconds),
  ].filter(Boolean);
  return el(
    "table.plain",
    {},
    el("thead", {}, el("tr", {}, ...["", "This", "Other", "Difference"].map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, ...lines.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell) => el("td", {}, cell))))),
  );
}

// By IPU, where there are several, but not very many.
function memoryLines(line, mine, other) {
  const ipus = Math.max(mine.length, other.length);
  if (ipus < 2 || ipus > 16) return [];
  return Array.from({ length: ipus }, (_, ipu) => line(`Memory of IPU ${ipu}`, mine[ipu]?.needed ?? 0, other[ipu]?.needed ?? 0, bytes));
}

// Of modules without what is below them, so that a difference shows once.
async function differenceChart(parent, rows, children, what, format) {
  const own = rows
    .map((row) => ({ path: row.path || "(in no module)", change: differenceOf(row, what) - (children.get(row.path) ?? []).reduce((sum, child) => sum + differenceOf(child, what), 0) }))
    .filter((row) => row.change !== 0)
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change))
    .slice(0, 12);
  if (!own.length) return parent.append(note("No module differs."));
  await addChart(parent, `Differences in ${what} by module`, 50 + own.length * 24, {
    grid: { left: 150, right: 30, top: 8, bottom: 28 },
    tooltip: { formatter: ({ dataIndex }) => tip(own[dataIndex].path, [["Difference", signed(own[dataIndex].change, format)]]) },
    xAxis: { type: "value", axisLabel: { formatter: (value) => (value === 0 ? "0" : tick((number) => signed(number, format))(value)), hideOverlap: true }, splitNumber: 4, ...(format === bytes && { interval: 2 ** Math.ceil(Math.log2(Math.abs(own[0].change) / 3)) }) },
    yAxis: { type: "category", inverse: true, data: own.map((row) => row.path), axisTick: { show: false }, axisLabel: { formatter: (path) => ending(path, 22) } },
    series: [{ type: "bar", barMaxWidth: 16, data: own.map((row) => ({ value: row.change, itemStyle: { color: colour(row.change < 0 ? "good" : "bad") } })) }],
  });
}
