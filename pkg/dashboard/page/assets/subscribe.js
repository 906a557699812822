// Lets a page listen to changes: through the worker that all pages of the browser share, or else by its own stream.
import { Changes } from "./changes.js";

// first is how long a new worker may take to answer, and silence how long it may say nothing later, in ms.
const first = 10_000, silence = 12_000;

let works = typeof SharedWorker === "function", own;

// subscribe calls tell as Changes does, and with "gone" if the worker has died. After "ended", "refused" and "gone" the
// page may subscribe again. subscribe returns a function that ends it.
export function subscribe(since, tell) {
  const port = works && connect();
  if (port) return listen(port, since, tell);
  own ??= new Changes(new URL("../../live", import.meta.url));
  own.join(tell, since);
  return () => own.leave(tell);
}

// connect returns the port of a worker, or undefined if the browser has none.
function connect() {
  try {
    const worker = new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module", name: "belfry" });
    worker.addEventListener("error", () => worker.port.dispatchEvent(new Event("close")));
    return worker.port;
  } catch {
    works = false;
  }
}

// listen listens by a port. A worker that never answers is not asked again.
function listen(port, since, tell) {
  let heard = false, timer;
  const end = () => {
    clearTimeout(timer);
    port.onmessage = null;
    port.removeEventListener("close", gone);
    port.postMessage({});
    port.close();
  };
  const gone = () => {
    works &&= heard;
    end();
    tell("gone");
  };
  const wait = (time) => { clearTimeout(timer); timer = setTimeout(gone, time); };
  port.addEventListener("close", gone);
  port.onmessage = ({ data: { kind, id } }) => {
    heard = true;
    wait(silence);
    if (kind === "ended" || kind === "refused") end();
    if (kind !== "alive") tell(kind, id);
  };
  wait(first);
  port.postMessage({ since });
  return end;
}
