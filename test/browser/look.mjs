// look opens pages and fails if a page has a fault.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// shots is the folder for screenshots. If it is empty, no screenshots are made.
export const shots = process.env.BELFRY_SCREENSHOTS ?? "";
if (shots) mkdirSync(shots, { recursive: true });

// watch collects the complaints of the browser: script errors, failed requests and violations of the content security
// policy.
export function watch(page) {
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => { if (request.failure().errorText !== "net::ERR_ABORTED") complaints.push(`failed: ${request.url()}`); });
  return complaints;
}

// inspect fails if axe finds a serious fault. If rules are given, axe checks only these rules.
export async function inspect(page, name, ...rules) {
  await page.evaluate(axe);
  const found = await page.evaluate((only) => axe.run(document, { resultTypes: ["violations"], ...(only.length && { runOnly: only }) }), rules);
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`), [], `axe: ${name}`);
}

// look opens each path once. It examines the page in three forms: light and wide, then dark and wide, then light and
// narrow. Dark pages differ only in colors, and narrow pages only in positions and sizes. So for dark and narrow pages it
// only takes a screenshot.
export async function look(browser, url, paths, label) {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const page = await context.newPage();
  const complaints = watch(page);
  const show = async (path, colorScheme, width) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    return `${label}: ${path || "overview"}, ${colorScheme}, ${width}`;
  };
  const fits = async (name) => {
    const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${name}: the page is ${over} pixels wider than the window`);
  };
  const unfolded = async (check) => {
    await page.evaluate(() => { for (const one of document.querySelectorAll("main details:not(.menu)")) { one.dataset.was = one.open; one.open = true; } });
    await check();
    await page.evaluate(() => { for (const one of document.querySelectorAll("main details:not(.menu)")) one.open = one.dataset.was === "true"; });
  };
  const shoot = async (name, fullPage) => {
    if (shots) await page.screenshot({ path: `${shots}/${name.replace(/[^a-z0-9]+/gi, "-")}.png`, fullPage });
  };
  for (const path of paths) {
    let name = await show(path, "light", 1440);
    const answer = await page.goto(`${url}/ui/${path}`, { waitUntil: "load" });
    assert.equal(answer.status(), 200, name);
    assert.ok((await answer.body()).length < 300 * 1024, `${name}: the page is larger than 300 KiB`);
    await fits(name);
    await shoot(name, true);
    await unfolded(() => inspect(page, name));

    name = await show(path, "dark", 1440);
    await shoot(name, true);
    await unfolded(() => inspect(page, name, "color-contrast"));

    name = await show(path, "light", 390);
    await fits(name);
    await shoot(name, false);
    await unfolded(() => inspect(page, name, "scrollable-region-focusable", "color-contrast"));
    if (shots) await shoot(await show(path, "dark", 390), false);
    assert.deepEqual(complaints, [], name);
  }
  await context.close();
}
