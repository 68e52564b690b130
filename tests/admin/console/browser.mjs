// Drives Chromium through the console: node browser.mjs FOLDER TASK. FOLDER has playwright-core and axe-core; TASK is JSON.
// The last line of standard output is the result.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { palette } from "./pictures.mjs";

const [, , folder, text] = process.argv;
const task = JSON.parse(text);
const require = createRequire(path.join(path.resolve(folder), "index.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const faults = [];
const fault = (where, what) => faults.push(`${where}: ${what}`);
const of = encodeURIComponent(task.origin);
const changing = encodeURIComponent(task.changing);

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 390, height: 844 };

// [name, path], without the pages that need script.
const PAGES = [
  ["overview", "/"],
  ["denials", "/denials"],
  ["denials-by-rule", "/denials?view=rule"],
  ["denials-by-reason", "/denials?view=reason"],
  ["denials-of-a-filter", "/denials?verdict=any&origin=127.0.0.1"],
  ["review", "/denials/acknowledge?verdict=deny"],
  ["decision", `/decisions/${task.decision}`],
  ["decision-of-use", `/decisions/${task.reserved}`],
  ["origins", "/origins"],
  ["origin", `/origin?of=${of}`],
  ["origin-unreachable", `/origin?of=${encodeURIComponent(task.dead)}`],
  ["robots", `/robots/${task.robots}`],
  ["forget", `/origin/forget?of=${of}`],
  ["overrides", "/overrides"],
  ["report", "/report"],
  ["try", "/try"],
  ["live", "/watch"],
  ["setup", "/setup"],
  ["problem", "/nowhere"],
];

// The pages of a console that knows nothing yet, and has no store.
const EMPTY = ["/", "/denials", "/denials?view=origin", "/origins", "/overrides", "/report", "/watch", "/fleet"];
const WITHOUT_STORE = ["/", "/denials", "/origins", "/overrides", "/report", "/watch"];

// Pages with a picture in the documentation, and those with one in dark.
const PICTURED = ["overview", "denials", "denials-by-rule", "decision", "origins", "origin", "overrides", "try", "live", "setup"];
const PICTURED_DARK = ["overview", "decision"];

// Time for each step. Generous, because test machines are slow and shared.
const PATIENCE = 120_000;

const browser = await chromium.launch({
  executablePath: task.chromium,
  timeout: PATIENCE,
  headless: true,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    // Grey edges of letters: fewer colours in a picture.
    "--disable-lcd-text",
  ],
});

const ALL = [look, lookAtEmptyPages, foldsAndCards, faultyFields, linksThatJudge, review, watch, withoutScript];

try {
  for (const step of task.user ? [signIn] : ALL) await step();
} catch (error) {
  fault("the script", error.stack ?? String(error));
}
await browser.close();
console.log(JSON.stringify({ ok: faults.length === 0, faults }));

