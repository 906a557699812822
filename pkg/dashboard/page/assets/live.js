// Keeps the figures of a page current. The server says when something has changed; then the page is read
// again, and the parts with data-live whose content differs are replaced. Nothing is read while the tab is
// hidden, or while the person has paused it.
import { showTimes } from "./clock.js";

let stream, reading = false, again = false, missed = false;
const paused = () => sessionStorage.getItem("belfry-paused") === "1";

// inUse reports whether a part must not be replaced now: the person types in it or has selected a text.
function inUse(part) {
  const at = document.activeElement;
  if (at && part.contains(at) && at.matches("input, textarea, select")) return true;
  const selection = getSelection();
  return !selection.isCollapsed && part.contains(selection.anchorNode);
}

function replace(part, fresh) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && (focused.getAttribute("href") ?? focused.textContent);
  const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  part.replaceChildren(...fresh.childNodes);
  part.className = fresh.className;
  [...part.querySelectorAll(".scroll")].forEach((one, i) => { one.scrollLeft = scrolled[i] ?? 0; });
  if (!focused) return;
  for (const one of part.querySelectorAll("a, button, [tabindex]")) {
    if ((one.getAttribute("href") ?? one.textContent) === key) return one.focus({ preventScroll: true });
  }
}

// read reads the page again. Of calls during a read, one is done after it.
async function read() {
  if (reading) { again = true; return; }
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" }, cache: "no-store" });
    if (answer.status === 401) return location.reload();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    showTimes(fresh);
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (next && next.innerHTML !== part.innerHTML && !inUse(part)) replace(part, next);
    }
  } catch { // the server is away: the stream says so
  } finally {
    reading = false;
    if (again) { again = false; read(); }
  }
}

function connect(button) {
  stream = new EventSource("live");
  stream.addEventListener("open", () => { button.classList.remove("lost"); button.dataset.open = ""; });
  stream.addEventListener("error", () => { button.classList.add("lost"); missed = true; });
  stream.addEventListener("open", () => { if (missed) { missed = false; read(); } });
  stream.addEventListener("change", read);
  stream.addEventListener("ended", () => location.reload());
}

export function startLive() {
  const button = document.querySelector("[data-live-switch]");
  if (!button || !document.querySelector("[data-live]")) return;
  button.hidden = false;
  const update = () => {
    button.setAttribute("aria-pressed", String(!paused()));
    button.querySelector("[data-live-state]").textContent = paused() ? "Paused" : "Live";
    const wanted = !paused() && !document.hidden;
    if (wanted && !stream) {
      connect(button);
      if (missed) { missed = false; read(); }
    } else if (!wanted && stream) {
      stream.close();
      stream = undefined;
      delete button.dataset.open;
      missed = true;
    }
  };
  button.addEventListener("click", () => {
    sessionStorage.setItem("belfry-paused", paused() ? "0" : "1");
    update();
  });
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  update();
}
