// The test of the preview of a seek in more partitions than the page examines at once.
import assert from "node:assert/strict";

const queue = "wide", group = "w", partitions = 1300;

// countsAll: the preview ends with the exact count. Until then it says "At least", and the button does not work.
export async function countsAll(browser, server, patience) {
  await server.post("/api/v1/push", { items: Array.from({ length: 2 * partitions }, (_, i) => ({ queue, partition: `p${i % partitions}`, payload: i })) });
  await server.pop(queue, group, 2);
  const page = await browser.newPage();
  let goOn;
  const held = new Promise((resolve) => { goOn = resolve; });
  await page.route("**/count-seek?*", async (route) => { await held; await route.continue(); });
  await page.goto(`${server.url}/ui/group?q=${queue}&g=${group}&seek=end`);
  const again = page.locator("#seek-preview [data-of=messagesSkipped]"), button = page.getByRole("button", { name: "Move the group", exact: true });
  assert.match(await again.textContent(), /^At least 2\u202f000 messages/);
  await page.locator("#seek-preview button[disabled]").waitFor(); // it waits for the count
  await server.push(queue, "later", [1, 2, 3]);
  goOn();
  await again.filter({ hasText: /^2\u202f600 messages/ }).waitFor({ timeout: patience });
  await page.getByText("Counted: 1\u202f301 partitions.").waitFor();
  await page.locator("#seek-preview input[name=confirm]").fill(queue);
  await button.click();
  await page.getByText(/moved/).first().waitFor({ timeout: patience });
  const { group: left } = await server.get(`/api/v1/consumer-groups/${group}/queues/${queue}`);
  assert.equal(left.lag, 3, "the messages after the count are not skipped");
  await page.close();
}