// Opens a page that reports its errors and its requests to other hosts.
async function open(options) {
  const context = await browser.newContext({ viewport: WIDE, ...options });
  context.setDefaultTimeout(PATIENCE);
  context.on("request", (request) => {
    // Without the name and the password of the user that signs in.
    const url = request.url().replace(/^http:\/\/[^/@]*@/, "http://");
    const ours = [task.console, task.empty, task.without_store, task.public];
    if (!ours.some((one) => url.startsWith(`${one}/`)) && !url.startsWith("data:")) fault("a request", url);
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    // The browser reports the page that is meant to be missing, the forms with faults, and what a user may not do.
    if (message.type() === "error" && !/40[0134]/.test(message.text())) {
      fault(page.url(), `console: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => fault(page.url(), `script: ${error}`));
  return { context, page };
}

async function go(page, target, status = target === "/nowhere" ? 404 : 200) {
  const answer = await page.goto(target.startsWith("http") ? target : task.console + target, { waitUntil: "load" });
  if (answer.status() !== status) fault(target, `status ${answer.status()}`);
  if ((await page.locator("h1").count()) !== 1) fault(target, "not one heading");
}

// Checks the look and the accessibility of every page, and takes its picture.
async function look() {
  const { context, page } = await open({ colorScheme: "light" });
  for (const [name, target] of PAGES) {
    await go(page, target);
    await check(page, name);
    if (PICTURED.includes(name)) await picture(page, name);
    if (PICTURED_DARK.includes(name)) {
      await page.emulateMedia({ colorScheme: "dark" });
      await picture(page, `${name}-dark`);
      await page.emulateMedia({ colorScheme: "light" });
    }
  }
  await go(page, "/");
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => document.activeElement?.className);
  if (skip !== "skip") fault("/", `the first tab stop is ${skip}`);
  await page.keyboard.press("Enter");
  // Playwright learns the new address by an event, perhaps after the key.
  const led = await page.waitForFunction(() => location.hash === "#main").catch(() => null);
  if (!led) fault("/", "the skip link leads nowhere");

  await go(page, `/robots/${task.robots}`);
  const lines = page.locator("table.lines a");
  const stops = await lines.evaluateAll((links) => links.filter((link) => link.tabIndex >= 0).length);
  if ((await lines.count()) === 0 || stops > 0) fault("a robots.txt", `${stops} line numbers are tab stops`);
  await context.close();
}

async function lookAtEmptyPages() {
  const { context, page } = await open({ colorScheme: "light" });
  for (const target of EMPTY) {
    await go(page, task.empty + target);
    await check(page, `empty ${target}`);
  }
  for (const target of WITHOUT_STORE) {
    await go(page, task.without_store + target);
    await check(page, `without a store ${target}`);
  }
  for (const target of ["/try", "/try?url=http%3A%2F%2F127.0.0.1%2Fx&agent=ExampleBot"]) {
    await go(page, task.public + target);
    await check(page, `the public page ${target}`);
  }
  await context.close();
}

// Sets the size of the window. The page learns it by a message, perhaps after Playwright has its answer.
async function resize(page, size) {
  await page.setViewportSize(size);
  await page.waitForFunction(({ width, height }) => innerWidth === width && innerHeight === height, size);
}

// Checks a page in both widths and both schemes: all rules of axe once for each width, contrast for each scheme.
async function check(page, where) {
  // What a click has led to may be visible before its style is there.
  await page.waitForLoadState();
  await page.evaluate(axe);
  for (const size of [NARROW, WIDE]) {
    await resize(page, size);
    const at = `${where}, ${size.width}`;
    for (const one of await page.evaluate(layoutFaults)) fault(at, one);
    await page.emulateMedia({ colorScheme: "light" });
    for (const one of await findings(page, null)) fault(at, `axe: ${one}`);
    await page.emulateMedia({ colorScheme: "dark" });
    const contrast = ["color-contrast", "color-contrast-enhanced", "link-in-text-block"];
    for (const one of await findings(page, contrast)) fault(`${at}, dark`, `axe: ${one}`);
    await page.emulateMedia({ colorScheme: "light" });
  }
}

// Returns all findings of axe by these rules; without any, by all rules that axe has, best practice and experiments too. A
// folded filter is opened for it.
async function findings(page, rules) {
  return page.evaluate(async (rules) => {
    const names = rules ?? window.axe.getRules().map(({ ruleId }) => ruleId);
    const all = Object.fromEntries(names.map((name) => [name, { enabled: true }]));
    const folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
    const runOnly = { type: "rule", values: names };
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"], rules: all, runOnly });
    for (const one of folded) one.open = false;
    return violations.map(
      ({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 300)).join(" | ")}`,
    );
  }, rules);
}

// Returns what is wider than the window, what scrolls by itself, and what is too small to be read.
function layoutFaults() {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) {
    const wide = [...document.querySelectorAll("main *, header *, footer *")].filter(
      (one) => one.getBoundingClientRect().right > window.innerWidth + 1,
    );
    const named = wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 120));
    faults.push(`the page is ${root.scrollWidth} pixels wide: ${named.join(" | ")}`);
  }
  for (const one of document.querySelectorAll("body *")) {
    const { overflowX, overflowY } = getComputedStyle(one);
    const scrolls = [overflowX, overflowY].some((value) => value === "auto" || value === "scroll");
    // A text area is for typing.
    if (scrolls && one.tagName !== "TEXTAREA" && (one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)) {
      faults.push(`it scrolls by itself: ${one.outerHTML.slice(0, 120)}`);
    }
  }
  // A key stands in one line unless it takes more than a third of the window.
  for (const key of document.querySelectorAll(".facts dt")) {
    const words = document.createRange();
    words.selectNodeContents(key);
    const lines = new Set([...words.getClientRects()].map(({ top }) => Math.round(top))).size;
    const { width } = key.getBoundingClientRect();
    if (lines > 1 && width < window.innerWidth / 3) faults.push(`the key ${key.textContent} is broken into ${lines} lines`);
  }
  let end = -Infinity;
  for (const label of document.querySelectorAll(".chart text.time")) {
    const { left, right, height } = label.getBoundingClientRect();
    if (height === 0) continue; // left out in a narrow window
    if (height < 11) faults.push(`a label of the chart is ${height} pixels high`);
    if (left < end + 2) faults.push(`the label ${label.textContent} of the chart lies over the one before`);
    if (right > window.innerWidth) faults.push(`the label ${label.textContent} of the chart leaves the window`);
    end = right;
  }
  return faults;
}

