// How fast, what bounds it, what to do first.

const BOUND_TEXTS = {
  compute: ["Bound by computation", "of the IPUs' time is computation"],
  exchange: ["Bound by exchange between IPUs", "of the IPUs' time goes to links between them"],
  host: ["Bound by the host's transfers", "of the IPUs' time goes to transfers with the host"],
  streaming: ["Bound by Streaming Memory", "of the IPUs' time goes to loads and stores of Streaming Memory"],
  waiting: ["Bound by waiting", "of the IPUs' time they wait for each other or for the host"],
};

definePage("summary", "Summary", async (section) => {
  section.append(boundLine(), figures());
  section.append(adviceCard());
  const charts = el("div.two");
  section.append(charts);
  const shares = card("Where a run's time goes");
  const memory = card("Memory by IPU", el("p.more", {}, el("a", { href: link("memory") }, "Memory by tensor, over time")));
  charts.append(shares, memory);
  section.append(el("div.two", {}, card("Target and model", targetFacts()), optionsCard(), kernelsCard()));
  await Promise.all([sharesChart(shares), ipusChart(memory), head.stages.length > 1 ? stagesChart(section) : null]);
});

function boundLine() {
  const [title, rest] = BOUND_TEXTS[head.summary.bound_by] ?? [`Bound by ${head.summary.bound_by}`, "of the IPUs' time"];
  const share = head.summary.shares[head.summary.bound_by] ?? 0;
  return el("p.bound", {}, el("b", {}, title), ` – ${percent(share)} ${rest}.`);
}

function figure(name, value, about) {
  return el("div.figure", {}, el("dt", {}, name), el("dd", {}, ...[value].flat()), about && el("dd.about", {}, about));
}

function fullest() {
  const shares = head.memory.ipus.map((ipu) => ipu.needed / ipu.capacity);
  return shares.indexOf(Math.max(...shares));
}

function figures() {
  const { summary, target, measured, model, memory } = head;
  const made = el("dl.figures");
  if (summary.samples_per_second > 0) {
    made.append(figure("Throughput, modelled", [digits(summary.samples_per_second), el("small", {}, " samples/s")], `${count(model.samples_per_run)} samples per run`));
  }
  made.append(figure("Time of a run, modelled", seconds(summary.seconds_per_run), `${short(summary.cycles_per_run)} cycles at ${digits(target.clock_hz / 1e9)} GHz`));
  const ipu = head.memory.ipus[fullest()];
  if (ipu) {
    const over = ipu.needed > ipu.capacity;
    made.append(figure(over ? "Does not fit" : "Fullest IPU", percent(ipu.needed / ipu.capacity), `IPU ${fullest()}: ${bytes(ipu.needed)} of ${bytes(ipu.capacity)}`));
    if (over) made.lastChild.classList.add("bad");
  }
  const { needed, capacity } = memory.streaming;
  if (needed > 0) {
    made.append(figure("Streaming Memory", capacity > 0 ? percent(needed / capacity) : bytes(needed), `${bytes(needed)} of the ${bytes(capacity)} of a replica`));
    if (needed > capacity) made.lastChild.classList.add("bad");
  }
  made.append(figure("IPUs", `${count(target.ipus * target.replicas)}`, `${count(target.replicas)} replica${target.replicas === 1 ? "" : "s"} of ${count(target.ipus)}${target.idle_ipus ? `, ${count(target.idle_ipus)} idle` : ""}`));
  if (measured.runs > 0) {
    made.append(figure("Measured on this host", seconds(measured.run_seconds / measured.runs), `a run, of ${count(measured.runs)}; ${seconds(measured.host_wait_seconds)} between runs`));
  }
  made.append(figure("Compilation", seconds(measured.compile_seconds || head.compile.seconds), head.compile.cached ? "from the cache" : `${head.compile.passes.length} passes`));
  return made;
}

