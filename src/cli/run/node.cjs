// Loaded by `crawlgate run` into every Node.js (NODE_OPTIONS=--require). From version 24 (22.21 in its line) on, Node
// uses the proxy variables itself when NODE_USE_ENV_PROXY is set, and nothing happens here. Older ones read no such
// variable, and would go past the proxy without a word; they are made to do what newer ones do: `fetch` and the global
// agents of `http` and `https` connect through the proxy.
'use strict';

const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const tls = require('node:tls');

const [major, minor] = process.versions.node.split('.').map(Number);
const knowsTheVariables = major >= 24 || (major === 22 && minor >= 21);
const url = process.env.https_proxy || process.env.HTTPS_PROXY;

if (!knowsTheVariables && url) {
  useProxy(new URL(url));
}

function useProxy(proxy) {
  // A connection to host:port through the proxy. What is said on it, plain or TLS, the proxy judges by itself.
  function tunnel(host, port, done) {
    const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const request = http.request({
      agent: false, // not the global one, which would come back here
      host: proxy.hostname.replace(/^\[|\]$/g, ''),
      port: proxy.port || 80,
      method: 'CONNECT',
      path: authority,
      headers: { host: authority },
    });
    request.once('error', done);
    request.once('connect', (response, socket, head) => {
      if (response.statusCode !== 200) {
        socket.destroy();
        done(new Error(`the proxy refused a connection to ${authority}: ${response.statusCode}`));
        return;
      }
      if (head.length > 0) socket.unshift(head);
      done(null, socket);
    });
    request.end();
  }

  for (const [agent, port] of [[http.globalAgent, 80], [https.globalAgent, 443]]) {
    const connect = agent.createConnection;
    agent.createConnection = function (options, done) {
      if (options.socketPath) return connect.call(this, options, done);
      tunnel(options.host || 'localhost', options.port || port, (error, socket) => {
        if (error) done(error);
        else done(null, agent === http.globalAgent ? socket : connect.call(this, { ...options, socket }));
      });
      return undefined; // `done` will have it
    };
  }

  // `fetch` goes through undici's global dispatcher, which is made when one of its classes is first looked at.
  const dispatcher = Symbol.for('undici.globalDispatcher.1');
  void globalThis.Request;
  const Agent = globalThis[dispatcher]?.constructor;
  if (!Agent) return;
  globalThis[dispatcher] = new Agent({
    connect({ hostname, port, protocol, servername }, done) {
      const secure = protocol === 'https:';
      tunnel(hostname, port || (secure ? 443 : 80), (error, socket) => {
        if (error || !secure) return done(error, socket);
        const name = servername || (net.isIP(hostname) ? '' : hostname);
        const session = tls.connect({ socket, host: hostname, servername: name, ALPNProtocols: ['http/1.1'] });
        session.once('error', done);
        session.once('secureConnect', () => {
          session.removeListener('error', done);
          done(null, session);
        });
        return undefined;
      });
    },
  });
}
