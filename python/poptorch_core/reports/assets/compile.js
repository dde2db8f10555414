// Which pass took how long, and what it did to the number of ops.

definePage("compile", "Compile", async (section) => {
  const { passes, seconds: whole, cached } = head.compile;
  const longest = Math.max(...passes.map((pass) => pass.seconds), 0);
  const sum = passes.reduce((total, pass) => total + pass.seconds, 0);
  section.append(
    el(
      "dl.figures",
      {},
      figure("Compilation", seconds(whole), cached ? "this executable came from the cache" : undefined),
      figure("In passes", seconds(sum), `${count(passes.length)} passes`),
      passes.length > 0 && figure("Ops", `${count(passes[0].ops_before)} → ${count(passes.at(-1).ops_after)}`, "before the first pass, and after the last"),
    ),
  );
  if (!passes.length) return section.append(note("No passes ran: the executable was loaded."));
  const times = card("Time by pass, the longest first");
  const ops = card("Number of ops after each pass, in the order of the passes");
  section.append(times, ops);
  const rows = passes.map((pass, number) => ({ ...pass, number }));
  const list = new RowTable({
    label: "Passes",
    rows,
    height: 560,
    columns: [
      { title: "#", value: (row) => row.number, cell: (row) => String(row.number + 1), numeric: true, width: "48px" },
      { title: "Pass", value: (row) => row.name, width: "minmax(180px, 2fr)" },
      { title: "Time", value: (row) => row.seconds, cell: (row) => bar(row.seconds / longest, seconds(row.seconds)), numeric: true },
      { title: "Share", value: (row) => row.seconds, cell: (row) => percent(row.seconds / (sum || 1)), numeric: true, width: "80px" },
      { title: "Ops before", value: (row) => row.ops_before, cell: (row) => count(row.ops_before), numeric: true },
      { title: "Ops after", value: (row) => row.ops_after, cell: (row) => count(row.ops_after), numeric: true },
      { title: "Change", value: (row) => row.ops_after - row.ops_before, cell: (row) => signed(row.ops_after - row.ops_before, count), numeric: true },
    ],
  });
  section.append(card("Passes", list.element));
  await Promise.all([passTimes(times, rows), passOps(ops, rows)]);
});

async function passTimes(parent, passes) {
  const longest = [...passes].sort((a, b) => b.seconds - a.seconds).slice(0, 15);
  await addChart(parent, "Time of the longest passes", 60 + longest.length * 22, {
    grid: { left: 190, right: 80, top: 8, bottom: 28 },
    tooltip: { formatter: ({ dataIndex }) => passTip(longest[dataIndex]) },
    xAxis: { type: "value", axisLabel: { formatter: tick(seconds) } },
    yAxis: { type: "category", inverse: true, data: longest.map((pass) => pass.name), axisTick: { show: false }, axisLabel: { width: 176, overflow: "truncate" } },
    series: [{ type: "bar", barMaxWidth: 16, itemStyle: { color: colour("compute") }, label: { show: true, position: "right", color: colour("soft"), formatter: ({ value }) => seconds(value) }, data: longest.map((pass) => pass.seconds) }],
  });
}

async function passOps(parent, passes) {
  await addChart(parent, "Number of ops after each pass", 220, {
    grid: { left: 60, right: 24, top: 12, bottom: 32 },
    tooltip: { trigger: "axis", formatter: ([{ dataIndex }]) => passTip(passes[dataIndex]) },
    xAxis: { type: "category", data: passes.map((pass) => String(pass.number + 1)), name: "pass", nameLocation: "middle", nameGap: 22, axisTick: { show: false } },
    yAxis: { type: "value", axisLabel: { formatter: tick(short) } },
    series: [{ type: "line", step: "end", symbolSize: 5, itemStyle: { color: colour("activation") }, areaStyle: { opacity: 0.15 }, data: passes.map((pass) => pass.ops_after) }],
  });
}

function passTip(pass) {
  return tip(pass.name, [
    ["Time", seconds(pass.seconds)],
    ["Ops", `${count(pass.ops_before)} → ${count(pass.ops_after)}`],
  ]);
}
