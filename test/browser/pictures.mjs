// Screenshots for the README: a server with the example shop of `belfry demo`.
import { Server } from "./api.mjs";

// minutes is the number of minutes with pushes that the history must have before the screenshots.
const minutes = 3;

// pictures writes shop-overview.png and shop-queue.png to a folder. The chart of the queue covers the last 20 minutes.
export async function pictures(browser, url, folder) {
  const server = new Server(url);
  for (let written = 0; written < minutes;) {
    await new Promise((done) => { setTimeout(done, 1000); });
    const found = await server.get("/api/v1/analytics/queue-ops?queue=demo.orders");
    written = new Set(found.series.filter((one) => one.pushMessages > 0).map((one) => one.bucket)).size;
  }
  const context = await browser.newContext({ colorScheme: "light", viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  const minute = (ago) => new Date(Math.floor(Date.now() / 60_000 - ago) * 60_000).toISOString().replace(".000", "");
  for (const [name, path] of [["overview", ""], ["queue", `queue?${new URLSearchParams({ q: "demo.orders", from: minute(20), to: minute(0) })}`]]) {
    await page.goto(`${url}/ui/${path}`, { waitUntil: "load" });
    await page.locator("[data-live-switch][data-open]").waitFor();
    await page.screenshot({ path: `${folder}/shop-${name}.png` });
  }
  await context.close();
}
