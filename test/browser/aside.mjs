// The tests of two pages: dead letters, and rejected rows of the inbox.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { watch } from "./look.mjs";

// sql runs a statement on the database of a server. It returns the first column of the first row.
async function sql(server, statement) {
  const answer = await fetch(`${process.env.BELFRY_SQL}/?server=${encodeURIComponent(server.url)}`, { method: "POST", body: statement });
  const text = await answer.text();
  assert.ok(answer.ok, text);
  return text;
}

// seed attaches a table to two queues, and adds rejected rows. Rows for the second queue fail, so one attachment has a
// failure.
export async function seed(server) {
  await sql(server, `
    CREATE TABLE public.orders (id int, total int);
    ALTER TABLE belfry.inbox ADD CONSTRAINT no_broken CHECK (queue <> 'shop.broken');
    SELECT belfry.attach('public.orders', 'shop.mails', key => '{id}');
    SELECT belfry.attach('public.orders', 'shop.broken', condition => 'new.total > 10');
    INSERT INTO public.orders VALUES (1, 20);
    INSERT INTO belfry.inbox_rejected (id, queue, partition, payload, transaction_id, inserted_at, code, reason)
    SELECT 1000 + i, CASE WHEN i % 2 = 0 THEN 'shop.orders' ELSE 'shop.mails' END, 'customer-01', json_build_object('order', 9007199254740993, 'note', '<b>' || repeat('long ', 100)),
           'rejected-' || i, now(), CASE WHEN i < 4 THEN 'queue_full' ELSE 'invalid' END, 'the reason ' || i
      FROM generate_series(1, 6) AS i`);
}

export const fullPages = ["producers", "producers?q=shop.orders&code=queue_full", "dead?q=shop.orders&g=billing&e=the%20printer%200%20is%20out%20of%20paper"];

export const actions = ["retry-row", "retry-rows", "discard-row", "discard-rows"];

// opened opens a page and returns it with the helpers of a test.
async function opened(browser, server, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  return {
    page, complaints: watch(page),
    visit: (path) => page.goto(`${server.url}/ui/${path}`),
    press: (name) => page.getByRole("button", { name }).click(),
    unfold: (text) => page.locator("summary", { hasText: text }).first().click(),
    done: (text) => page.locator("[role=status], [role=alert]").filter({ hasText: text }).waitFor(),
  };
}

// pressDead uses each action of the page of dead letters once.
export async function pressDead(browser, open, patience) {
  const { page, complaints, visit, press, unfold, done } = await opened(browser, open, patience);
  const count = async (where = "true") => Number(await sql(open, `SELECT count(*) FROM belfry.dead_letter d WHERE ${where}`));
  await open.post("/api/v1/configure", { queue: "shop.dead", options: { retryLimit: 0 } });
  await open.push("shop.dead", "customer-dead", Array.from({ length: 60 }, (_, i) => ({ i })));
  for (let i = 0; i < 60; i++) {
    const [message] = await open.pop("shop.dead", "billing");
    await open.ack(message, "billing", "failed", i % 3 === 0 ? 'no "paper" & <ink>' : "no power");
  }
  const dead = "group_id = (SELECT g.id FROM belfry.consumer_group g JOIN belfry.queue q ON q.id = g.queue_id WHERE g.name = 'billing' AND q.name = 'shop.dead')";
  const before = await count(dead);
  assert.equal(before, 60);

  await visit("dead?q=shop.dead&g=billing"); // the count includes dead letters that the page does not list
  await page.getByText(`${before} dead letters that match`).waitFor();
  assert.equal(await page.locator("table.rows tbody tr").count(), 50);
  await page.getByRole("link", { name: 'no "*" & <ink>' }).click();
  await page.getByText("20 dead letters that match").waitFor();

  const loading = page.waitForEvent("download"); // an export has all matching dead letters
  await page.getByRole("link", { name: "Export 20 dead letters" }).click();
  const file = await loading;
  assert.equal(file.suggestedFilename(), "dead-letters.ndjson");
  const lines = (await readFile(await file.path(), "utf8")).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines.length, 20);
  assert.ok(lines.every((one) => one.errorMessage === 'no "paper" & <ink>' && one.partition === "customer-dead"));

  await unfold("Redrive"); // start a redrive with progress, then stop it
  await page.getByText("Counted: 20 dead letters").waitFor(); // the button works only after the count
  await page.locator("#redrive").getByLabel("At most, per second").fill("2");
  await press(/^Redrive 20/);
  await done(/[24] delivered again, 1[86] remain, about \d+ s at this rate/);
  await press("Stop");
  await done("Stopped");
  const named = `${dead} AND error LIKE 'no "paper"%'`;
  const left = await count(named);
  assert.ok(left < 20 && left > 0, `${left} remain`);
  await page.waitForTimeout(1500);
  assert.equal(await count(named), left, "the redrive must not continue after Stop");
  await page.locator("#redrive").getByLabel("At most, per second").fill(""); // redrive the remaining ones
  await press(`Redrive ${left} dead letter`); // the button shows the number
  await done(`${left} delivered again.`);
  assert.equal(await count(named), 0);
  assert.equal(await count(dead), before - 20, "only the matching dead letters must be redriven");
  const audited = (await open.get("/api/v1/audit?action=dead_letters.redrive")).entries;
  assert.deepEqual(audited.slice(0, 2).map((one) => [one.counts.deadLetters, one.result]), [[left, "ok"], [20 - left, "canceled"]]);

  await visit("dead?q=shop.dead&g=billing&e=no%20power");
  await unfold("Purge");
  await page.getByLabel("Type the name").fill("wrong");
  await press(/^Purge/);
  await done("Nothing was changed");
  assert.equal(await count(dead), before - 20);
  await page.getByLabel("Type the name").fill("shop.dead");
  const say = await page.getByRole("button", { name: /^Purge [0-9]+ dead/ }).textContent();
  const number = Number(/\d+/.exec(say)[0]), stored = await count(dead);
  await open.push("shop.dead", "customer-dead", [{ late: true }]);
  const [message] = await open.pop("shop.dead", "billing");
  await open.ack(message, "billing", "failed", "no power"); // a dead letter after the count
  assert.equal(await count(dead), stored + 1);
  await press(/^Purge/);
  await done("deleted");
  assert.equal(await count(dead), stored + 1 - number, "the number in the dialog is what was removed");

  await visit("dead?q=shop.dead&g=billing&e=no%20power"); // a purge that first downloads
  await unfold("Purge");
  await page.getByLabel("Type the name").fill("shop.dead");
  const saving = page.waitForEvent("download");
  await press("Download and purge 1 dead letter");
  const saved = (await readFile(await (await saving).path(), "utf8")).trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(saved.map((one) => one.errorMessage), ["no power"]);
  assert.equal(await count(dead), before - 60);
  assert.deepEqual(complaints, []);
  await page.close();

  for (let i = 0; i < 20; i++) { // without JavaScript, the form must redrive too
    const [message] = await open.pop("shop.dead", "billing");
    await open.ack(message, "billing", "failed", "still no paper");
  }
  assert.equal(await count(dead), 20);
  const context = await browser.newContext({ javaScriptEnabled: false });
  const plain = await context.newPage();
  await plain.goto(`${open.url}/ui/dead?q=shop.dead&g=billing`);
  await plain.locator("#redrive summary").click();
  await plain.getByRole("button", { name: /^Redrive/ }).click(); // counts
  await plain.getByRole("status").filter({ hasText: "Counted: 20 dead letters" }).waitFor();
  await plain.locator("#redrive summary").click();
  await plain.getByRole("button", { name: "Redrive what was counted" }).click();
  await plain.getByRole("status").filter({ hasText: "delivered again" }).waitFor();
  assert.equal(await count(dead), 0);
  await context.close();
}

