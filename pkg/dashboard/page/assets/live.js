// Keeps the figures of a page current. The server says when something has changed; then the page is read
// again, and the parts with data-live become equal to the fresh ones. Nothing is read while the tab is
// hidden, or while the person has paused it.
import { showTimes } from "./clock.js";
import { morph } from "./morph.js";
import { subscribe } from "./subscribe.js";

// unsubscribe ends the subscription to changes. It is undefined if there is none.
let unsubscribe, since = "", lost = false, stale = false, reading = false, held = false, again = false, later, showState = () => {};
const paused = () => sessionStorage.getItem("belfry-paused") === "1";

// places lists what a person can press in a part, in order.
const places = (part) => [...part.querySelectorAll("a[href], input[type=hidden]")].map((one) => one.getAttribute("href") ?? one.value).join("\n");

// isAimedAt reports whether the person is about to press something in a part, or selects a text there.
function isAimedAt(part) {
  const selection = getSelection();
  return part.matches(":hover") || part.contains(document.activeElement) || !selection.isCollapsed && part.contains(selection.anchorNode);
}

// calm updates the rows that a list shows, and offers its newer rows with a button, so that nothing jumps. It returns false if
// the list has no newer rows.
function calm(part, fresh) {
  const rows = (list) => new Map([...list.querySelectorAll("tbody tr")].map((row) => [row.querySelector("a[href]")?.getAttribute("href"), row]));
  const shown = rows(part), next = rows(fresh), button = part.querySelector("[data-newer]");
  const newer = [...next.keys()].filter((key) => !shown.has(key)).length;
  if (!button || shown.size === 0 || newer === 0) return false;
  for (const [key, row] of shown) if (next.has(key)) morph(row, next.get(key));
  button.textContent = newer === 1 ? "Show 1 newer message" : newer < next.size ? `Show ${newer} newer messages` : `Show ${newer} or more newer messages`;
  button.hidden = false;
  button.onclick = () => {
    morph(part, fresh);
    part.querySelector("tbody a")?.focus({ preventScroll: true });
  };
  return true;
}

// update makes a part equal to a fresh one. Links do not move while the person aims at the part: it is updated
// when they leave it.
function update(part, fresh) {
  if (part.querySelector("[data-choosing]")) return; // a time of a chart
  if (calm(part, fresh)) return;
  if (isAimedAt(part) && places(part) !== places(fresh)) {
    if (part.dataset.held === undefined) {
      part.dataset.held = "";
      for (const leaving of ["pointerleave", "focusout"]) part.addEventListener(leaving, () => setTimeout(read), { once: true });
    }
    return;
  }
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  morph(part, fresh);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

// isTyped reports whether the person has typed something that a load of the page would lose.
const isTyped = () => [...document.querySelectorAll("main textarea, main input:not([type=hidden])")].some((one) => one.value !== one.defaultValue);

// version is the path of the scripts, which changes with their content.
const version = (page) => page.querySelector("script[type=module]")?.getAttribute("src");

// renew loads the page again, because another version of the server has answered, whose pages need other scripts. During an
// upgrade, both versions answer in turn. So it happens at most every 10 seconds.
function renew() {
  const last = Number(sessionStorage.getItem("belfry-renewed") ?? 0);
  if (isTyped() || Date.now() - last < 10_000) return false;
  sessionStorage.setItem("belfry-renewed", String(Date.now()));
  location.reload();
  return true;
}

// show shows what was read, and returns whether it could. A page that failed and one that did not replace each other as
// a whole.
function show(answer, fresh) {
  const waits = (page) => page.querySelector("[data-live=failure]") !== null;
  if (version(fresh) !== version(document)) return renew();
  if (waits(document) !== waits(fresh) || !answer.ok && !waits(fresh)) {
    location.reload();
    return true;
  }
  showTimes(fresh);
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    if (next) update(part, next);
  }
  return true;
}

// hold keeps the page as it is while an action is under way, so that a change that it makes does not load the page
// again before its answer is here. release ends that.
export function hold() { held = true; }
export function release() {
  held = false;
  if (again) read();
}

// ended loads the page again, which leads to the sign-in page. A page in which the person has typed something stays,
// and is current again after a sign-in in another tab.
function ended() {
  if (!isTyped()) return location.reload();
  stale = true;
  showState();
  clearTimeout(later);
  later = setTimeout(read, 3000);
}

// read reads the page again. Of calls during a read, one is done after it. A page that cannot be read now is read
// again later, because perhaps nothing happens that makes it be read.
async function read() {
  if (reading || held) { again = true; return; }
  reading = true;
  again = false;
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": since }, cache: "no-store" });
    if (held) { again = true; return; }
    if (answer.status === 401) return ended();
    stale = answer.status >= 500;
    if (!stale || document.querySelector("[data-live=failure]")) {
      stale = !show(answer, new DOMParser().parseFromString(await answer.text(), "text/html")) || stale;
    }
    clearTimeout(later);
    if (answer.status >= 500 || stale) later = setTimeout(() => { if (unsubscribe) read(); }, 3000);
    showState();
  } catch { // the server is away: the stream says so
  } finally {
    reading = false;
    if (again) read();
  }
}

// connect subscribes to changes. It says up to which change the page has seen, so that a change before that is not missed
// and none is read twice.
function connect(button, state) {
  unsubscribe = subscribe(since, (kind, id) => {
    if (kind === "open") {
      lost = false;
      button.dataset.open = "";
    } else if (kind === "change") {
      since = id;
      read();
    } else {
      lost ||= kind !== "ended";
      delete button.dataset.open;
      if (kind !== "lost") {
        unsubscribe = undefined;
        if (kind !== "gone") return read().then(state); // it goes to the sign-in page if the session is over
      }
    }
    state();
  });
}

export function startLive() {
  const button = document.querySelector("[data-live-switch]");
  if (!button || !document.querySelector("[data-live]")) return;
  button.hidden = false;
  since = button.dataset.since;
  const state = () => {
    const wanted = !paused() && !document.hidden;
    if (wanted && !unsubscribe) connect(button, state);
    else if (!wanted && unsubscribe) {
      unsubscribe();
      unsubscribe = undefined;
      lost = false;
      delete button.dataset.open;
    }
    button.setAttribute("aria-pressed", String(!paused()));
    button.classList.toggle("lost", lost || stale);
    button.querySelector("[data-live-state]").textContent = paused() ? "Paused" : lost ? "Not connected" : stale ? "Not current" : "Live";
  };
  showState = state;
  button.addEventListener("click", () => {
    sessionStorage.setItem("belfry-paused", paused() ? "0" : "1");
    state();
  });
  document.addEventListener("visibilitychange", state);
  addEventListener("pagehide", () => unsubscribe?.());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  if (document.querySelector("[data-again]")) later = setTimeout(read, 3000);
  state();
}
