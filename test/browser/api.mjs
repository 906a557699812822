// Requests to the API of a server, and the data that the tests use.
import assert from "node:assert/strict";

export class Server {
  constructor(url, token) {
    this.url = url;
    this.token = token;
  }

  // send returns the answer as JSON. It fails if the status is not 2xx.
  async send(method, path, body) {
    const answer = await this.request(method, path, body);
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  request(method, path, body) {
    return fetch(this.url + path, {
      method,
      headers: this.token ? { Authorization: `Bearer ${this.token}` } : {},
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }

  get(path) { return this.send("GET", path); }
  post(path, body) { return this.send("POST", path, body); }
  push(queue, partition, payloads) {
    return this.post("/api/v1/push", { items: payloads.map((payload) => ({ queue, partition, payload })) });
  }

  // pop returns messages of a queue. If group is "", it pops in queue mode.
  pop(queue, group, batch = 1, partitions = 1) {
    const query = new URLSearchParams({ batch, partitions, wait: "false" });
    if (group) query.set("consumerGroup", group);
    return this.request("GET", `/api/v1/pop/queue/${queue}?${query}`).then(async (answer) => {
      if (answer.status === 204) return [];
      return (await answer.json()).messages ?? [];
    });
  }

  ack(message, group, status, error) {
    return this.post("/api/v1/ack", {
      transactionId: message.transactionId, partitionId: message.partitionId, leaseId: message.leaseId,
      consumerGroup: group || undefined, status, error,
    });
  }
}

// seed creates a small shop. The queue of orders has a fast group, a slow group and dead letters. The queue of mails is
// paused. A third queue has no consumer.
export async function seed(server) {
  await server.post("/api/v1/configure", { queue: "shop.orders", namespace: "shop", task: "orders", options: { leaseTime: 60, retryLimit: 0 } });
  await server.post("/api/v1/configure", { queue: "shop.mails", namespace: "shop", task: "mails" });
  for (let customer = 0; customer < 40; customer++) {
    await server.push("shop.orders", `customer-${String(customer).padStart(2, "0")}`, Array.from({ length: 1 + (customer * 7) % 12 }, (_, i) => ({ order: customer * 100 + i })));
  }
  await server.push("shop.mails", "eu", [{ to: "a@example.com" }, { to: "b@example.com" }]);
  await server.push("payments/incoming ü", "Default", [{ amount: 1 }]);
  for (let i = 0; i < 3; i++) {
    for (const message of await server.pop("shop.orders", "billing", 2, 1)) await server.ack(message, "billing", "failed", `the printer ${i % 2} is out of paper`);
  }
  for (let i = 0; i < 6; i++) {
    const found = await server.pop("shop.orders", "audit", 20, 1);
    for (const message of found) await server.ack(message, "audit", "completed");
  }
  await server.pop("shop.orders", "billing", 3, 1); // this lease stays until the end of the tests
  await server.post("/api/v1/resources/queues/shop.mails/pause", { reason: "the mail server moves" });
}
