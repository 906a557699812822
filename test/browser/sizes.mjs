// The tests of the pages in windows of several sizes, with hostile names.
import assert from "node:assert/strict";
import { inspect, shots, watch } from "./look.mjs";
import { hostile } from "./schedules.mjs";

const long = `long-${"x".repeat(246)}-end`, turned = "turned\u202egnp.\u2066", hebrew = "\u05e9\u05dc\u05d5\u05dd", blank = " ";
const names = [long, turned, hebrew, blank];

// seed adds queues, partitions, groups, dead letters and traces with hostile names.
async function seed(server) {
  for (const name of names) {
    await server.post("/api/v1/configure", { queue: name, namespace: name, task: name, options: { retryLimit: 0 } });
    await server.push(name, name, [{ [name]: name }, { a: 2 }, { a: 3 }]);
    for (const status of ["failed", "completed"]) {
      const [message] = await server.pop(encodeURIComponent(name), name);
      await server.ack(message, name, status, `no ${name}`);
    }
    const { messages: [message] } = await server.get(`/api/v1/messages?${new URLSearchParams({ queue: name, limit: 1 })}`);
    await server.post("/api/v1/traces", { transactionId: message.transactionId, partitionId: message.partitionId, traceNames: [name], data: { text: name } });
  }
}

// tests are the tests, by name. seed must run first.
export const tests = (browser, server, patience) => ({
  "hostile names in every window: seed": () => seed(server),
  "hostile names in every window: every page fits": () => fits(browser, server),
  "hostile names in every window: a blank and a long name": () => showsNames(browser, server),
  "hostile names in every window: a phone": () => worksOnAPhone(browser, server, patience),
  "hostile names in every window: paper": () => prints(browser, server),
  "the list of messages does not jump": () => staysCalm(browser, server, patience),
  "the fields of a filter follow Back, and the address is short": () => followsBack(browser, server),
  "a page of nothing is not live": () => isStill(browser, server),
});

// addresses has every page, with each hostile name. The widths of a page follow its address.
async function addresses(server) {
  const widths = [1280, 1024, 390];
  const all = ["", "queues", "groups", "messages?since=all", "dead", "dispatcher", "history", "system", "producers", "streams", "maintenance", "access", "audit", "traces", "schedules", "schedule-edit"].map((path) => [path, widths]);
  for (const name of names) {
    const q = (values) => new URLSearchParams(values).toString();
    const { messages: [message] } = await server.get(`/api/v1/messages?${q({ queue: name, limit: 1, status: "dead_letter" })}`);
    const more = [`queue?${q({ q: name, p: name })}`, `group?${q({ q: name, g: name, list: "name" })}`, `dead?${q({ q: name, g: name })}`, `options?${q({ q: name, preview: 1, whole: 1, leaseTime: 90 })}`,
      `message?${q({ partition: message.partitionId, t: message.transactionId })}`, `traces?${q({ name })}`, ...await hostile(server, name)];
    all.push(...more.map((path) => [path, name === long ? widths : [1024]]));
  }
  return all;
}

// fits: in a window of 1280 and of 1024 pixels neither a page nor a table scrolls sideways. In a window of 390 pixels no page does.
// Axe finds no serious fault in any size, light and dark.
async function fits(browser, server) {
  const page = await browser.newPage({ reducedMotion: "reduce" });
  const complaints = watch(page), wide = [];
  const examine = (...all) => inspect(page, ...all).catch((fault) => wide.push(fault.message));
  for (const [path, widths] of await addresses(server)) {
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.emulateMedia({ colorScheme: "light" });
    const answer = await page.goto(`${server.url}/ui/${path}`);
    assert.equal(answer.status(), 200, path);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      wide.push(...await page.evaluate(([name, tables]) => {
        for (const one of document.querySelectorAll("main td time")) one.textContent = "59 m 59 s ago"; // a test does not wait for long texts
        for (const one of document.querySelectorAll("main td.host")) one.textContent = "192.168.100.100:65535";
        const over = [document.scrollingElement, ...(tables ? document.querySelectorAll("main .scroll") : [])].filter((one) => one.scrollWidth > one.clientWidth + 1); // a hidden text may have one pixel
        return over.map((one) => `${name}: ${one.getAttribute("aria-label") ?? one.getAttribute("aria-labelledby") ?? "the page"} is ${one.scrollWidth - one.clientWidth} pixels too wide`);
      }, [`${path.slice(0, 40)}, ${width}`, width > 400]));
      await examine(`${path}, ${width}`);
      if (width === widths[0]) {
        await page.emulateMedia({ colorScheme: "dark" });
        await examine(`${path}, ${width}, dark`, "color-contrast");
        await page.emulateMedia({ colorScheme: "light" });
      }
      if (shots) await page.screenshot({ path: `${shots}/sizes-${path.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}-${width}.png` });
    }
  }
  assert.deepEqual(wide, []);
  assert.deepEqual(complaints, []);
  await page.close();
}

