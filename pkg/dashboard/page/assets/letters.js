// The list of dead letters: selected rows, the payload in a row, and copies.

const choices = () => [...document.querySelectorAll("input[data-choose]")];

function showChosen() {
  const form = document.querySelector("[data-chosen]");
  if (!form) return;
  const all = choices(), count = all.filter((one) => one.checked).length;
  const text = count ? `${count} selected` : "Nothing is selected", shown = form.querySelector("[data-chosen-count]");
  if (shown.textContent !== text) shown.textContent = text;
  for (const button of form.querySelectorAll("button")) button.disabled = !count;
  form.hidden = !all.length;
  const head = document.querySelector("input[data-choose-all]");
  if (!head) return; // the list is empty
  head.checked = count > 0 && count === all.length;
  head.indeterminate = count > 0 && count < all.length;
}

async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { // the browser allows it only over TLS or on localhost
    button.textContent = "Not allowed here";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

// openPayload puts the payload of the message's page into the row. The page escapes the payload.
async function openPayload(fold) {
  const into = fold.querySelector("[data-letter-payload]");
  if (into.dataset.read) return;
  into.dataset.read = "1";
  try {
    const answer = await fetch(fold.dataset.letter, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const panel = page.querySelector("section:has(#payload-title)");
    if (!answer.ok || !panel) throw new Error("no payload");
    const tree = panel.querySelector(".tree"), raw = panel.querySelector(".raw code");
    if (tree) tree.removeAttribute("aria-labelledby");
    tree?.setAttribute("aria-label", "Payload");
    into.replaceChildren(tree ?? panel.querySelector(".state"));
    fold.raw = raw?.textContent ?? "";
  } catch {
    delete into.dataset.read; // the link stays, and the next opening tries again
  }
}

export function startLetters() {
  if (!document.querySelector("[data-live=dead]")) return;
  const reveal = () => {
    for (const one of document.querySelectorAll("[data-clip][hidden], [data-choose-all][hidden]")) one.hidden = false;
    showChosen();
  };
  reveal();
  new MutationObserver(reveal).observe(document.querySelector("[data-live=dead]"), { childList: true, subtree: true, attributeFilter: ["hidden"] });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-choose-all]")) for (const one of choices()) one.checked = target.checked;
    if (target.matches("[data-choose], [data-choose-all]")) showChosen();
  });
  document.addEventListener("toggle", ({ target }) => {
    if (target.matches?.("details[data-letter]") && target.open) openPayload(target);
  }, true);
  document.addEventListener("click", ({ target }) => {
    const what = target.dataset?.copyChosen, one = target.dataset?.clip;
    if (what) copy(target, choices().filter((row) => row.checked).map((row) => row.dataset[what]).join("\n"));
    if (one) {
      const fold = target.closest("details");
      copy(target, one === "payload" ? fold.raw ?? "" : target.closest("tr").querySelector("[data-choose]").dataset[one]);
    }
  });
}
