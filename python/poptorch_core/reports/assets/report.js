// The shell: data that is unpacked when it is asked for, pages, and what is shown in location.hash.

const PAGES = new Map(); // by id, in the order of the tabs: { title, open(section, state) }
const unpacked = new Map(); // by name of a blob: the promise of what it holds
const parsed = new Promise((done) => {
  if (document.readyState !== "loading") done();
  else document.addEventListener("DOMContentLoaded", done);
});
let head; // what every page needs: the report without its tables
let opening = 0; // a page that is still unpacking when the next is opened draws no more

function definePage(id, title, open) {
  PAGES.set(id, { title, open });
}

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  // Not by a Blob: its bytes go through another process of the browser, which may refuse large ones.
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  writer.write(packed).then(() => writer.close());
  return new Response(stream.readable).text();
}

async function textOf(name) {
  // A browser builds the page while it reads the file: an element has all its text once another follows it.
  if (!document.getElementById(`blob-${name}`)?.nextElementSibling) await parsed;
  const element = document.getElementById(`blob-${name}`);
  return element ? inflate(element.textContent) : "null";
}

// What a blob holds, null without one; unpacked once.
function blob(name) {
  if (!unpacked.has(name)) unpacked.set(name, textOf(name).then(JSON.parse));
  return unpacked.get(name);
}

// Columns with their texts: `table.bytes[row]`, `table.text("name", row)`.
class Table {
  constructor(columns, strings) {
    Object.assign(this, columns);
    this.strings = strings;
    this.rows = Object.values(columns)[0]?.length ?? 0;
  }
  text(column, row) {
    const value = this[column][row];
    return typeof value === "number" ? (this.strings[value] ?? "") : value;
  }
}

async function table(name) {
  const [columns, strings] = await Promise.all([blob(name), blob("strings")]);
  return new Table(columns ?? {}, strings ?? []);
}

function ipuName(ipu) {
  return ipu < 0 ? "several" : `IPU ${ipu}`;
}

function cyclesToSeconds(cycles) {
  return cycles / head.target.clock_hz;
}

function stateOfHash() {
  const [page, query] = location.hash.slice(1).split("?");
  return [PAGES.has(page) ? page : "summary", new URLSearchParams(query ?? "")];
}

function link(page, state = {}) {
  const query = new URLSearchParams(state).toString();
  return `#${page}${query ? "?" + query : ""}`;
}

let changed = {}; // of the address, but not yet in it
let changing;

// Keeps what is shown in the address, without opening the page anew. Browsers refuse an address that
// changes with each move of the wheel: it follows when the user rests.
function remember(changes) {
  Object.assign(changed, changes);
  clearTimeout(changing);
  changing = setTimeout(() => {
    const [page, state] = stateOfHash();
    for (const [key, value] of Object.entries(changed)) {
      if (value === null || value === "") state.delete(key);
      else state.set(key, value);
    }
    changed = {};
    history.replaceState(null, "", link(page, state));
  }, 200);
}

async function openPage() {
  const mine = ++opening;
  clearTimeout(changing);
  changed = {};
  const [id, state] = stateOfHash();
  const page = PAGES.get(id);
  for (const tab of document.querySelectorAll("nav a")) {
    if (tab.dataset.page === id) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  disposeCharts();
  const main = document.querySelector("main");
  const section = el("div.page", { "data-page": id });
  section.append(el("h1", {}, page.title));
  main.replaceChildren(section);
  main.setAttribute("aria-busy", "true");
  document.title = `${page.title} – ${head.model.name || "report"}`;
  try {
    await page.open(section, state, () => mine === opening);
  } catch (error) {
    if (mine !== opening) return;
    section.append(el("p.problem", {}, `This page could not be drawn: ${error.message}`));
    console.error(error);
  }
  if (mine === opening) main.setAttribute("aria-busy", "false");
}

function addTabs() {
  const tabs = document.querySelector("nav");
  for (const [id, page] of PAGES) {
    tabs.append(el("a", { href: link(id), "data-page": id }, page.title));
  }
}

function addThemeButton() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    openPage();
  });
  dark.addEventListener("change", openPage);
}

async function start() {
  if (!("DecompressionStream" in window)) {
    document.querySelector("main").textContent = "This report needs a browser with DecompressionStream: any since the middle of 2023.";
    return;
  }
  head = await blob("head");
  document.getElementById("model").textContent = head.model.name || head.model.class || "program";
  document.getElementById("about").textContent = [
    head.model.kind,
    head.model.strategy,
    `${count(head.target.ipus)} IPU${head.target.ipus === 1 ? "" : "s"}`,
    head.target.replicas > 1 ? `${count(head.target.replicas)} replicas` : "",
    head.target.device,
  ]
    .filter(Boolean)
    .join(" · ");
  addTabs();
  addThemeButton();
  addSearch();
  addEventListener("hashchange", openPage);
  await openPage();
}
