// Loads the other scripts. Every page works without them. During an upgrade, another version of the server may answer
// for a file of this page, and it does not have the file. Then the page is loaded again, at most ten times.
const again = "belfry-loads", most = 10;

async function load() {
  if ([...document.querySelectorAll("link[rel=stylesheet]")].some((link) => !link.sheet)) throw new Error("The style sheet is missing.");
  return await import("./start.js");
}

load().then(({ start }) => {
  sessionStorage.removeItem(again);
  start();
}, (error) => {
  const loads = Number(sessionStorage.getItem(again) ?? 0);
  if (loads >= most) throw error;
  sessionStorage.setItem(again, String(loads + 1));
  setTimeout(() => location.reload(), 1000);
});
