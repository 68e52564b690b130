// Loaded by `crawlgate run` into every Node.js (NODE_OPTIONS=--require), threads and child processes included.
//
// Node's own support of the proxy variables covers `fetch` and the global agents of `http` and `https`, from version 24
// (22.21 in its line) on. Agents of a crawler's own, `agent: false`, HTTP/2 and WebSockets read no variable. So every TCP
// connection of the process goes through the proxy here, where all of them begin: `net.Socket`'s connect. It asks the
// proxy for a tunnel (CONNECT) before the crawler sees the connection, and the proxy judges what is said inside.
//
// Left alone: connections to the proxy itself, to Unix sockets, and to servers that this process or a child of it, such as
// a browser that it drives, listens with.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const module_ = require('node:module');
const net = require('node:net');
const tls = require('node:tls');

const PROXY = new URL('{proxy}'); // filled in for each run
const PROXY_HOST = PROXY.hostname.replace(/^\[|\]$/g, '');
const PROXY_PORT = Number(PROXY.port || 80);
const LONGEST_ANSWER = 65536;

// --- Node's own agents ----------------------------------------------------------------------------------------------

// NODE_USE_ENV_PROXY is set for Bun. In Node.js, it sends what the global agents and `fetch` ask for to the proxy, also
// where a client has named the proxy to them itself: that client would ask the proxy for the proxy.
for (const of of [http, https]) {
  const { proxyEnv, ...options } = of.globalAgent.options;
  if (proxyEnv) of.globalAgent = new of.Agent(options);
}
function putFetchRight() {
  for (const version of [1, 2]) {
    const key = Symbol.for(`undici.globalDispatcher.${version}`);
    const dispatcher = globalThis[key] ?? {};
    const direct = Object.getOwnPropertySymbols(dispatcher).find(
      (symbol) => symbol.description === 'no proxy agent',
    );
    if (!direct) continue;
    globalThis[key] = dispatcher[direct];
    // Node 22 has a warning about this dispatcher under way; that of a thread is out already.
    const { emit } = process;
    const silent = (event, warning, ...more) =>
      event === 'warning' && warning?.code === 'UNDICI-EHPA' ? false : emit.call(process, event, warning, ...more);
    process.emit = silent;
    setImmediate(() => process.emit === silent && (process.emit = emit)).unref();
  }
}
putFetchRight(); // in a thread; in the first one, Node sets this dispatcher after this module
process.nextTick(putFetchRight);

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
  const isReachedAt = (address) => isAny(address) || address === host || host === 'localhost';
  const own = ownServers.get(port);
  return own === undefined ? isServedByAChild(port, isReachedAt) : isReachedAt(own);
}

// Calls back with the address of a server that needs no tunnel, if the crawler's own lookup leads to one: undici 8 names
// the origin where it asks the proxy.
function lookUpNearby({ host, port, lookup, family }, done) {
  const isNearby = Number(port) === PROXY_PORT || ownServers.has(Number(port));
  if (!isNearby || typeof lookup !== 'function') return done();
  lookup(host, { family, all: true }, (error, found) => {
    const addresses = [found ?? []].flat().map((one) => one.address ?? one);
    done(error ? undefined : addresses.find((address) => needsNoTunnel({ host: address, port })));
  });
}

// Tells by /proc whether a process that this one has started, or one of theirs, listens at a port.
function isServedByAChild(port, isReachedAt) {
  const children = descendants(process.pid);
  const servers = children.length > 0 ? listeners(port, isReachedAt) : [];
  if (servers.length === 0) return false;
  return children.some((child) => entries(`/proc/${child}/fd`).some((name) => servers.includes(target(name))));
}

function descendants(parent) {
  const children = entries(`/proc/${parent}/task`).flatMap((task) => words(`${task}/children`));
  return children.flatMap((child) => [child, ...descendants(child)]);
}

// The links in /proc to the sockets that listen at a port.
function listeners(port, isReachedAt) {
  const sockets = ['tcp', 'tcp6'].flatMap((table) => lines(`/proc/self/net/${table}`));
  return sockets
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => {
      const [address, number] = local.split(':');
      return state === '0A' && parseInt(number, 16) === port && isReachedAt(addressOf(address));
    })
    .map((fields) => `socket:[${fields[9]}]`);
}

// An address as /proc/net has it: words of four octets, each in the order of the machine, which is little-endian.
function addressOf(digits) {
  const octets = Buffer.from(digits, 'hex').swap32();
  if (octets.length === 4) return octets.join('.');
  if (octets.subarray(0, 12).toString('hex') === '00000000000000000000ffff') return octets.subarray(12).join('.');
  return { 0: '::', 1: '::1' }[BigInt(`0x${octets.toString('hex')}`)];
}

// What is gone, or another user's, is nothing.
function orNothing(read) {
  try {
    return read();
  } catch {
    return undefined;
  }
}
const lines = (file) => (orNothing(() => fs.readFileSync(file, 'latin1')) ?? '').split('\n').slice(1);
const words = (file) => orNothing(() => fs.readFileSync(file, 'latin1'))?.match(/\d+/g) ?? [];
const entries = (place) => (orNothing(() => fs.readdirSync(place)) ?? []).map((name) => `${place}/${name}`);
const target = (link) => orNothing(() => fs.readlinkSync(link));

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
  const dial = () =>
    lookUpNearby(options, (address) => {
      if (this.destroyed && !isUsedAgain) return;
      this.connecting = false;
      if (address) {
        connect.call(this, { ...options, host: address });
        return;
      }
      holdBackUntilTunnelled(this, authority);
      connect.call(this, { host: PROXY_HOST, port: PROXY_PORT });
    });
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
  // The event loop waits for the inner socket.
  for (const name of ['ref', 'unref']) {
    session[name] = function () {
      socket[name]();
      return tls.TLSSocket.prototype[name].call(this);
    };
  }
  if (options.timeout) session.setTimeout(options.timeout);
  const { host, port, lookup, family } = options;
  socket.connect({ host, port, lookup, family });
  socket.setNoDelay(true);
  return session;
};

// What is imported by name from `node:net` and `node:tls` is the above, too.
module_.syncBuiltinESMExports();
