// A page updates itself while a person uses it. These tests use the parts that move, disappear or return.
import assert from "node:assert/strict";

// aims: links do not move while the pointer is over them. When the pointer leaves the list, the list is updated.
export async function aims(browser, open) {
  const page = await browser.newPage();
  await open.push("person.aim.b", "a", [1]);
  await page.goto(`${open.url}/ui/queues?name=person.aim`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  const first = page.locator("[data-live=queues] tbody th a").first();
  const before = await first.getAttribute("href");
  await first.hover();
  await open.push("person.aim.a", "a", [2]);
  await page.locator("[data-live=queues][data-held]").waitFor();
  assert.equal(await first.getAttribute("href"), before);
  await page.mouse.move(5, 5);
  await page.waitForFunction((old) => document.querySelector("[data-live=queues] tbody th a").getAttribute("href") !== old, before);
  assert.equal(await page.locator("[data-live=queues] tbody tr").count(), 2);
  assert.equal(await page.locator("[data-held]").count(), 0);
  await page.close();
}

// types: an update keeps the elements of a page. An open fold stays open, and half-typed text stays.
export async function types(browser, open) {
  const page = await browser.newPage();
  await page.goto(`${open.url}/ui/maintenance`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  await page.getByText("Begin push maintenance").first().click();
  const word = page.getByLabel('Type "maintenance"').first();
  await word.pressSequentially("mainten");
  const read = page.waitForResponse((answer) => answer.url().endsWith("/ui/maintenance"));
  await open.push("person.rows", "a", [3]);
  await read;
  await word.pressSequentially("ance");
  assert.equal(await word.inputValue(), "maintenance");
  await page.close();
}

// waits: the page of a queue that does not exist appears when the queue is created. The page says so when the queue is
// deleted.
export async function waits(browser, open) {
  const page = await browser.newPage();
  await page.goto(`${open.url}/ui/queue?q=person.later`);
  await page.getByRole("heading", { name: "The object does not exist" }).waitFor();
  await open.push("person.later", "a", [1]);
  await page.getByRole("heading", { name: "person.later" }).waitFor();
  await page.locator("[data-live-switch][data-open]").waitFor();
  await open.send("DELETE", "/api/v1/resources/queues/person.later");
  await page.getByRole("heading", { name: "The object does not exist" }).waitFor();
  await page.close();
}

// pressesTwice: a button that is pressed twice acts once.
export async function pressesTwice(browser, open) {
  const page = await browser.newPage();
  await open.push("person.twice", "a", [1]);
  await page.goto(`${open.url}/ui/queue?q=person.twice`);
  await page.getByText("Push a test message").click();
  let sent = 0;
  page.on("request", (request) => { if (request.url().endsWith("/ui/do")) sent++; });
  await page.getByRole("button", { name: "Push", exact: true }).evaluate((button) => { button.click(); button.click(); });
  await page.getByText("The message is stored.").waitFor();
  assert.equal(sent, 1);
  assert.equal((await open.get("/api/v1/status/queues/person.twice")).totals.total, 2);
  await page.close();
}

// triesAgain: typed text stays if the server refuses it or does not answer. The next attempt works.
export async function triesAgain(browser, open) {
  const page = await browser.newPage();
  const queue = `person.refused.${Date.now()}`; // a new queue, so that the test can be repeated
  await open.push(queue, "a", [1]);
  await page.goto(`${open.url}/ui/queue?q=${queue}`);
  await page.getByText("Push a test message").click();
  const form = page.locator("form").filter({ has: page.getByRole("button", { name: "Push", exact: true }) });
  const payload = form.locator("textarea[name=payload]"), press = () => form.getByRole("button", { name: "Push", exact: true }).click();
  const text = '{\n  "order": 12345678901234567890\n}';
  await payload.fill(text);
  await form.getByLabel("Transaction id").fill("x".repeat(300));
  await press();
  await page.getByRole("alert").getByText("Nothing was changed").waitFor();
  assert.equal(await payload.inputValue(), text);
  await form.getByLabel("Transaction id").fill("");
  const lose = async (route) => { await route.fetch(); await route.abort(); };
  await page.route("**/ui/do", lose); // the message is stored, and the answer is lost
  await press();
  await page.getByRole("alert").getByText("did not answer").waitFor();
  assert.equal(await payload.inputValue(), text);
  await page.unroute("**/ui/do");
  await press();
  await page.getByText("already stored when this form was sent before").waitFor();
  const stored = async () => (await open.get(`/api/v1/status/queues/${queue}`)).totals.total;
  assert.equal(await stored(), 2);
  await page.waitForLoadState(); // before, the browser itself would send the form
  await page.getByText("Push a test message").click();
  await page.route("**/ui/do", lose);
  await press();
  await page.getByRole("alert").waitFor();
  await payload.fill("2"); // another message
  await page.unroute("**/ui/do");
  await press();
  await page.getByText("The message is stored.").waitFor();
  assert.equal(await stored(), 4);
  await page.close();
}

// deletes: the page that deletes a queue waits for the answer, even if other pages already show that the queue is deleted.
export async function deletes(browser, open) {
  await open.push("person.deleted", "a", [1]);
  const [page, other] = await Promise.all([browser.newPage(), browser.newPage()]);
  for (const one of [page, other]) {
    await one.goto(`${open.url}/ui/queue?q=person.deleted`);
    await one.locator("[data-live-switch][data-open]").waitFor();
  }
  await page.route("**/ui/do", async (route) => {
    const response = await route.fetch({ maxRedirects: 0 });
    await other.getByRole("heading", { name: "The object does not exist" }).waitFor();
    await route.fulfill({ response });
  });
  await page.locator("summary", { hasText: "Delete the queue" }).click();
  await page.getByLabel("Type the name").fill("person.deleted");
  await page.getByRole("button", { name: "Delete the queue" }).click();
  await page.getByText("The queue person.deleted is deleted.").waitFor();
  assert.equal(page.url(), `${open.url}/ui/queues`);
  await Promise.all([page.close(), other.close()]);
}

// triesAgainInALivePart: a form in a part that updates itself is refused. The page shows the refusal outside of that part.
// The next attempt works although other clients change the data.
export async function triesAgainInALivePart(browser, open) {
  const page = await browser.newPage();
  await page.goto(`${open.url}/ui/maintenance`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  await page.getByText("Begin pop maintenance").first().click();
  const word = page.getByLabel('Type "maintenance"').locator("visible=true"), button = page.getByRole("button", { name: "Begin pop maintenance" });
  await word.fill("maintenence");
  await button.click();
  await page.getByRole("alert").getByText('type "maintenance" to confirm').waitFor();
  assert.equal(await word.inputValue(), "maintenence");
  await word.fill("maintenance");
  let sent = 0, go;
  const going = new Promise((done) => { go = done; });
  await page.route("**/ui/do", async (route) => { sent++; await going; await route.continue(); });
  await button.click();
  await open.push("person.rows", "a", [4]);
  await page.locator("[data-live=switches]").hover();
  await button.click();
  go();
  await page.getByText("Pop maintenance is on.").waitFor();
  assert.equal(sent, 1);
  assert.equal(await page.getByRole("alert").count(), 0);
  await page.unroute("**/ui/do");
  await page.getByRole("button", { name: "End pop maintenance" }).click();
  await page.getByText("Pop maintenance is off.").waitFor();
  await page.close();
}

// signsInAgain: typed text stays when the session ends. It can be sent after a sign-in in another tab.
export async function signsInAgain(context, page, server) {
  await page.goto(`${server.url}/ui/queue?q=shop.mails`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  await page.getByText("Push a test message").click();
  const payload = page.getByLabel("Payload (JSON)"), cookies = await context.cookies();
  await payload.fill('{"typed": true}');
  await context.clearCookies();
  await page.getByRole("button", { name: "Push", exact: true }).click();
  await page.getByRole("alert").getByText("Sign in in another tab").waitFor();
  await server.push("shop.mails", "eu", [{ to: "c@example.com" }]); // this makes the page update itself
  await page.getByText("Not current").waitFor();
  assert.equal(await payload.inputValue(), '{"typed": true}');
  await context.addCookies(cookies);
  await page.getByRole("button", { name: "Live" }).waitFor();
  await page.getByRole("button", { name: "Push", exact: true }).click();
  await page.getByText("The message is stored.").waitFor();
}

// edits: a copied command works behind a proxy. A change of options keeps the change that another person made.
export async function edits(browser, open, proxied) {
  const page = await browser.newPage();
  await open.post("/api/v1/configure", { queue: "person.edited", options: { leaseTime: 300, retryLimit: 3 } });
  await page.goto(`${proxied}/ui/options?q=person.edited`);
  await page.getByLabel("leaseTime").fill("111");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("Copy as command").click();
  assert.match(await page.locator("#commands code").last().textContent(), new RegExp(`${proxied}/api/v1/configure`));
  await open.post("/api/v1/configure", { queue: "person.edited", options: { leaseTime: 300, retryLimit: 9 } });
  await page.getByRole("button", { name: "Change the options" }).click();
  await page.getByText("are in force").waitFor();
  const { options } = (await open.get("/api/v1/status/queues/person.edited")).queue;
  assert.equal(options.leaseTime, 111);
  assert.equal(options.retryLimit, 9);
  await page.close();
}
