// The time that Chromium takes to load a page with 100 images, without a proxy and through crawlgate:
//
//     cargo build --release && eval "$(.ci/clients)" && node benches/browser.cjs
//
// The origin takes 50 ms for each answer. It speaks HTTP/1.1 alone, or HTTP/2 too; crawlgate runs with
// [listen] http2 = false, and = true. BROWSER_ROUNDS is the number of measured loads of each kind; each kind has one load
// before them, so that crawlgate knows the origin's robots.txt. CRAWLGATE_BIN and CRAWLGATE_CHROMIUM name other programs.
'use strict';

const { execFileSync, execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const http2 = require('node:http2');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');

const IMAGES = 100;
const DELAY_MS = 50;
const ROUNDS = Number(process.env.BROWSER_ROUNDS ?? 3);
const PROGRAM = path.resolve(process.env.CRAWLGATE_BIN ?? path.join(__dirname, '../target/release/crawlgate'));
const CHROMIUM = process.env.CRAWLGATE_CHROMIUM ?? 'chromium';
const HOST = 'origin.test';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'crawlgate-browser-'));
const inFolder = (name) => path.join(folder, name);
const started = [];

// --- The origin -----------------------------------------------------------------------------------------------------

function certificate() {
  const settings = `[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = ${HOST}\n[extensions]\nsubjectAltName = DNS:${HOST}\n`;
  fs.writeFileSync(inFolder('openssl.cnf'), settings);
  const words = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -config openssl.cnf -keyout origin.key -out origin.crt';
  execFileSync('openssl', words.split(' '), { cwd: folder, stdio: 'pipe' });
  return { key: fs.readFileSync(inFolder('origin.key')), cert: fs.readFileSync(inFolder('origin.crt')) };
}

const IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
const images = Array.from({ length: IMAGES }, (_, n) => `<img src="/${n}.svg">`).join('');
// What the page measures goes into the document, which Chromium prints when it is loaded.
const PAGE = `<!doctype html><link rel="icon" href="data:,"><body>${images}<script>
addEventListener('load', () => {
  const entries = performance.getEntriesByType('resource');
  document.body.textContent = 'measured ' + JSON.stringify({
    ms: performance.now(),
    loaded: entries.filter((entry) => entry.responseStatus === 200).length,
    protocols: [...new Set(entries.map((entry) => entry.nextHopProtocol))],
  }) + ' end';
});
</script>`;

function answer(request, response) {
  const [status, type, body] =
    request.url === '/robots.txt'
      ? [404, 'text/plain', 'none']
      : request.url === '/'
        ? [200, 'text/html', PAGE]
        : [200, 'image/svg+xml', IMAGE];
  setTimeout(() => {
    response.writeHead(status, { 'content-type': type, 'content-length': body.length, 'cache-control': 'no-store' });
    response.end(body);
  }, DELAY_MS);
}

const listening = (server) =>
  new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

// --- crawlgate ------------------------------------------------------------------------------------------------------

// Starts crawlgate and returns the address of its proxy.
function crawlgate(withHttp2) {
  const own = inFolder(`http2-${withHttp2}`);
  fs.mkdirSync(own);
  fs.writeFileSync(
    path.join(own, 'config.toml'),
    `[listen]\naddress = "127.0.0.1:0"\nhttp2 = ${withHttp2}\n[admin]\naddress = ""\n[log]\nfile = "decisions.jsonl"\n` +
      `[store]\npath = "crawlgate.db"\n[tls]\nca_cert = "ca.crt"\nca_key = "ca.key"\nextra_roots = ["../origin.crt"]\n` +
      `[egress]\nallow = ["127.0.0.0/8"]\nconnect_ports = ["1-65535"]\n[upstream.hosts]\n"${HOST}" = "127.0.0.1"\n`,
  );
  const child = spawn(PROGRAM, ['serve', '--config', 'config.toml'], { cwd: own, stdio: ['ignore', 'ignore', 'pipe'] });
  started.push(child);
  return new Promise((done, failed) => {
    let said = '';
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      said += text;
      const found = /listening on (127\.0\.0\.1:\d+)\b/.exec(said);
      if (found) done(found[1]);
    });
    child.on('error', failed);
    child.on('exit', () => failed(new Error(said)));
  });
}

// --- The browser ----------------------------------------------------------------------------------------------------

// Loads the page in a browser of its own. Returns the page's figures.
async function load(port, proxy) {
  const profile = fs.mkdtempSync(inFolder('profile-'));
  const way = proxy ? `--proxy-server=${proxy}` : `--host-resolver-rules=MAP ${HOST} 127.0.0.1`;
  const switches = 'headless no-sandbox disable-gpu disable-dev-shm-usage disable-quic no-first-run ignore-certificate-errors ' +
    'disable-background-networking disable-component-update disable-sync dump-dom';
  const words = [...switches.split(' ').map((name) => `--${name}`), `--user-data-dir=${profile}`, way];
  const { stdout } = await promisify(execFile)(CHROMIUM, [...words, `https://${HOST}:${port}/`], { timeout: 60_000 });
  fs.rmSync(profile, { recursive: true, force: true });
  const found = /measured (\{.*\}) end/.exec(stdout);
  if (!found) throw new Error(`the page was not loaded: ${stdout}`);
  const figures = JSON.parse(found[1]);
  if (figures.loaded !== IMAGES) throw new Error(`not all images were loaded: ${found[1]}`);
  return figures;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

async function main() {
  const keys = certificate();
  const origins = {
    'HTTP/1.1': await listening(https.createServer(keys, answer)),
    'HTTP/2': await listening(http2.createSecureServer({ ...keys, allowHTTP1: true }, answer)),
  };
  const ways = {
    'no proxy': null,
    'http2 = false': await crawlgate(false),
    'http2 = true': await crawlgate(true),
  };
  console.log('| origin | way | browser speaks | median ms | all ms | ÷ no proxy |\n|---|---|---|---:|---|---:|');
  for (const [spoken, port] of Object.entries(origins)) {
    const times = {};
    const protocols = {};
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [way, proxy] of Object.entries(ways)) {
        const figures = await load(port, proxy);
        protocols[way] = figures.protocols.join(' ');
        if (round > 0) (times[way] ??= []).push(Math.round(figures.ms));
      }
    }
    const direct = median(times['no proxy']);
    for (const [way, all] of Object.entries(times)) {
      const middle = median(all);
      const cells = [spoken, way, protocols[way], middle, all.join(', '), (middle / direct).toFixed(2)];
      console.log(`| ${cells.join(' | ')} |`);
    }
  }
}

main()
  .catch((error) => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(() => {
    for (const child of started) child.removeAllListeners('exit').kill();
    fs.rmSync(folder, { recursive: true, force: true });
    process.exit();
  });