function adviceCard() {
  if (!head.advice?.length) return card("Advice", note("There is no advice."));
  const list = el("ol.advice");
  for (const advice of head.advice) {
    const target = advice.ipu >= 0 ? { ipu: advice.ipu } : {};
    const page = PAGES.get(advice.page);
    list.append(
      el(
        "li",
        { "data-kind": advice.kind },
        el("p", {}, advice.text),
        el("p.cure", {}, advice.cure),
        page && advice.page !== "summary" && el("a", { href: link(advice.page, target) }, `${page.title} →`),
      ),
    );
  }
  return card("Advice, the largest cost first", list);
}

async function sharesChart(parent) {
  // Time in which an IPU waits for transfers of others counts as transfer.
  const cycles = (ipu) => ({
    compute: ipu.compute_cycles,
    exchange: ipu.link_cycles + ipu.link_wait_cycles + ipu.gateway_cycles,
    host: ipu.host_cycles + ipu.host_wait_cycles,
    streaming: ipu.streaming_cycles,
    waiting: ipu.idle_cycles - ipu.host_wait_cycles - ipu.link_wait_cycles,
  });
  const rows = head.ipus.map((ipu, number) => [ipuName(number), cycles(ipu)]);
  const all = Object.fromEntries(Object.entries(head.summary.shares).map(([word, share]) => [word, share * head.summary.cycles_per_run]));
  rows.unshift(["All IPUs", all]);
  const words = ["compute", "exchange", "host", "streaming", "waiting"].filter((word) => rows.some(([, parts]) => parts[word] > 0));
  const scale = (parts) => Object.values(parts).reduce((a, b) => a + b, 0) || 1;
  await addChart(parent, "Shares of each IPU's time", barsHeight(rows.length), {
    grid: { left: 70, right: 16, top: 34, bottom: 26 },
    legend: { top: 0, left: 0 },
    tooltip: {
      formatter: ({ seriesIndex, dataIndex }) => {
        const [name, parts] = rows[dataIndex];
        const word = words[seriesIndex];
        return tip(name, [[ACTIVITY_NAMES[word], `${percent(parts[word] / scale(parts))}, ${count(parts[word])} cycles`, colour(word)]]);
      },
    },
    xAxis: { type: "value", max: 1, axisLabel: { formatter: (value) => `${Math.round(value * 100)} %` } },
    yAxis: { type: "category", inverse: true, data: rows.map(([name]) => name), axisTick: { show: false } },
    series: words.map((word) => ({
      type: "bar",
      name: ACTIVITY_NAMES[word],
      stack: "time",
      barMaxWidth: 22,
      itemStyle: { color: colour(word) },
      data: rows.map(([, parts]) => parts[word] / scale(parts)),
    })),
  });
}

function barsHeight(rows) {
  return Math.min(64 + rows * 30, 520);
}

async function ipusChart(parent) {
  const ipus = head.memory.ipus;
  const most = Math.max(...ipus.map((ipu) => Math.max(ipu.needed, ipu.capacity)));
  await addChart(parent, "Memory that each IPU needs and has", barsHeight(ipus.length + 1), {
    grid: { left: 60, right: 24, top: 44, bottom: 26 },
    legend: { top: 0, left: 0 },
    tooltip: {
      formatter: ({ dataIndex, seriesName, color }) => {
        const ipu = ipus[dataIndex];
        return tip(`IPU ${dataIndex}`, [
          [seriesName, bytes(seriesName === "Always live" ? ipu.always : ipu.arena), color],
          ["Needed", bytes(ipu.needed)],
          ["Capacity", bytes(ipu.capacity)],
        ]);
      },
    },
    xAxis: { type: "value", axisLabel: { formatter: tick(bytes), hideOverlap: true, showMaxLabel: false }, ...byteScale(most) },
    yAxis: { type: "category", inverse: true, data: ipus.map((_, number) => ipuName(number)), axisTick: { show: false } },
    series: [
      { name: "Always live", key: "always", of: "weight" },
      { name: "Arena at its peak", key: "arena", of: "activation" },
    ].map(({ name, key, of }, number) => ({
      type: "bar",
      name,
      stack: "memory",
      barMaxWidth: 22,
      itemStyle: { color: colour(of) },
      data: ipus.map((ipu) => ipu[key]),
      ...(number === 0 && { markLine: capacityLine(ipus[0]?.capacity ?? 0, most) }),
    })),
  });
}