// Takes the picture of a page in both widths.
async function picture(page, name) {
  if (!task.screenshots) return;
  await page.waitForLoadState();
  for (const [size, suffix] of [[NARROW, "-390"], [WIDE, ""]]) {
    await resize(page, size);
    const png = palette(await page.screenshot());
    writeFileSync(path.join(task.screenshots, `${name}${suffix}.png`), png);
  }
}

// Checks that a narrow page folds a filter that is not set, and shows each denial as a card with its URL first.
async function foldsAndCards() {
  const { context, page } = await open({ viewport: NARROW });
  const field = page.locator("#origin");
  for (const [target, isOpen] of [
    ["/denials", false],
    ["/denials?origin=127.0.0.1", true],
    ["/denials?verdict=any", true],
    ["/watch", false],
    ["/watch?path=/private", true],
    ["/report", false],
    ["/report?since=7d", true],
  ]) {
    await resize(page, NARROW);
    await go(page, target);
    if ((await field.isVisible()) !== isOpen) fault(`${target}, 390`, `the filter is ${isOpen ? "folded" : "not folded"}`);
    if (!isOpen) {
      await page.locator("summary").first().click();
      if (!(await field.isVisible())) fault(`${target}, 390`, "the filter does not open");
      await page.locator("summary").first().click();
    }
    await resize(page, WIDE);
    if (!(await field.isVisible())) fault(`${target}, 1280`, "the filter is folded");
  }
  await resize(page, NARROW);
  await go(page, "/denials");
  const cards = await page.locator("table.stack tbody tr").evaluateAll((rows) =>
    rows.map((row) => ({
      text: row.innerText.trim(),
      width: row.getBoundingClientRect().width,
      urlIsTop: [...row.children].every(
        // What is empty is left out.
        (cell) => cell.className === "url" || cell.offsetHeight === 0 || cell.getBoundingClientRect().top >= row.querySelector(".url").getBoundingClientRect().bottom - 1,
      ),
    })),
  );
  if (cards.length < 3) fault("/denials, 390", `${cards.length} cards`);
  for (const { text, width, urlIsTop } of cards) {
    if (!/^GET https?:/.test(text)) fault("/denials, 390", `a card begins with ${text.slice(0, 40)}`);
    if (!urlIsTop || width < 300) fault("/denials, 390", `no card: ${text.slice(0, 40)}, ${width} pixels wide`);
  }
  await context.close();
}

