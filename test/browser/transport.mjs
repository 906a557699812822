// How pages, files and changes come to a browser.
import assert from "node:assert/strict";
import { createServer, request as send } from "node:http";
import { watch } from "./look.mjs";

const live = (page) => page.locator("[data-live-switch][data-open]").waitFor();
const shows = (page, text, timeout) => page.waitForFunction(
  (want) => document.querySelector("[data-live=tiles] .figure").textContent === want, String(text), { timeout, polling: 50 });

// between starts a proxy that counts the open streams of changes. edit may change a page.
async function between(target) {
  const state = { streams: 0, most: 0, edit: undefined, loads: 0 };
  const proxy = createServer((request, answer) => {
    const headers = { ...request.headers };
    const isPage = request.method === "GET" && !/\/(assets|live)\b/.test(request.url);
    if (isPage && state.edit) delete headers["accept-encoding"];
    const passed = send(new URL(request.url, target), { method: request.method, headers }, (got) => {
      if (!isPage || !state.edit) {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
        return;
      }
      if (!request.headers["x-live"]) state.loads++;
      const parts = [];
      got.on("data", (part) => parts.push(part));
      got.on("end", () => {
        const { "content-length": _, ...rest } = got.headers;
        answer.writeHead(got.statusCode, rest);
        answer.end(state.edit(Buffer.concat(parts).toString(), request));
      });
    });
    if (new URL(request.url, target).pathname === "/ui/live") {
      state.most = Math.max(state.most, ++state.streams);
      answer.on("close", () => state.streams--);
    }
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise((done) => { proxy.listen(0, "127.0.0.1", done); });
  state.url = `http://127.0.0.1:${proxy.address().port}`;
  state.close = () => { proxy.closeAllConnections(); proxy.close(); };
  return state;
}

// eightWindows: a browser opens six connections to a server. Eight windows at once are live, because they share a stream.
export async function eightWindows(browser, open, patience) {
  const proxy = await between(open.url);
  const context = await browser.newContext();
  context.setDefaultTimeout(patience);
  await open.push("transport.many", "a", [1]);
  const pages = [], complaints = [];
  for (let i = 0; i < 8; i++) {
    const page = await context.newPage();
    complaints.push(watch(page));
    await page.goto(`${proxy.url}/ui/queue?q=transport.many`);
    await live(page);
    pages.push(page);
  }
  assert.deepEqual(await Promise.all(pages.map((page) => page.evaluate(() => document.hidden))), Array(8).fill(false));
  assert.equal(proxy.most, 1, "streams of the eight windows");
  const began = performance.now();
  await open.push("transport.many", "a", [2]);
  await Promise.all(pages.map((page) => shows(page, 2, patience)));
  console.log(`     eight windows with ${proxy.most} stream showed a change after ${Math.round(performance.now() - began)} ms`);
  for (const page of pages) await page.getByRole("button", { name: "Live" }).click();
  await until(() => proxy.streams === 0, patience, "the stream of paused pages ends");
  await pages[3].getByRole("button", { name: "Paused" }).click();
  await live(pages[3]);
  await open.push("transport.many", "a", [3]);
  await shows(pages[3], 3, patience);
  assert.deepEqual(complaints.flat(), []);
  await context.close();
  await until(() => proxy.streams === 0, patience, "the stream ends with the last page");
  proxy.close();
}

async function until(holds, patience, what) {
  for (const began = Date.now(); !await holds();) {
    assert.ok(Date.now() - began < patience, what);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

// noWorker: a page is live by its own stream in a browser without shared workers, and if the worker cannot be loaded.
export async function noWorker(browser, open, patience) {
  await open.push("transport.alone", "a", [1]);
  let count = 1;
  for (const lame of [() => { delete globalThis.SharedWorker; }, undefined]) {
    const context = await browser.newContext();
    context.setDefaultTimeout(patience);
    const proxy = await between(open.url);
    if (lame) await context.addInitScript(lame);
    else await context.addInitScript(() => {
      const Real = globalThis.SharedWorker;
      globalThis.SharedWorker = class extends Real { constructor(_, options) { super("/ui/assets/none/worker.js", options); } };
    });
    const page = await context.newPage();
    await page.goto(`${proxy.url}/ui/queue?q=transport.alone`);
    await live(page);
    await open.push("transport.alone", "a", [1]);
    await shows(page, ++count, patience);
    assert.equal(proxy.streams, 1);
    await context.close();
    proxy.close();
  }
}

// deadWorker: a page whose worker has died is live again, and shows what it missed.
export async function deadWorker(browser, open, patience) {
  await open.push("transport.dead", "a", [1]);
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patience + 30_000);
  await page.goto(`${open.url}/ui/queue?q=transport.dead`);
  await live(page);
  const session = await browser.newBrowserCDPSession();
  const workers = async () => (await session.send("Target.getTargets")).targetInfos.filter((one) => one.type === "shared_worker" && one.url.startsWith(open.url));
  const [first] = await workers();
  assert.ok(first, "there is a worker");
  const began = Date.now();
  await session.send("Target.closeTarget", { targetId: first.targetId });
  await until(async () => !(await workers()).some((one) => one.targetId === first.targetId), patience, "the worker is dead");
  await open.push("transport.dead", "a", [2]);
  await shows(page, 2, patience + 30_000);
  console.log(`     a page without its worker was live again after ${Date.now() - began} ms`);
  assert.notEqual((await workers())[0]?.targetId, first.targetId);
  await context.close();
}

// upgrade: a page of one version never runs with files of another one. It is loaded again until one version answers.
export async function upgrade(browser, open, patience) {
  await open.push("transport.new", "a", [1]);
  const proxy = await between(open.url);
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const files = [];
  page.on("response", (answer) => { if (answer.url().includes("/assets/")) files.push(`${answer.status()} ${answer.url().split("/").at(-2)}/${answer.url().split("/").at(-1)}`); });
  const other = (text) => text.replaceAll(/assets\/[0-9a-f]{24}\//g, "assets/000000000000000000000000/");
  proxy.edit = (text) => proxy.loads <= 2 ? other(text) : text; // the instance that sends the files has another version
  await page.goto(`${proxy.url}/ui/queue?q=transport.new`);
  await live(page);
  assert.equal(proxy.loads, 3);
  assert.deepEqual(files.filter((one) => one.includes("0000") && one.startsWith("200")).filter((one) => !one.endsWith("/app.js")), [], "no file of another version");
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".tile")).borderStyle), "solid");
  let reads = 0;
  proxy.edit = (text, request) => { // an instance of another version answers an open page
    if (request.headers["x-live"]) reads++;
    return request.headers["x-live"] ? other(text) : text;
  };
  const loaded = page.waitForEvent("load");
  await open.push("transport.new", "a", [2]);
  await loaded;
  assert.ok(reads > 0);
  await shows(page, 2, patience);
  await context.close();
  proxy.close();
}