// Ticks at round numbers of binary units.
function byteScale(most) {
  const step = 2 ** Math.max(Math.ceil(Math.log2(most / 5)), 0);
  return { min: 0, max: most * 1.04, interval: step };
}

// Across horizontal bars, of which the longest is `most`.
function capacityLine(capacity, most) {
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: colour("bad"), type: "solid", width: 1.5 },
    label: { color: colour("bad"), formatter: `capacity ${bytes(capacity)}`, position: "start", rotate: 0, distance: 3, align: capacity > most * 0.7 ? "right" : "left" },
    data: [{ xAxis: capacity }],
  };
}

async function stagesChart(section) {
  const stages = head.stages;
  const mean = stages.reduce((sum, stage) => sum + stage.cycles, 0) / stages.length;
  const box = card("Cycles of a micro-batch, by stage");
  section.insertBefore(box, section.lastChild);
  await addChart(box, "Cycles of a micro-batch by stage", 220, {
    grid: { left: 60, right: 90, top: 16, bottom: 40 },
    tooltip: {
      formatter: ({ dataIndex }) => {
        const stage = stages[dataIndex];
        return tip(`Stage ${stage.stage}`, [
          ["IPU", String(stage.ipu)],
          ["Cycles", `${count(stage.cycles)} (${seconds(cyclesToSeconds(stage.cycles))})`],
          ["Of the mean", `${digits(stage.cycles / mean)}×`],
          stage.blocks?.length ? ["Blocks", stage.blocks.slice(0, 6).join(", ")] : null,
        ]);
      },
    },
    xAxis: { type: "category", data: stages.map((stage) => `Stage ${stage.stage}\nIPU ${stage.ipu}`), axisTick: { show: false }, axisLabel: { lineHeight: 15 } },
    yAxis: { type: "value", axisLabel: { formatter: tick(short) } },
    series: [
      {
        type: "bar",
        barMaxWidth: 48,
        itemStyle: { color: colour("compute") },
        data: stages.map((stage) => stage.cycles),
        markLine: { silent: true, symbol: "none", lineStyle: { color: colour("soft") }, label: { color: colour("soft"), formatter: `mean ${short(mean)}` }, data: [{ yAxis: mean }] },
      },
    ],
  });
}

function targetFacts() {
  const { target, model } = head;
  return facts([
    ["Model", model.class || model.name],
    ["Kind", model.kind],
    ["Strategy", model.strategy],
    ["Micro-batches per run", count(model.micro_batches_per_run)],
    ["Device", target.device],
    ["Clock", `${digits(target.clock_hz / 1e9)} GHz`],
    ["Tiles of an IPU", `${count(target.tiles)}${target.io_tiles ? `, ${count(target.io_tiles)} of them for I/O` : ""}`],
    ["Memory of an IPU", bytes(target.bytes_per_ipu)],
    ["Version", model.library_version],
  ]);
}

function kernelsCard() {
  const ops = Object.entries(head.measured.reference_kernels ?? {}).sort(([, a], [, b]) => b - a);
  if (!ops.length) return undefined;
  return card("Ops without a fast kernel on this host", facts(ops.map(([op, share]) => [op, `${percent(share)} of the runs' time`])));
}

function optionsCard() {
  const options = Object.entries(head.options ?? {});
  return card("Options that were set", options.length ? facts(options.map(([name, text]) => [name, el("code", {}, String(text))])) : note("None."));
}
