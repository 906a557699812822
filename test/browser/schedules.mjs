// The tests of the pages of schedules.
import assert from "node:assert/strict";
import { watch } from "./look.mjs";

// seed adds schedules: one with every part, one that is paused, and one with a message.
export async function seed(server) {
  const put = (name, body) => server.send("PUT", `/api/v1/schedules/${encodeURIComponent(name)}`, body);
  await put("shop.report", {
    queue: "shop.mails", partition: "reports", cron: "0 8 * * 1-5", zone: "Europe/Rome", payload: { report: "{{schedule}}", at: "{{scheduled_at}}" }, headers: { tenant: "acme" },
    delaySeconds: 30, jitter: "10s", missed: "skip", overlapGroup: "mailer", starts: "2026-01-01T00:00:00Z", ends: "2099-01-01T00:00:00Z",
  });
  await put("shop.paused", { queue: "shop.mails", every: "1h", payload: 1 });
  await server.post("/api/v1/schedules/shop.paused/pause", { reason: "the mail server moves" });
  await put("shop.once", { queue: "shop.mails", at: "2098-05-16T08:41:00Z", payload: { once: true } });
  await server.post("/api/v1/schedules/shop.once/run");
}

export const emptyPages = ["schedules", "schedule-edit"];
export const fullPages = ["schedules", "schedules?name=shop", "schedules?q=shop.mails", "schedule?name=shop.report", "schedule?name=shop.paused", "schedule?name=shop.once", "schedule-edit?name=shop.report"];
export const actions = ["set-schedule", "pause-schedule", "run-schedule", "delete-schedule"];

// fields are fields that an action needs to get to the server.
export const fields = { "set-schedule": { new: "1", every: "1h" } };

// hostile adds a schedule whose name, queue and texts are the name.
export function hostile(server, name) {
  const short = name.slice(0, 200); // a schedule has a shorter name than a queue
  return server.send("PUT", `/api/v1/schedules/${encodeURIComponent(short)}`, {
    queue: name, partition: name, overlapGroup: name, cron: "1,2,3,4,5,6,7,8,9 1,3,5,7,9,11 1,2,3 * *", payload: { [name]: name }, headers: { name },
  }).then(() => server.post(`/api/v1/schedules/${encodeURIComponent(short)}/run`)).then(() => [`schedule?${new URLSearchParams({ name: short })}`, `schedule-edit?${new URLSearchParams({ name: short })}`]);
}

