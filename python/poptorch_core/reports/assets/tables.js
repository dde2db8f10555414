// Tables of any length: only the rows in sight exist. Columns are
// { title, value(row) → number or text to sort by, cell(row) → text or element, numeric, width, hint }.

const ROW_HEIGHT = 28;
let tablesMade = 0;

class RowTable {
  // `rows`: any values; `open(row)`: what a click or Enter does; `height`: of what scrolls, in pixels.
  constructor({ label, columns, rows, open, height = 360, sort, descending = true, isOpen }) {
    Object.assign(this, { label, columns, all: rows, open, height, isOpen });
    this.id = `table${++tablesMade}`;
    this.sorted = sort;
    this.descending = descending;
    this.active = -1;
    this.body = el("div.rows", { tabindex: "0", role: "rowgroup", "aria-label": label });
    this.space = el("div.space");
    this.body.append(this.space);
    this.header = el("div.row.head", { role: "row" });
    const widths = columns.map((column) => column.width ?? "minmax(90px, 1fr)");
    const least = widths.reduce((sum, width) => sum + Number(/\d+/.exec(width)[0]), 20);
    this.element = el("div.table", { role: "table", "aria-label": label }, this.header, this.body);
    this.element.style.setProperty("--columns", widths.join(" "));
    this.element.style.setProperty("--least", `${least}px`);
    this.body.addEventListener("scroll", () => this.draw());
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.body);
    this.addHeader();
    this.show(rows);
  }

  addHeader() {
    this.header.replaceChildren(
      ...this.columns.map((column, number) => {
        const button = el("button", { type: "button", title: column.hint }, column.title);
        button.addEventListener("click", () => this.sort(number));
        const order = this.sorted === number ? (this.descending ? "descending" : "ascending") : "none";
        return el(`div.cell${column.numeric ? ".number" : ""}`, { role: "columnheader", "aria-sort": order }, button);
      }),
    );
  }

  sort(number) {
    this.descending = this.sorted === number ? !this.descending : Boolean(this.columns[number].numeric);
    this.sorted = number;
    this.addHeader();
    this.show(this.all);
  }

  // Puts other rows in; the order stays.
  show(rows) {
    this.all = rows;
    this.rows = rows;
    const column = this.columns[this.sorted];
    if (column) {
      const sign = this.descending ? -1 : 1;
      const keyed = rows.map((row) => [column.value(row), row]);
      keyed.sort(([a], [b]) => sign * (typeof a === "string" ? a.localeCompare(b) : a - b));
      this.rows = keyed.map(([, row]) => row);
    }
    this.space.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.body.style.height = `${Math.min(Math.max(this.rows.length, 1) * ROW_HEIGHT + 2, this.height)}px`;
    this.element.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.draw();
  }

  draw() {
    const first = Math.max(Math.floor(this.body.scrollTop / ROW_HEIGHT) - 4, 0);
    const last = Math.min(first + Math.ceil((this.body.clientHeight || this.height) / ROW_HEIGHT) + 8, this.rows.length);
    const drawn = [];
    for (let i = first; i < last; ++i) drawn.push(this.rowElement(i));
    this.space.replaceChildren(...drawn);
    if (this.rows.length === 0) this.space.append(el("div.empty", {}, "Nothing to show"));
  }

  rowElement(position) {
    const row = this.rows[position];
    const cells = this.columns.map((column) => {
      const content = column.cell ? column.cell(row) : column.value(row);
      const title = typeof content === "string" && content.length > 12 ? content : undefined;
      return el(`div.cell${column.numeric ? ".number" : ""}`, { role: "cell", title }, content);
    });
    const made = el("div.row", { role: "row", id: `${this.id}-${position}`, "aria-rowindex": position + 2 }, ...cells);
    made.style.top = `${position * ROW_HEIGHT}px`;
    if (this.open) made.classList.add("opens");
    if (position === this.active || this.isOpen?.(row)) made.classList.add("active");
    made.addEventListener("click", () => this.activate(position));
    return made;
  }

  activate(position) {
    this.active = position;
    if (this.open) this.open(this.rows[position]);
    this.draw();
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key in steps) {
      this.active = Math.min(Math.max(this.active + steps[event.key], 0), this.rows.length - 1);
      this.reveal(this.active);
    } else if (event.key === "Enter" && this.active >= 0) {
      this.activate(this.active);
    } else {
      return;
    }
    event.preventDefault();
    this.body.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
  }

  // Scrolls so that a position is in sight.
  reveal(position) {
    const top = position * ROW_HEIGHT;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    const bottom = top + ROW_HEIGHT - this.body.clientHeight;
    if (bottom > this.body.scrollTop) this.body.scrollTop = bottom;
    this.active = position;
    this.draw();
  }

  revealRow(row) {
    const position = this.rows.indexOf(row);
    if (position >= 0) this.reveal(position);
  }
}

// A number with a bar that is its share of the largest.
function bar(share, text) {
  const filled = el("span.filled");
  filled.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return el("span.bar", {}, filled, el("span", {}, text));
}

// Rows of a tree with sums: `children` by row, `roots`; opened where a row's triangle is clicked.
class TreeTable {
  constructor({ label, columns, roots, children, name, open, height, weight }) {
    Object.assign(this, { roots, children, opened: new Set(), depth: new Map(), weight });
    const tree = {
      title: "Module",
      width: "minmax(200px, 3fr)",
      value: name,
      cell: (row) => this.nameCell(row, name(row)),
    };
    this.table = new RowTable({ label, columns: [tree, ...columns], rows: [], height, open: (row) => open?.(row) });
    this.table.sort = (number) => this.sortBy(number);
    this.table.body.addEventListener("keydown", (event) => this.key(event));
    this.element = this.table.element;
    // Open as far as there is one way only.
    for (let level = roots; level.length; level = level.length === 1 ? children(level[0]) : []) {
      for (const row of level) if (level.length === 1) this.opened.add(row);
    }
    this.show();
  }

  sortBy(number) {
    const column = this.table.columns[number];
    this.order = number === 0 ? undefined : column.value;
    this.show();
  }

  show() {
    const rows = [];
    const visit = (row, depth) => {
      this.depth.set(row, depth);
      rows.push(row);
      if (this.opened.has(row)) this.inOrder(this.children(row)).forEach((child) => visit(child, depth + 1));
    };
    this.inOrder(this.roots).forEach((root) => visit(root, 0));
    this.table.show(rows);
  }

  inOrder(rows) {
    return this.order ? [...rows].sort((a, b) => this.order(b) - this.order(a)) : rows;
  }

  toggle(row, wanted = !this.opened.has(row)) {
    if (wanted) this.opened.add(row);
    else this.opened.delete(row);
    this.show();
  }

  key(event) {
    const row = this.table.rows[this.table.active];
    if (row === undefined || (event.key !== "ArrowRight" && event.key !== "ArrowLeft")) return;
    this.toggle(row, event.key === "ArrowRight");
    event.preventDefault();
  }

  nameCell(row, text) {
    const made = el("span.tree");
    made.style.paddingLeft = `${this.depth.get(row) * 16}px`;
    if (this.children(row).length) {
      const isOpen = this.opened.has(row);
      const button = el("button.twist", { type: "button", tabindex: "-1", "aria-expanded": String(isOpen), "aria-label": `${isOpen ? "Close" : "Open"} ${text}` }, isOpen ? "▾" : "▸");
      button.addEventListener("click", (event) => {
        event.stopPropagation();
        this.toggle(row);
      });
      made.append(button);
    } else {
      made.append(el("span.twist"));
    }
    made.append(el("span.label", { title: text }, text));
    return made;
  }
}
