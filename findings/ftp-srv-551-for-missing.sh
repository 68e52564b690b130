#!/usr/bin/env bash
# ftp-srv 4.6.3 (npm), an FTP server for Node.js, answers one missing file in two ways: SIZE and MDTM say 550, RETR says
# 551, which RFC 959 defines as "page type unknown" and calls a permanent failure of the action, not of the name. A
# client that takes only 550 for "there is no such file" reads a missing file as a failure of the server.
# SIZE of a directory is 213 with the size of its inode's block, where RFC 3659, 4 speaks of files.
#
# Output seen (the server repeats a path of its machine behind the code):
#     SIZE missing: 550
#     MDTM missing: 550
#     RETR missing: 551
#     SIZE of a directory: 213
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund ftp-srv@4.6.3
mkdir -p root/directory
cat >server.js <<'J'
const { FtpSrv } = require("ftp-srv");
const quiet = { child: () => quiet };
for (const level of ["trace", "debug", "info", "warn", "error", "fatal"]) quiet[level] = () => {};
const server = new FtpSrv({ url: "ftp://127.0.0.1:0", pasv_url: "127.0.0.1", anonymous: true, log: quiet });
server.on("login", (_, accept) => accept({ root: `${__dirname}/root` }));
server.listen().then(() => console.log(server.server.address().port));
J
node server.js >port 2>errors &
server=$!
until [[ -s port ]]; do kill -0 "$server" || { cat errors; exit 1; }; sleep 0.1; done
python3 - "$(cat port)" >seen <<'P'
import ftplib, sys
session = ftplib.FTP()
session.connect("127.0.0.1", int(sys.argv[1]), timeout=20)
session.login()
session.voidcmd("TYPE I")
def code(act, *words):
    try:
        return act(*words)[:3]
    except ftplib.Error as refusal:
        return str(refusal)[:3]
print("SIZE missing:", code(session.sendcmd, "SIZE missing"))
print("MDTM missing:", code(session.sendcmd, "MDTM missing"))
print("RETR missing:", code(session.retrbinary, "RETR missing", print))
print("SIZE of a directory:", code(session.sendcmd, "SIZE directory"))
P
cat seen
diff seen - <<'T'
SIZE missing: 550
MDTM missing: 550
RETR missing: 551
SIZE of a directory: 213
T
