// The tests of the undo of a change, and of the reasons of pauses.
import assert from "node:assert/strict";
import { watch } from "./look.mjs";

// undoes changes options and moves a group, sees what an undo would do, and undoes both.
export async function undoes(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  const visit = (path) => page.goto(`${open.url}/ui/${path}`);
  const done = (text) => page.locator("[role=status], [role=alert]").filter({ hasText: text }).waitFor();
  await open.post("/api/v1/configure", { queue: "shop.undo", options: { leaseTime: 77 } });
  await open.push("shop.undo", "customer-undo", [{ i: 1 }, { i: 2 }, { i: 3 }]);
  const [message] = await open.pop("shop.undo", "billing");
  await open.ack(message, "billing");
  await open.post("/api/v1/configure", { queue: "shop.undo", options: { leaseTime: 99 } });
  const options = async () => (await open.get("/api/v1/status/queues/shop.undo")).queue.options;

  await visit("audit?q=shop.undo");
  await page.getByRole("link", { name: "Undo…" }).first().click();
  await page.getByRole("row", { name: "leaseTime 99 77" }).waitFor();
  assert.equal((await options()).leaseTime, 99, "the preview changes nothing");
  await page.getByRole("button", { name: "Undo the change" }).click();
  await done("The change is undone");
  assert.equal((await options()).leaseTime, 77);
  await page.getByText("undone", { exact: true }).first().waitFor();

  const lag = async () => (await open.get("/api/v1/consumer-groups/billing/queues/shop.undo/partitions?limit=1&from=customer-undo")).partitions[0].lag;
  const before = await lag();
  await open.post("/api/v1/consumer-groups/billing/queues/shop.undo/seek", { toEnd: true });
  assert.equal(await lag(), 0);
  await visit("audit?q=shop.undo&action=group.seek");
  await page.getByRole("link", { name: "Undo…" }).first().click();
  await page.getByText(`1 partition is moved back: up to ${before} message`).waitFor();
  const here = page.url();
  await page.getByRole("button", { name: "Undo the change" }).click();
  await done("The change is undone");
  assert.equal(await lag(), before);
  await page.goto(here); // a second press would change nothing
  await page.getByText("The change cannot be undone: the change is undone already").waitFor();
  assert.deepEqual(complaints.filter((line) => !line.includes("409")), []);
  await page.close();
}

// runsJobs starts a redrive job, sees its progress on another page, stops it, and redrives the rest.
export async function runsJobs(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  const done = (text) => page.locator("[role=status], [role=alert]").filter({ hasText: text }).waitFor();
  await open.post("/api/v1/configure", { queue: "shop.jobs", options: { retryLimit: 0 } });
  await open.push("shop.jobs", "customer-jobs", Array.from({ length: 30 }, (_, i) => ({ i })));
  for (let i = 0; i < 30; i++) {
    const [message] = await open.pop("shop.jobs", "billing");
    await open.ack(message, "billing", "failed", "no bell");
  }
  const letters = async () => (await open.get("/api/v1/dlq?queue=shop.jobs&limit=100")).messages.length;
  assert.equal(await letters(), 30);
  const begin = async (rate) => {
    await page.goto(`${open.url}/ui/dead?q=shop.jobs&g=billing`);
    await page.locator("summary", { hasText: "as a job of the server" }).click();
    await page.locator("#redrive-job").getByLabel("At most, per second").fill(rate);
    await page.getByRole("button", { name: "Start the job" }).click();
    await done("The redrive job is started");
  };
  await begin("2");
  await page.getByText(/[1-9]\d* of 30 delivered again/).waitFor(); // the page follows the progress
  await page.getByRole("button", { name: "Stop" }).click();
  await done("The redrive job is stopped");
  await page.getByRole("row").filter({ hasText: "stopped" }).first().waitFor();
  const left = await letters();
  assert.ok(left > 0 && left < 30);
  await begin("");
  await page.getByText(`${left} of ${left} delivered again`).waitFor();
  assert.equal(await letters(), 0);
  assert.deepEqual(complaints, []);
  await page.close();
}

// pausesForAReason pauses a queue, while the server is away at first: the button says so, and can be pressed again.
export async function pausesForAReason(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  await open.post("/api/v1/configure", { queue: "shop.pause" });
  const paused = async () => (await open.get("/api/v1/pauses?queue=shop.pause")).pauses;
  const press = (name) => page.getByRole("button", { name, exact: true }).click();
  await page.goto(`${open.url}/ui/queue?q=shop.pause`);
  await page.getByLabel("Reason").fill("the <bell> cracked");
  await press("Pause");
  await page.getByText("Paused because: the <bell> cracked").waitFor();
  assert.deepEqual((await paused()).map((one) => one.reason), ["the <bell> cracked"]);

  await page.route("**/ui/do", (route) => route.abort("connectionrefused")); // the server is away
  await press("Resume");
  await page.getByRole("alert").filter({ hasText: "The server did not answer. Press again" }).waitFor();
  assert.equal((await paused()).length, 1);
  await page.unroute("**/ui/do");
  await press("Resume");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  assert.deepEqual(await paused(), []);
  const entries = (await open.get("/api/v1/audit?queue=shop.pause&action=delivery.resume")).entries;
  assert.equal(entries.length, 1, "it is done once");
  await page.close();
}

// optionsAreChecked previews values that the server would refuse. Each field says why, with the text of the server.
export async function optionsAreChecked(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  await open.post("/api/v1/configure", { queue: "shop.checked", options: { leaseTime: 77 } });
  await page.goto(`${open.url}/ui/options?q=shop.checked`);
  await page.getByLabel("leaseTime").fill("-5");
  await page.getByLabel("retryBackoff").fill("0");
  await page.getByRole("button", { name: "Show what changes" }).click();
  for (const [field, value] of [["leaseTime", -5], ["retryBackoff", 0]]) {
    const refused = await open.request("POST", "/api/v1/configure", { queue: "shop.checked", options: { [field]: value } });
    await page.locator("label", { hasText: field }).getByText((await refused.json()).error).waitFor();
  }
  assert.equal(await page.getByRole("button", { name: "Change the options" }).count(), 0);
  await page.getByLabel("leaseTime").fill("88");
  await page.getByLabel("retryBackoff").fill("3");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByRole("button", { name: "Change the options" }).click();
  await page.getByText("are in force on all instances").waitFor();
  assert.equal((await open.get("/api/v1/status/queues/shop.checked")).queue.options.leaseTime, 88);
  await page.close();
}
