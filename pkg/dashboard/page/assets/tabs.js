// Shows the current tab of a row that is wider than the window.

export function startTabs() {
  showCurrent();
  addEventListener("resize", showCurrent);
}

function showCurrent() {
  for (const row of document.querySelectorAll(".bar nav, .tabs.row")) {
    const current = row.querySelector("[aria-current]");
    if (!current || row.scrollWidth <= row.clientWidth) continue;
    const box = current.getBoundingClientRect(), frame = row.getBoundingClientRect();
    row.scrollLeft += box.left - frame.left - (frame.width - box.width) / 2;
  }
}
