// ECharts, unpacked when the first chart is drawn, in the colours of the page.

let library; // the promise of echarts
let charts = []; // of the page that is open
const colours = new Map(); // by name, of the theme

// What an instruction occupies its tiles with: shared by all charts.
const ACTIVITIES = ["compute", "exchange", "sync", "host", "streaming", "rounds", "waiting"];
const ACTIVITY_NAMES = {
  compute: "Compute",
  exchange: "Exchange",
  sync: "Sync",
  host: "Host",
  streaming: "Streaming Memory",
  rounds: "Rounds of a loop",
  waiting: "Waiting",
};
const ACTIVITY_OF_KIND = {
  send: "exchange",
  receive: "exchange",
  collective: "exchange",
  sync: "sync",
  stream_in: "host",
  stream_out: "host",
  load: "streaming",
  store: "streaming",
  loop: "rounds",
};
const ALWAYS_KINDS = ["weight", "buffer", "optimiser_state", "accumulator", "constant", "stash", "code", "alignment"];
const ARENA_KINDS = ["activation", "gradient", "update", "transfer"];
const KIND_NAMES = {
  weight: "Weights",
  buffer: "Buffers",
  optimiser_state: "Optimiser state",
  accumulator: "Accumulators",
  constant: "Constants",
  stash: "Stashes",
  code: "Code",
  alignment: "Alignment",
  activation: "Activations",
  gradient: "Gradients",
  update: "Weight update",
  transfer: "Transfers",
  streaming: "Streaming Memory",
  fragmentation: "Fragmentation",
};

function activityOf(kind) {
  return ACTIVITY_OF_KIND[kind] ?? "compute";
}

// Asked for often, so kept until the next page is opened.
function colour(name) {
  if (!colours.has(name)) {
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  }
  return colours.get(name);
}

function echartsLibrary() {
  library ??= textOf("echarts").then((source) => {
    const script = document.createElement("script");
    script.textContent = source;
    document.head.append(script);
    return window.echarts;
  });
  return library;
}

// Those in an element, by default all.
function disposeCharts(within = document.body) {
  const gone = charts.filter(({ chart }) => within.contains(chart.getDom()));
  charts = charts.filter((one) => !gone.includes(one));
  for (const { chart, observer } of gone) {
    observer.disconnect();
    chart.dispose();
  }
  if (!charts.length) colours.clear();
}

// Draws a chart into a new element of `parent`, and returns it once it is drawn.
async function addChart(parent, label, height, option) {
  const echarts = await echartsLibrary();
  const box = el("div.chart", { role: "img", "aria-label": label });
  box.style.height = `${height}px`;
  parent.append(box);
  if (!box.isConnected) return undefined;
  const chart = echarts.init(box, null, { renderer: "canvas" });
  const observer = new ResizeObserver(() => chart.resize());
  observer.observe(box);
  charts.push({ chart, observer });
  chart.setOption(withTheme(option));
  return chart;
}

function withTheme(option) {
  const text = colour("text");
  const soft = colour("soft");
  const font = "system-ui, sans-serif";
  const axis = (one) => ({
    ...one,
    axisLine: { lineStyle: { color: colour("line") }, ...one.axisLine },
    axisLabel: { color: soft, ...one.axisLabel },
    splitLine: { lineStyle: { color: colour("grid") }, ...one.splitLine },
    nameTextStyle: { color: soft, ...one.nameTextStyle },
  });
  const axes = (given) => (given === undefined ? {} : [given].flat().map(axis));
  return {
    animation: false,
    textStyle: { fontFamily: font, color: text },
    ...option,
    ...(option.xAxis && { xAxis: axes(option.xAxis) }),
    ...(option.yAxis && { yAxis: axes(option.yAxis) }),
    ...(option.legend && {
      legend: { textStyle: { color: text }, inactiveColor: colour("line"), itemWidth: 14, itemHeight: 10, ...option.legend },
    }),
    tooltip: {
      backgroundColor: colour("raised"),
      borderColor: colour("line"),
      textStyle: { color: text, fontSize: 12 },
      confine: true,
      ...option.tooltip,
    },
  };
}

// A tooltip's content: a title and lines, each with the colour that it is of.
function tip(title, lines) {
  return el(
    "div.tip",
    {},
    el("strong", {}, title),
    ...lines
      .filter(Boolean)
      .map(([name, value, of]) =>
        el("div", {}, of ? swatch(of) : null, el("span", {}, name), el("b", {}, value)),
      ),
  );
}

function swatch(of) {
  const made = el("i.swatch");
  made.style.background = of;
  return made;
}

// Slider and wheel over the x axis.
function zooms(more = {}) {
  const slider = {
    type: "slider",
    height: 18,
    bottom: 4,
    borderColor: "transparent",
    backgroundColor: colour("grid"),
    fillerColor: colour("filler"),
    handleStyle: { color: colour("accent"), borderColor: colour("accent") },
    moveHandleSize: 0,
    showDataShadow: false,
    showDetail: false,
    brushSelect: false,
    filterMode: "none",
    ...more,
  };
  return [slider, { type: "inside", filterMode: "none", ...more }];
}
