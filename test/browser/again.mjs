// The test of a message that is sent again with changes, of its failed attempts, and of an export as CSV.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { watch } from "./look.mjs";

export const actions = ["resend-message", "move-message"];

export async function sendsAgain(browser, open, patience) {
  await open.post("/api/v1/configure", { queue: "shop.again", options: { retryLimit: 0 } });
  await open.push("shop.again", "customer-1", [{ total: 1 }]);
  const [message] = await open.pop("shop.again", "billing");
  await open.ack(message, "billing", "failed", "=no total");
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  await page.goto(`${open.url}/ui/dead?q=shop.again&g=billing`);
  const loading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Export as CSV" }).click();
  const file = await loading;
  assert.equal(file.suggestedFilename(), "dead-letters.csv");
  const lines = (await readFile(await file.path(), "utf8")).split("\r\n");
  assert.ok(lines[0].startsWith("failedAt,queue,partition"));
  assert.ok(lines[1].includes(",'=no total,"), lines[1]);

  await page.goto(`${open.url}/ui/message?partition=${message.partitionId}&t=${encodeURIComponent(message.transactionId)}`);
  const attempts = page.getByRole("region", { name: "Failed attempts" }).first();
  await attempts.getByText("=no total").waitFor();
  await page.locator("#resend summary").click();
  const payload = page.locator("#resend textarea[name=payload]");
  await payload.fill('{\n  "total": 2,\n}');
  await page.locator("#resend-wrong").filter({ hasText: /not JSON.*line 3/ }).waitFor();
  await payload.fill('{"total": 2}');
  await page.getByLabel("Partition").fill("customer-2");
  await page.getByLabel("Delete its dead letters").check();
  await page.getByRole("button", { name: "Send it again" }).dblclick();
  await page.locator("[role=status]").filter({ hasText: "sent again as" }).waitFor();
  await page.locator(".resent").filter({ hasText: "shop.again / customer-2" }).waitFor();
  assert.equal(await page.locator(".resent").count(), 1, "a double click sends one message");
  const [again, ...more] = await open.pop("shop.again", "billing");
  assert.deepEqual(again.data, { total: 2 });
  assert.equal(more.length, 0);

  await open.push("shop.moved", "customer-1", [{ visit: 1 }]);
  const { messages: [visit] } = await open.get("/api/v1/messages?queue=shop.moved");
  await page.goto(`${open.url}/ui/message?partition=${visit.partitionId}&t=${encodeURIComponent(visit.transactionId)}`);
  await page.locator("#move summary").click();
  await page.locator("#move").getByRole("textbox").fill("90m");
  await page.getByRole("button", { name: "Move it" }).click();
  await page.locator("[role=status]").filter({ hasText: "is delivered at" }).waitFor();
  await page.getByText("Not delivered before").waitFor();
  assert.deepEqual(complaints, []);
  await page.close();
}
