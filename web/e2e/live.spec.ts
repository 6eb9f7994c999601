// A real job on this machine's CPU, watched while it runs and while its server is restarted.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { Server, expect, logIn, source, test, watchFaults } from "./fixtures";

test("a live job over a restart of its server, to the bundle of its winner", async ({ page }) => {
  test.setTimeout(420_000);
  const server = new Server();
  try {
    await server.start();
    const faults = watchFaults(page);
    await logIn(page, server);
    await expect(page.getByText("No jobs yet")).toBeVisible();
    await page.waitForFunction(() => document.querySelector(".dot.live-on") !== null);

    const submitted = JSON.parse(
      server.fettle("submit", join(source, "tasks", "histogram"), "--target", "cpu", "--candidates", "6", "--no-watch", "--json"),
    ) as { id: string };
    // The list gets it without being asked.
    const row = page.getByRole("table", { name: "Jobs" }).locator(`a.cover[href='/jobs/${submitted.id}']`);
    await expect(row).toBeVisible();
    await row.click();
    const candidates = page.getByRole("table", { name: "Candidates" });
    await expect(candidates.locator("a.cover").first()).toBeVisible({ timeout: 120_000 });

    await server.stop();
    await expect(page.getByText("The server does not answer.")).toBeVisible();
    expect(await candidates.locator("a.cover").count()).toBeGreaterThan(0);
    await server.start();
    await expect(page.getByText("The server does not answer.")).toBeHidden({ timeout: 30_000 });
    await expect(page.locator(".head .badge", { hasText: "succeeded" })).toBeVisible({ timeout: 300_000 });
    // What the page gathered live is what the server has, each once.
    const job = (await (await page.request.get(`${server.url}/api/v1/jobs/${submitted.id}`)).json()) as {
      job: { candidate_count: number; best_variant_id: string };
    };
    await expect(page.getByRole("button", { name: new RegExp(`^all ${job.job.candidate_count}$`) })).toBeVisible();
    await expect(candidates).toHaveAttribute("aria-rowcount", String(job.job.candidate_count + 1));
    await page.getByRole("tab", { name: "Events" }).click();
    await expect(page.getByRole("tabpanel").getByText("succeeded")).toBeVisible();

    // Its worker told of the device: what the job measured of it, and how it is.
    await page.goto(`${server.url}/devices`);
    await expect(page.locator(".card .badge", { hasText: "ok" }).first()).toBeVisible();
    await expect(page.getByText(/B\/s memory, .*B\/s caches/).first()).toBeVisible();
    await expect(page.getByText("fettle doctor --aa --target cpu").first()).toBeVisible();

    test.skip(job.job.best_variant_id === "", "no candidate beat the declared configuration on this machine");
    await page.goto(`${server.url}/variants/${job.job.best_variant_id}`);
    await expect(page.getByText("power not recorded").or(page.getByText("timed/0")).first()).toBeVisible();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download bundle" }).click()]);
    const tar = gunzipSync(readFileSync(await download.path()));
    expect(download.suggestedFilename()).toBe(`fettle-${job.job.best_variant_id}.tar.gz`);
    expect(tar.includes("manifest.json")).toBe(true);
    expect(faults).toEqual([]);
  } finally {
    await server.close();
  }
});

test("cancels and resumes a job from its page", async ({ page }) => {
  const server = new Server();
  try {
    await server.start("--no-worker"); // It waits for a worker, and so stays open.
    const faults = watchFaults(page);
    await logIn(page, server);
    const { id } = JSON.parse(
      server.fettle("submit", join(source, "tasks", "histogram"), "--target", "cpu", "--candidates", "2", "--no-watch", "--json"),
    ) as { id: string };
    await page.goto(`${server.url}/jobs/${id}`);
    await page.getByRole("button", { name: "Cancel job" }).click();
    await page.getByRole("button", { name: "Yes, cancel it" }).click();
    await expect(page.locator(".head .badge", { hasText: "cancelled" })).toBeVisible();
    await page.getByRole("button", { name: "Resume" }).click();
    await expect(page.locator(".head .badge", { hasText: /running|queued/ })).toBeVisible();
    expect(faults).toEqual([]);
  } finally {
    await server.close();
  }
});
