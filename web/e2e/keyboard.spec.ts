import { expect, test } from "./fixtures";

test("a list is sorted and chosen from, and a diff is read, with the keyboard alone", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  const rows = app.getByRole("table", { name: "Variants" });
  await expect(rows.locator("a.cover").first()).toBeVisible();
  const reach = async (what: () => Promise<boolean>) => {
    for (let i = 0; i < 60; i += 1) {
      if (await what()) return;
      await app.keyboard.press("Tab");
    }
    throw new Error("not reached within 60 steps");
  };
  await reach(() => app.evaluate(() => document.activeElement?.textContent?.startsWith("Speed-up") ?? false));
  await app.keyboard.press("Enter");
  await expect(app).toHaveURL(/sort=-ratio/);
  await reach(() => app.evaluate(() => (document.activeElement as HTMLInputElement | null)?.type === "checkbox"));
  await app.keyboard.press("Space");
  await expect(app.getByRole("link", { name: "Compare 1" })).toBeVisible();
  await reach(() => app.evaluate(() => document.activeElement?.classList.contains("cover") ?? false));
  await app.keyboard.press("Enter");
  await expect(app.getByRole("tab", { name: "Evidence" })).toBeVisible();
  await reach(() => app.evaluate(() => document.activeElement?.getAttribute("role") === "tab"));
  await app.keyboard.press("ArrowRight");
  await app.keyboard.press("ArrowRight");
  await expect(app).toHaveURL(/tab=diff/);
  await reach(() => app.evaluate(() => document.activeElement?.getAttribute("aria-label") === "Compare the source with"));
  await app.keyboard.press("ArrowDown");
  await expect(app).toHaveURL(/against=denominator/);
  await reach(() => app.evaluate(() => document.activeElement?.classList.contains("diff") ?? false));
});

test("everything is reached with the keyboard alone", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/jobs`);
  const rows = app.getByRole("table", { name: "Jobs" });
  await expect(rows.locator("a.cover").first()).toBeVisible();
  await app.keyboard.press("Tab");
  await expect(app.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  // Along the page's parts to the first row.
  for (let i = 0; i < 40; i += 1) {
    await app.keyboard.press("Tab");
    if (await app.evaluate(() => document.activeElement?.classList.contains("cover"))) break;
  }
  await expect(rows.locator("a.cover").first()).toBeFocused();
  await app.keyboard.press("ArrowDown");
  await expect(rows.locator("[data-index='1'] a.cover")).toBeFocused();
  await app.keyboard.press("End");
  await expect(rows.locator("[data-index='11'] a.cover")).toBeFocused();
  await app.keyboard.press("Home");
  await expect(rows.locator("[data-index='0'] a.cover")).toBeFocused();
  await app.keyboard.press("Enter");
  await expect(app.getByRole("table", { name: "Candidates" })).toBeVisible();
  // Tabs by arrow keys.
  await app.getByRole("tab", { name: "Candidates" }).focus();
  await app.keyboard.press("ArrowRight");
  await expect(app.getByRole("tab", { name: "Tree of parents" })).toBeFocused();
  await expect(app).toHaveURL(/tab=tree/);
  await app.keyboard.press("ArrowLeft");
  await app.keyboard.press("ArrowLeft");
  await expect(app.getByRole("tab", { name: "About" })).toBeFocused();
  // The theme.
  const theme = app.getByRole("button", { name: /Theme/ });
  await theme.focus();
  await app.keyboard.press("Enter");
  await app.keyboard.press("Enter");
  await expect(app.locator("html")).toHaveAttribute("data-theme", "dark");
  await app.reload();
  await expect(app.locator("html")).toHaveAttribute("data-theme", "dark");
  // What has the focus shows it. There is nothing to reach before the page is there again.
  await expect(app.getByRole("tab", { name: "About" })).toBeVisible();
  await app.keyboard.press("Tab");
  await app.keyboard.press("Tab");
  expect(await app.evaluate(() => getComputedStyle(document.activeElement!).outlineStyle)).not.toBe("none");
});
