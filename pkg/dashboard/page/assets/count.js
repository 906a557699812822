// Counts exactly what an action will touch, while its part of the page is open. The buttons of the action work after the count,
// and name its number. The action is bounded to what was counted.
import { count, events } from "./redrive.js";

// run counts, and returns the last event, or null if the count did not end.
async function run(link, signal, show) {
  const answer = await fetch(link, { signal });
  if (!answer.ok) {
    const text = await answer.text();
    throw new Error(text.startsWith("{") ? JSON.parse(text).error : text);
  }
  for await (const [kind, so] of events(answer.body)) {
    if (kind === "closing") {
      if (so.reason !== "done") throw new Error(so.error ?? so.reason);
      return so;
    }
    show(so);
  }
  throw new Error("the connection is lost");
}

function startOne(part) {
  const form = part.querySelector("form"), state = form.querySelector("[data-count-state]");
  const buttons = [...form.querySelectorAll("[data-counted]")];
  let aborter;
  const begin = async () => {
    aborter?.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    form.elements["as-of"].value = "";
    for (const button of buttons) [button.disabled, button.textContent] = [true, button.dataset.counted];
    state.textContent = "Counting.";
    try {
      const end = await run(part.dataset.count, signal, (so) => { state.textContent = `${count(so.matched)} counted so far.`; });
      form.elements["as-of"].value = end.asOf;
      const what = `${count(end.matched)} ${end.matched === 1 ? "dead letter" : "dead letters"}`;
      state.textContent = `Counted: ${what}. Later ones are left out.`;
      for (const button of buttons) [button.disabled, button.textContent] = [end.matched === 0, `${button.dataset.counted} ${what}`];
    } catch (error) {
      if (!signal.aborted) state.textContent = `The count failed: ${error.message}. Close this part and open it again to count again.`;
    }
  };
  const toggled = () => {
    if (part.open) begin();
    else aborter?.abort();
  };
  part.addEventListener("toggle", toggled);
  form.addEventListener("redriven", begin);
  if (part.open) begin();
}

export function startCount() {
  for (const part of document.querySelectorAll("details[data-count]")) startOne(part);
}
