// Opens pages and fails if something is wrong with one.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// The folder of the screenshots. Empty: none are made.
export const shots = process.env.BELFRY_SCREENSHOTS ?? "";
if (shots) mkdirSync(shots, { recursive: true });

// watch collects what the browser complains about: errors of scripts, failed requests and violations of
// the content security policy.
export function watch(page) {
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => { if (request.failure().errorText !== "net::ERR_ABORTED") complaints.push(`failed: ${request.url()}`); });
  return complaints;
}

// inspect fails if axe finds a serious fault.
export async function inspect(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`), [], `axe: ${name}`);
}

// look opens each path in light and dark, wide and narrow. Dark and narrow has nothing of its own, so it is opened only
// for a screenshot.
export async function look(browser, url, paths, label) {
  const narrow = [["light", 390], ...(shots ? [["dark", 390]] : [])];
  for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ...narrow]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, reducedMotion: "reduce" });
    const page = await context.newPage();
    const complaints = watch(page);
    for (const path of paths) {
      const name = `${label}: ${path || "overview"}, ${colorScheme}, ${width}`;
      const answer = await page.goto(`${url}/ui/${path}`, { waitUntil: "load" });
      assert.equal(answer.status(), 200, name);
      assert.ok((await answer.body()).length < 300 * 1024, `${name}: the page is larger than 300 KiB`);
      const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${name}: the page is ${over} pixels wider than the window`);
      for (const details of await page.locator("main details:not(.menu)").all()) await details.evaluate((one) => { one.dataset.was = one.open; one.open = true; });
      await inspect(page, name);
      assert.deepEqual(complaints, [], name);
      if (shots) {
        for (const details of await page.locator("main details").all()) await details.evaluate((one) => { one.open = one.dataset.was === "true"; });
        await page.screenshot({ path: `${shots}/${name.replace(/[^a-z0-9]+/gi, "-")}.png`, fullPage: width === 1440 });
      }
    }
    await context.close();
  }
}
