// Every page: its heading, its contents, both themes, a phone, and an accessibility checker.

import AxeBuilder from "@axe-core/playwright";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, firstLink, test } from "./fixtures";

const shots = process.env["FETTLE_SCREENSHOTS"];

async function visit(page: Page, url: string): Promise<{ name: string; path: string; ready: () => Promise<void> }[]> {
  await page.goto(`${url}/jobs`);
  const job = await firstLink(page, "Jobs");
  await page.goto(`${url}/variants`);
  const variant = await firstLink(page, "Variants");
  const ids = await page.getByRole("table", { name: "Variants" }).locator("a.cover").evaluateAll((links) => links.slice(0, 3).map((link) => link.getAttribute("href")!.split("/").pop()));
  const listed = (await (await page.request.get(`${url}/api/v1/jobs?limit=100`)).json()) as { jobs: { id: string; proposer: string }[] };
  const asked = listed.jobs.find((one) => one.proposer === "llm")!.id;
  await page.goto(url + job);
  const candidate = await firstLink(page, "Candidates");
  const heading = (name: string | RegExp) => async () => expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
  const tab = (name: string, text: string | RegExp) => async () => {
    await expect(page.getByRole("tab", { name, exact: true })).toHaveAttribute("aria-selected", "true");
    await expect(page.getByRole("tabpanel").getByText(text).first()).toBeVisible();
  };
  return [
    { name: "jobs", path: "/jobs", ready: heading("Jobs") },
    { name: "job", path: job, ready: async () => expect(page.getByRole("table", { name: "Candidates" }).locator("a.cover").first()).toBeVisible() },
    { name: "job-tree", path: `${job}?tab=tree`, ready: tab("Tree of parents", "candidates: what won") },
    { name: "job-conversation", path: `${job}?tab=conversation`, ready: tab("Conversation", "asks no model") },
    { name: "job-rounds", path: `/jobs/${asked}?tab=conversation`, ready: tab("Conversation", "Round 2") },
    { name: "candidate", path: candidate, ready: heading(/Candidate \d+/) },
    { name: "job-events", path: `${job}?tab=events`, ready: tab("Events", "succeeded") },
    { name: "job-about", path: `${job}?tab=about`, ready: tab("About", "Toolchain") },
    { name: "variants", path: "/variants", ready: heading("Variants") },
    { name: "variant", path: variant, ready: tab("Evidence", "timed/0") },
    { name: "variant-source", path: `${variant}?tab=source`, ready: tab("Source", "__global__") },
    { name: "variant-diff", path: `${variant}?tab=diff`, ready: tab("Diff", /lines? added|sources are equal/) },
    { name: "variant-facts", path: `${variant}?tab=facts`, ready: tab("Facts", "registers") },
    { name: "variant-provenance", path: `${variant}?tab=provenance`, ready: tab("Provenance", "Where it comes from") },
    { name: "variant-reproduce", path: `${variant}?tab=reproduce`, ready: tab("Reproduce", "fettle verify") },
    { name: "compare", path: `/compare?ids=${ids.join(",")}`, ready: async () => expect(page.getByText("All cases")).toBeVisible() },
    { name: "roofline", path: "/roofline", ready: async () => expect(page.getByRole("table", { name: "Timed cases" }).locator("a.cover").first()).toBeVisible() },
    { name: "devices", path: "/devices", ready: async () => expect(page.getByText("A/A spread").first()).toBeVisible() },
    { name: "login", path: "/login", ready: heading("Log in to fettle") },
    { name: "missing-job", path: "/jobs/unknown", ready: async () => expect(page.getByRole("heading", { name: "Not found" })).toBeVisible() },
    { name: "no-page", path: "/nothing", ready: async () => expect(page.getByText("There is no such page")).toBeVisible() },
  ];
}