// press uses each action of the pages once.
export async function press(browser, open, patience) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  const visit = (path) => page.goto(`${open.url}/ui/${path}`);
  const button = (name) => page.getByRole("button", { name, exact: true }).click();
  const done = (text) => page.locator("[role=status], [role=alert]").filter({ hasText: text }).waitFor();
  const field = (name) => page.locator(`[name="${name}"]`);
  const get = () => open.get("/api/v1/schedules/shop.daily");

  await visit("schedules"); // a wrong expression: the page says what to change, and keeps the form
  await page.getByRole("link", { name: "New schedule" }).click();
  await field("name").fill("shop.daily");
  await field("queue").fill("shop.scheduled");
  await field("cron").fill("0 25 * * *");
  await field("zone").fill("Europe/Rome");
  await field("payload").fill('{"big": 9007199254740993}');
  await field("headers").fill("tenant: acme\nkind: report");
  await button("Show the next instants");
  await page.locator("label:has([name=cron]) .wrong").filter({ hasText: "25" }).waitFor();
  assert.equal(await field("cron").getAttribute("aria-invalid"), "true");
  assert.deepEqual(await Promise.all(["name", "cron", "payload"].map((name) => field(name).inputValue())), ["shop.daily", "0 25 * * *", '{"big": 9007199254740993}']);
  assert.equal((await open.request("GET", "/api/v1/schedules/shop.daily")).status, 404);

  await field("cron").fill("0 8 * * 1-5");
  await button("Show the next instants");
  await page.getByRole("heading", { name: "every weekday at 08:00, Europe/Rome" }).waitFor();
  assert.equal(await page.locator(".instants li").count(), 10);
  for (const text of await page.locator(".instants li").allTextContents()) assert.match(text, /^(Mon|Tue|Wed|Thu|Fri) .* 08:00:00 \+0[12]:00/);
  assert.equal((await open.request("GET", "/api/v1/schedules/shop.daily")).status, 404, "a preview stores nothing");
  assert.match(await field("headers").inputValue(), /kind: report/);
  await button("Make the schedule");
  await done("is set");
  await page.getByRole("heading", { name: "shop.daily" }).waitFor();
  let made = await get();
  assert.deepEqual([made.queue, made.cron, made.zone, made.headers], ["shop.scheduled", "0 8 * * 1-5", "Europe/Rome", { tenant: "acme", kind: "report" }]);
  assert.ok((await page.locator("main").textContent()).includes("9007199254740993"), "exact numbers");

  await visit("schedule-edit"); // a name that another schedule has
  await field("name").fill("shop.daily");
  await field("queue").fill("shop.other");
  await field("every").fill("1h");
  await button("Make the schedule");
  await done("there is a schedule with the name shop.daily");
  assert.equal((await get()).queue, "shop.scheduled");

  await visit("schedule?name=shop.daily"); // an edit changes only what was changed in the form
  await page.getByRole("link", { name: "Edit" }).click();
  await field("cron").fill("30 9 * * *");
  await field("missed").selectOption("skip");
  await field("delay").fill("90s");
  await open.post("/api/v1/schedules/shop.daily/pause"); // another person was faster
  await button("Change the schedule");
  await done("another person has changed the schedule");
  assert.equal(await field("cron").inputValue(), "30 9 * * *");
  await open.post("/api/v1/schedules/shop.daily/resume");
  await visit("schedule-edit?name=shop.daily");
  await field("cron").fill("30 9 * * *");
  await field("missed").selectOption("skip");
  await field("delay").fill("90s");
  await button("Show the next instants");
  await page.getByRole("heading", { name: "every day at 09:30, Europe/Rome" }).waitFor();
  await button("Change the schedule");
  await done("is set");
  made = await get();
  assert.deepEqual([made.cron, made.missed, made.delaySeconds, made.headers.tenant], ["30 9 * * *", "skip", 90, "acme"]);

  await page.getByLabel("Reason").fill("the office is closed");
  await button("Pause");
  await done("paused");
  await page.locator("[data-live=state]").getByText("the office is closed").waitFor();
  assert.deepEqual([(await get()).paused, (await get()).pauseReason], [true, "the office is closed"]);
  await visit("schedules?name=DAILY");
  await page.getByRole("row", { name: /shop\.daily/ }).getByText("paused").waitFor();
  await page.getByRole("link", { name: "shop.daily" }).click();
  await button("Resume");
  await done("resumed");
  assert.equal((await get()).paused, false);

  await button("Run now"); // the message has a page
  await done("is stored");
  await page.locator("[data-live=state] a", { hasText: "shop.daily@" }).click();
  await page.getByRole("heading", { name: "shop.daily@" }).waitFor();
  const { lastMessage } = await get();
  assert.equal((await open.get(`/api/v1/messages/${lastMessage.partitionId}/${encodeURIComponent(lastMessage.transactionId)}`)).headers.kind, "report");

  await visit("schedule?name=shop.daily"); // an open page shows what another person changes
  await page.locator("[data-live-switch][data-open]").waitFor();
  await open.post("/api/v1/schedules/shop.daily/pause", { reason: "seen by all" });
  await page.locator("[data-live=state]").getByText("seen by all").waitFor();

  await page.locator("summary", { hasText: "Delete the schedule" }).click();
  await page.getByLabel("Type the name").fill("shop.daily");
  await button("Delete the schedule");
  await done("is deleted");
  assert.equal(page.url(), `${open.url}/ui/schedules`);
  assert.equal((await open.request("GET", "/api/v1/schedules/shop.daily")).status, 404);
  const audited = (await open.get("/api/v1/audit?queue=shop.scheduled&limit=100")).entries.map((one) => one.action);
  for (const action of ["set", "pause", "resume", "run", "delete"]) assert.ok(audited.includes(`schedule.${action}`), `${action}: ${audited}`);
  assert.deepEqual(complaints.filter((line) => !line.includes("404")), []);
  await page.close();
}
