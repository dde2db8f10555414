// Memory of one IPU, or of a group of its tiles: over the program, at one instruction, by module.

const MOST_TENSORS = 400; // of the treemap: smaller ones stand together

const GROUP_NAMES = { compute: "Compute tiles", io: "I/O tiles" };

class MemoryView {
  constructor({ always, allocations, instructions, state }) {
    Object.assign(this, { always, allocations, instructions });
    const asked = Number(state.get("ipu") ?? fullest());
    this.ipu = head.memory.ipus[asked] ? asked : 0;
    this.group = state.get("tiles") ?? "all";
    this.base = state.get("base") !== "off";
    this.at = state.has("at") ? Number(state.get("at")) : undefined;
    this.tensor = state.get("tensor") ?? "";
    this.body = el("div.views");
    this.alwaysOf = indexed(always.ipu);
    this.arenaOf = indexed(allocations.ipu);
  }

  toolbar() {
    const ipus = head.memory.ipus.map((_, number) => [number, ipuName(number)]);
    const bar = el("div.toolbar");
    if (ipus.length > 1 && ipus.length <= 16) this.ipuChoice = choice("IPU", ipus, this.ipu, (ipu) => this.choose({ ipu }));
    else if (ipus.length > 16) {
      this.ipuChoice = el("select", { "aria-label": "IPU", change: (event) => this.choose({ ipu: Number(event.target.value) }) }, ...ipus.map(([number, name]) => el("option", { value: number, selected: number === this.ipu }, name)));
    }
    bar.append(this.ipuChoice ?? "");
    if (head.target.io_tiles > 0) {
      bar.append((this.groupChoice = choice("Tiles", [["all", "All tiles"], ...Object.entries(GROUP_NAMES)], this.group, (group) => this.choose({ group }))));
    }
    bar.append(choice("Always live", [[true, "Including tensors that are always live"], [false, "Only tensors that are not always live"]], this.base, (base) => this.choose({ base })));
    return bar;
  }

  choose({ ipu = this.ipu, group = this.group, base = this.base }) {
    if (ipu !== this.ipu) this.at = undefined;
    Object.assign(this, { ipu, group, base });
    remember({ ipu, tiles: group === "all" ? null : group, base: base ? null : "off", at: this.at ?? null });
    pressOnly(this.ipuChoice, ipu);
    pressOnly(this.groupChoice, ["all", ...Object.keys(GROUP_NAMES)].indexOf(group));
    return this.show();
  }

  // Rows of the arena's allocations: of an IPU, on the chosen tiles.
  arena(ipu = this.ipu, group = this.group) {
    const rows = this.arenaOf.get(ipu) ?? [];
    if (group === "all") return rows;
    const tiles = group === "io" ? 1 : 0;
    return rows.filter((row) => this.instructions.tiles[this.allocations.first[row]] === tiles);
  }

  onChip() {
    if (this.group === "io") return []; // state and code stand on the tiles that compute
    return (this.alwaysOf.get(this.ipu) ?? []).filter((row) => this.always.text("kind", row) !== "streaming");
  }

  live(at) {
    const { first, last } = this.allocations;
    return this.arena().filter((row) => first[row] <= at && at <= last[row]);
  }

  capacity() {
    const { capacity, tile_groups } = head.memory.ipus[this.ipu];
    return tile_groups.find((group) => group.name === this.group)?.capacity ?? capacity;
  }

  // Bytes by kind at the peak of an IPU.
  kindsOf(number, ipu) {
    const sums = {};
    const add = (kind, size) => (sums[kind] = (sums[kind] ?? 0) + size);
    for (const row of this.alwaysOf.get(number) ?? []) add(this.always.text("kind", row), this.always.bytes[row]);
    delete sums.streaming;
    const { first, last } = this.allocations;
    const peak = ipu.peak.instruction;
    for (const row of this.arena(number, "all")) {
      if (first[row] <= peak && peak <= last[row]) add(this.allocations.text("kind", row), this.allocations.bytes[row]);
    }
    if (ipu.peak.fragmentation > 0) add("fragmentation", ipu.peak.fragmentation);
    return sums;
  }

  async show() {
    disposeCharts(this.body);
    const peak = head.memory.ipus[this.ipu].peak;
    const time = card(`IPU ${this.ipu} over the program`, note("Each point is the instruction of its part of the program that needs the most memory. Zoom with the wheel or the slider; click to see the live tensors."));
    const largest = card("");
    const map = card("By module path, at that instruction");
    this.largest = largest;
    this.map = map;
    this.body.replaceChildren(time, largest, map);
    this.held = new Held(this);
    await this.held.draw(time);
    await this.inspect(this.at ?? (this.group === "all" ? peak.instruction : this.held.peak));
  }

