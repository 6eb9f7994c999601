// Milliseconds from navigating to a list page until its first row can be clicked, in Debian's
// Chromium: node page_times.mjs LOGIN_LINK REPEATS PATH=LABEL ... Prints one JSON object.

import { chromium } from "playwright-core";

const [link, repeats, ...pages] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env["FETTLE_CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(link);
await page.waitForURL("**/jobs");
const times = {};
for (const one of pages) {
  const at = one.lastIndexOf("=");
  const path = one.slice(0, at);
  times[path] = [];
  for (let i = 0; i < Number(repeats); i += 1) {
    await page.goto("about:blank");
    const begin = performance.now();
    await page.goto(new URL(link).origin + path, { waitUntil: "commit" });
    await page.getByRole("table", { name: one.slice(at + 1) }).locator("a.cover").first().click({ trial: true });
    times[path].push(Math.round(performance.now() - begin));
  }
}
await browser.close();
console.log(JSON.stringify(times));
