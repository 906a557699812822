// The tests of the charts of the backlog. The server counts it at the end of a minute with work.
import assert from "node:assert/strict";

const queue = "piled up", group = "slow";

// seed makes a backlog of 7 messages of the queue and 7 of the group. Two of them are in delivery.
export async function seed(server) {
  await server.push(queue, "p", [1, 2, 3, 4, 5, 6, 7]);
  await server.pop(queue, group, 2);
}

// charts returns what the charts of the backlog say.
async function charts(page) {
  return page.locator("[data-live=backlog] svg[data-chart]").evaluateAll((all) => all.map((chart) => {
    const line = chart.querySelector("[data-values]");
    return { label: chart.getAttribute("aria-label"), unit: chart.dataset.unit, last: Number(line.dataset.values.split(" ").at(-1)) };
  }));
}

// isDrawn waits until the server has counted, and reads the charts of the queue and of the group.
export async function isDrawn(browser, server) {
  const page = await browser.newPage();
  const name = encodeURIComponent(queue);
  await page.goto(`${server.url}/ui/queue?q=${name}`);
  await page.locator("[data-live=backlog]").waitFor({ timeout: 120_000 });
  for (const path of [`queue?q=${name}`, `group?q=${name}&g=${group}`]) {
    await page.goto(`${server.url}/ui/${path}`);
    const [depth, age] = await charts(page);
    assert.equal(depth.last, 7, path);
    assert.match(depth.label, /^Unfinished messages: unfinished messages 7/);
    assert.ok(age.last > 0 && age.unit === " s", JSON.stringify(age));
    assert.match(await page.locator("[data-live=backlog] .legend").textContent(), /The last change was counted/);
  }
  await page.close();
}
