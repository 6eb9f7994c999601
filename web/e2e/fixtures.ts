// A real server on a data folder of its own, and a browser that is logged in.

import { test as base, expect, type Page } from "@playwright/test";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const source = process.env["FETTLE_SOURCE"] ?? resolve(process.cwd(), "..");
const bin = process.env["FETTLE_BIN"] ?? join(source, "build", "bin");

export class Server {
  readonly home = mkdtempSync(join(tmpdir(), "fettle-web-"));
  readonly data = join(this.home, "data");
  private process: ChildProcess | undefined;
  private port = 0;
  url = "";
  link = "";

  get env(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "",
      HOME: this.home,
      FETTLE_DATA_DIR: this.data,
      XDG_CACHE_HOME: process.env["FETTLE_E2E_CACHE"] ?? join(this.home, "cache"),
      LANG: "C.UTF-8",
    };
  }

  seed(...more: string[]): void {
    execFileSync(join(bin, "seed_store"), ["--data", this.data, "--tasks", join(source, "tasks"), ...more]);
  }

  /** Starts, or starts again on the same port. */
  async start(...more: string[]): Promise<void> {
    const child = spawn(join(bin, "fettle"), ["serve", "--data-dir", this.data, "--http", `127.0.0.1:${this.port}`, ...more], {
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    let output = "";
    await new Promise<void>((done, failed) => {
      const timer = setTimeout(() => failed(new Error(`the server did not start: ${output}`)), 30_000);
      const read = (bytes: Buffer) => {
        output += bytes.toString();
        const found = /dashboard at (\S+)/.exec(output);
        if (!found) return;
        clearTimeout(timer);
        this.link = found[1]!;
        const address = new URL(this.link);
        this.port = Number(address.port);
        this.url = address.origin;
        done();
      };
      child.stdout!.on("data", read);
      child.stderr!.on("data", (bytes: Buffer) => {
        output += bytes.toString();
      });
      child.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${output}`)));
    });
  }

  async stop(): Promise<void> {
    const child = this.process;
    if (!child) return;
    this.process = undefined;
    const gone = new Promise<void>((done) => child.once("exit", () => done()));
    child.kill("SIGTERM");
    await gone;
  }

  fettle(...args: string[]): string {
    return execFileSync(join(bin, "fettle"), args, { env: this.env, encoding: "utf8" });
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Faults that the browser itself saw; a test that does not expect any checks that there are none. */
export function watchFaults(page: Page): string[] {
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    // A refused call is the page's business, and shown by it.
    if (message.type() === "error" && !text.includes("Failed to load resource")) faults.push(`console: ${text}`);
  });
  return faults;
}

export async function logIn(page: Page, server: Server): Promise<void> {
  await page.goto(server.link);
  await expect(page).toHaveURL(`${server.url}/jobs`);
}

interface Fixtures {
  app: Page; // Logged in at the small seeded server.
  faults: string[];
}
interface WorkerFixtures {
  seeded: Server;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  seeded: [
    async ({}, use) => {
      const server = new Server();
      server.seed("--jobs", "12", "--candidates", "1200", "--variants", "60");
      await server.start("--no-worker");
      await use(server);
      await server.close();
    },
    { scope: "worker" },
  ],
  faults: async ({ page }, use) => {
    const faults = watchFaults(page);
    await use(faults);
    expect(faults).toEqual([]);
  },
  app: async ({ page, seeded, faults }, use) => {
    void faults;
    await logIn(page, seeded);
    await use(page);
  },
});

export { expect };

/** The first link to a thing of that kind on a list page. */
export async function firstLink(page: Page, label: string): Promise<string> {
  const link = page.getByRole("table", { name: label }).locator("a.cover").first();
  await expect(link).toBeVisible();
  return (await link.getAttribute("href"))!;
}
