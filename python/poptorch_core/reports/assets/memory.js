// What fills each IPU, when, and what its peak consists of; what does not fit, and what would make it.

definePage("memory", "Memory", async (section, state, isOpen) => {
  const [always, allocations, instructions] = await Promise.all(["memory.always", "memory.allocations", "instructions"].map(table));
  if (!isOpen()) return;
  const ipus = head.memory.ipus;
  const view = new MemoryView({ always, allocations, instructions, state });
  const overflows = el("div.two");
  for (const [number, ipu] of ipus.entries()) {
    if (ipu.needed > ipu.capacity) overflows.append(overflowCard(number, ipu));
  }
  section.append(overflows);
  const overview = card("Peak memory of each IPU");
  const chart = el("div");
  const scales = [["capacity", "Scale: the capacity"], ["needed", "Scale: the memory that is needed"]];
  overview.append(el("div.toolbar", {}, choice("Scale", scales, "capacity", (scale) => neededChart(chart, view, scale))), chart);
  section.append(overview);
  await neededChart(chart, view, "capacity");
  if (!isOpen()) return;
  section.append(tileGroups(view) ?? "", view.toolbar(), view.body);
  await view.show();
  section.append(streamingCard(always) ?? "");
});

// What the tiles that compute hold at most, and those that are set apart for I/O.
function tileGroups(view) {
  if (!(head.target.io_tiles > 0)) return undefined;
  const rows = head.memory.ipus.flatMap(({ tile_groups }, ipu) => tile_groups.map((group) => ({ ...group, ipu })));
  const list = new RowTable({
    label: "Groups of tiles",
    rows,
    height: 40 + 30 * Math.min(rows.length, 8),
    open: ({ ipu, name }) => view.choose({ ipu, group: name }),
    columns: [
      { title: "IPU", value: (row) => row.ipu, cell: (row) => ipuName(row.ipu), numeric: true },
      { title: "Tiles", value: (row) => row.name, cell: (row) => `${count(row.tiles)} ${GROUP_NAMES[row.name]}`, width: "minmax(150px, 1fr)" },
      { title: "Needed", value: (row) => row.needed, cell: (row) => bar(Math.min(row.needed / row.capacity, 1), bytes(row.needed)), numeric: true, width: "minmax(150px, 2fr)", hint: "Largest use and share of the capacity" },
      { title: "Share of the capacity", value: (row) => row.capacity, cell: (row) => bytes(row.capacity), numeric: true },
    ],
  });
  return card("By group of tiles", list.element);
}

function overflowCard(number, ipu) {
  const over = ipu.needed - ipu.capacity;
  const made = card(
    `IPU ${number} does not fit`,
    el("p", {}, "It needs ", el("b", {}, bytes(ipu.needed)), " and has ", el("b", {}, bytes(ipu.capacity)), `: ${bytes(over)} too much (${percent(ipu.needed / ipu.capacity)}).`),
  );
  made.classList.add("bad");
  if (ipu.remedies?.length) {
    const list = el("ul.remedies");
    for (const remedy of ipu.remedies) list.append(el("li", {}, el("b", {}, `saves ${bytes(remedy.saving)}`), ` – ${remedy.text}`, remedy.saving >= over && el("span.enough", {}, "enough by itself")));
    made.append(el("h3", {}, "Changes that would make it fit"), list);
  }
  return made;
}

// All IPUs' memory by kind, on one scale, with what is beyond the capacity behind a line.
async function neededChart(parent, view, scale) {
  disposeCharts(parent);
  parent.replaceChildren();
  const ipus = head.memory.ipus;
  const sums = ipus.map((ipu, number) => view.kindsOf(number, ipu));
  const kinds = [...ALWAYS_KINDS, ...ARENA_KINDS, "fragmentation"].filter((kind) => sums.some((sum) => sum[kind] > 0));
  const most = Math.max(...ipus.map((ipu) => (scale === "capacity" ? Math.max(ipu.needed, ipu.capacity) : ipu.needed)));
  const chart = await addChart(parent, "Memory that each IPU needs, by kind, against its capacity", 84 + ipus.length * 30, {
    grid: { left: 60, right: 24, top: 52, bottom: 26 },
    legend: { top: 0, left: 0, right: 0, type: "scroll", pageIconColor: colour("accent"), pageTextStyle: { color: colour("soft") } },
    tooltip: {
      formatter: ({ dataIndex, seriesIndex }) =>
        tip(`IPU ${dataIndex}`, [
          ...kinds.filter((kind) => sums[dataIndex][kind] > 0).map((kind, i) => [KIND_NAMES[kind] + (kinds[seriesIndex] === kind ? " ◂" : ""), bytes(sums[dataIndex][kind]), colour(kind)]),
          ["Needed", bytes(ipus[dataIndex].needed)],
          ["Capacity", bytes(ipus[dataIndex].capacity)],
        ]),
    },
    xAxis: { type: "value", axisLabel: { formatter: tick(bytes), hideOverlap: true, showMaxLabel: false }, ...byteScale(most) },
    yAxis: { type: "category", inverse: true, data: ipus.map((_, number) => ipuName(number)), axisTick: { show: false } },
    series: kinds.map((kind, number) => ({
      type: "bar",
      stack: "memory",
      name: KIND_NAMES[kind],
      barMaxWidth: 22,
      itemStyle: { color: colour(kind) },
      data: sums.map((sum) => sum[kind] ?? 0),
      ...(number === 0 && { markLine: capacityLine(ipus[0]?.capacity ?? 0, most) }),
    })),
  });
  chart?.on("click", ({ dataIndex }) => view.choose({ ipu: dataIndex }));
}

function streamingCard(always) {
  const rows = [];
  for (let row = 0; row < always.rows; ++row) if (always.text("kind", row) === "streaming") rows.push(row);
  if (!rows.length) return undefined;
  const { needed, capacity } = head.memory.streaming;
  const list = new RowTable({
    label: "Streaming Memory",
    rows,
    sort: 2,
    height: 240,
    columns: [
      { title: "Tensor", value: (row) => always.text("name", row), width: "minmax(160px, 2fr)" },
      { title: "Module", value: (row) => always.text("module", row), width: "minmax(160px, 2fr)" },
      { title: "Bytes", value: (row) => always.bytes[row], cell: (row) => bytes(always.bytes[row]), numeric: true },
    ],
  });
  const over = needed - capacity;
  const made = card(`Streaming Memory of a replica: ${bytes(needed)} of ${bytes(capacity)}${over > 0 ? `, ${bytes(over)} too much` : ""}`, list.element);
  if (over > 0) made.classList.add("bad");
  return made;
}
