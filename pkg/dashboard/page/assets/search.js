// A search that goes on by itself: it reads the next parts of a search and adds their rows, until a page of rows is full or the search
// has ended. Without this script, the link to the next part does the same.

const enough = 50; // rows

async function searchOn(section) {
  for (;;) {
    const next = section.querySelector("a[rel=next]"), rows = section.querySelector("tbody");
    if (!next || rows.children.length >= enough) return;
    const answer = await fetch(next.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const more = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-search-on]");
    if (!more || !section.isConnected) return;
    rows.append(...more.querySelectorAll("tbody tr"));
    for (const part of [".range", ".pager"]) section.querySelector(part).replaceWith(more.querySelector(part));
  }
}

export function startSearch() {
  for (const section of document.querySelectorAll("[data-search-on]")) searchOn(section);
}