// Checks that a form with a fault comes back with what was typed, and says beside the field what is wrong.
async function faultyFields() {
  const { context, page } = await open({ viewport: NARROW });
  for (const [target, label, typed, words, button] of [
    ["/denials", "Since", "yesterdy", "yesterdy", "Filter"],
    ["/denials", "Path pattern", "private", "private", "Filter"],
    ["/watch", "Origin or host", "a b", "a b", "Filter"],
    ["/report", "Until", "soon", "soon", "Report"],
    ["/report", "Since", "now", "the span is empty", "Report"],
    ["/overrides", "Until", "soon", "soon", "Add the override"],
  ]) {
    await resize(page, NARROW);
    await go(page, target);
    const summary = page.locator("form summary").first();
    if ((await summary.count()) > 0) await summary.click();
    if (target === "/overrides") {
      await page.getByLabel("Origin").fill("https://site.example");
      await page.getByLabel("Your name", { exact: true }).fill("Ada");
      await page.getByLabel("Reason").fill("a letter");
    }
    const field = page.getByLabel(label, { exact: true });
    await field.fill(typed);
    const [answer] = await Promise.all([
      page.waitForResponse((answer) => answer.request().isNavigationRequest()),
      page.getByRole("button", { name: button, exact: true }).click(),
    ]);
    const where = `${target} with the faulty ${label}`;
    if (answer.status() !== 400) fault(where, `status ${answer.status()}`);
    await page.locator("[aria-invalid='true']").first().waitFor();
    await page.waitForLoadState();
    if ((await field.inputValue()) !== typed) fault(where, "what was typed is gone");
    if (!(await field.isVisible())) fault(where, "the form is folded");
    if ((await field.getAttribute("aria-invalid")) !== "true") fault(where, "the field is not marked");
    const by = (await field.getAttribute("aria-describedby")) ?? "";
    const told = await page.locator(`#${by.split(" ")[0]}`).innerText();
    if (!told.includes(words)) fault(where, `the field says ${told}`);
    if (target === "/overrides" && (await page.getByLabel("Reason").inputValue()) !== "a letter") {
      fault(where, "the other fields are gone");
    }
    await check(page, where);
  }
  await go(page, "/try");
  await page.getByLabel("URL", { exact: true }).fill("site.example/a");
  await page.getByRole("button", { name: "Judge it" }).click();
  await page.locator("#url[aria-invalid='true']").waitFor();
  await check(page, "/try with a faulty URL");
  await context.close();
}

// Checks that a link judges a URL if it is typed or followed here, and only fills in the form if another site led here.
async function linksThatJudge() {
  const { context, page } = await open({ colorScheme: "light" });
  const link = `${task.console}/try?url=${of}%2Fprivate%2Fx&agent=ExampleBot`;
  const verdict = page.getByRole("heading", { name: "Verdict" });
  await go(page, link);
  if ((await verdict.count()) !== 1) fault("a link that is typed", "there is no verdict");
  await check(page, "a verdict by a link");
  await Promise.all([page.waitForEvent("load"), page.getByRole("link", { name: "Link to this question" }).click()]);
  if (page.url() !== link) fault("a link that is followed here", `it is ${page.url()}`);
  if ((await verdict.count()) !== 1) fault("a link that is followed here", "there is no verdict");
  // The page for everyone is another origin.
  await go(page, `${task.public}/try`);
  await page.evaluate((link) => {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "elsewhere";
    document.querySelector("main").append(anchor);
  }, link);
  await page.getByRole("link", { name: "elsewhere" }).click();
  await page.waitForURL(link);
  if ((await verdict.count()) !== 0) fault("a link of another site", "it judges");
  await page.getByText("The link filled in the form.").waitFor();
  await check(page, "a link of another site");
  await page.getByRole("button", { name: "Judge it" }).click();
  await verdict.waitFor();
  await context.close();
}

