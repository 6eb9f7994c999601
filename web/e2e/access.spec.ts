import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, firstLink, logIn, test } from "./fixtures";

test("the login link opens a session and leaves the address", async ({ page, seeded, faults }) => {
  void faults;
  await page.goto(`${seeded.url}/variants`);
  await expect(page.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
  await logIn(page, seeded);
  expect(page.url()).not.toContain("#");
  const cookies = await page.context().cookies();
  expect(cookies).toHaveLength(1);
  expect(cookies[0]).toMatchObject({ httpOnly: true, sameSite: "Strict" });
  expect(await page.evaluate(() => document.cookie)).toBe("");
});

test("a wrong token is refused, a token of the server is not", async ({ page, seeded, faults }) => {
  void faults;
  await page.goto(`${seeded.url}/login`);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("alert")).toContainText("does not know that token");
  await page.getByLabel("Token").fill(readFileSync(join(seeded.data, "operate.token"), "utf8").trim());
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Jobs" })).toBeVisible();
});

test("logging out ends it, also in other tabs", async ({ app, seeded, context }) => {
  const other = await context.newPage();
  await other.goto(`${seeded.url}/variants`);
  await expect(other.getByRole("heading", { level: 1, name: "Variants" })).toBeVisible();
  await app.getByRole("button", { name: "Log out" }).click();
  await expect(app.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
  await expect(other.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
});

test("a session that ended elsewhere asks this page to log in, and then goes on where it was", async ({ app, seeded, browser }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  await expect(app.getByText("60 found")).toBeVisible();
  await app.waitForFunction(() => document.querySelector(".dot.live-on") !== null);
  // The same session in another window logs out: its streams end at once, here too.
  const other = await browser.newContext({ storageState: await app.context().storageState() });
  const page = await other.newPage();
  await page.goto(`${seeded.url}/jobs`);
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
  await other.close();
  await expect(app.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
  await app.getByLabel("Token").fill(readFileSync(join(seeded.data, "operate.token"), "utf8").trim());
  await app.getByRole("button", { name: "Log in" }).click();
  await expect(app.getByText("60 found")).toBeVisible();
  expect(app.url()).toContain("/variants?status=");
});

test("a phone can log out", async ({ app, seeded }) => {
  await app.setViewportSize({ width: 390, height: 844 });
  await app.goto(`${seeded.url}/jobs`);
  await app.getByRole("button", { name: "Log out" }).click();
  await expect(app.getByRole("heading", { name: "Log in to fettle" })).toBeVisible();
});

test("a reader sees no actions", async ({ app, seeded }) => {
  await app.route("**/api/v1/session", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...((await response.json()) as object), role: "read" } });
  });
  await app.goto(`${seeded.url}/jobs`);
  await app.goto(seeded.url + (await firstLink(app, "Jobs")));
  await expect(app.getByRole("table", { name: "Candidates" })).toBeVisible();
  await expect(app.getByRole("button", { name: "Resume" })).toHaveCount(0);
});
