// Loaded by `crawlgate run` into every Node.js (NODE_OPTIONS=--require), threads and child processes included.
//
// Node's own support of the proxy variables covers `fetch` and the global agents of `http` and `https`, from version 24
// (22.21 in its line) on. Agents of a crawler's own, `agent: false`, HTTP/2 and WebSockets read no variable. So every TCP
// connection of the process goes through the proxy here, where all of them begin: `net.Socket`'s connect. It asks the
// proxy for a tunnel (CONNECT) before the crawler sees the connection, and the proxy judges what is said inside.
//
// Left alone: connections to the proxy itself, to Unix sockets, and to servers that this same process listens with.
'use strict';

const module_ = require('node:module');
const net = require('node:net');
const tls = require('node:tls');

const PROXY = new URL('{proxy}'); // filled in for each run
const PROXY_HOST = PROXY.hostname.replace(/^\[|\]$/g, '');
const PROXY_PORT = Number(PROXY.port || 80);
const LONGEST_ANSWER = 65536;

// --- What needs no tunnel -------------------------------------------------------------------------------------------

const ownServers = new Map(); // port: address
const isAny = (address) => address === '::' || address === '0.0.0.0';

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.once('listening', () => {
    const place = this.address();
    if (!place || typeof place !== 'object') return; // a Unix socket
    ownServers.set(place.port, place.address);
    this.once('close', () => ownServers.delete(place.port));
  });
  return listen.apply(this, args);
};

function isLoopback(host) {
  return host === 'localhost' || host === '::1' || (net.isIPv4(host) && host.startsWith('127.'));
}

function needsNoTunnel(options) {
  if (options.path) return true;
  const [host, port] = [options.host || 'localhost', Number(options.port)];
  if (!isLoopback(host)) return host === PROXY_HOST && port === PROXY_PORT;
  if (port === PROXY_PORT && (host === PROXY_HOST || host === 'localhost')) return true;
  const own = ownServers.get(port);
  return own !== undefined && (isAny(own) || own === host || host === 'localhost');
}

// --- A tunnel -------------------------------------------------------------------------------------------------------

function authorityOf({ host = 'localhost', port }) {
  const number = typeof port === 'string' && port.trim() !== '' ? Number(port) : port;
  if (!Number.isInteger(number) || number < 0 || number > 65535) {
    const error = new RangeError(`connect needs a port from 0 to 65535, not ${String(port)}`);
    throw Object.assign(error, { code: 'ERR_SOCKET_BAD_PORT' });
  }
  return `${net.isIPv6(host) ? `[${host}]` : host}:${number}`;
}

// What a socket ends with that gets no tunnel: the error of a server that refuses connections.
function refusal(authority, why) {
  const error = new Error(`connect ECONNREFUSED ${authority}: ${why}`);
  return Object.assign(error, { code: 'ECONNREFUSED', errno: -111, syscall: 'connect' });
}

const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const [options, connected] = Array.isArray(args[0]) ? args[0] : net._normalizeArgs(args);
  if (needsNoTunnel(options)) return connect.apply(this, args);
  const authority = authorityOf(options);
  const readsIntoItsOwnBuffer = Object.getOwnPropertySymbols(this).some(
    (symbol) => symbol.description === 'kBuffer' && this[symbol],
  );
  if (this._handle || readsIntoItsOwnBuffer) {
    // TLS is set up by `tls.connect`, below; what is left has no way to speak to the proxy first.
    const error = refusal(authority, 'crawlgate cannot lead this kind of socket through the proxy');
    process.nextTick(() => this.destroy(error));
    return this;
  }
  if (connected) this.once('connect', connected);
  const isUsedAgain = this.destroyed;
  const dial = () => {
    if (this.destroyed && !isUsedAgain) return;
    this.connecting = false;
    holdBackUntilTunnelled(this, authority);
    connect.call(this, { host: PROXY_HOST, port: PROXY_PORT });
  };
  if (isUsedAgain) {
    dial();
  } else {
    // Not at once: TLS that is set up on this socket in the same turn would take over its handle, and read the proxy's
    // answer. A socket without a handle it reads from as from any stream.
    this.connecting = true;
    process.nextTick(dial);
  }
  return this;
};

// Keeps a socket that connects to the proxy in the state "connecting" until the proxy has made the tunnel. What is
// written meanwhile waits, as on any socket that connects.
function holdBackUntilTunnelled(socket, authority) {
  const { emit, push } = socket;
  let answer = Buffer.alloc(0);
  const release = () => {
    socket.emit = emit;
    socket.push = push;
  };
  const fail = (why) => {
    release();
    socket.destroy(refusal(authority, why));
    return false;
  };
  socket.emit = function (event, ...values) {
    if (event === 'ready') return true;
    if (event === 'connect') {
      ask();
      return true;
    }
    if (event === 'error' || event === 'close') release();
    return emit.call(this, event, ...values);
  };
  function ask() {
    const request = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
    socket._writeGeneric(false, request, 'latin1', (error) => error && socket.destroy(error));
    socket.connecting = true;
    if (!socket._handle) return; // the write has failed
    socket._handle.reading = true;
    if (socket._handle.readStart() !== 0) fail('the connection to crawlgate cannot be read');
  }
  socket.push = function (octets) {
    if (octets === null) return fail('crawlgate closed the connection');
    answer = Buffer.concat([answer, octets]);
    const end = answer.indexOf('\r\n\r\n');
    if (end < 0) return answer.length < LONGEST_ANSWER || fail('crawlgate gave no answer that can be read');
    const head = answer.toString('latin1', 0, end);
    const status = /^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1];
    if (!status?.startsWith('2')) {
      const reason = /^proxy-status:.*\bdetails="([^"]*)"/im.exec(head)?.[1] ?? '';
      return fail(`crawlgate refused it: ${status} ${reason}`.trim());
    }
    release();
    socket.connecting = false;
    const rest = answer.subarray(end + 4);
    if (rest.length > 0) push.call(socket, rest);
    emit.call(socket, 'connect');
    emit.call(socket, 'ready');
    return true;
  };
}

// --- TLS ------------------------------------------------------------------------------------------------------------

// The arguments in each of their forms, as Node reads them: (options), (port, host, options), and a listener.
function secureArguments(args) {
  const [options, connected] = net._normalizeArgs(args);
  const more = [args[1], args[2]].find((value) => typeof value === 'object' && value !== null);
  return [more ? Object.assign(options, more) : options, connected];
}

const secure = tls.connect;
tls.connect = function (...args) {
  const [options, connected] = secureArguments(args);
  if (options.socket || needsNoTunnel(options)) return secure.apply(this, args);
  authorityOf(options); // throws before anything is made
  const socket = new net.Socket({ signal: options.signal });
  const session = secure.call(this, { ...options, socket }, connected ?? undefined);
  // The far end is the server, as HTTP/2 takes it for the origin of the session; the tunnel has no address of its own.
  const address = net.isIP(options.host ?? '') ? options.host : undefined;
  const far = {
    remoteAddress: address,
    remoteFamily: address && `IPv${net.isIP(address)}`,
    remotePort: Number(options.port),
  };
  for (const [name, value] of Object.entries(far)) {
    Object.defineProperty(session, name, { value, configurable: true });
  }
  if (options.timeout) session.setTimeout(options.timeout);
  socket.connect({ host: options.host, port: options.port });
  socket.setNoDelay(true);
  return session;
};

// What is imported by name from `node:net` and `node:tls` is the above, too.
module_.syncBuiltinESMExports();