// showsNames: a name of one space can be seen and pressed, and a long name is whole while it has the focus.
async function showsNames(browser, server) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${server.url}/ui/queues?sort=name`);
  await page.locator("th a", { hasText: "␣" }).click();
  await page.getByRole("heading", { name: "␣" }).waitFor();
  await page.goBack();
  const link = page.locator("th a", { hasText: "long-x" }), name = link.locator("bdi");
  const whole = () => name.evaluate((one) => one.scrollWidth <= one.clientWidth || getComputedStyle(one).display === "inline");
  assert.equal(await whole(), false, "the name is clipped");
  await page.locator("th a").first().focus();
  while (!await link.evaluate((one) => one === document.activeElement)) await page.keyboard.press("Tab");
  assert.equal(await whole(), true, "the focused name is whole");
  await page.goto(`${server.url}/ui/queues?name=turned`);
  const evil = await page.locator("th a", { hasText: "turned" }).textContent();
  assert.equal(evil, "turned[U+202E]gnp.[U+2066]");
  await page.close();
}

// worksOnAPhone: the current tab and the buttons of a message are in sight, and the error of a dead letter too.
async function worksOnAPhone(browser, server, patience) {
  const page = await browser.newPage({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const inSight = (locator) => locator.evaluate((one) => { const box = one.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth && box.width > 0; });
  for (const path of ["system", "history", "audit"]) {
    await page.goto(`${server.url}/ui/${path}`);
    for (const tab of await page.locator("nav [aria-current=page], nav [aria-current=true]").all()) {
      for (const until = Date.now() + patience; !await inSight(tab); await page.waitForTimeout(50)) assert.ok(Date.now() < until, `${path}: ${await tab.textContent()}`);
    }
  }
  const { messages: [message] } = await server.get(`/api/v1/messages?${new URLSearchParams({ queue: hebrew, limit: 1, status: "dead_letter" })}`);
  await page.goto(`${server.url}/ui/message?partition=${message.partitionId}&t=${message.transactionId}`);
  const button = page.getByRole("button", { name: /^Retry/ });
  assert.ok(await inSight(button), "Retry");
  assert.ok(await inSight(page.getByText(`no ${hebrew}`).first()), "the error");
  await page.goto(`${server.url}/ui/dead?q=${encodeURIComponent(hebrew)}`);
  assert.ok(await inSight(page.locator("[role=region] td", { hasText: `no ${hebrew}` }).first()), "the error in the list");
  await page.close();
}

// staysCalm: while messages arrive, the list of messages does not jump. A button shows the newer ones.
async function staysCalm(browser, server, patience) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await server.push("calm", "a", Array.from({ length: 60 }, (_, i) => ({ i })));
  await page.goto(`${server.url}/ui/messages?q=calm`);
  await page.locator("[data-live-switch][data-open]").waitFor();
  await page.evaluate(() => {
    window.shifts = [];
    new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push(one.value); }).observe({ type: "layout-shift", buffered: true });
  });
  for (let i = 0; i < 25; i++) { // five messages per second
    await server.push("calm", "a", [{ i }]);
    await page.waitForTimeout(200);
  }
  const button = page.getByRole("button", { name: /^Show \d+ (or more )?newer messages$/ });
  await button.waitFor({ timeout: patience });
  const shifts = await page.evaluate(() => window.shifts.reduce((sum, one) => sum + one, 0));
  console.log(`     the layout shift of 25 messages in 5 s is ${shifts.toFixed(4)}`);
  assert.ok(shifts < 0.1, `the layout shift is ${shifts}`);
  const first = () => page.locator("tbody tr").first().textContent();
  const before = await first();
  await button.click();
  await page.waitForFunction((text) => document.querySelector("tbody tr").textContent !== text, before, { timeout: patience });
  await page.close();
}

// followsBack: the fields of a filter say what the page shows, also after Back, and empty fields are not in the address.
async function followsBack(browser, server) {
  const page = await browser.newPage();
  await page.goto(`${server.url}/ui/messages`);
  const queue = page.getByLabel("Queue");
  for (const name of ["first", "second"]) {
    await queue.fill(name);
    await page.getByRole("button", { name: "Apply" }).click();
    await page.waitForURL(new RegExp(`q=${name}`));
    assert.doesNotMatch(page.url(), /=(&|$)/, "no empty parameter");
  }
  await page.goBack();
  await page.waitForURL(/q=first/);
  assert.equal(await queue.inputValue(), "first");
  await page.goBack();
  await page.waitForURL(/messages$/);
  assert.equal(await queue.inputValue(), "");
  await page.close();
}

// isStill: a page that does not exist reads nothing, also after a change.
async function isStill(browser, server) {
  const page = await browser.newPage();
  const requests = [];
  page.on("request", (request) => { if (!/assets|icon/.test(request.url())) requests.push(new URL(request.url()).pathname); });
  assert.equal((await page.goto(`${server.url}/ui/none`)).status(), 404);
  await server.push("calm", "a", [{ none: true }]);
  await page.waitForTimeout(3500); // a page that waits for its server is read again after 3 seconds
  assert.deepEqual(requests, ["/ui/none"]);
  await page.close();
}

// prints: on paper there are no buttons, no filters and no clipped names.
async function prints(browser, server) {
  const page = await browser.newPage({ viewport: { width: 794, height: 1123 } });
  await page.emulateMedia({ media: "print" });
  for (const path of ["queues?sort=name", `queue?q=${long}`, "messages?since=all"]) {
    await page.goto(`${server.url}/ui/${path}`);
    if (shots) await page.screenshot({ path: `${shots}/print-${path.replace(/[^a-z0-9]+/gi, "-").slice(0, 40)}.png`, fullPage: true });
    assert.equal(await page.locator("button:visible, form:visible, nav.pager:visible, nav.tabs:visible, header nav:visible, details:not([open]):visible").count(), 0, path);
    const clipped = await page.locator("bdi.long").evaluateAll((all) => all.filter((one) => getComputedStyle(one).textOverflow === "ellipsis" && getComputedStyle(one).display !== "inline").length);
    assert.equal(clipped, 0, path);
    const over = await page.evaluate(() => [...document.querySelectorAll("main .scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute("aria-label") ?? one.getAttribute("aria-labelledby")));
    assert.deepEqual(over, [], path);
  }
  await page.close();
}
