// Texts of numbers, and elements. Whatever a user named becomes a text node, never markup.

const KIB = 1024;

function bytes(count) {
  const size = Math.abs(count);
  if (size < KIB) return `${count} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let power = Math.min(Math.floor(Math.log(size) / Math.log(KIB)), units.length);
  if (power < units.length && size / KIB ** power >= 999.5) power += 1;
  return `${digits(count / KIB ** power)} ${units[power - 1]}`;
}

// Three significant digits, without an exponent.
function digits(number) {
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 100) return Math.round(number).toLocaleString("en");
  return number.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : Math.min(3 - Math.floor(Math.log10(size)) - 1, 9));
}

function count(number) {
  return Number(number).toLocaleString("en", { maximumFractionDigits: 0 });
}

// 12.3 M: for axes and narrow columns.
function short(number) {
  const size = Math.abs(number);
  for (const [power, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= power * 0.9995) return `${digits(number / power)} ${unit}`;
  }
  return Number.isInteger(number) ? String(number) : digits(number);
}

function seconds(time) {
  const size = Math.abs(time);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${digits(time * 1e9)} ns`;
  if (size < 1e-3) return `${digits(time * 1e6)} µs`;
  if (size < 1) return `${digits(time * 1e3)} ms`;
  if (size < 120) return `${digits(time)} s`;
  return `${Math.floor(time / 60)} min ${Math.round(time % 60)} s`;
}

function percent(share) {
  const value = share * 100;
  if (value === 0) return "0 %";
  return Math.abs(value) < 0.1 ? `${value < 0 ? "−" : ""}<0.1 %` : `${value.toFixed(Math.abs(value) < 10 ? 1 : 0)} %`;
}

// Of an axis: a format without the zeros behind the point.
function tick(format) {
  return (value) => format(value).replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
}

// The end of a path, which tells it from others.
function ending(path, letters) {
  return path.length > letters ? `…${path.slice(1 - letters)}` : path;
}

function signed(number, format) {
  if (number === 0) return "±0";
  return (number > 0 ? "+" : "−") + format(Math.abs(number));
}

// `el("p.note", { title: "…" }, "text", child)`: attributes whose value is a function are listeners.
function el(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return made;
}

// Terms and what they are, as a definition list; entries without a value are left out.
function facts(pairs) {
  const made = el("dl.facts");
  for (const [term, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    made.append(el("div", {}, el("dt", {}, term), el("dd", {}, ...[value].flat())));
  }
  return made;
}

function card(title, ...children) {
  return el("section.card", {}, title && el("h2", {}, title), ...children);
}

function note(...children) {
  return el("p.note", {}, ...children);
}

// A choice of one of few: buttons that say which is pressed.
function choice(label, options, chosen, choose) {
  const group = el("div.choice", { role: "group", "aria-label": label });
  for (const [value, text] of options) {
    const button = el("button", { type: "button", "aria-pressed": String(value === chosen) }, text);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
      choose(value);
    });
    group.append(button);
  }
  return group;
}

// Shows option `number` of a choice, or of a select, as the chosen one; nothing without it.
function pressOnly(made, number) {
  if (made?.tagName === "SELECT") made.selectedIndex = number;
  else for (const [place, button] of [...(made?.children ?? [])].entries()) button.setAttribute("aria-pressed", String(place === number));
}
