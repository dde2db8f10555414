// Memory of one IPU over its program: by kind, what is held at each instruction.

const MOST_POINTS = 700; // of the chart: each is the fullest instruction of its part of the program

class Held {
  // Of a MemoryView: its IPU, and the allocations of its tiles.
  constructor(view) {
    this.view = view;
    this.instructions = view.instructions;
    const { first, last, bytes: size } = view.allocations;
    const rows = view.arena();
    const ofIpu = [];
    for (let row = 0; row < this.instructions.rows; ++row) if (this.instructions.ipu[row] === view.ipu) ofIpu.push(row);
    const begin = ofIpu[0] ?? 0;
    const length = (ofIpu.at(-1) ?? 0) - begin + 1;
    const kinds = Object.fromEntries(ARENA_KINDS.map((kind) => [kind, new Float64Array(length + 1)]));
    for (const row of rows) {
      const changes = kinds[view.allocations.text("kind", row)];
      if (!changes) continue;
      changes[first[row] - begin] += size[row];
      changes[last[row] - begin + 1] -= size[row];
    }
    const total = new Float64Array(length);
    for (const changes of Object.values(kinds)) {
      for (let i = 0; i < length; ++i) {
        if (i > 0) changes[i] += changes[i - 1];
        total[i] += changes[i];
      }
    }
    const peak = begin + total.reduce((best, held, i) => (held > total[best] ? i : best), 0);
    Object.assign(this, { begin, length, kinds, total, peak });
  }

  // The fullest instruction of each of MOST_POINTS parts between two.
  points(from, to) {
    const { begin, length, total } = this;
    const first = Math.max(Math.floor(from) - begin, 0);
    const last = Math.min(Math.ceil(to) - begin, length - 1);
    const parts = Math.min(last - first + 1, MOST_POINTS);
    const found = [];
    for (let part = 0; part < parts; ++part) {
      const start = first + Math.floor((part * (last - first + 1)) / parts);
      const end = first + Math.floor(((part + 1) * (last - first + 1)) / parts);
      let best = start;
      for (let i = start; i < end; ++i) if (total[i] > total[best]) best = i;
      found.push(best);
    }
    return found;
  }

  seriesData(from, to) {
    const at = this.points(from, to);
    const made = {};
    const { begin, kinds } = this;
    for (const [kind, sum] of Object.entries(this.baseSums())) made[kind] = at.map((i) => [i + begin, sum]);
    for (const kind of ARENA_KINDS) made[kind] = at.map((i) => [i + begin, kinds[kind][i]]);
    return made;
  }

  baseSums() {
    const sums = {};
    if (!this.view.base) return sums;
    for (const row of this.view.onChip()) {
      const kind = this.view.always.text("kind", row);
      sums[kind] = (sums[kind] ?? 0) + this.view.always.bytes[row];
    }
    return Object.fromEntries(ALWAYS_KINDS.filter((kind) => sums[kind] > 0).map((kind) => [kind, sums[kind]]));
  }

  async draw(parent) {
    const { view, begin, length, kinds, total, peak } = this;
    const end = begin + length - 1;
    const data = this.seriesData(begin, end);
    const used = Object.keys(data).filter((kind) => !kinds[kind] || kinds[kind].some((held) => held > 0));
    const base = Object.values(this.baseSums()).reduce((a, b) => a + b, 0);
    const most = base + (total[peak - begin] ?? 0);
    const capacity = view.capacity();
    const marks = [{ yAxis: base + (total[peak - begin] ?? 0), label: { formatter: `peak ${bytes(most)}`, color: colour("text"), position: "insideEndTop" }, lineStyle: { color: colour("soft"), type: "dotted" } }];
    const near = view.base && (most > capacity * 0.5 || view.group !== "all");
    if (near) marks.push({ yAxis: capacity, label: { formatter: `capacity ${bytes(capacity)}`, color: colour("bad"), position: "insideStartTop", backgroundColor: colour("surface"), padding: [2, 5], borderRadius: 3 }, lineStyle: { color: colour("bad"), type: "solid" } });
    const series = used.map((kind, number) => ({
      id: kind,
      name: KIND_NAMES[kind],
      type: "line",
      step: "end",
      stack: "memory",
      symbol: "none",
      lineStyle: { width: 0 },
      itemStyle: { color: colour(kind) },
      areaStyle: { color: colour(kind), opacity: 0.9 },
      data: data[kind],
      ...(number === 0 && { markArea: this.passes(begin, end) }),
      ...(number === used.length - 1 && { markLine: { silent: true, symbol: "none", data: marks } }),
    }));
    const chart = await addChart(parent, `Memory of IPU ${view.ipu} over the program`, 360, {
      grid: { left: 70, right: 20, top: 54, bottom: 62 },
      legend: { top: 0, left: 0, right: 0, type: "scroll", pageIconColor: colour("accent"), pageTextStyle: { color: colour("soft") } },
      tooltip: { trigger: "axis", formatter: (points) => this.tip(points) },
      xAxis: { type: "value", min: begin, max: Math.max(end, begin + 1), minInterval: 1, name: "instruction", nameLocation: "middle", nameGap: 20, axisLabel: { formatter: count, hideOverlap: true } },
      yAxis: { type: "value", axisLabel: { formatter: tick(bytes), showMaxLabel: false }, ...byteScale((near ? Math.max(most, capacity) : most || 1) * 1.08) },
      dataZoom: zooms({ minValueSpan: Math.min(8, length) }),
      series,
    });
    if (!chart) return;
    chart.on("datazoom", () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      const zoomed = this.seriesData(startValue, endValue);
      chart.setOption({ series: used.map((kind) => ({ id: kind, data: zoomed[kind] })) });
    });
    chart.getZr().on("click", ({ offsetX, offsetY }) => {
      const place = [offsetX, offsetY];
      if (chart.containPixel("grid", place)) view.inspect(Math.round(chart.convertFromPixel({ xAxisIndex: 0 }, offsetX)));
    });
  }

  // Where the passes of the program begin and end, while they are few.
  passes(begin, end) {
    const runs = [];
    for (let row = begin; row <= end; ++row) {
      if (this.instructions.ipu[row] !== this.view.ipu) continue;
      const pass = this.instructions.text("pass", row);
      if (pass === "transfer" && runs.length) continue;
      if (runs.at(-1)?.pass === pass) runs.at(-1).end = row;
      else runs.push({ pass, start: row, end: row });
    }
    if (runs.length > 8) return undefined;
    return {
      silent: true,
      label: { color: colour("soft"), position: "insideTop", fontSize: 11 },
      data: runs.map((run, i) => [{ name: run.end - run.start > (end - begin) / 16 ? run.pass : "", xAxis: run.start, itemStyle: { color: i % 2 ? colour("band") : "transparent" } }, { xAxis: (runs[i + 1]?.start ?? end + 1) }]),
    };
  }

  tip(points) {
    if (!points.length) return "";
    const at = points[0].value[0];
    const lines = points.filter((point) => point.value[1] > 0).map((point) => [point.seriesName, bytes(point.value[1]), point.color]);
    const sum = points.reduce((whole, point) => whole + point.value[1], 0);
    const op = this.instructions.text("op", at);
    return tip(`${count(at)}: ${op}`, [...lines.reverse(), ["Together", bytes(sum)], ["Module", this.instructions.text("module", at) || "–"]]);
  }
}
