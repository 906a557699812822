// Keeps relative times current, and shows the others in the time zone of the browser.

const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

// age writes a duration with its two largest units.
export function age(seconds) {
  for (let i = 0; i < units.length; i++) {
    const n = Math.floor(seconds / units[i][0]);
    if (n === 0) continue;
    let text = `${n} ${units[i][1]}`;
    if (i + 1 < units.length && n < 10) {
      const rest = Math.floor((seconds - n * units[i][0]) / units[i + 1][0]);
      if (rest > 0) text += ` ${rest} ${units[i + 1][1]}`;
    }
    return text;
  }
  return "0 s";
}

const two = (n) => String(n).padStart(2, "0");

export function clock(at) {
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

export function showTimes(root = document) {
  for (const time of root.querySelectorAll("time[data-ago], time[data-age]")) {
    const text = age(Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000)) + ("ago" in time.dataset ? " ago" : "");
    if (time.textContent !== text) time.textContent = text;
  }
  for (const time of root.querySelectorAll("time[data-at]")) {
    const at = new Date(time.dateTime);
    time.textContent = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}:${two(at.getSeconds())}`;
  }
  for (const label of root.querySelectorAll("[data-clock]")) {
    if (label.textContent.includes(":")) label.textContent = clock(new Date(label.dataset.clock * 1000));
  }
}

export function startClock() {
  showTimes();
  setInterval(() => { if (!document.hidden) showTimes(); }, 1000);
}
