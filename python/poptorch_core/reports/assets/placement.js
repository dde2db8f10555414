// Blocks, stages and phases, and what crosses between IPUs: a view of the page of the graph.

async function placementView(body, instructions, crossings) {
  const flows = card("Tensors that cross between IPUs in a run");
  body.append(flows);
  if (head.collectives.length) body.append(card("Collectives between replicas", collectivesTable()));
  const places = placesOf(instructions);
  const most = Math.max(...places.map((place) => place.cycles), 1);
  const list = new RowTable({
    label: "Stages, phases and blocks",
    rows: places,
    height: 360,
    columns: [
      { title: "IPU", value: (row) => row.ipu, cell: (row) => String(row.ipu), numeric: true, width: "60px" },
      { title: "Stage", value: (row) => row.stage, cell: (row) => (row.stage < 0 ? "–" : String(row.stage)), numeric: true, width: "70px" },
      { title: "Phase", value: (row) => row.phase, cell: (row) => (row.phase < 0 ? "–" : String(row.phase)), numeric: true, width: "70px" },
      { title: "Pass", value: (row) => row.pass, width: "90px" },
      { title: "Block", value: (row) => row.block, width: "minmax(120px, 2fr)" },
      { title: "Instructions", value: (row) => row.instructions, cell: (row) => count(row.instructions), numeric: true },
      { title: "Cycles of a run", value: (row) => row.cycles, cell: (row) => bar(row.cycles / most, short(row.cycles)), numeric: true, width: "minmax(120px, 1.5fr)" },
    ],
  });
  body.append(card("Stages, phases and blocks", list.element));
  if (!crossings.rows) {
    flows.append(note(head.target.ipus > 1 ? "Nothing crosses." : "There is one IPU: nothing crosses."));
    return;
  }
  const rows = Array.from({ length: crossings.rows }, (_, row) => row);
  const total = (row) => crossings.bytes[row] * crossings.count[row];
  const table = new RowTable({
    label: "Tensors that cross",
    rows,
    sort: 5,
    height: 300,
    open: (row) => (location.hash = link("graph", { view: "ops", op: crossings.instruction[row] })),
    columns: [
      { title: "Tensor", value: (row) => crossings.text("name", row), width: "minmax(120px, 1.5fr)" },
      { title: "Module", value: (row) => crossings.text("module", row), width: "minmax(120px, 2fr)" },
      { title: "From → to", value: (row) => crossings.from_ipu[row] * 1000 + crossings.to_ipu[row], cell: (row) => `${crossings.from_ipu[row]} → ${crossings.to_ipu[row]}`, width: "90px" },
      { title: "Once", value: (row) => crossings.bytes[row], cell: (row) => bytes(crossings.bytes[row]), numeric: true },
      { title: "Times", value: (row) => crossings.count[row], cell: (row) => count(crossings.count[row]), numeric: true, width: "70px" },
      { title: "In a run", value: total, cell: (row) => bytes(total(row)), numeric: true },
      { title: "Cycles", value: (row) => crossings.cycles[row] * crossings.count[row], cell: (row) => short(crossings.cycles[row] * crossings.count[row]), numeric: true },
    ],
  });
  body.insertBefore(card("Tensors that cross, most bytes first", table.element), body.lastChild);
  await flowChart(flows, crossings);
}

// What replicas exchange, by IPU of each.
function collectivesTable() {
  return new RowTable({
    label: "Collectives between replicas",
    rows: head.collectives,
    sort: 7,
    height: 260,
    columns: [
      { title: "IPU", value: (row) => row.ipu, cell: (row) => String(row.ipu), numeric: true, width: "60px" },
      { title: "Module", value: (row) => row.module, width: "minmax(120px, 2fr)" },
      { title: "Op", value: (row) => row.op, width: "120px" },
      { title: "Part", value: (row) => row.part, width: "120px" },
      { title: "Over", value: (row) => row.links, width: "90px" },
      { title: "Replicas", value: (row) => row.members, cell: (row) => count(row.members), numeric: true, width: "80px" },
      { title: "Sent in a run", value: (row) => row.bytes, cell: (row) => bytes(row.bytes), numeric: true },
      { title: "Cycles", value: (row) => row.cycles, cell: (row) => short(row.cycles), numeric: true },
    ],
  }).element;
}

