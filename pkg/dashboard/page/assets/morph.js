// Makes a part of the page equal to a fresh one, and keeps its elements: so a focus, an open fold, a text that is
// being typed and a button under the pointer stay.

// keyOf names an element by which it is found again when others come before it. A row is named by its first link, or
// by what its form sends, or by its heading.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  if (node.id) return `#${node.id}`;
  if (node.nodeName === "A") return node.getAttribute("href") ?? "";
  if (!node.matches("tr, li, article")) return "";
  const sent = [...node.querySelectorAll("input[type=hidden]")].map((one) => one.value).join(" ");
  return `${node.nodeName} ${node.querySelector("a[href]")?.getAttribute("href") ?? (sent || (node.querySelector("th")?.textContent ?? ""))}`;
}

// The person opens folds, and a script shows the buttons for copying. A script changes an element with data-kept.
const kept = (element, name) => name === "open" && element.nodeName === "DETAILS" || name === "hidden" && element.matches("[data-copy], [data-clip], [data-kept]") ||
  name === "data-read" && element.matches("[data-kept]");

export function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !kept(old, name)) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept(old, name)) old.removeAttribute(name);
  }
  if (old.matches("[data-kept]")) return; // a script fills it
  const byKey = Map.groupBy(old.childNodes, keyOf), stay = new Set();
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    let found = key ? byKey.get(key)?.shift() : at;
    while (!key && found && (keyOf(found) || found.nodeName !== next.nodeName)) found = found.nextSibling;
    const moved = found ?? next;
    if (moved === at) at = at.nextSibling;
    else old.insertBefore(moved, at);
    if (found) morph(found, next);
    stay.add(moved);
  }
  for (const child of [...old.childNodes]) {
    if (!stay.has(child)) child.remove();
  }
}
