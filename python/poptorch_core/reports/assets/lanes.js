// Events of a lane, reduced to what a screen can show: an event wide enough is itself, what is
// narrower becomes a column that is filled by shares of classes, from sums made once. A class is what
// an event is coloured by: its activity, its pass or its micro-batch.

const NARROWEST = 4; // pixels: events below that are parts of columns
const COLUMN = 3; // pixels
const ALIKE = 0.015; // columns whose shares differ by no more are drawn as one

class Lane {
  constructor(rows, events, classes, classOfRow) {
    const byStart = Int32Array.from(rows).sort((a, b) => events.start[a] - events.start[b]);
    this.rows = byStart;
    this.start = Float64Array.from(byStart, (row) => events.start[row]);
    this.end = Float64Array.from(byStart, (row) => events.start[row] + events.cycles[row]);
    this.classOf = Uint8Array.from(byStart, (row) => classOfRow(row));
    // busy[class][i]: cycles of it in the events before i.
    this.busy = Array.from({ length: classes }, () => new Float64Array(byStart.length + 1));
    for (let i = 0; i < byStart.length; ++i) {
      this.busy.forEach((sums, number) => {
        sums[i + 1] = sums[i] + (this.classOf[i] === number ? this.end[i] - this.start[i] : 0);
      });
    }
  }

  // The first event that ends after a time.
  firstAfter(time) {
    let low = 0;
    let high = this.end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  busyUntil(number, time) {
    const at = this.firstAfter(time);
    let sum = this.busy[number][at];
    if (at < this.start.length && this.classOf[at] === number && this.start[at] < time) sum += time - this.start[at];
    return sum;
  }

  shares(from, to) {
    return this.busy.map((_, number) => (this.busyUntil(number, to) - this.busyUntil(number, from)) / (to - from));
  }

  // What to draw between two times: { from, to, event } or { from, to, shares }, at most three
  // times the columns that fit into `pixels`.
  reduced(from, to, pixels) {
    const narrowest = ((to - from) / pixels) * NARROWEST;
    const width = ((to - from) / pixels) * COLUMN;
    const drawn = [];
    let at = this.firstAfter(from);
    while (at < this.start.length && this.start[at] < to) {
      if (this.end[at] - this.start[at] >= narrowest) {
        drawn.push({ from: this.start[at], to: this.end[at], event: at });
        ++at;
        continue;
      }
      // Columns lie on a grid of the time, so that they do not shift as one pans.
      let begin = Math.floor(this.start[at] / width) * width;
      if (drawn.length) begin = Math.max(begin, drawn.at(-1).to);
      let end = Math.max((Math.floor(this.start[at] / width) + 1) * width, this.end[at]);
      const next = this.nextWide(at, end, narrowest);
      if (next < this.start.length && this.start[next] < end) end = this.start[next];
      if (end > begin) this.addColumn(drawn, begin, end);
      at = Math.max(this.firstAfter(end), at + 1);
    }
    return drawn;
  }

  addColumn(drawn, from, to) {
    const shares = this.shares(from, to);
    const last = drawn.at(-1);
    if (last?.shares && last.to === from && last.shares.every((share, i) => Math.abs(share - shares[i]) < ALIKE)) last.to = to;
    else drawn.push({ from, to, shares });
  }

  // The first event from `at` on, up to a time, that is drawn as itself.
  nextWide(at, end, narrowest) {
    let next = at;
    while (next < this.start.length && this.start[next] < end && this.end[next] - this.start[next] < narrowest) ++next;
    return next;
  }
}

const PASSES = ["forward", "backward", "update", "transfer"];
const CLASS_COLOURS = {
  pass: ["compute", "gradient", "update", "transfer", "stash"],
  micro_batch: ["compute", "activation", "host", "streaming", "sync", "accumulator", "transfer", "gradient", "buffer", "code"],
};

// What events are coloured by: names and colours of classes, and the class of a row of events.
function classesBy(mode, events, instructions) {
  if (mode === "pass") {
    const known = [...PASSES, "other"];
    const ofRow = Array.from({ length: instructions.rows }, (_, row) => PASSES.indexOf(instructions.text("pass", row)));
    return {
      names: known.map((pass) => pass[0].toUpperCase() + pass.slice(1)),
      colours: CLASS_COLOURS.pass,
      of: (row) => (ofRow[events.instruction[row]] + known.length) % known.length,
    };
  }
  if (mode === "micro_batch") {
    const colours = CLASS_COLOURS.micro_batch;
    const last = events.micro_batch.reduce((most, number) => Math.max(most, number), 0);
    const numbers = (i) => [i, i + 10, i + 20].filter((number) => number <= last).join(", ") + (i + 30 <= last ? ", …" : "");
    const names = colours.map((_, i) => `Micro-batch ${numbers(i)}`);
    return { names: [...names, "Of none"], colours: [...colours, "alignment"], of: (row) => (events.micro_batch[row] < 0 ? colours.length : events.micro_batch[row] % colours.length) };
  }
  const ofRow = Array.from({ length: instructions.rows }, (_, row) => ACTIVITIES.indexOf(activityOf(instructions.text("kind", row))));
  return { names: ACTIVITIES.map((name) => ACTIVITY_NAMES[name]), colours: ACTIVITIES, of: (row) => ofRow[events.instruction[row]] };
}
