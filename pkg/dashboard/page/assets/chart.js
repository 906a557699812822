// Shows the values of a chart below the pointer.
import { clock } from "./clock.js";

let tip, mark;

function hide() {
  tip?.remove();
  mark?.remove();
  tip = mark = undefined;
}

function show(chart, event) {
  const box = chart.getBoundingClientRect();
  const part = (event.clientX - box.left) / box.width;
  if (part < 0 || part > 1) return hide();
  const from = Number(chart.dataset.from), to = Number(chart.dataset.to);
  let text = clock(new Date((from + (to - from) * part) * 1000));
  for (const line of chart.querySelectorAll("[data-values]")) {
    const values = line.dataset.values.split(" ");
    text += `\n${line.dataset.name}: ${values[Math.round(part * (values.length - 1))]}${chart.dataset.unit}`;
  }
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("aria-hidden", "true");
    document.body.append(tip);
  }
  if (mark?.ownerSVGElement !== chart) {
    mark?.remove();
    mark = document.createElementNS("http://www.w3.org/2000/svg", "line");
    mark.setAttribute("class", "cursor");
    mark.setAttribute("y1", 0);
    mark.setAttribute("y2", chart.viewBox.baseVal.height);
    chart.append(mark);
  }
  const x = chart.viewBox.baseVal.width * part;
  mark.setAttribute("x1", x);
  mark.setAttribute("x2", x);
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 14}px`;
}

export function startCharts() {
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest?.("svg[data-chart]");
    if (chart) show(chart, event);
    else if (tip) hide();
  });
  document.addEventListener("pointerleave", hide);
}
