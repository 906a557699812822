// The tests of the list of dead letters: shapes of errors, selected rows, and the payload in a row.
import assert from "node:assert/strict";
import { inspect, watch } from "./look.mjs";

// lettersCanBeChosen groups errors by shape, and uses the actions on a row and on selected rows.
export async function lettersCanBeChosen(browser, server, patience) {
  const queue = "letters";
  await server.push(queue, "p", Array.from({ length: 6 }, (_, i) => ({ order: { id: i }, text: "<b>bold</b>" })));
  for (let i = 0; i < 6; i++) {
    const [message] = await server.pop(queue, "readers", 1);
    await server.ack(message, "readers", "dlq", i < 4 ? `no order ${i} for "user ${i}"` : "refused");
  }
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  const complaints = watch(page);
  const total = (n) => page.locator("[data-total]", { hasText: `${n} dead letter` }).waitFor();
  await page.goto(`${server.url}/ui/dead?q=${queue}&g=readers`);
  await total(6);
  await page.locator("[data-shapes] li", { hasText: 'no order # for "*"' }).getByText("4 different texts").waitFor();
  await page.getByRole("link", { name: 'no order # for "*"', exact: true }).click();
  await total(4);
  await page.getByRole("link", { name: 'no order 2 for "user 2"', exact: true }).waitFor(); // the exact texts are one level down
  assert.equal(await page.locator("input[data-choose]").count(), 4);

  const redrive = page.getByRole("button", { name: "Redrive selected" });
  assert.equal(await redrive.isDisabled(), true);
  const first = page.locator("input[data-choose]").nth(1), second = page.locator("input[data-choose]").nth(2);
  const kept = await second.getAttribute("data-id");
  await first.focus();
  await page.keyboard.press("Space"); // the keyboard selects a row
  await second.check();
  await page.getByText("2 selected").waitFor();

  const fold = page.locator("details.letter").nth(0);
  await fold.locator("summary").focus();
  await page.keyboard.press("Enter");
  await fold.getByText("<b>bold</b>").waitFor(); // the payload is text
  assert.equal(await fold.locator("b").count(), 0);
  await inspect(page, "dead letters with an open row");

  // A live update keeps the selection and the open row. The list waits with it while the focus or the pointer is there.
  await page.getByRole("heading", { name: "Dead letters" }).click();
  await server.push(queue, "p", [{ order: { id: 9 } }]);
  const [message] = await server.pop(queue, "readers", 1);
  await server.ack(message, "readers", "dlq", 'no order 9 for "user 9"');
  await total(5);
  assert.equal(await page.locator(`input[data-id="${kept}"]`).isChecked(), true);
  await page.getByText("2 selected").waitFor();
  await page.locator("details.letter").nth(1).getByText("<b>bold</b>").waitFor();

  await redrive.click();
  await page.getByText("2 dead letters are delivered again.").waitFor();
  await total(3);
  await page.locator("[data-choose-all]").check();
  await page.getByRole("button", { name: "Delete selected" }).click();
  await page.getByText("3 dead letters are deleted.").waitFor();
  await page.goto(`${server.url}/ui/dead?q=${queue}&g=readers`);
  await total(2);
  assert.deepEqual(complaints, []);
  await page.close();
}
