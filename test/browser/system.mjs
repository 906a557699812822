// The tests of the pages about messages and about the system.
import assert from "node:assert/strict";
import { watch } from "./look.mjs";

// seedMessages adds a message with a large number, two traces and a query of a stream.
export async function seedMessages(server) {
  const payload = `{"id": 9007199254740993, "note": "<b>not bold</b>", "total": 1.10, "lines": [{"article": "bell", "price": {"amount": 12, "currency": "EUR"}}, {"article": "rope", "gift": true, "text": null}]}`;
  const answer = await fetch(`${server.url}/api/v1/push`, { // the body is text, because a JavaScript number would lose digits
    method: "POST", headers: server.token ? { Authorization: `Bearer ${server.token}` } : {},
    body: `{"items": [{"queue": "shop.orders", "partition": "customer-99", "transactionId": "order-big", "payload": ${payload}}]}`,
  });
  assert.ok(answer.ok);
  const big = await server.get("/api/v1/messages?queue=shop.orders&partition=customer-99&limit=1");
  const { partitionId } = big.messages[0];
  for (const [eventType, text] of [["info", "invoice printed"], ["warning", "the customer is in arrears"]]) {
    await server.post("/api/v1/traces", { transactionId: "order-big", partitionId, consumerGroup: "billing", traceNames: ["customer-99", "order-big"], eventType, data: { text } });
  }
  await server.post("/streams/v1/queries", { name: "totals", source_queue: "shop.orders", config_hash: "1" });
  return partitionId;
}

export const emptyPages = ["messages", "traces", "history", "system", "producers", "streams"];
export const adminPages = ["maintenance", "access", "audit", "audit?action=queue.configure&q=shop.orders"];

// fullPages returns the pages with data. partition is the id of the partition that has the message order-big.
export function fullPages(partition) {
  return [
    "messages", "messages?q=shop.orders&since=all&status=dead_letter", "messages?q=shop.orders&t=order-big", "messages?t=none", `message?partition=${partition}&t=order-big`,
    "traces", "traces?name=customer-99", "history", "history?span=7d&q=shop.orders", "system", "producers", "streams",
  ];
}

export const actions = ["retry-message", "dead-letter-message", "delete-message", "delete-stream", "maintenance", "retry-rejected", "discard-rejected"];

// press uses each action of the pages once. Other tests must have added their data to open before.
export async function press(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  const visit = (path) => page.goto(`${open.url}/ui/${path}`);
  const button = (name) => page.getByRole("button", { name, exact: true }).click();
  const done = (text) => page.locator("[role=status], [role=alert]").filter({ hasText: text }).waitFor();
  const path = `/api/v1/messages/${open.partition}/order-big`;

  await visit("messages?t=order-big");
  await page.getByRole("link", { name: "order-big" }).click();
  await page.getByRole("heading", { name: "order-big" }).waitFor();
  const text = await page.locator("main").textContent();
  for (const part of ["<b>not bold</b>", "9007199254740993", "1.10", "invoice printed"]) assert.ok(text.includes(part), `${part} in ${text}`);

  await page.getByText("Make it a dead letter").first().click();
  await page.getByLabel("Group").selectOption("billing");
  await page.getByLabel("Error").fill("no such bell");
  await button("Make it a dead letter");
  await done("is a dead letter");
  assert.equal((await open.get(path)).status, "dead_letter");
  await page.getByText("no such bell").first().waitFor();
  await button("Retry for billing");
  await done("delivered again");
  assert.notEqual((await open.get(path)).status, "dead_letter");

  await page.locator("summary", { hasText: "Delete the message" }).click();
  await page.getByLabel("Type the transaction id").fill("other");
  await button("Delete the message");
  await done("Nothing was changed");
  await page.getByLabel("Type the transaction id").fill("order-big");
  await button("Delete the message");
  await done("is deleted");
  assert.equal((await open.request("GET", path)).status, 404);

  await visit("streams");
  await page.locator("summary", { hasText: "Delete" }).click();
  await page.getByLabel("Type the name totals").fill("totals");
  await button("Delete with its state");
  await done("state are deleted");
  assert.deepEqual((await open.get("/api/v1/streams")).streams, []);

  for (const [name, field] of [["pop", "popMaintenanceMode"], ["push", "maintenanceMode"]]) {
    await visit("maintenance");
    await page.locator("summary", { hasText: `Begin ${name} maintenance` }).click();
    await page.getByLabel("Type").locator("visible=true").fill("maintenance");
    await button(`Begin ${name} maintenance`);
    await done("maintenance is on");
    assert.equal((await open.get("/api/v1/system/maintenance"))[field], true);
    await button(`End ${name} maintenance`);
    await done("maintenance is off");
    assert.equal((await open.get("/api/v1/system/maintenance"))[field], false);
  }
  await visit("audit?action=message.delete");
  await page.getByText("order-big").waitFor();
  assert.deepEqual(complaints, []);
  await page.close();
}
