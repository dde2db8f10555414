// What is where, what crosses between IPUs, what a module costs, and what became of one op.

definePage("graph", "Graph", async (section, state, isOpen) => {
  const [instructions, modules, crossings] = await Promise.all(["instructions", "graph.modules", "graph.crossings"].map(table));
  if (!isOpen()) return;
  const body = el("div.views");
  const views = {
    modules: () => modulesView(body, modules, state),
    placement: () => placementView(body, instructions, crossings),
    ops: () => opsView(body, instructions, state),
  };
  const show = (view) => {
    disposeCharts();
    body.replaceChildren();
    return views[view]();
  };
  const names = [["modules", "Modules"], ["placement", "Stages and crossings"], ["ops", "Ops"]];
  const chosen = views[state.get("view")] ? state.get("view") : "modules";
  section.append(
    el("div.toolbar", {}, choice("View", names, chosen, (view) => {
      for (const key of ["op", "path"]) state.delete(key);
      remember({ view, op: null, path: null });
      show(view);
    })),
    body,
  );
  await show(chosen);
});

async function modulesView(body, modules, state) {
  const children = indexed(modules.parent);
  const roots = children.get(-1) ?? [];
  const path = (row) => modules.text("path", row);
  const most = (column) => modules[column].reduce((a, b) => Math.max(a, b), 0) || 1;
  const barOf = (column, text) => {
    const top = most(column);
    return { value: (row) => modules[column][row], cell: (row) => bar(modules[column][row] / top, text(modules[column][row])), numeric: true };
  };
  const tree = new TreeTable({
    label: "Modules, with the sums of their submodules",
    roots,
    height: 420,
    children: (row) => children.get(row) ?? [],
    name: (row) => {
      const above = modules.parent[row] < 0 ? "" : path(modules.parent[row]);
      return above && path(row).startsWith(above + ".") ? path(row).slice(above.length + 1) : path(row) || "(the whole model)";
    },
    columns: [
      { title: "Cycles of a run", ...barOf("cycles", short), hint: "Modelled, of all IPUs" },
      { title: "Parameters", value: (row) => modules.parameters[row], cell: (row) => short(modules.parameters[row]), numeric: true },
      { title: "Parameter memory", ...barOf("parameter_bytes", bytes) },
      { title: "Activation memory", ...barOf("activation_bytes", bytes), hint: "Results of its forward ops, for one micro-batch" },
      { title: "Instructions", value: (row) => modules.instructions[row], cell: (row) => count(modules.instructions[row]), numeric: true, width: "90px" },
      { title: "IPU", value: (row) => modules.ipu[row], cell: (row) => (modules.ipu[row] >= 0 ? String(modules.ipu[row]) : modules.instructions[row] ? "several" : "–"), numeric: true, width: "70px" },
    ],
    open: (row) => remember({ path: path(row) }),
  });
  const box = card("Modules, including their submodules", tree.element);
  body.append(box);
  const wanted = state.has("path") ? [...Array(modules.rows).keys()].find((row) => path(row) === state.get("path")) : -1;
  if (wanted >= 0) {
    for (let up = modules.parent[wanted]; up >= 0; up = modules.parent[up]) tree.toggle(up, true);
    tree.table.revealRow(wanted);
  }
  await moduleMap(body, modules, children, roots);
}

// Cycles by module as nested rectangles: a click goes in, the path below goes out.
async function moduleMap(body, modules, children, roots) {
  const node = (row) => {
    const below = (children.get(row) ?? []).map(node);
    const own = modules.cycles[row] - below.reduce((sum, child) => sum + child.value, 0);
    const name = modules.text("path", row) || "(the whole model)";
    if (below.length && own > 0) below.push({ name: `${name} itself`, short: "itself", value: own, row });
    return { name, short: name.split(".").pop(), value: modules.cycles[row], children: below, row };
  };
  const box = card("Cycles of a run by module");
  body.append(box);
  if (!roots.some((row) => modules.cycles[row] > 0)) return void box.append(note("No op of a module takes any cycles."));
  await addChart(box, "Cycles of a run by module", 340, treemap(roots.map(node), (data, whole) => tip(data.name, [
    ["Cycles", `${count(data.value)}, ${percent(data.value / whole)}`],
    ["Parameters", bytes(modules.parameter_bytes[data.row])],
  ]), short));
}

// What is below a chain of modules that have one part each.
function withoutChain(nodes) {
  let data = nodes;
  while (data.length === 1 && data[0].children?.length) data = data[0].children;
  return data;
}