// Acknowledges a denial from the list; then adds an override and sends the request that it allows.
async function review() {
  const { context, page } = await open({ colorScheme: "light" });
  await go(page, "/");
  await page.getByRole("link", { name: "Denials", exact: true }).click();
  await page.getByLabel("Path pattern").fill("/private/diary");
  await Promise.all([page.waitForURL(/\/denials\?.*diary/), page.getByRole("button", { name: "Filter" }).click()]);
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

  await page.getByLabel("URL", { exact: true }).fill("https://site.example/poem");
  await page.getByLabel("Purposes").fill("train-ai, search");
  await page
    .getByLabel("robots.txt")
    .fill("Content-Signal: search=yes\nUser-agent: *\nAllow: /\nContent-Usage: train-ai=n, search=y\nContent-Usage: x=(\nLicense: https://site.example/license.xml\n");
  await page.getByRole("button", { name: "Judge it" }).click();
  await page.getByText("usage_disallow").first().waitFor();
  await check(page, "a verdict about use");
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

// Signs in as a user, acknowledges under its name, finds no act beyond its role, and signs out.
async function signIn() {
  const { context, page } = await open({ colorScheme: "light" });
  if (!(await asksForPassword(context))) fault("without a password", "the page opens");
  // As if it were typed where the browser prompts.
  await go(page, `${task.console.replace("://", `://${task.user}:${encodeURIComponent(task.password)}@`)}/`);
  for (const [name, target] of PAGES) {
    await go(page, target);
    if (!(await page.locator(".who").innerText()).startsWith(`${task.user}, review`)) fault(name, "it does not name the user");
    await check(page, `${name}, as a user`);
  }
  await go(page, `/decisions/${task.decision}`);
  for (const beyond of ["form[action='/overrides']", "[name='by']"]) {
    if ((await page.locator(beyond).count()) > 0) fault("the decision", `it has ${beyond}`);
  }
  await page.getByLabel("Note").fill("seen by a user");
  await page.getByRole("button", { name: "Acknowledge" }).click();
  await page.getByText(`Acknowledged by ${task.user}`).waitFor();
  await check(page, "acknowledged by a user");
  const csrf = await page.locator("[name='csrf']").first().inputValue();
  const status = await page.evaluate(async ([csrf, origin]) => {
    const body = new URLSearchParams({ csrf, origin, pattern: "/", action: "allow", until: "1d", reason: "none" });
    return (await fetch("/overrides", { method: "POST", body })).status;
  }, [csrf, task.origin]);
  if (status !== 403) fault("an override by a reviewer", `status ${status}`);
  await acknowledgeFilter(page);
  await lookAtSignOut(context);
  const isOut = new Promise((resolve) => {
    const see = (url) => url.includes("/sign-out") && resolve();
    page.on("response", (answer) => see(answer.url()));
    page.on("requestfailed", (request) => see(request.url()));
  });
  await page.getByRole("link", { name: "Sign out" }).click({ noWaitAfter: true });
  await isOut;
  if (!(await asksForPassword(context))) fault("signed out", "the page opens");
  await context.close();
}

// Acknowledges ticked decisions, of which another page has acknowledged one meanwhile, and then all of a filter.
async function acknowledgeFilter(page) {
  await go(page, "/denials");
  await page.locator(`input[value='${task.later}']`).check();
  await page.locator(`input[value='${task.reserved}']`).check();
  const other = await page.context().newPage();
  await go(other, `/decisions/${task.later}`);
  await other.getByLabel("Note").fill("seen elsewhere");
  await other.getByRole("button", { name: "Acknowledge" }).click();
  await other.getByText(`Acknowledged by ${task.user}`).waitFor();
  await other.close();
  await page.locator("#ticked").getByLabel("Note").fill("seen together");
  await page.getByRole("button", { name: "Acknowledge the ticked" }).click();
  await page.getByText("What others wrote").waitFor();
  await check(page, "ticked decisions that are acknowledged");
  await go(page, "/denials/acknowledge?verdict=deny");
  await page.getByLabel("Note").fill("seen as a filter");
  await page.getByRole("button", { name: /^Acknowledge/ }).click();
  await page.getByRole("heading", { name: "acknowledged" }).waitFor();
  await check(page, "a filter that is acknowledged");
}

// Looks at the page that signs out. A browser without a window shows none that asks for a password, so the page is put into
// another one.
async function lookAtSignOut(context) {
  const pair = Buffer.from(`${task.user}:${task.password}`).toString("base64");
  const headers = { Authorization: `Basic ${pair}`, Accept: "text/html" };
  const answer = await fetch(`${task.console}/sign-out?user=${task.user}`, { headers });
  if (answer.status !== 401) fault("/sign-out", `status ${answer.status}`);
  const page = await context.newPage();
  await page.setContent(await answer.text());
  await page.getByRole("heading", { name: "Signed out" }).waitFor();
  // The page has no style, and axe takes what the browser paints behind it for white, in dark too.
  await page.addStyleTag({ content: ":root { background: Canvas }" });
  await check(page, "/sign-out");
  await page.close();
}

// Tells whether the browser would prompt for a password: without a window it gives up.
async function asksForPassword(context) {
  const page = await context.newPage();
  try {
    const answer = await page.goto(`${task.console}/`);
    return answer.status() === 401;
  } catch (error) {
    if (/ERR_INVALID_AUTH_CREDENTIALS/.test(error.message)) return true;
    throw error;
  } finally {
    await page.close();
  }
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
