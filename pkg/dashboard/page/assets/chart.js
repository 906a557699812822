// Shows the values of a chart at the pointer or at the cursor of the keyboard, and chooses a time by dragging
// or by Shift with the arrow keys. A part of the page with data-zoom names the page that shows that time.
import { clock } from "./clock.js";

// least is how many pixels a choice of the pointer has at least.
const least = 8;

let tip, mark, area, chosen; // chosen is { chart, from, to } in parts of the width

function hide() {
  tip?.remove();
  mark?.remove();
  tip = mark = undefined;
}

function unchoose() {
  area?.remove();
  delete chosen?.chart.dataset.choosing;
  area = chosen = undefined;
}

function draw(name, chart, attributes) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries({ ...attributes, height: chart.viewBox.baseVal.height })) one.setAttribute(key, value);
  chart.append(one);
  return one;
}

const secondsAt = (chart, part) => Number(chart.dataset.from) + (chart.dataset.to - chart.dataset.from) * part;
const timeAt = (chart, part) => clock(new Date(secondsAt(chart, part) * 1000));

// amount formats a value with its unit, as the axis does.
function amount(text, unit) {
  const n = Number(text);
  if (unit === " ms" && n >= 120_000) return `${(n / 60_000).toFixed(1)} min`;
  if (unit === " ms" && n >= 1000) return `${(n / 1000).toFixed(2)} s`;
  return n.toLocaleString("en").replaceAll(",", "\u202f") + unit;
}

// show writes the values at a part of the width, below a point of the window.
function show(chart, part, x, y) {
  let text = timeAt(chart, part);
  if (chosen?.chart === chart && chosen.from !== chosen.to) text = `${timeAt(chart, Math.min(chosen.from, chosen.to))} – ${timeAt(chart, Math.max(chosen.from, chosen.to))}`;
  if (chart.querySelector("[data-live-end]") && part === 1) text += ", live";
  for (const line of chart.querySelectorAll("[data-values]")) {
    const values = line.dataset.values.split(" ");
    text += `\n${line.dataset.name}: ${amount(values[Math.round(part * (values.length - 1))], chart.dataset.unit)}`;
  }
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    document.body.append(tip);
  }
  if (mark?.ownerSVGElement !== chart) {
    mark?.remove();
    mark = draw("line", chart, { class: "cursor", y1: 0, y2: chart.viewBox.baseVal.height });
  }
  mark.dataset.part = part;
  for (const name of ["x1", "x2"]) mark.setAttribute(name, chart.viewBox.baseVal.width * part);
  tip.textContent = text;
  tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${y + 14}px`;
}

// choose marks the time between two parts of the width.
function choose(chart, from, to) {
  if (chosen?.chart !== chart) unchoose();
  chosen = { chart, from, to };
  chart.dataset.choosing = "";
  area ??= draw("rect", chart, { class: "chosen", y: 0 });
  area.setAttribute("x", chart.viewBox.baseVal.width * Math.min(from, to));
  area.setAttribute("width", chart.viewBox.baseVal.width * Math.abs(to - from));
}

// zoom opens the page that shows the chosen time, in whole minutes.
function zoom() {
  const { chart, from, to } = chosen;
  const url = new URL(chart.closest("[data-zoom]").dataset.zoom, location.href);
  const minute = (part, round) => new Date(round(secondsAt(chart, part) / 60) * 60_000).toISOString().replace(".000", "");
  url.searchParams.set("from", minute(Math.min(from, to), Math.floor));
  url.searchParams.set("to", minute(Math.max(from, to), Math.ceil));
  unchoose();
  location.assign(url);
}

function partOf(chart, event) {
  const box = chart.getBoundingClientRect();
  return (event.clientX - box.left) / box.width;
}

function press(event) {
  const chart = event.target.closest?.("svg[data-chart]");
  if (!chart?.closest("[data-zoom]") || event.button !== 0 || event.pointerType === "touch") return;
  event.preventDefault();
  const part = partOf(chart, event);
  chart.focus({ preventScroll: true });
  choose(chart, part, part);
  chosen.dragging = true;
}

function move(event) {
  const chart = chosen?.dragging ? chosen.chart : event.target.closest?.("svg[data-chart]");
  if (!chart) return hide();
  const part = Math.min(1, Math.max(0, partOf(chart, event)));
  if (chosen?.dragging) choose(chart, chosen.from, part), chosen.dragging = true;
  show(chart, part, event.clientX, event.clientY);
}

function release() {
  if (!chosen?.dragging) return;
  if (Math.abs(chosen.to - chosen.from) * chosen.chart.clientWidth >= least) zoom();
  else unchoose();
}

function key(event) {
  const chart = event.target.closest?.("svg[data-chart]");
  if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = 1 / Math.max(1, chart.querySelector("[data-values]").dataset.values.split(" ").length - 1);
  const at = mark?.ownerSVGElement === chart ? Number(mark.dataset.part) : 1;
  const to = { ArrowLeft: Math.max(0, at - step), ArrowRight: Math.min(1, at + step), Home: 0, End: 1 }[event.key];
  if (to !== undefined) {
    if (!event.shiftKey) unchoose();
    else if (chart.closest("[data-zoom]")) choose(chart, chosen?.chart === chart ? chosen.from : at, to);
    const box = chart.getBoundingClientRect();
    show(chart, to, box.left + box.width * to, box.top);
  } else if (event.key === "Enter" && chosen?.chart === chart && chosen.from !== chosen.to) zoom();
  else if (event.key === "Escape") unchoose(), hide();
  else return;
  event.preventDefault();
}

export function startCharts() {
  document.addEventListener("pointerdown", press);
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", release);
  document.addEventListener("pointerleave", hide);
  document.addEventListener("pointercancel", unchoose);
  document.addEventListener("keydown", key);
  document.addEventListener("focusout", (event) => { if (event.target.matches?.("svg[data-chart]")) unchoose(), hide(); });
}