// A treemap of { name, short, value, children }; `tipOf(data, whole)` says what a rectangle is.
function treemap(nodes, tipOf, format) {
  const data = withoutChain(nodes);
  const whole = data.reduce((sum, one) => sum + one.value, 0) || 1;
  return {
    color: ["compute", "activation", "streaming", "exchange", "sync", "host", "stash"].map(colour),
    tooltip: { formatter: ({ data: one }) => (one?.value === undefined ? "" : tipOf(one, whole)) },
    series: [
      {
        type: "treemap",
        name: "all",
        drillDownIcon: "",
        data,
        left: 0,
        right: 0,
        top: 0,
        bottom: 30,
        leafDepth: 3,
        roam: false,
        breadcrumb: { bottom: 0, itemStyle: { color: colour("grid"), textStyle: { color: colour("text") }, borderColor: colour("line") }, emphasis: { itemStyle: { color: colour("line"), textStyle: { color: colour("text") } } } },
        itemStyle: { borderColor: colour("surface"), borderWidth: 1, gapWidth: 1 },
        label: { color: "#fff", fontSize: 11, lineHeight: 14, formatter: ({ data: one }) => `${one.short ?? one.name ?? ""}\n${format(one.value ?? 0)}`, overflow: "truncate" },
        upperLabel: { show: true, height: 20, color: colour("text"), formatter: ({ data: one }) => `${one?.short ?? ""}  ${one?.value === undefined ? "" : format(one.value)}` },
        levels: [{ itemStyle: { gapWidth: 3 }, upperLabel: { show: false } }, { itemStyle: { gapWidth: 1, borderWidth: 2 }, colorSaturation: [0.35, 0.6] }, { colorSaturation: [0.35, 0.6] }],
      },
    ],
  };
}

function opsView(body, instructions, state) {
  const details = el("div", { "aria-live": "polite" });
  const filter = el("input", { type: "search", placeholder: "Op, tensor, module, file …", "aria-label": "Show only rows that contain this text" });
  const shown = el("span.soft");
  const all = Array.from({ length: instructions.rows }, (_, row) => row);
  const text = (name) => (row) => instructions.text(name, row);
  const number = (name, format = count) => ({ value: (row) => instructions[name][row], cell: (row) => (instructions[name][row] < 0 ? "" : format(instructions[name][row])), numeric: true });
  const open = async (row) => {
    remember({ view: "ops", op: row });
    const made = await opDetails(instructions, row);
    details.replaceChildren(made);
  };
  const list = new RowTable({
    label: "Ops in the order of the program",
    rows: all,
    height: 400,
    open,
    columns: [
      { title: "#", value: (row) => row, cell: (row) => count(row), numeric: true, width: "64px" },
      { title: "Op", value: text("op"), width: "minmax(100px, 1.3fr)" },
      { title: "Makes", value: text("name"), width: "minmax(90px, 1.3fr)" },
      { title: "Module", value: text("module"), width: "minmax(110px, 2fr)" },
      { title: "IPU", ...number("ipu"), width: "52px" },
      { title: "Stage", ...number("stage"), width: "60px" },
      { title: "Pass", value: text("pass"), width: "84px" },
      { title: "Cycles", ...number("cycles"), width: "96px", hint: "Once" },
      { title: "Times", ...number("count"), width: "70px", hint: "Executions in a run" },
      { title: "Bytes", ...number("bytes", bytes), width: "88px" },
      { title: "Source", value: (row) => sourceOf(instructions, row), cell: (row) => sourceOf(instructions, row).split("/").pop(), width: "minmax(110px, 1.4fr)" },
    ],
  });
  const narrow = () => {
    const sought = filter.value.trim().toLowerCase();
    const columns = ["op", "name", "module", "block", "pass"];
    const rows = sought ? all.filter((row) => columns.some((column) => instructions.text(column, row).toLowerCase().includes(sought)) || sourceOf(instructions, row).toLowerCase().includes(sought)) : all;
    shown.textContent = `${count(rows.length)} of ${count(all.length)} instructions`;
    list.show(rows);
  };
  filter.addEventListener("input", narrow);
  body.append(card("", el("div.toolbar", {}, filter, shown), list.element), details);
  narrow();
  const wanted = Number(state.get("op") ?? -1);
  if (wanted < 0) {
    details.append(note("Choose an op to see its source line and its text in each IR stage."));
    return undefined;
  }
  list.revealRow(wanted);
  return open(wanted);
}

async function opDetails(instructions, row) {
  const [source, forms] = await Promise.all([sourceBox(instructions, row), formsBox(instructions.op_id[row])]);
  return card(
    "",
    el("h2", {}, ...instructionTitle(instructions, row)),
    source,
    instructionFacts(instructions, row),
    el("p", {}, el("a", { href: link("execution", { op: row }) }, "When it runs →")),
    el("h2", {}, "In each IR stage"),
    forms,
  );
}