// Sums over instructions by where they are; loops themselves are their bodies'.
function placesOf(instructions) {
  const found = new Map();
  for (let row = 0; row < instructions.rows; ++row) {
    if (instructions.text("kind", row) === "loop") continue;
    const place = {
      ipu: instructions.ipu[row],
      stage: instructions.stage[row],
      phase: instructions.phase[row],
      pass: instructions.text("pass", row),
      block: instructions.text("block", row),
    };
    const key = Object.values(place).join("\n");
    if (!found.has(key)) found.set(key, { ...place, instructions: 0, cycles: 0 });
    const sum = found.get(key);
    sum.instructions += 1;
    sum.cycles += instructions.cycles[row] * instructions.count[row];
  }
  return [...found.values()].sort((a, b) => a.ipu - b.ipu || a.stage - b.stage || a.phase - b.phase);
}

// IPUs in a row; arcs above go to higher numbers, those below to lower ones.
async function flowChart(parent, crossings) {
  const sums = new Map();
  for (let row = 0; row < crossings.rows; ++row) {
    const key = `${crossings.from_ipu[row]}>${crossings.to_ipu[row]}`;
    const sum = sums.get(key) ?? { from: crossings.from_ipu[row], to: crossings.to_ipu[row], bytes: 0, tensors: 0 };
    sum.bytes += crossings.bytes[row] * crossings.count[row];
    sum.tensors += 1;
    sums.set(key, sum);
  }
  const flows = [...sums.values()];
  const most = Math.max(...flows.map((flow) => flow.bytes));
  const ipus = head.target.ipus;
  const far = Math.max(...flows.map((flow) => Math.abs(flow.to - flow.from)));
  const gap = parent.clientWidth / ipus; // pixels between neighbours
  const rise = (flow) => 40 + 26 * Math.log2(Math.abs(flow.to - flow.from)); // of an arc, in pixels
  await addChart(parent, "Bytes that cross between IPUs", 2 * (40 + 26 * Math.log2(far)) + 60, {
    grid: { left: 0, right: 0, top: 10, bottom: 10 },
    xAxis: { show: false, type: "value", min: -0.5, max: ipus - 0.5 },
    yAxis: { show: false, type: "value", min: -1, max: 1 },
    tooltip: {
      formatter: ({ dataType, data }) =>
        dataType === "edge"
          ? tip(`IPU ${data.flow.from} → IPU ${data.flow.to}`, [["In a run", bytes(data.flow.bytes)], ["Tensors", count(data.flow.tensors)]])
          : tip(data.name, [["Stages", head.stages.filter((stage) => stage.ipu === data.ipu).map((stage) => stage.stage).join(", ") || "–"]]),
    },
    series: [
      {
        type: "graph",
        coordinateSystem: "cartesian2d",
        symbol: "roundRect",
        symbolSize: [Math.min(gap * 0.4, 64), 34],
        label: { show: true, color: "#fff" },
        itemStyle: { color: colour("compute") },
        edgeSymbol: ["none", "arrow"],
        edgeSymbolSize: 9,
        edgeLabel: { show: flows.length <= 24, color: colour("text"), backgroundColor: colour("surface"), padding: [1, 3], borderRadius: 3, fontSize: 11, formatter: ({ data }) => bytes(data.flow.bytes) },
        data: Array.from({ length: ipus }, (_, ipu) => ({ name: ipus > 12 ? String(ipu) : `IPU ${ipu}`, id: String(ipu), ipu, value: [ipu, 0] })),
        links: flows.map((flow) => ({
          source: String(flow.from),
          target: String(flow.to),
          flow,
          lineStyle: { width: 1 + (flow.bytes / most) * 6, curveness: (2 * rise(flow)) / (gap * Math.abs(flow.to - flow.from)), color: colour(flow.to > flow.from ? "exchange" : "gradient"), opacity: 0.8 },
        })),
      },
    ],
  });
  parent.append(el("div.legend", {}, el("span", {}, swatch(colour("exchange")), "to a later IPU"), el("span", {}, swatch(colour("gradient")), "to an earlier IPU")));
}
