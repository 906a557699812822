// Redrives dead letters while the page is open: shows how far it is, and stops it. Without scripts, the form
// redrives a part of them.

// events yields the events of a stream: the type, and the data as an object.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const line = (name) => block.split("\n").find((one) => one.startsWith(name))?.slice(name.length);
      if (line("event: ")) yield [line("event: "), JSON.parse(line("data: "))];
    }
  }
}

export const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

function span(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// reasons say why a redrive ended early.
const reasons = {
  shutdown: "the server stops", unauthorized: "the session has ended", timeout: "it took too long",
};

function said(so, elapsed) {
  const left = so.redriven + so.skipped > 0 ? span(so.remaining * elapsed / (so.redriven + so.skipped)) : "?";
  return `${count(so.redriven)} delivered again, ${count(so.remaining)} remain, about ${left} at this rate.`;
}

// run redrives until the end and returns what to say about it.
async function run(form, signal, show) {
  const body = new URLSearchParams(new FormData(form));
  let last = { redriven: 0, remaining: 0 };
  try {
    const answer = await fetch("redrive", { method: "POST", body, signal });
    if (!answer.ok) {
      const text = await answer.text();
      return `Nothing was changed: ${text.startsWith("{") ? JSON.parse(text).error : text}`;
    }
    for await (const [kind, so] of events(answer.body)) {
      last = so;
      show(so);
      if (kind !== "closing") continue;
      if (so.reason === "done") return `${count(so.redriven)} delivered again. ${so.skipped ? `${count(so.skipped)} skipped: their message or group is deleted.` : ""}`;
      return `It stopped: ${so.error ?? reasons[so.reason] ?? so.reason}. ${count(so.redriven)} delivered again, ${count(so.remaining)} remain.`;
    }
  } catch { // stopped, or the connection is lost
  }
  return `${signal.aborted ? "Stopped" : "The connection is lost"}. At least ${count(last.redriven)} delivered again; the others are still here.`;
}

async function redrive(form) {
  const state = form.parentElement.querySelector("[data-redrive-state]");
  const [bar, text, stop] = ["progress", "p", "button"].map((name) => state.querySelector(name));
  const aborter = new AbortController(), began = Date.now();
  const stay = (event) => event.preventDefault();
  addEventListener("beforeunload", stay);
  form.hidden = true;
  state.hidden = bar.hidden = stop.hidden = false;
  bar.value = 0;
  text.textContent = "It begins.";
  stop.onclick = () => aborter.abort();
  stop.focus();
  text.textContent = await run(form, aborter.signal, (so) => {
    bar.max = Math.max(so.matched, 1);
    bar.value = so.redriven + so.skipped;
    text.textContent = said(so, (Date.now() - began) / 1000);
  });
  removeEventListener("beforeunload", stay);
  bar.hidden = stop.hidden = true;
  form.hidden = false;
  form.dispatchEvent(new Event("redriven")); // count again
}

export function startRedrive() {
  for (const form of document.querySelectorAll("form[data-redrive]")) {
    form.querySelector("[data-redrive-hint]").hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      redrive(form);
    });
  }
}
