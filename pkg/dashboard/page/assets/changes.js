// The stream of changes, for all listeners of a browser or of a page. It is open while there is a listener.

// isNewer reports whether a change happened after another one. Changes of different processes have no order; then it
// is true.
export function isNewer(id, than) {
  const [process, count] = id.split("-"), [other, least] = than.split("-");
  return process !== other || Number(count) > Number(least);
}

// Changes tells each listener what happens: "open" and "lost" for the connection, "change" with the id of the change,
// "ended" if the session is over, and "refused" if the answer is no stream, such as that of a server which starts.
// After "ended" and "refused" nobody listens any more.
export class Changes {
  #url; #stream; #last; #open = false; #listeners = new Map();

  constructor(url) { this.#url = url; }

  // join adds a listener that has seen the changes up to the id since.
  join(listener, since) {
    this.#listeners.set(listener, since);
    if (!this.#stream) return this.#connect(since);
    if (this.#open) listener("open");
    this.#tell(listener, this.#last);
  }

  leave(listener) {
    this.#listeners.delete(listener);
    if (this.#listeners.size === 0) this.#close();
  }

  get size() { return this.#listeners.size; }

  // tell tells a listener of a change that it has not seen.
  #tell(listener, id) {
    if (!isNewer(id, this.#listeners.get(listener))) return;
    this.#listeners.set(listener, id);
    listener("change", id);
  }

  #all(kind) { for (const listener of [...this.#listeners.keys()]) listener(kind); }

  #close() {
    this.#stream?.close();
    this.#stream = undefined;
    this.#open = false;
  }

  // end sends everybody away, who may join again.
  #end(kind) {
    const listeners = [...this.#listeners.keys()];
    this.#listeners.clear();
    this.#close();
    for (const listener of listeners) listener(kind);
  }

  // connect tells the server up to which change the first listener has seen, so that none is missed. A browser tries
  // again after an error of the network, but not after an answer that is no stream.
  #connect(since) {
    const stream = this.#stream = new EventSource(`${this.#url}?${new URLSearchParams({ since })}`);
    this.#last = since;
    stream.addEventListener("open", () => { this.#open = true; this.#all("open"); });
    stream.addEventListener("error", () => {
      this.#open = false;
      this.#all("lost");
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (this.#stream === stream) this.#end("refused"); }, 2000);
    });
    stream.addEventListener("change", (event) => {
      this.#last = event.lastEventId;
      for (const listener of [...this.#listeners.keys()]) this.#tell(listener, this.#last);
    });
    stream.addEventListener("ended", () => this.#end("ended"));
  }
}
