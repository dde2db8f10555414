// Lanes as a chart: what of them is in sight, and how it is drawn. Who extends it has choose(row).

const LANE_HEIGHT = 44;
// Pixels beside the lanes.
const LEFT = 88;
const RIGHT = 20;

class LanesView {
  constructor(events, instructions, state) {
    Object.assign(this, { events, instructions });
    this.rowsOfLanes = head.execution.lanes.map(() => []);
    for (let row = 0; row < events.rows; ++row) this.rowsOfLanes[events.lane[row]].push(row);
    this.legend = el("div.legend");
    this.colourBy(state.get("by") ?? "activity");
    this.end = Math.max(head.execution.shown_cycles, ...this.lanes.map((lane) => lane.end.at(-1) ?? 0));
    this.from = Math.max(Number(state.get("from") ?? 0), 0);
    this.to = Math.min(Number(state.get("to") ?? this.end), this.end);
    this.unit = state.get("unit") ?? "time";
    this.details = el("div", { "aria-live": "polite" }, note("Choose an event to see its op, cycles, bytes and source line. ← → move, + − zoom, 0 shows all, [ and ] go to the event before and after."));
    this.chosen = -1;
  }

  colourBy(mode) {
    this.mode = mode;
    this.classes = classesBy(mode, this.events, this.instructions);
    const { names, colours, of } = this.classes;
    this.lanes = this.rowsOfLanes.map((own) => new Lane(own, this.events, names.length, of));
    this.legend.replaceChildren();
    for (const [number, name] of names.entries()) {
      if (this.lanes.some((lane) => lane.busy[number].at(-1) > 0)) this.legend.append(el("span", {}, swatch(colour(colours[number])), name));
    }
    this.legend.append(el("span", {}, el("i.swatch.free"), "Waiting"));
  }

  colourOf(number) {
    return colour(this.classes.colours[number]);
  }

  // What the axis counts, of a cycle: microseconds or cycles, so that its ticks are round.
  get scale() {
    return this.unit === "time" ? cyclesToSeconds(1) * 1e6 : 1;
  }

  axes() {
    const zoom = { startValue: this.from * this.scale, endValue: this.to * this.scale, minValueSpan: Math.min(20, this.end) * this.scale };
    return { xAxis: { max: this.end * this.scale }, dataZoom: [zoom, zoom] };
  }

  // Of the axis: as many digits as its step needs.
  label(value) {
    if (this.unit === "cycles") return count(value);
    const span = (this.to - this.from) * this.scale;
    const [factor, unit] = span > 2e6 ? [1e-6, "s"] : span > 2e3 ? [1e-3, "ms"] : [1, "µs"];
    const places = Math.min(Math.max(Math.ceil(-Math.log10((span * factor) / 20)), 0), 6);
    return `${(value * factor).toFixed(places)} ${unit}`;
  }

  laneName(number) {
    const { ipu, tiles } = head.execution.lanes[number];
    const lane = this.lanes[number];
    const whole = head.execution.shown_cycles || this.end;
    const busy = lane.shares(0, whole).reduce((sum, share) => sum + share, 0);
    return `${ipuName(ipu)}${tiles ? " I/O" : ""}\n{soft|${percent(Math.min(busy, 1))} busy}`;
  }

  async draw(box) {
    const height = this.lanes.length * LANE_HEIGHT + 78;
    this.chart = await addChart(box, "Timeline of each IPU", height, {
      grid: { left: LEFT, right: RIGHT, top: 8, bottom: 62 },
      tooltip: { formatter: (point) => this.tip(point) },
      xAxis: { type: "value", min: 0, max: this.end * this.scale, axisLabel: { formatter: (value) => this.label(value), hideOverlap: true, showMaxLabel: false }, splitNumber: 6 },
      yAxis: { type: "category", inverse: true, data: this.lanes.map((_, number) => this.laneName(number)), axisTick: { show: false }, axisLabel: { lineHeight: 15, rich: { soft: { color: colour("soft"), fontSize: 10 } } } },
      dataZoom: zooms(this.axes().dataZoom[0]),
      // All at once: progressively, the last lanes come frames later.
      series: [{ type: "custom", clip: true, progressive: 0, dimensions: ["lane", "from", "to"], encode: { x: [1, 2], y: 0 }, data: this.reduced(), renderItem: (_, api) => this.item(api) }],
    });
    if (!this.chart) return;
    const canvas = this.chart.getDom();
    canvas.setAttribute("tabindex", "0");
    canvas.setAttribute("role", "application");
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.chart.on("datazoom", () => this.moved());
    this.chart.on("click", (point) => this.click(point));
  }

  pixels() {
    return Math.max((this.chart?.getWidth() ?? 1100) - LEFT - RIGHT, 200);
  }

  // The points of the series, and in `drawn` what they stand for.
  reduced() {
    this.drawn = [];
    const points = [];
    this.lanes.forEach((lane, number) => {
      for (const one of lane.reduced(this.from, this.to, this.pixels())) {
        this.drawn.push({ lane: number, ...one });
        points.push([number, one.from * this.scale, one.to * this.scale, this.drawn.length - 1]);
      }
    });
    return points;
  }

