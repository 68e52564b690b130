// Drives Chromium through the proxy: browser.cjs PLAYWRIGHT CHROMIUM PROXY KEY https://ORIGIN
// Opens /gallery with its images, then a WebSocket on /socket, then the disallowed /private; prints what came of it, in
// one line of JSON.
'use strict';

const [playwright, executablePath, proxy, key, origin] = process.argv.slice(2);
const { chromium } = require(playwright);

// Time for each step. Generous, because test machines are slow and shared.
const PATIENCE = 120_000;

async function main() {
  const browser = await chromium.launch({
    executablePath,
    timeout: PATIENCE,
    args: [
      `--proxy-server=${proxy}`,
      `--ignore-certificate-errors-spki-list=${key}`,
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
    ],
  });
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const protocol = () => performance.getEntriesByType('navigation')[0].nextHopProtocol;
  await page.goto(`${origin}/gallery`);
  const told = {
    page: await page.evaluate(protocol),
    images: await page.evaluate(() =>
      [...document.images].map((image) => {
        const [entry] = performance.getEntriesByName(image.src);
        return [image.naturalWidth, entry.nextHopProtocol];
      }),
    ),
  };
  const socket = (path) =>
    page.evaluate(
      (url) =>
        new Promise((done) => {
          const socket = new WebSocket(url);
          socket.onerror = () => done('refused');
          socket.onmessage = ({ data }) => {
            socket.onclose = () => done(data);
            socket.close();
          };
        }),
      `${origin.replace('https', 'wss')}${path}`,
    );
  told.socket = await socket('/socket');
  told.refused = await socket('/private/socket');
  const denied = await page.goto(`${origin}/private`);
  told.denied = [denied.status(), await page.evaluate(protocol), await denied.text()];
  await browser.close();
  console.log(JSON.stringify(told));
}

main();