// bytes: what a page costs on the network.
export async function bytes(open) {
  const url = open.url;
  await Promise.all(Array.from({ length: 120 }, (_, i) => open.push(`transport.bytes-${i}`, `customer-${i}`, [{ order: i, items: ["a", "b"] }])));
  await open.push("transport.bytes-0", "customer-0", Array.from({ length: 120 }, (_, i) => ({ order: i })));
  const size = (path, encoding) => new Promise((done, fail) => {
    send(new URL(path, url), { headers: { "accept-encoding": encoding } }, (got) => {
      let count = 0;
      got.on("data", (part) => { count += part.length; });
      got.on("end", () => done([count, got.headers["content-encoding"]]));
    }).on("error", fail).end();
  });
  for (const path of ["ui/", "ui/queues", "ui/messages", "api/v1/queues?limit=100", "openapi.json"]) {
    const [plain, none] = await size(path, "identity"), [gzip, first] = await size(path, "gzip"), [zstd, second] = await size(path, "gzip, deflate, br, zstd");
    console.log(`     ${path}: ${plain} bytes, ${gzip} with gzip, ${zstd} with zstd`);
    assert.deepEqual([none, first, second], [undefined, "gzip", "zstd"], path);
    assert.ok(gzip * 3 < plain && zstd * 3 < plain, `${path}: ${plain}, ${gzip}, ${zstd}`);
  }
}
