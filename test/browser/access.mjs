// An administrator creates and revokes a token, and gives and revokes a grant in SQL, on the page Access.
import assert from "node:assert/strict";
import { inspect } from "./look.mjs";

// manages: page has a session of an administrator of server.
export async function manages(page, server) {
  await page.goto(`${server.url}/ui/access`);
  await page.getByText("Create a token").click();
  await page.getByLabel("Person or program").fill("nightly");
  await page.getByLabel("Read", { exact: true }).fill("shop.*");
  await page.getByRole("button", { name: "Create the token" }).click();
  await inspect(page, "a new token");
  const token = await page.getByLabel("Token").inputValue();
  const id = await page.locator("main code").innerText();
  const status = (path) => fetch(server.url + path, { headers: { Authorization: `Bearer ${token}` } }).then((answer) => answer.status);
  assert.equal(await status("/api/v1/resources/queues/shop.mails"), 200);
  assert.equal(await status("/api/v1/resources/queues/other"), 403);
  assert.ok(!(await page.context().cookies()).some((one) => one.value.includes(token)));

  await page.getByRole("link", { name: "Back" }).click();
  await page.getByText("Revoke a token").click();
  await page.getByLabel("The token, or its id").fill(id);
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByRole("status").filter({ hasText: "The token is revoked." }).waitFor();
  await page.locator("[data-live=tokens] code", { hasText: id }).waitFor();
  assert.equal(await status("/api/v1/resources/queues/shop.mails"), 401);

  await page.getByText("Give a grant in SQL").click();
  await page.getByLabel("Role of the database").fill("no such role");
  await page.getByLabel("Queues", { exact: true }).fill("orders.*");
  await page.getByRole("button", { name: "Give the grant" }).click();
  await page.getByText("does not exist").waitFor();
  await page.getByLabel("Role of the database").fill("pg_monitor");
  await page.getByRole("button", { name: "Give the grant" }).click();
  const row = page.locator("[data-live=grants] tbody tr").filter({ hasText: "pg_monitor" });
  await row.waitFor();
  await inspect(page, "access");
  await row.getByRole("button", { name: /^Revoke/ }).click();
  await page.getByText("No role has a grant.").waitFor();
}
