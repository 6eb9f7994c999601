// Text from outside in every field: it is shown as text, and does nothing.

import type { Page } from "@playwright/test";
import { Server, expect, firstLink, logIn, test, watchFaults } from "./fixtures";

async function harmless(page: Page, where: string): Promise<void> {
  const foreign = await page.evaluate(() => ({
    scripts: [...document.scripts].filter((script) => !script.src.startsWith(location.origin)).length,
    images: [...document.images].filter((image) => !image.src.startsWith(location.origin)).length,
    links: [...document.links].filter((link) => link.protocol !== location.protocol).map((link) => link.href),
    handlers: document.querySelectorAll("[onload],[onerror],[onclick]").length,
  }));
  expect(foreign, where).toEqual({ scripts: 0, images: 0, links: [], handlers: 0 });
}

test("hostile strings stay text on every page", async ({ page }) => {
  test.setTimeout(180_000);
  const server = new Server();
  try {
    server.seed("--jobs", "6", "--candidates", "120", "--variants", "18", "--hostile");
    await server.start("--no-worker");
    const faults = watchFaults(page);
    await logIn(page, server);
    const job = await firstLink(page, "Jobs");
    await expect(page.getByRole("table", { name: "Jobs" })).toContainText("<script>alert(1)</script>");
    await harmless(page, "jobs");
    await page.goto(`${server.url}/variants?status=`);
    const variant = await firstLink(page, "Variants");
    await harmless(page, "variants");
    const tabs = async (path: string, names: string[]) => {
      for (const name of names) {
        await page.goto(`${server.url}${path}?tab=${name}`);
        await expect(page.getByRole("tabpanel")).toContainText(/\S/);
        await expect(page.locator("main")).toContainText("<script>alert(1)</script>");
        await harmless(page, `${path} ${name}`);
      }
    };
    await tabs(job, ["candidates", "tree", "conversation", "events", "about"]);
    await tabs(variant, ["evidence", "source", "diff", "facts", "provenance", "reproduce"]);
    // What models said, and what they called.
    const listed = (await (await page.request.get(`${server.url}/api/v1/jobs?limit=100`)).json()) as { jobs: { id: string; proposer: string }[] };
    await page.goto(`${server.url}/jobs/${listed.jobs.find((one) => one.proposer === "llm")!.id}?tab=conversation`);
    await page.locator("summary").first().click();
    await expect(page.locator(".turns pre", { hasText: "<script>alert(1)</script>" }).first()).toBeVisible();
    for (const summary of await page.locator(".turns .turns summary").all()) await summary.click();
    await harmless(page, "conversation");
    await page.goto(`${server.url}${variant}?tab=facts`);
    for (const summary of await page.locator("summary").all()) await summary.click();
    await harmless(page, "compiler log");
    await page.goto(server.url + job);
    const candidate = (await page.getByRole("table", { name: "Candidates" }).locator("a.cover").first().getAttribute("href"))!;
    await tabs(candidate, ["evidence", "source", "builds"]);
    const id = variant.split("/").pop()!;
    for (const path of [`/compare?ids=${id}`, "/roofline", "/devices", `/variants?q=${encodeURIComponent("<img src=x onerror=alert(1)>")}`, `/jobs/${encodeURIComponent("<script>")}`]) {
      await page.goto(server.url + path);
      await expect(page.locator("main h1, main h2").first()).toBeVisible();
      await harmless(page, path);
    }
    const csv = await page.request.get(`${server.url}/api/v1/variants.csv?status=`);
    for (const line of (await csv.text()).split("\r\n")) expect(line).not.toMatch(/(^|,)"?[=+@]/);
    expect(faults).toEqual([]);
  } finally {
    await server.close();
  }
});
