#!/usr/bin/env bash
# GNU Wget2 1.99.1 (Debian 12, wget2 1.99.1-2.2), without any proxy of ours. Three behaviours, each against a server of
# a few lines on loopback:
#
# 1. `https_proxy=http://HOST:PORT`: Wget2 begins TLS with the proxy, although the URL says http. No CONNECT is sent. The
#    first octets that the proxy sees are a TLS handshake record (16 03 01). curl, GNU Wget 1.x and others send CONNECT.
# 2. A server that answers 403: Wget2 prints the error and exits 0. GNU Wget 1.x exits 8.
# 3. `http://127.0.0.1:PORT/`: the Host field lacks the port ("Host: 127.0.0.1"). RFC 9110, 7.2 has the authority with its
#    port there.
#
# Output seen:
#     proxy saw: 160301
#     host sent: 127.0.0.1
#     exit after 403: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq wget2=1.99.1-2.2 libwget0=1.99.1-2.2 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/$(gcc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)
wget2=root/usr/bin/wget2
"$wget2" --version | grep -F 'Wget2 1.99.1'

python3 - >server.log <<'P' &
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    peer, _ = server.accept()
    head = peer.recv(4096)
    print(head[:3].hex() if head[:1] == b"\x16" else head.split(b"Host: ")[1].split(b"\r")[0].decode(), flush=True)
    peer.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    peer.close()
P
server=$!
until [[ -s server.log ]]; do sleep 0.1; done
port=$(head -1 server.log)

env -u http_proxy -u https_proxy "$wget2" -q -O /dev/null "http://127.0.0.1:$port/" && code=0 || code=$?
https_proxy=http://127.0.0.1:$port timeout 20 "$wget2" -q --tries=1 -O /dev/null https://site.example/ || true

host=$(sed -n 2p server.log)
proxy=$(sed -n 3p server.log)
printf 'proxy saw: %s\nhost sent: %s\nexit after 403: %s\n' "$proxy" "$host" "$code"
[[ $proxy == 160301 && $host == 127.0.0.1 && $code == 0 ]]
