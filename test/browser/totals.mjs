// The tests of the numbers of queues and groups: one thing has one number on every page, and an open page gets a change.
import assert from "node:assert/strict";

// plain returns a number as it is shown, without the spaces between its thousands.
const plain = (text) => Number(text.replaceAll("\u202f", "").trim());

// tile returns the number of a tile.
async function tile(page, label) {
  return plain(await page.locator(".tile", { has: page.getByText(label, { exact: true }) }).locator(".figure").textContent());
}

// cells returns the cells of the row that has a link with this text.
function cells(page, text) {
  return page.locator("tr", { has: page.getByRole("link", { name: text, exact: true }) }).first().locator("th, td");
}

// oneNumber compares what each page says about one state.
export async function oneNumber(browser, server) {
  const queue = "numbers";
  for (let i = 0; i < 120; i++) await server.push(queue, `p${i}`, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  for (let i = 0; i < 3; i++) await server.pop(queue, "readers", 2);
  for (let i = 0; i < 2; i++) {
    const [message] = await server.pop(queue, "readers", 1);
    await server.ack(message, "readers", "dlq", "the printer is out of paper");
  }
  const left = 1200 - 2, held = 6, dead = 2;
  const page = await browser.newPage();
  const visit = (path) => page.goto(`${server.url}/ui/${path}`);

  await visit(`queue?q=${queue}`);
  assert.deepEqual([await tile(page, "Pending"), await tile(page, "In delivery"), await tile(page, "Dead letters"), await tile(page, "Stored")], [left - held, held, dead, 1200]);
  assert.equal(plain(await cells(page, "readers").nth(1).textContent()), left, "the groups of the queue");
  await visit(`group?q=${queue}&g=readers`);
  assert.deepEqual([await tile(page, "Left"), await tile(page, "In delivery"), await tile(page, "Dead letters")], [left, held, dead]);
  await visit(`groups?queue=${queue}`);
  const group = (await cells(page, "readers").allTextContents()).map(plain);
  assert.deepEqual([group[3], group[4], group[7]], [left, held, dead], "the list of groups");
  await visit(`queues?name=${queue}&c=pending&c=processing&c=dead`);
  assert.deepEqual((await cells(page, queue).allTextContents()).slice(1).map(plain), [left - held, held, dead], "the list of queues");
  const total = await server.get("/api/v1/totals?fresh=true");
  await visit("");
  assert.deepEqual([await tile(page, "Pending"), await tile(page, "In delivery"), await tile(page, "Dead letters")],
    [total.messages.pending, total.messages.processing, total.deadLetters], "the overview");

  await visit("queues?sort=pending");
  const names = await page.locator("tbody th a").allTextContents();
  assert.equal(names[0], queue, "the queue with the largest backlog is the first of all");
  await page.close();
}

// aChangeArrives opens the list of groups. What happens then is shown without a reload.
export async function aChangeArrives(browser, server, patience) {
  await server.push("arrives", "p", [1, 2]);
  await server.pop("arrives", "late", 1);
  const page = await browser.newPage();
  await page.goto(`${server.url}/ui/groups?queue=arrives`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  await server.push("arrives", "p", [3, 4, 5]);
  await page.waitForFunction(() => [...document.querySelectorAll("tbody td")].some((cell) => cell.textContent === "5"), null, { timeout: patience });
  await page.close();
}
