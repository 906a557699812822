// A person signs in with an identity provider. The provider is another site than the server.
import assert from "node:assert/strict";
import { inspect } from "./look.mjs";

// signsInAndOut: after the sign-in the person sees the page that was asked for, with name and role, and it is live. After the
// sign-out the pages need a new sign-in, and the provider has ended its session.
export async function signsInAndOut(browser, url, patience) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(`${url}/ui/queues?name=shop`);
  assert.equal(new URL(page.url()).pathname, "/ui/sign-in");
  await inspect(page, "sign-in with a provider");
  await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
  await page.getByRole("link", { name: "Continue as ann" }).click();
  await page.waitForURL(`${url}/ui/queues?name=shop`);
  assert.equal((await page.locator(".who").innerText()).replace(/\s+/g, " "), "ann admin");
  await page.locator("[data-live-switch][data-open]").waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "");
  const ends = page.waitForRequest((request) => new URL(request.url()).pathname === "/end");
  await page.getByRole("button", { name: "Sign out" }).click();
  assert.equal(new URL((await ends).url()).searchParams.get("post_logout_redirect_uri"), `${url}/ui/sign-in`);
  await page.waitForURL(`${url}/ui/sign-in`);
  assert.deepEqual(await context.cookies(url), []);
  await page.goto(`${url}/ui/queues`);
  assert.equal(new URL(page.url()).pathname, "/ui/sign-in");
  await context.close();
}

// refreshes: a person does not notice that a token has expired.
export async function refreshes(browser, url, patience) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(`${url}/ui/sign-in`);
  await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
  await page.getByRole("link", { name: "Continue as ann" }).click();
  await page.waitForURL(`${url}/ui/`);
  await context.clearCookies({ name: "belfry_token" }); // as the browser does when the token expires
  await page.goto(`${url}/ui/queues`);
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  assert.equal(await page.locator(".who .tag").innerText(), "admin");
  await context.close();
}