  // What is live at an instruction: always, and in the arena.
  async inspect(at) {
    const isPeak = at === head.memory.ipus[this.ipu].peak.instruction;
    remember({ at: isPeak ? null : at, ipu: this.ipu });
    const live = at >= 0 ? this.live(at) : [];
    const rows = [
      ...live.map((row) => this.entry(this.allocations, row, true)),
      ...(this.base ? this.onChip().map((row) => this.entry(this.always, row, false)) : []),
    ];
    const held = live.reduce((sum, row) => sum + this.allocations.bytes[row], 0);
    const where = at >= 0 ? `${isPeak ? "the peak, " : ""}instruction ${count(at)}` : "the peak";
    const filter = el("input", { type: "search", placeholder: "Tensor or module …", "aria-label": "Show only tensors whose name contains this text", value: this.tensor });
    const list = this.tensorTable(rows);
    const narrow = () => {
      const sought = filter.value.trim().toLowerCase();
      list.show(sought ? rows.filter((row) => `${row.name}\n${row.module}`.toLowerCase().includes(sought)) : rows);
    };
    filter.addEventListener("input", () => {
      this.tensor = filter.value;
      remember({ tensor: filter.value });
      narrow();
    });
    const elsewhere = this.tensor ? this.elsewhere(at) : "";
    const source = at >= 0 ? sourceOf(this.instructions, at) : "";
    this.largest.replaceChildren(
      el("h2", {}, `What is live at ${where}`),
      el("p", {}, at >= 0 && el("a", { href: link("graph", { view: "ops", op: at }) }, this.instructions.text("op", at)), source && el("code", {}, ` ${source}`), ` – ${count(live.length)} tensor${live.length === 1 ? "" : "s"} of the arena with ${bytes(held)}`, isPeak && this.group === "all" ? `, and ${bytes(head.memory.ipus[this.ipu].peak.fragmentation)} of fragmentation.` : "."),
      el("div.toolbar", {}, filter, elsewhere, el("span.gap"), this.goTo(at)),
      list.element,
    );
    narrow();
    await this.drawMap(rows);
  }

  // What a click on the chart does, for the keyboard.
  goTo(at) {
    const { begin, length } = this.held;
    const peak = this.group === "all" ? head.memory.ipus[this.ipu].peak.instruction : this.held.peak;
    const number = el("input", { type: "number", min: begin, max: begin + length - 1, value: Math.max(at, begin), change: (event) => this.inspect(Math.min(Math.max(Number(event.target.value), begin), begin + length - 1)) });
    return el("label.at", {}, "At instruction", number, el("button", { type: "button", click: () => this.inspect(peak) }, "The peak"));
  }

  // A sought tensor that is not live here: a way to where it is.
  elsewhere(at) {
    const found = this.arena().find((row) => this.allocations.text("name", row) === this.tensor);
    if (found === undefined) return "";
    const [first, last] = [this.allocations.first[found], this.allocations.last[found]];
    if (first <= at && at <= last) return "";
    return el("button", { type: "button", click: () => this.inspect(first) }, `${this.tensor} lives from ${count(first)} to ${count(last)}: go there`);
  }

  entry(from, row, isArena) {
    return {
      name: from.text("name", row),
      module: from.text("module", row),
      kind: from.text("kind", row),
      bytes: from.bytes[row],
      first: isArena ? from.first[row] : -1,
      last: isArena ? from.last[row] : -1,
    };
  }

  tensorTable(rows) {
    const most = rows.reduce((top, row) => Math.max(top, row.bytes), 1);
    return new RowTable({
      label: "Tensors that are live",
      rows,
      sort: 3,
      height: 380,
      columns: [
        { title: "Tensor", value: (row) => row.name, width: "minmax(130px, 2fr)" },
        { title: "Module", value: (row) => row.module, width: "minmax(130px, 2fr)" },
        { title: "Kind", value: (row) => row.kind, cell: (row) => el("span", {}, swatch(colour(row.kind)), KIND_NAMES[row.kind] ?? row.kind), width: "minmax(120px, 1fr)" },
        { title: "Bytes", value: (row) => row.bytes, cell: (row) => bar(row.bytes / most, bytes(row.bytes)), numeric: true, width: "minmax(110px, 1.2fr)" },
        { title: "Lives", value: (row) => row.last - row.first, cell: (row) => (row.first < 0 ? "always" : `${count(row.first)} – ${count(row.last)}`), numeric: true, width: "minmax(110px, 1fr)", hint: "From which instruction to which" },
      ],
    });
  }

  async drawMap(rows) {
    disposeCharts(this.map);
    this.map.replaceChildren(el("h2", {}, "By module path, at that instruction"));
    const tree = treeOf(rows);
    await addChart(this.map, "Memory by module path", 340, treemap(tree, (data, whole) => tip(data.name, [["Bytes", `${bytes(data.value)}, ${percent(data.value / whole)}`], data.kind && ["Kind", KIND_NAMES[data.kind] ?? data.kind]]), bytes));
  }
}

// Nested by the parts of module paths, with the tensors as leaves.
function treeOf(rows) {
  const sorted = [...rows].sort((a, b) => b.bytes - a.bytes);
  const root = { name: "", children: new Map(), leaves: [] };
  const smaller = sorted.slice(MOST_TENSORS);
  for (const row of sorted.slice(0, MOST_TENSORS)) {
    let node = root;
    for (const part of row.module ? row.module.split(".") : []) {
      if (!node.children.has(part)) node.children.set(part, { name: node.name ? `${node.name}.${part}` : part, short: part, children: new Map(), leaves: [] });
      node = node.children.get(part);
    }
    node.leaves.push({ name: row.module ? `${row.module}: ${row.name}` : row.name, short: row.name, value: row.bytes, kind: row.kind });
  }
  if (smaller.length) root.leaves.push({ name: `${count(smaller.length)} smaller tensors`, short: "smaller ones", value: smaller.reduce((sum, row) => sum + row.bytes, 0) });
  const finish = (node) => {
    const children = [...[...node.children.values()].map(finish), ...node.leaves];
    return { name: node.name, short: node.short, children, value: children.reduce((sum, child) => sum + child.value, 0) };
  };
  return withoutChain(finish(root).children);
}
