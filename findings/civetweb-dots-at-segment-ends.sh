#!/usr/bin/env bash
# CivetWeb 1.15 (Debian 12, civetweb 1.15+dfsg-4) removes dots at the ends of path segments on every system, as Windows
# does with names of files, and a segment of three dots with them. On Linux such a name is a name of its own: `/notes.`
# and `/notes` are two paths, yet both reach the directory `notes`. A file or a directory with a dot at the end of its
# name cannot be reached, although the listing of its directory links to it. Who compares paths by RFC 3986, 6.2.2 takes
# these paths for different ones. CivetWeb's issue 973 (https://github.com/civetweb/civetweb/issues/973, open) has the
# files that cannot be reached.
#
# Output seen:
#     /notes/today.txt 200 notes
#     /notes./today.txt 200 notes
#     /notes../today.txt 200 notes
#     /notes%2E/today.txt 200 notes
#     /notes/.../today.txt 200 notes
#     /notes/today.txt. 200 notes
#     /notes/...today.txt 200 dots first
#     /notes/end. 404
#     /other./today.txt 404
#     the listing of /notes/ links to: ...today.txt end. today.txt
#     the listing of / links to: notes./ notes/ other./
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download -qq civetweb=1.15+dfsg-4 libcivetweb1=1.15+dfsg-4 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
libraries=$(dirname root/usr/lib/*/libcivetweb.so.1)
mkdir -p site/notes site/notes. site/other.
echo notes >site/notes/today.txt
echo 'dots first' >site/notes/...today.txt
echo end >site/notes/end.
echo 'notes with a dot' >site/notes./today.txt
echo other >site/other./today.txt
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
LD_LIBRARY_PATH=$libraries root/usr/bin/civetweb -cgi_pattern '' -listening_ports "127.0.0.1:$port" \
    -document_root "$folder/site" >log 2>&1 &
server=$!
until (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server" || { cat log; exit 1; }; sleep 0.1; done
python3 - "$port" >seen <<'P'
import http.client, re, sys
def get(path):
    session = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
    session.request("GET", path)
    answer = session.getresponse()
    return answer.status, answer.read().decode().strip()
for path in ("/notes/today.txt", "/notes./today.txt", "/notes../today.txt", "/notes%2E/today.txt",
             "/notes/.../today.txt", "/notes/today.txt.", "/notes/...today.txt", "/notes/end.", "/other./today.txt"):
    status, text = get(path)
    print(path, status, *[text] * (status == 200))
for path in ("/notes/", "/"):
    links = re.findall(r'href="([^"?]+)"', get(path)[1])
    print(f"the listing of {path} links to:", *sorted(link for link in links if link != ".."))
P
cat seen
diff seen - <<'T'
/notes/today.txt 200 notes
/notes./today.txt 200 notes
/notes../today.txt 200 notes
/notes%2E/today.txt 200 notes
/notes/.../today.txt 200 notes
/notes/today.txt. 200 notes
/notes/...today.txt 200 dots first
/notes/end. 404
/other./today.txt 404
the listing of /notes/ links to: ...today.txt end. today.txt
the listing of / links to: notes./ notes/ other./
T
