// The tests of the searches, and of the pages of namespaces, tasks and groups.
import assert from "node:assert/strict";

export const emptyPages = ["namespaces", "tasks"];
export const fullPages = ["namespaces", "tasks?sort=lag", "queues?sort=failed", "partitions?q=shop.orders&name=customer"];

// find searches queues and partitions. Characters of patterns have no special meaning, and a search of partitions goes on by itself.
export async function find(browser, server, patience) {
  for (const name of ["find_me", "findXme", "also find_me"]) await server.push(name, "p", [1]);
  for (let i = 0; i < 60; i++) await server.push("find_me", `part-${i}`, [1]);
  const page = await browser.newPage();
  const visit = (path) => page.goto(`${server.url}/ui/${path}`);
  await visit("queues?name=find_me");
  await page.locator("tbody th a").nth(1).waitFor({ timeout: patience }); // the page shows a queue after the next count
  assert.deepEqual(await page.locator("tbody th a").allTextContents(), ["find_me", "also find_me"]);

  await visit("queue?q=find_me");
  await page.getByRole("link", { name: "find a partition" }).click();
  await page.getByLabel("Name").fill("ART-59");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "part-59" }).waitFor({ timeout: patience });
  await page.getByText(/Searched 61( of 61)? partitions. The search has ended./).waitFor({ timeout: patience });

  // The parts of a long search come from the server one by one.
  const part = (rows, text, next) => `<section data-search-on><p class="range">${text}</p><table><tbody>${rows}</tbody></table><nav class="pager">${next}</nav></section>`;
  await page.route("**/ui/partitions?*after=1*", (route) => route.fulfill({ contentType: "text/html", body: part("<tr><th>second</th></tr>", "Searched 2", "") }));
  await page.route("**/ui/partitions?q=find_me&name=slow", async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace(/<section aria-label="Found[\s\S]*?<\/section>/, part("<tr><th>first</th></tr>", "Searched 1", '<a rel="next" href="partitions?q=find_me&name=slow&after=1">on</a>'));
    await route.fulfill({ response: answer, body });
  });
  await visit("partitions?q=find_me&name=slow");
  await page.getByText("Searched 2").waitFor({ timeout: patience });
  assert.deepEqual(await page.locator("tbody th").allTextContents(), ["first", "second"]);
  await page.close();
}

// tags compares the pages of namespaces and tasks with the lists of their queues. Each figure appears with the next count.
export async function tags(browser, server, patience) {
  const tagged = `tagged${Date.now()}`, names = (...tails) => tails.map((tail) => `${tagged}.${tail}`); // new names each time, because a failed test is repeated
  for (const name of names("mail.a", "mail.b", "web.c")) await server.push(name, "p", [1, 2]);
  const page = await browser.newPage();
  const shows = (cells) => page.waitForFunction((cells) => [...document.querySelectorAll("tbody tr")].some((row) =>
    [...row.querySelectorAll("th, td")].slice(0, cells.length).map((cell) => cell.textContent.trim()).join() === cells.join()), cells, { timeout: patience });
  const lists = (queues) => page.waitForFunction((queues) =>
    [...document.querySelectorAll("tbody th a")].map((link) => link.textContent).join() === queues.join(), queues, { timeout: patience });
  await page.goto(`${server.url}/ui/namespaces?name=${tagged}`);
  await shows([tagged, "3", "6"]);
  await page.getByRole("link", { name: tagged, exact: true }).click();
  await lists(names("mail.a", "mail.b", "web.c"));
  await page.goto(`${server.url}/ui/tasks?name=mail`);
  await page.getByRole("link", { name: "mail", exact: true }).click();
  await page.goto(`${page.url()}&name=${tagged}`);
  await lists(names("mail.a", "mail.b"));

  await server.pop(`${tagged}.mail.a`, "readers", 1);
  await page.goto(`${server.url}/ui/groups?queue=${tagged}`);
  await page.locator("tbody tr").filter({ hasText: / · \d+/ }).first().waitFor({ timeout: patience }); // the instance that has served the group
  await page.close();
}
