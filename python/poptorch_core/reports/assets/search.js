// The box in the head: ops, tensors and modules by a part of their names.

const MOST_FOUND = 8; // of each kind
let searched; // the promise of what there is to find

async function namesToFind() {
  const [instructions, modules, always, allocations] = await Promise.all(
    ["instructions", "graph.modules", "memory.always", "memory.allocations"].map(table),
  );
  const found = [];
  const seen = new Set();
  const add = (kind, text, about, target) => {
    const key = `${kind} ${text}`;
    if (!text || seen.has(key)) return;
    seen.add(key);
    found.push({ kind, text, low: text.toLowerCase(), about, target });
  };
  for (let row = 0; row < modules.rows; ++row) {
    add("Modules", modules.text("path", row), ipuName(modules.ipu[row]), ["graph", { view: "modules", path: modules.text("path", row) }]);
  }
  for (let row = 0; row < instructions.rows; ++row) {
    const name = instructions.text("name", row);
    const op = instructions.text("op", row);
    const text = name ? `${op} → ${name}` : op;
    add("Ops", text, instructions.text("module", row), ["graph", { view: "ops", op: row }]);
  }
  for (let row = 0; row < always.rows; ++row) {
    add("Tensors", always.text("name", row), KIND_NAMES[always.text("kind", row)], ["memory", { ipu: Math.max(always.ipu[row], 0), tensor: always.text("name", row) }]);
  }
  for (let row = 0; row < allocations.rows; ++row) {
    add("Tensors", allocations.text("name", row), KIND_NAMES[allocations.text("kind", row)], ["memory", { ipu: allocations.ipu[row], tensor: allocations.text("name", row) }]);
  }
  return found;
}

// What matches, by kind; names that begin with what is sought come first.
function matches(names, sought) {
  const groups = new Map([["Modules", []], ["Ops", []], ["Tensors", []]]);
  for (const name of names) {
    const at = name.low.indexOf(sought);
    if (at >= 0) groups.get(name.kind).push([at === 0 ? 0 : 1, name]);
  }
  for (const group of groups.values()) group.sort(([a, x], [b, y]) => a - b || x.text.length - y.text.length);
  return groups;
}

function addSearch() {
  const box = document.getElementById("search");
  const list = document.getElementById("found");
  let marked = -1;
  const entries = () => [...list.querySelectorAll("a")];
  const close = () => {
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    marked = -1;
  };
  const mark = (number) => {
    const all = entries();
    if (!all.length) return;
    marked = (number + all.length) % all.length;
    all.forEach((entry, i) => entry.classList.toggle("active", i === marked));
    all[marked].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", all[marked].id);
  };
  const search = async () => {
    const sought = box.value.trim().toLowerCase();
    if (!sought) return close();
    searched ??= namesToFind();
    const names = await searched;
    if (sought !== box.value.trim().toLowerCase()) return;
    list.replaceChildren();
    let number = 0;
    for (const [kind, group] of matches(names, sought)) {
      if (!group.length) continue;
      const more = group.length > MOST_FOUND ? `${kind} – ${MOST_FOUND} of ${count(group.length)}` : kind;
      list.append(el("div.kind", {}, more));
      for (const [, name] of group.slice(0, MOST_FOUND)) {
        const href = link(...name.target);
        list.append(el("a", { href, id: `found-${number++}`, tabindex: "-1", role: "option", click: close }, el("span", {}, name.text), el("small", {}, name.about)));
      }
    }
    if (!list.children.length) list.append(el("div.kind", {}, "No name contains this text"));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    mark(0);
  };
  box.addEventListener("input", search);
  box.addEventListener("focus", search);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") mark(marked + 1);
    else if (event.key === "ArrowUp") mark(marked - 1);
    else if (event.key === "Enter" && entries()[marked]) entries()[marked].click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!list.contains(event.target) && event.target !== box) close();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      box.focus();
    }
  });
}