// pressRejected uses each action of the page of producers once.
export async function pressRejected(browser, open, patience) {
  const { page, complaints, visit, press, unfold, done } = await opened(browser, open, patience);
  const rejected = () => sql(open, "SELECT string_agg(transaction_id, ' ' ORDER BY id) FROM belfry.inbox_rejected");
  const stored = (id) => sql(open, `SELECT count(*) FROM belfry.message WHERE transaction_id = '${id}'`);
  const until = async (what, happened) => {
    for (const limit = Date.now() + patience; !(await happened()); await page.waitForTimeout(50)) assert.ok(Date.now() < limit, what);
  };
  await visit("producers");
  const text = await page.locator("main").textContent();
  for (const part of ["public.orders", "shop.broken", "no_broken", "1 failure", "the reason 6", "9007199254740993", "<b>long"]) assert.ok(text.includes(part), `${part} in ${text}`);

  await press("Retry row 1006");
  await done("In the inbox again: 1 row");
  await until("the row is a message", async () => await stored("rejected-6") === "1");
  await page.locator("[data-live-switch][data-open]").waitFor();
  await unfold("Discard row 1003"); // the form must still belong to row 1003 after other rows disappear
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement.blur());
  assert.equal(await sql(open, "SELECT belfry.inbox_retry('{1005}')"), "1");
  await page.locator("code", { hasText: "rejected-5" }).waitFor({ state: "detached" });
  await press(/^Delete row/);
  await done("Deleted: 1 row");
  assert.equal(await rejected(), "rejected-1 rejected-2 rejected-4");
  assert.equal(await stored("rejected-3"), "0");

  await page.getByRole("searchbox", { name: "Queue" }).fill("shop.mails");
  await page.getByLabel("Reason").selectOption("queue_full");
  await press("Apply");
  await press("Retry all that match");
  await done("In the inbox again: 1 row");
  await until("the row is a message", async () => await stored("rejected-1") === "1");
  assert.equal(await rejected(), "rejected-2 rejected-4");

  await unfold("Discard all");
  await page.getByLabel('Type "delete"').fill("wrong");
  await press("Delete the rejected rows");
  await done("Nothing was changed");
  assert.equal(await rejected(), "rejected-2 rejected-4");
  await page.getByLabel('Type "delete"').fill("delete");
  await press("Delete the rejected rows");
  await done("Deleted: 2 rows");
  assert.equal(await rejected(), "");
  await page.getByText("There is none.").first().waitFor();
  assert.deepEqual(complaints, []);
  await page.close();
}
