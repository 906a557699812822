// Has the stream of changes for all pages of a browser, because a browser opens at most six connections to a server over
// HTTP/1.1. The path of this file changes with the version of the scripts, so pages of another version have another
// worker.
import { Changes } from "./changes.js";

// beat is how often a listening page hears that the worker lives.
const beat = 5_000;

const changes = new Changes(new URL("../../live", import.meta.url));
const ports = new Map(); // each listening page with its listener

function leave(port) {
  changes.leave(ports.get(port));
  ports.delete(port);
}

addEventListener("connect", ({ ports: [port] }) => {
  port.addEventListener("message", ({ data: { since } }) => {
    if (since === undefined) return leave(port);
    const listener = (kind, id) => {
      if (kind === "ended" || kind === "refused") ports.delete(port);
      port.postMessage({ kind, id });
    };
    ports.set(port, listener);
    port.postMessage({ kind: "alive" });
    changes.join(listener, since);
  });
  port.addEventListener("close", () => leave(port)); // the page has crashed
  port.start();
});

setInterval(() => { for (const port of ports.keys()) port.postMessage({ kind: "alive" }); }, beat);
