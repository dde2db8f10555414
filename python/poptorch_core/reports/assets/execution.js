// Who works, exchanges or waits when; which line of the source that is.

definePage("execution", "Execution", async (section, state, isOpen) => {
  const [events, instructions] = await Promise.all([table("execution.events"), table("instructions")]);
  if (!isOpen()) return;
  const view = new ExecutionView(events, instructions, state);
  section.append(view.intro());
  if (!events.rows) return section.append(note("No events were kept."));
  const box = card("");
  box.append(view.toolbar());
  section.append(box);
  section.append(view.details);
  await view.draw(box);
  if (state.has("event")) view.choose(Number(state.get("event")));
  else if (state.has("op")) view.chooseInstruction(Number(state.get("op")));
});

class ExecutionView extends LanesView {
  intro() {
    const { complete, shown_cycles, total_cycles } = head.execution;
    const made = el("p", {}, `${count(this.events.rows)} events on ${count(this.lanes.length)} lane${this.lanes.length === 1 ? "" : "s"}. A run takes ${count(total_cycles)} cycles, ${seconds(cyclesToSeconds(total_cycles))}; between events, a lane waits.`);
    if (!complete) made.append(` The events are not complete: those of the first ${count(shown_cycles)} cycles are kept one by one, and bars show several rounds of the rest.`);
    return made;
  }

  toolbar() {
    const modes = [["activity", "Activity"], ["pass", "Pass"], ["micro_batch", "Micro-batch"]];
    const coloured = choice("Coloured by", modes, this.mode, (mode) => {
      this.colourBy(mode);
      remember({ by: mode === "activity" ? null : mode });
      this.refresh();
    });
    const zoom = (factor) => () => this.zoom(factor);
    const buttons = el(
      "div.choice",
      { role: "group", "aria-label": "Zoom" },
      el("button", { type: "button", "aria-label": "Zoom in", click: zoom(0.5) }, "+"),
      el("button", { type: "button", "aria-label": "Zoom out", click: zoom(2) }, "−"),
      !head.execution.complete && el("button", { type: "button", title: "Events that are kept one by one", click: () => this.show(0, head.execution.shown_cycles) }, "Whole part"),
      el("button", { type: "button", click: () => this.show(0, this.end) }, "All"),
    );
    const units = choice("Axis", [["time", "Time"], ["cycles", "Cycles"]], this.unit, (unit) => {
      this.unit = unit;
      remember({ unit: unit === "time" ? null : unit });
      this.chart?.setOption(this.axes());
      this.show(this.from, this.to);
      this.refresh();
    });
    return el("div", {}, el("div.toolbar", {}, el("span.soft", {}, "Coloured by"), coloured, el("span.gap"), units, buttons), this.legend);
  }

  key(event) {
    const span = this.to - this.from;
    const actions = {
      ArrowLeft: () => this.show(this.from - span / 5, this.to - span / 5),
      ArrowRight: () => this.show(this.from + span / 5, this.to + span / 5),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(0, this.end),
      "[": () => this.step(-1),
      "]": () => this.step(1),
    };
    if (!(event.key in actions)) return;
    actions[event.key]();
    event.preventDefault();
  }

  // The neighbour of the chosen event in its lane; without one, the first in sight.
  step(by) {
    const number = this.chosen < 0 ? 0 : this.events.lane[this.chosen];
    const lane = this.lanes[number];
    const at = this.chosen < 0 ? lane.firstAfter(this.from) : lane.rows.indexOf(this.chosen) + by;
    if (at < 0 || at >= lane.rows.length) return;
    this.choose(lane.rows[at]);
    if (lane.start[at] < this.from || lane.end[at] > this.to) {
      const span = Math.max(this.to - this.from, (lane.end[at] - lane.start[at]) * 1.5);
      this.show(lane.start[at] - span / 3, lane.start[at] + (2 * span) / 3);
    }
  }

  // The first event of an instruction, brought into sight.
  chooseInstruction(instruction) {
    const row = this.events.instruction.indexOf(instruction);
    if (row < 0) return;
    this.choose(row);
    const length = Math.max(this.events.cycles[row], 20);
    this.show(this.events.start[row] - 4 * length, this.events.start[row] + 5 * length);
  }

  async choose(row) {
    const instruction = this.events.instruction[row];
    if (instruction === undefined) return;
    this.chosen = row;
    remember({ event: row });
    this.refresh();
    const { events, instructions } = this;
    const rounds = events.rounds[row];
    const box = card(
      "",
      el("h2", {}, ...instructionTitle(instructions, instruction)),
      await sourceBox(instructions, instruction),
      instructionFacts(instructions, instruction, [
        ["Event", `${count(events.cycles[row])} cycles from ${count(events.start[row])} on (${seconds(cyclesToSeconds(events.cycles[row]))})`],
        ["Activity", ACTIVITY_NAMES[activityOf(instructions.text("kind", instruction))]],
        ["Micro-batch", events.micro_batch[row] >= 0 ? String(events.micro_batch[row]) : ""],
        ["Rounds", rounds > 1 ? `${count(rounds)} as one bar` : ""],
      ]),
      el("p", {}, el("a", { href: link("graph", { view: "ops", op: instruction }) }, "Its text in every IR stage →")),
    );
    if (this.chosen === row) this.details.replaceChildren(box);
  }
}
