// Asks for pages over one HTTP/2 session, all at once, inside a tunnel that it asks the proxy for itself:
// http2.cjs https://ORIGIN PATH…
// Prints for each page, in order, the protocol, the status and the body, in one line of JSON.
'use strict';

const http = require('node:http');
const http2 = require('node:http2');
const tls = require('node:tls');

const [origin, ...paths] = process.argv.slice(2);
const { host, hostname } = new URL(origin);
const proxy = new URL(process.env.https_proxy);

const tunnel = () =>
  new Promise((done, failed) => {
    const fields = { host };
    const request = http.request({
      host: proxy.hostname,
      port: proxy.port,
      method: 'CONNECT',
      path: host,
      headers: fields,
      agent: false,
    });
    request.on('connect', (answer, socket) =>
      answer.statusCode === 200 ? done(socket) : failed(new Error(`CONNECT: ${answer.statusCode}`)),
    );
    request.on('error', failed);
    request.end();
  });

const get = (session, path) =>
  new Promise((done, failed) => {
    const stream = session.request({ ':path': path });
    let status;
    let body = '';
    stream.setEncoding('utf8');
    stream.on('response', (fields) => (status = fields[':status']));
    stream.on('data', (text) => (body += text));
    stream.on('end', () => done([session.alpnProtocol, status, body]));
    stream.on('error', failed);
    stream.end();
  });

async function main() {
  const socket = await tunnel();
  const secure = tls.connect({ socket, servername: hostname, ALPNProtocols: ['h2'] });
  const session = http2.connect(origin, { createConnection: () => secure });
  const answers = await Promise.all(paths.map((path) => get(session, path)));
  for (const answer of answers) console.log(JSON.stringify(answer));
  await new Promise((closed) => session.close(closed));
}

main();
