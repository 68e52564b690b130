// Each client asks for an allowed and a disallowed page of both origins, and its name and what it got go to standard
// output: node.cjs PACKAGES http://ORIGIN https://ORIGIN
'use strict';

const http = require('node:http');
const https = require('node:https');
const http2 = require('node:http2');
const net = require('node:net');
const tls = require('node:tls');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');

const [packages, ...origins] = process.argv.slice(2);
const required = createRequire(`${packages}/package.json`);
const imported = (name) => import(pathToFileURL(required.resolve(name)).href);
const proxy = process.env.http_proxy;

const of = (url) => (url.startsWith('https:') ? https : http);
const get = (url, options = {}) =>
  new Promise((done, failed) => {
    const request = of(url).get(url, options, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode));
    });
    request.on('error', failed);
  });

// Returns the status of a request written to a plain socket.
const ask = (socket, url) =>
  new Promise((done, failed) => {
    let answer = '';
    socket.on('error', failed);
    socket.on('data', (octets) => (answer += octets));
    socket.on('close', () => done(answer.split(' ')[1]));
    const { pathname, host } = new URL(url);
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ByHand\r\nConnection: close\r\n\r\n`);
  });

async function crawl(url, options) {
  const { HttpCrawler, Configuration } = required('@crawlee/http');
  let status = 'none';
  const crawler = new HttpCrawler(
    {
      ...options,
      maxRequestRetries: 0,
      navigationTimeoutSecs: 120,
      ignoreHttpErrorStatusCodes: [403],
      sessionPoolOptions: { blockedStatusCodes: [] },
      additionalMimeTypes: ['application/problem+json', 'text/plain'],
      requestHandler: ({ response }) => (status = response.statusCode),
      failedRequestHandler: (_, error) => (status = error.message),
    },
    new Configuration({ persistStorage: false }),
  );
  crawler.log.setLevel(0);
  await crawler.run([url]);
  return status;
}

const axios = async (url, options) =>
  (await required('axios').get(url, { ...options, validateStatus: () => true })).status;

const clients = {
  http: (url) => get(url),
  'http-agent-false': (url) => get(url, { agent: false }),
  'http-own-agent': (url) => get(url, { agent: new (of(url).Agent)({ keepAlive: true }) }),
  fetch: async (url) => (await fetch(url)).status,
  'undici-own-agent': async (url) => {
    const { Agent, request } = required('undici');
    return (await request(url, { dispatcher: new Agent() })).statusCode;
  },
  'undici-pool': async (url) => {
    const { Pool } = required('undici');
    const { origin, pathname } = new URL(url);
    return (await new Pool(origin).request({ path: pathname, method: 'GET' })).statusCode;
  },
  axios: (url) => axios(url),
  'axios-no-proxy': (url) => axios(url, { proxy: false }),
  'axios-proxy': (url) => {
    const { hostname, port } = new URL(proxy);
    return axios(url, { proxy: { protocol: 'http', host: hostname, port: Number(port) } });
  },
  superagent: async (url) => (await required('superagent').get(url).ok(() => true)).status,
  got: async (url) => {
    const { got } = await imported('got');
    return (await got(url, { throwHttpErrors: false, retry: { limit: 0 } })).statusCode;
  },
  'got-http2': async (url) => {
    const { got } = await imported('got');
    return (await got(url, { http2: true, throwHttpErrors: false, retry: { limit: 0 } })).statusCode;
  },
  'node-fetch': async (url) => (await (await imported('node-fetch')).default(url)).status,
  // The origin speaks no WebSocket: the result is its answer to the handshake.
  ws: (url) =>
    new Promise((done, failed) => {
      const WebSocket = required('ws');
      const socket = new WebSocket(url.replace('http', 'ws'));
      socket.on('unexpected-response', (_, answer) => done(answer.statusCode));
      socket.on('error', failed);
    }),
  'net-and-tls': (url) => {
    const { protocol, hostname: host, port } = new URL(url);
    return ask(protocol === 'https:' ? tls.connect({ host, port }) : net.connect(port, host), url);
  },
  'tls-over-net': (url) => {
    const { protocol, hostname: host, port } = new URL(url);
    const socket = net.connect({ host, port });
    return ask(protocol === 'https:' ? tls.connect({ socket, host }) : socket, url);
  },
  'imported-by-name': async (url) => {
    const [{ connect }, { connect: secure }] = await Promise.all([import('node:net'), import('node:tls')]);
    const { protocol, hostname, port } = new URL(url);
    return ask(protocol === 'https:' ? secure(Number(port), hostname) : connect(Number(port), hostname), url);
  },
  crawlee: (url) => crawl(url, {}),
  'crawlee-proxy': (url) => {
    const { ProxyConfiguration } = required('@crawlee/http');
    return crawl(url, {
      proxyConfiguration: new ProxyConfiguration({ proxyUrls: [proxy] }),
      // Its HTTP/2 in a tunnel of its own takes the origin from a TLS name and port 443, whatever the URL says.
      preNavigationHooks: [(_, options) => void (options.http2 = false)],
    });
  },
  http2: (url) =>
    new Promise((done, failed) => {
      const { origin, pathname } = new URL(url);
      const session = http2.connect(origin);
      session.on('error', failed);
      const stream = session.request({ ':path': pathname });
      stream.on('response', (fields) => done(fields[':status']));
      stream.on('error', failed);
      stream.end();
    }),
};

async function main() {
  for (const [name, client] of Object.entries(clients)) {
    const told = [];
    for (const origin of origins) {
      for (const path of ['page', 'private']) {
        try {
          told.push(await client(`${origin}/${path}/${name}`));
        } catch (error) {
          told.push('error');
          console.error(`${name}: ${error.message} ${error.cause?.message ?? ''}`);
        }
      }
    }
    console.log(name, told.join(' '));
  }
  process.exit(0);
}

main();
