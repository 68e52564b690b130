// Drives Chromium through the console: node browser.mjs FOLDER TASK. FOLDER has playwright-core and axe-core; TASK is JSON.
// The last line of standard output is the result.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";

const [, , folder, text] = process.argv;
const task = JSON.parse(text);
const require = createRequire(path.join(path.resolve(folder), "index.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const faults = [];
const fault = (where, what) => faults.push(`${where}: ${what}`);
const of = encodeURIComponent(task.origin);
const changing = encodeURIComponent(task.changing);

// [name, path], without the pages that need script.
const PAGES = [
  ["overview", "/"],
  ["denials", "/denials"],
  ["denials-by-rule", "/denials?view=rule"],
  ["review", "/denials/acknowledge?verdict=deny"],
  ["decision", `/decisions/${task.decision}`],
  ["origins", "/origins"],
  ["origin", `/origin?of=${of}`],
  ["forget", `/origin/forget?of=${of}`],
  ["overrides", "/overrides"],
  ["report", "/report"],
  ["try", "/try"],
  ["live", "/watch"],
  ["setup", "/setup"],
  ["problem", "/nowhere"],
];

const browser = await chromium.launch({
  executablePath: task.chromium,
  headless: true,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
  ],
});

try {
  for (const scheme of ["light", "dark"]) await look(scheme);
  await review();
  await watch();
  await withoutScript();
} catch (error) {
  fault("the script", error.stack ?? String(error));
}
await browser.close();
console.log(JSON.stringify({ ok: faults.length === 0, faults }));

// Opens a page that reports its errors and its requests to other hosts.
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(20_000);
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${task.console}/`) && !url.startsWith("data:")) fault("a request", url);
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    // The browser reports the page that is meant to be missing.
    if (message.type() === "error" && !message.text().includes("404")) {
      fault(page.url(), `console: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => fault(page.url(), `script: ${error}`));
  return { context, page };
}

async function go(page, target) {
  const answer = await page.goto(task.console + target, { waitUntil: "load" });
  const expected = target === "/nowhere" ? 404 : 200;
  if (answer.status() !== expected) fault(target, `status ${answer.status()}`);
  if ((await page.locator("h1").count()) !== 1) fault(target, "not one heading");
}

// Checks the look and the accessibility of every page.
async function look(scheme) {
  const { context, page } = await open({ colorScheme: scheme });
  for (const [name, target] of PAGES) {
    await go(page, target);
    await check(page, `${name}, ${scheme}`);
    if (scheme === "light") await picture(page, name);
    else if (name === "overview" || name === "decision") await picture(page, `${name}-dark`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    if (wide) fault(`${name}, ${scheme}`, "it is wider than the window");
  }
  await go(page, "/");
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => document.activeElement?.className);
  if (skip !== "skip") fault("/", `the first tab stop is ${skip}`);
  await page.keyboard.press("Enter");
  if (!page.url().endsWith("#main")) fault("/", "the skip link leads nowhere");
  await context.close();
}