  item(api) {
    const one = this.drawn[api.value(3)];
    if (!one) return undefined;
    const [left, middle] = api.coord([api.value(1), one.lane]);
    const right = api.coord([api.value(2), one.lane])[0];
    const height = LANE_HEIGHT - 10;
    const top = middle - height / 2;
    const width = Math.max(right - left, 1);
    if (one.event === undefined) {
      const edge = Math.round(left); // whole pixels, lest seams show between columns
      return this.column(one, edge, top, Math.max(Math.round(right) - edge, 1), height);
    }
    const lane = this.lanes[one.lane];
    const gap = width > 8 ? 1 : 0;
    const isChosen = lane.rows[one.event] === this.chosen;
    const children = [
      {
        type: "rect",
        shape: { x: left, y: top, width: Math.max(width - gap, 1), height },
        style: { fill: this.colourOf(lane.classOf[one.event]), stroke: isChosen ? colour("text") : undefined, lineWidth: isChosen ? 2 : 0 },
      },
    ];
    // What is in sight of the bar carries its name.
    const from = Math.max(left, LEFT);
    const room = Math.min(right, LEFT + this.pixels()) - from;
    if (room > 40) {
      children.push({ type: "text", silent: true, style: { text: this.name(lane.rows[one.event]), x: from + 4, y: middle, verticalAlign: "middle", width: room - 8, overflow: "truncate", fill: "#fff", fontSize: 11 } });
    }
    return { type: "group", children };
  }

  // Shares of classes from the bottom; what is left free is waiting.
  column(one, left, top, width, height) {
    let bottom = top + height;
    const children = [{ type: "rect", shape: { x: left, y: top, width, height }, style: { fill: "transparent" } }];
    one.shares.forEach((share, number) => {
      if (share <= 0) return;
      const part = Math.min(share, 1) * height;
      bottom -= part;
      children.push({ type: "rect", shape: { x: left, y: bottom, width, height: part }, style: { fill: this.colourOf(number) } });
    });
    return { type: "group", children };
  }

  name(row) {
    const instruction = this.events.instruction[row];
    const rounds = this.events.rounds[row];
    const op = this.instructions.text("op", instruction);
    return rounds > 1 ? `${op} × ${count(rounds)}` : op;
  }

  tip({ data }) {
    const one = this.drawn[data[3]];
    if (!one) return "";
    if (one.event === undefined) {
      const lines = one.shares.map((share, number) => share > 0.0005 && [this.classes.names[number], percent(share), this.colourOf(number)]);
      const waiting = 1 - one.shares.reduce((a, b) => a + b, 0);
      return tip(`${count(one.to - one.from)} cycles of short events`, [...lines, waiting > 0.0005 && ["Waiting", percent(waiting)], ["Click", "to zoom in"]]);
    }
    const row = this.lanes[one.lane].rows[one.event];
    const instruction = this.events.instruction[row];
    const { instructions } = this;
    return tip(this.name(row), [
      ["Tensor", instructions.text("name", instruction)],
      ["Module", instructions.text("module", instruction)],
      ["Cycles", `${count(this.events.cycles[row])} (${seconds(cyclesToSeconds(this.events.cycles[row]))})`],
      this.events.micro_batch[row] >= 0 && ["Micro-batch", String(this.events.micro_batch[row])],
      ["Source", sourceOf(instructions, instruction)],
    ].filter((line) => line && line[1]));
  }

  click({ data, event }) {
    const one = this.drawn[data[3]];
    if (!one) return;
    if (one.event !== undefined) return this.choose(this.lanes[one.lane].rows[one.event]);
    const span = (this.to - this.from) / 8;
    const middle = this.timeAt(event.offsetX);
    this.show(middle - span / 2, middle + span / 2);
  }

  timeAt(pixel) {
    return this.chart.convertFromPixel({ xAxisIndex: 0 }, pixel) / this.scale;
  }

  moved() {
    this.from = Math.max(this.timeAt(LEFT), 0);
    this.to = Math.min(this.timeAt(this.chart.getWidth() - RIGHT), this.end);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.refresh());
  }

  refresh() {
    if (!this.chart || this.chart.isDisposed()) return;
    this.chart.setOption({ series: [{ data: this.reduced() }] });
    const whole = this.from <= 0 && this.to >= this.end;
    remember({ from: whole ? null : Math.round(this.from), to: whole ? null : Math.round(this.to) });
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, 20), this.end);
    const begin = Math.min(Math.max(from, 0), this.end - span);
    this.chart?.dispatchAction({ type: "dataZoom", startValue: begin * this.scale, endValue: (begin + span) * this.scale });
  }

  zoom(factor) {
    const middle = (this.from + this.to) / 2;
    const half = ((this.to - this.from) * factor) / 2;
    this.show(middle - half, middle + half);
  }
}
