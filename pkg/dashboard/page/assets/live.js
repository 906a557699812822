// Keeps the figures of a page current. The server says when something has changed; then the page is read
// again, and the parts with data-live whose content differs are replaced. Nothing is read while the tab is
// hidden, or while the person has paused it.
import { showTimes } from "./clock.js";

let stream, since = "", lost = false, reading = false, again = false;
const paused = () => sessionStorage.getItem("belfry-paused") === "1";

// inUse reports whether a part must not be replaced now: the person types in it, has opened a form in it or
// has selected a text.
function inUse(part) {
  const at = document.activeElement;
  if (at && part.contains(at) && at.matches("input, textarea, select")) return true;
  if (part.querySelector("details[open] form")) return true;
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
    const answer = await fetch(location.href, { headers: { "X-Live": since }, cache: "no-store" });
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

// connect opens the stream. It tells the server up to which change the page has seen, so that a change before
// that is not missed and none is read twice. A browser tries again after an error of the network, but not after an
// answer that is no stream, such as that of a server which starts.
function connect(button, update) {
  const opened = stream = new EventSource(`live?${new URLSearchParams({ since })}`);
  stream.addEventListener("open", () => { lost = false; button.dataset.open = ""; update(); });
  stream.addEventListener("error", () => {
    lost = true;
    delete button.dataset.open;
    if (opened.readyState === EventSource.CLOSED && stream === opened) setTimeout(() => {
      if (stream !== opened) return;
      stream = undefined;
      read().then(update); // it goes to the sign-in page if the session is over
    }, 2000);
    update();
  });
  stream.addEventListener("change", (event) => { since = event.lastEventId; read(); });
  stream.addEventListener("ended", () => location.reload());
}

export function startLive() {
  const button = document.querySelector("[data-live-switch]");
  if (!button || !document.querySelector("[data-live]")) return;
  button.hidden = false;
  since = button.dataset.since;
  const update = () => {
    const wanted = !paused() && !document.hidden;
    if (wanted && !stream) connect(button, update);
    else if (!wanted && stream) {
      stream.close();
      stream = undefined;
      lost = false;
      delete button.dataset.open;
    }
    button.setAttribute("aria-pressed", String(!paused()));
    button.classList.toggle("lost", lost);
    button.querySelector("[data-live-state]").textContent = paused() ? "Paused" : lost ? "Not connected" : "Live";
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