async function check(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html).join(" | ")}`);
  });
  for (const one of found) fault(where, `axe: ${one}`);
}

async function picture(page, name) {
  if (task.screenshots) await page.screenshot({ path: path.join(task.screenshots, `${name}.png`) });
}

// Acknowledges a denial from the list; then adds an override and sends the request that it allows.
async function review() {
  const { context, page } = await open({ colorScheme: "light" });
  await go(page, "/");
  await page.getByRole("link", { name: "Denials", exact: true }).click();
  await page.getByLabel("Path pattern").fill("/private/diary");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.locator("tbody tr a").first().click();
  await page.waitForURL(`**/decisions/${task.decision}*`);
  const deciding = page.locator("tr.decides code").filter({ hasText: "Disallow: /private" });
  if ((await deciding.count()) === 0) fault("the decision", "the deciding line is not marked");
  if (!(await page.locator(".say.good").first().innerText()).startsWith("proven")) {
    fault("the decision", "it is not proven");
  }
  const acknowledge = page.locator("form[action$='/acknowledge']");
  await acknowledge.getByLabel("Your name").fill("Ada");
  await acknowledge.getByLabel("Note").fill("seen in the browser");
  await acknowledge.getByRole("button").click();
  await page.getByText("It is acknowledged.").waitFor();
  await picture(page, "decision-acknowledged");

  if ((await ask("/private/diary")) !== 403) fault("before the override", "the request was not denied");
  const form = page.locator("form[action='/overrides']");
  await form.getByLabel("Until").fill("30d");
  await form.getByLabel("Your name").fill("Ada");
  await form.getByLabel("Reason").fill("a letter of the site's owner");
  await form.getByRole("button").click();
  await page.getByText("holds from the next request on").waitFor();
  if ((await ask("/private/diary")) !== 200) fault("after the override", "the next request was not let through");
  await check(page, "overrides, with one in force");
  await picture(page, "overrides-added");

  await go(page, `/origin?of=${changing}`);
  await page.getByRole("button", { name: "Refresh now" }).click();
  await page.getByText("Its documents were fetched.").waitFor();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByText("− Disallow: /old").waitFor();
  await check(page, "a difference");
  await picture(page, "diff");

  await go(page, "/try");
  await page.getByLabel("URL", { exact: true }).fill("https://site.example/private/open/../x.pdf");
  await page.getByLabel("Agent").fill("ExampleBot");
  await page.getByLabel("robots.txt").fill("User-agent: ExampleBot\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.pdf$\n");
  await page.getByRole("button", { name: "Judge it" }).click();
  await page.getByRole("heading", { name: "Verdict" }).waitFor();
  await check(page, "a verdict");
  await picture(page, "try-verdict");
  await context.close();
}

// Checks that decisions appear as they happen, but not while the page is paused.
async function watch() {
  const { context, page } = await open({ colorScheme: "light" });
  await go(page, "/watch");
  await page.locator("#live-state", { hasText: "watching" }).waitFor();
  await ask("/private/seen-live");
  const row = (name) => page.locator("#live-rows tr", { hasText: name });
  await row("/private/seen-live").waitFor();
  await picture(page, "live-watching");
  await page.getByRole("button", { name: "Pause" }).click();
  await ask("/private/while-paused");
  await page.locator("#live-state", { hasText: "1 came meanwhile" }).waitFor();
  if ((await row("/private/while-paused").count()) !== 0) fault("/watch", "it goes on while it is paused");
  await check(page, "live, paused");
  await page.getByRole("button", { name: "Go on" }).click();
  await row("/private/while-paused").waitFor();
  await row("/private/while-paused").getByRole("link").click();
  await page.getByRole("heading", { name: "Proof" }).waitFor();
  await context.close();
}

// Checks that everything works without script, except that the live page gets no new rows.
async function withoutScript() {
  const { context, page } = await open({ javaScriptEnabled: false });
  for (const [, target] of PAGES) await go(page, target);
  await go(page, "/watch");
  await page.getByText("Without script these are the latest").waitFor();
  await page.getByText("/private/while-paused").first().waitFor();
  await go(page, "/overrides");
  await page.getByLabel("Your name, to take out").first().fill("Ada");
  await page.getByRole("button", { name: "Remove" }).first().click();
  await page.getByText("is out of force").waitFor();
  if ((await ask("/private/diary")) !== 403) fault("without the override", "the request was not denied");
  await go(page, `/origin/forget?of=${changing}`);
  await page.getByRole("button", { name: "Forget it" }).click();
  await page.getByText("is forgotten").waitFor();
  await context.close();
}

// Checks the answer to a crawler.
function ask(target) {
  const [host, port] = task.proxy.split(":");
  const url = task.origin + target;
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host, port, path: url, method: "GET", headers: { Host: new URL(url).host, "User-Agent": "ExampleBot/1.0" } },
      (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode));
      },
    );
    request.on("error", reject);
    request.end();
  });
}
