import { readFileSync } from "node:fs";
import { expect, firstLink, test } from "./fixtures";

test("searches, filters and sorts, all of it in the address", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants`);
  const rows = app.getByRole("table", { name: "Variants" });
  await expect(rows.locator("a.cover").first()).toBeVisible();
  await app.getByLabel("Status", { exact: true }).selectOption("");
  await expect(app.getByText("60 found")).toBeVisible();
  await app.getByLabel("Target", { exact: true }).selectOption("gfx950");
  await expect(app).toHaveURL(/target=gfx950/);
  await expect(app.getByText("60 found")).toBeHidden();
  await app.getByLabel("Search operators, ids, values").fill("softmax");
  await expect(app).toHaveURL(/q=softmax/);
  await app.getByLabel("Search operators, ids, values").fill("");
  await expect(app).not.toHaveURL(/q=/);
  await app.getByRole("button", { name: "Speed-up" }).click();
  await expect(app).toHaveURL(/sort=-ratio/);
  await expect(app.getByRole("columnheader", { name: /Speed-up/ })).toHaveAttribute("aria-sort", "descending");
  const shown = async () => (await rows.locator(".speed > :first-child").allTextContents()).map((text) => parseFloat(text));
  await expect.poll(async () => (await shown()).every((value, i, all) => i === 0 || all[i - 1]! >= value)).toBe(true);
  const address = app.url();
  await app.goto(`${seeded.url}/jobs`);
  await app.goto(address);
  await expect(app.getByLabel("Target", { exact: true })).toHaveValue("gfx950");
  await expect(app.getByRole("columnheader", { name: /Speed-up/ })).toHaveAttribute("aria-sort", "descending");
  // To a variant and back: the filters are as they were.
  await app.goto(seeded.url + (await firstLink(app, "Variants")));
  await app.goBack();
  await expect(app.getByLabel("Target", { exact: true })).toHaveValue("gfx950");
});

test("exports what is found as CSV", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?target=gfx950&status=`);
  await expect(app.getByRole("table", { name: "Variants" }).locator("a.cover").first()).toBeVisible();
  const [download] = await Promise.all([app.waitForEvent("download"), app.getByRole("link", { name: "Export CSV" }).click()]);
  expect(download.suggestedFilename()).toBe("fettle-variants.csv");
  const lines = readFileSync(await download.path(), "utf8").trim().split("\r\n");
  expect(lines[0]).toContain("id,task,target");
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.slice(1).every((line) => line.includes(",gfx950,"))).toBe(true);
});

test("compares chosen variants, and adds more", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  const boxes = app.getByRole("checkbox");
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await app.getByRole("link", { name: "Compare 2" }).click();
  await expect(app.getByText("All cases")).toBeVisible();
  await expect(app.locator("thead th").filter({ hasText: "sm_90a" }).or(app.locator("thead th").filter({ hasText: "gfx950" })).first()).toBeVisible();
  const add = app.getByLabel("Add a variant");
  const before = await app.locator("table").first().locator("thead th").count();
  await add.selectOption({ index: 1 });
  await expect(app.locator("table").first().locator("thead th")).toHaveCount(before + 1);
});

test("compares two targets by kernel family", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/compare?left=gfx950&right=sm_90a`);
  const region = app.getByRole("region", { name: "Latency ratio by kernel family" });
  await expect(region.getByRole("columnheader", { name: "Time gfx950 / sm_90a" })).toBeVisible();
  const rows = region.locator("tbody tr");
  expect(await rows.count()).toBeGreaterThanOrEqual(2);
  await expect(rows.first()).toContainText(/is faster/);
  await app.goto(`${seeded.url}/compare?left=gfx950&right=gfx950`);
  await expect(app.getByText("Choose two different targets.")).toBeVisible();
});

test("shows a diff with the baseline, with the parent and with any variant", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  await app.goto(`${seeded.url}${await firstLink(app, "Variants")}?tab=diff`);
  await expect(app.getByText(/lines? added|sources are equal/)).toBeVisible();
  const against = app.getByLabel("Compare the source with");
  await against.selectOption("denominator");
  await expect(app.getByText("what it was measured against").last()).toBeVisible();
  const options = await against.locator("option").evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value));
  const other = options.find((value) => value.startsWith("v"));
  if (other) {
    await against.selectOption(other);
    await expect(app).toHaveURL(new RegExp(`against=${other}`));
    await expect(app.getByRole("columnheader", { name: `variant ${other}` })).toBeVisible();
  }
  if (options.includes("parent")) {
    await against.selectOption("parent");
    await expect(app.getByRole("columnheader", { name: /parent #/ })).toBeVisible();
  }
});

test("shows samples, clocks and power of a case", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  await app.goto(seeded.url + (await firstLink(app, "Variants")));
  await app.getByRole("button", { name: "Samples" }).first().click();
  await expect(app.getByRole("img", { name: /Samples of case timed\/0/ })).toBeVisible();
  await expect(app.getByRole("img", { name: "Clock and power of case timed/0 by block" })).toBeVisible();
  await expect(app.getByText(/clock 1\.\d+–1\.\d+ GHz · power \d+–\d+ W/)).toBeVisible();
});

test("shows what the tools of compute-sanitizer said", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/variants?status=`);
  await app.goto(seeded.url + (await firstLink(app, "Variants")));
  const rows = app.getByRole("region", { name: "Tools of compute-sanitizer" }).locator("tbody tr");
  await expect(rows).toHaveText([/^initchecknot runseeded$/, /^memcheckpassed–$/, /^racecheckpassedseeded$/, /^synccheckpassed–$/]);
});

test("filters candidates by verdict and opens one", async ({ app, seeded }) => {
  await app.goto(seeded.url + (await firstLink(app, "Jobs")));
  await app.getByRole("button", { name: /^win/ }).click();
  await expect(app).toHaveURL(/verdict=WIN/);
  const badges = app.getByRole("table", { name: "Candidates" }).locator(".badge");
  await expect(badges.first()).toHaveText("win");
  expect(new Set(await badges.allTextContents())).toEqual(new Set(["win"]));
  await app.getByRole("table", { name: "Candidates" }).locator("a.cover").first().click();
  await expect(app.getByRole("heading", { level: 1, name: /Candidate \d+/ })).toBeVisible();
  await app.getByRole("tab", { name: "Source" }).click();
  await expect(app.getByText("__global__").first()).toBeVisible();
  const digest = app.url().split("/").pop()!.split("?")[0]!;
  await app.getByText("accepted as").getByRole("link").click();
  await expect(app.getByRole("tab", { name: "Evidence" })).toBeVisible();
  await app.getByRole("tab", { name: "Provenance" }).click();
  await expect(app.getByRole("link", { name: digest.slice(0, 12) })).toBeVisible();
});

test("copies an id", async ({ app, seeded, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const path = await firstLink(app, "Jobs");
  await app.goto(seeded.url + path);
  const id = path.split("/").pop()!;
  await app.getByRole("button", { name: id }).first().click();
  expect(await app.evaluate(() => navigator.clipboard.readText())).toBe(id);
});