for (const theme of ["light", "dark"] as const) {
  for (const [size, viewport] of [
    ["wide", { width: 1280, height: 800 }],
    ["phone", { width: 390, height: 844 }],
  ] as const) {
    test(`all pages, ${theme}, ${size}`, async ({ app, seeded }) => {
      test.setTimeout(480_000); // Of a busy machine; a fifth of it otherwise.
      const pages = (await visit(app, seeded.url)).map((one) => ({ ...one, path: seeded.url + one.path }));
      await app.emulateMedia({ colorScheme: theme });
      await app.setViewportSize(viewport);
      for (const one of pages) {
        await app.goto(one.path);
        await one.ready();
        const wide = await app.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(wide, `${one.name} scrolls sideways`).toBeLessThanOrEqual(0);
        if (shots) {
          await app.waitForTimeout(250); // Plots draw in a frame of their own.
          await app.screenshot({ path: join(shots, `${one.name}-${theme}-${size}.png`), fullPage: true });
        }
        const found = await new AxeBuilder({ page: app }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]).analyze();
        const serious = found.violations
          .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
          .map((violation) => `${one.name}: ${violation.id}: ${violation.nodes[0]?.html ?? ""}`);
        expect(serious).toEqual([]);
      }
    });
  }
}

test("empty, loading, error and disconnected states", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/jobs?state=queued`);
  await expect(app.getByText("No job fits")).toBeVisible();
  await app.getByRole("button", { name: "Show all jobs" }).click();
  await expect(app.getByRole("table", { name: "Jobs" }).locator("a.cover").first()).toBeVisible();
  await app.goto(`${seeded.url}/variants?q=nothingsuch`);
  await expect(app.getByText("No variant fits")).toBeVisible();
  await app.goto(`${seeded.url}/devices`);
  await expect(app.getByText("No worker is connected")).toBeVisible();

  await app.route("**/api/v1/variants?*", async (route) => {
    await new Promise((done) => setTimeout(done, 1_500));
    await route.fulfill({ status: 500, json: { error: { code: "INTERNAL", message: "made up for this test" } } });
  });
  await app.goto(`${seeded.url}/variants?target=cpu`);
  await expect(app.locator("[aria-busy=true]")).toBeVisible();
  await app.unroute("**/api/v1/variants?*");
  await app.route("**/api/v1/variants?*", (route) => route.fulfill({ status: 400, json: { error: { code: "INVALID_ARGUMENT", message: "made up for this test" } } }));
  await app.goto(`${seeded.url}/variants?target=sm_90a`);
  await expect(app.getByText("made up for this test")).toBeVisible();
  await app.unroute("**/api/v1/variants?*");
  await app.getByRole("button", { name: "Try again" }).click();
  await expect(app.getByRole("table", { name: "Variants" }).locator("a.cover").first()).toBeVisible();
});

test("devices show health, A/A rate, ceilings and drift", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/devices`);
  const card = app.locator(".card", { has: app.getByRole("heading", { name: "Seeded GPU" }) });
  await expect(card.locator(".badge", { hasText: "ok" })).toBeVisible();
  await expect(card.getByText("4.00 TB/s memory, 9.10 TB/s caches, 960 Tflop/s 16-bit matrix, 1.92 Pflop/s 8-bit matrix")).toBeVisible();
  await expect(card.getByText(/0 false wins in 40 \(0\.0 %\)/)).toBeVisible();
  await expect(card.getByRole("img", { name: /Drift of the baseline's time/ })).toBeVisible();
  const other = app.locator(".card", { has: app.getByRole("heading", { name: "Seeded AMD GPU" }) });
  await expect(other.locator(".badge", { hasText: "suspect" })).toBeVisible();
  await expect(other.getByText("fettle doctor --aa --target gfx950")).toBeVisible();
});

test("the roofline is under the ceilings that a worker measured", async ({ app, seeded }) => {
  await app.goto(`${seeded.url}/roofline?target=sm_90a`);
  await expect(app.getByText("measured on seeded", { exact: true }).first()).toBeVisible();
  await expect(app.getByRole("img", { name: /ceilings: memory 4\.00 TB\/s, caches 9\.10 TB\/s, 16-bit matrix 960 Tflop\/s/ })).toBeVisible();
  await app.getByLabel("Operator", { exact: true }).selectOption({ index: 1 });
  await expect(app).toHaveURL(/task=/);
  await expect(app.getByRole("table", { name: "Timed cases" }).locator("a.cover").first()).toBeVisible();
});
