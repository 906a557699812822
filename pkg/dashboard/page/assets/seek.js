// Counts exactly what a seek will do when the page could count only the first partitions. The button works after the count.
import { count } from "./redrive.js";

const counts = ["messagesAgain", "messagesSkipped", "leasesEnded"];
const nouns = { messagesAgain: ["message", "messages"], messagesSkipped: ["message", "messages"], leasesEnded: ["lease", "leases"], partitions: ["partition", "partitions"] };
const plural = (n, noun) => `${count(n)} ${nouns[noun][n === 1 ? 0 : 1]}`;

// countAll adds the counts of all parts, and calls show after each.
async function countAll(link, show) {
  const sum = { messagesAgain: 0, messagesSkipped: 0, leasesEnded: 0, partitionsExamined: 0, cut: false };
  for (let cursor = ""; ;) {
    const answer = await fetch(`${link}&${new URLSearchParams({ cursor })}`);
    const text = await answer.text();
    if (!answer.ok) throw new Error(text.startsWith("{") ? JSON.parse(text).error : text);
    const part = JSON.parse(text);
    for (const one of [...counts, "partitionsExamined"]) sum[one] += part[one];
    sum.cut ||= part.countsAreLowerBounds && part.next === null;
    if (part.next === null) return sum;
    cursor = part.next;
    show(sum);
  }
}

async function startOne(list) {
  const line = (name) => list.querySelector(`[data-of=${name}]`), state = line("examined");
  const button = document.querySelector("[data-after-count]");
  if (button) button.disabled = true;
  try {
    const sum = await countAll(list.dataset.seekCount, (so) => { state.textContent = `Counting: ${plural(so.partitionsExamined, "partitions")} so far.`; });
    for (const one of counts) {
      line(one).hidden = sum[one] === 0;
      line(one).querySelector("strong").textContent = `${sum.cut ? "At least " : ""}${plural(sum[one], one)}`;
    }
    line("none").hidden = sum.messagesAgain + sum.messagesSkipped > 0;
    line("none").textContent = "No message is delivered again, and none is skipped.";
    state.textContent = `Counted: ${plural(sum.partitionsExamined, "partitions")}.`;
    if (button) button.disabled = false;
  } catch (error) {
    state.textContent = `The count failed: ${error.message}. Load the page to count again.`;
  }
}

export function startSeek() {
  for (const list of document.querySelectorAll("[data-seek-count]")) startOne(list);
}
