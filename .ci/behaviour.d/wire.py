"""The fixed requests, the origins that they go to, and the gates that they go through. A new request is one row.

`{site}` stands for `HOST:PORT` of the http origin `site.test`, `{site_s}` for that of the https origin.
"""

import base64

RULES = """# the rules of the site
User-agent: TestBot
User-agent: NewsBot/2.0
Disallow: /private/
Allow: /private/open
Disallow: /*.pdf$
Disallow: /search?*q=
Crawl-delay: 2

User-agent: ShopBot
Allow: /shop
Disallow: /

User-agent: *
Disallow: /
Allow: /robots
Allow: /$
Dissallow: /typo
Disallow /colon
Noindex: /old
Sitemap: http://site.test/sitemap.xml
Sitemap: /relative.xml
"""

USAGE = """User-agent: *
Content-Usage: train-ai=n
Content-Usage: /free/ train-ai=y
Content-Signal: search=yes, ai-input=no
License: https://usage.test/licence.xml
Allow: /
Disallow: /closed/
"""

# The robots.txt of each host: status, fields, body. The origin sends the page of `PAGES` for all other paths.
ROBOTS = {
    "site": (200, ["Content-Type: text/plain", "ETag: \"one\"", "Cache-Control: max-age=7200"], RULES),
    "open": (200, ["Content-Type: text/plain"], "User-agent: *\nDisallow:\n"),
    "none": (404, ["Content-Type: text/html"], "<p>no such page\n"),
    "forbid": (403, [], "no\n"),
    "down": (503, ["Retry-After: 3600"], "later\n"),
    "moved": (301, ["Location: /elsewhere.txt"], ""),
    "coded": (200, ["Content-Type: text/plain", "Content-Encoding: gzip"], "User-agent: *\nDisallow: /coded/\n"),
    "page": (200, ["Content-Type: text/html"], "<!doctype html><title>welcome</title><p>Disallow: /\n"),
    "loop": (302, ["Location: /robots.txt"], ""),
    "cut": (0, [], ""),
    "usage": (200, ["Content-Type: text/plain"], USAGE),
    "meta": (200, ["Content-Type: text/plain"], "\ufeffUSER-AGENT : testbot\nDISALLOW : /upper/\nallow:/upper/in/\n"),
}

# What the origin sends at a path, octet for octet. The connection stays open unless the answer says `close`.
PAGES = {
    "/elsewhere.txt": "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\nUser-agent: *\nDisallow: /elsewhere/\n",
    "/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n3;a=b\r\n xy\r\n0\r\nX-Sum: 8\r\n\r\n",
    "/redirect": "HTTP/1.1 302 Found\r\nLocation: /private/target\r\nContent-Length: 0\r\n\r\n",
    "/coded": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzzzz",
    "/part": "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\n2345",
    "/not-modified": "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    "/nothing": "HTTP/1.1 204 No Content\r\n\r\n",
    "/early": "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n",
    "/old": "HTTP/1.0 200 Fine\r\nConnection: close\r\n\r\nuntil the end",
    "/hop": "HTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n"
            "Via: 1.1 other\r\nContent-Length: 3\r\n\r\nok\n",
    "/noindex": "HTTP/1.1 200 OK\r\nX-Robots-Tag: noindex, noai\r\nContent-Length: 3\r\n\r\nok\n",
    "/free/fields": "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n\r\ntdm-reservation: 1\r\nContent-Length: 3\r\n\r\nok\n",
    "/busy": "HTTP/1.1 404 Not Found\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\ngone\n",
    "/fold": "HTTP/1.1 200 OK\r\nX-Long: a\r\n b\r\nContent-Length: 3\r\n\r\nok\n",
    "/two-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\nConnection: close\r\n\r\nok\n",
    "/no-http": "220 ready\r\nConnection: close\r\n\r\n",
    "/short": "HTTP/1.1 200 OK\r\nContent-Length: 30\r\nConnection: close\r\n\r\nnot all",
    "/shut": "close",
    "/switch": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
}

ECHO = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\na page"


def ask(method, target, *fields, agent="TestBot/1.0", host=None, version="1.1", body=""):
    """Returns a request; its Host is that of the target."""
    host = host or target.split("://")[-1].split("/")[0]
    lines = [f"{method} {target} HTTP/{version}", f"Host: {host}", f"User-Agent: {agent}", *fields, "", body]
    return "\r\n".join(line for line in lines if line != "User-Agent: ")


def get(path, *fields, at="site", **more):
    return ask("GET", f"http://{{{at}}}{path}", *fields, **more)


WS = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]

# A name, the octets, and how many answers they have (1, unless a number stands there). `tls HOST` sends them in a CONNECT tunnel,
# `at LISTENER` to another listener.
REQUESTS = [
    ("an allowed page", get("/page")),
    ("a denied page", get("/private/diary")),
    ("a denied page as HTML", get("/private/diary", "Accept: text/html")),
    ("a denied page as text", get("/private/diary", "Accept: text/plain")),
    ("a longer allow", get("/private/open/door")),
    ("a pattern with an end", get("/paper.pdf")),
    ("a pattern with a query", get("/search?a=b&q=c")),
    ("a path that servers may read as another", get("/a/../private/diary")),
    ("an encoded path", get("/%70rivate/diary")),
    ("a double slash", get("//private/diary")),
    ("an encoded slash", get("/x%2F..%2Fprivate/diary")),
    ("a fragment and an empty path", get("?a=b#private")),
    ("another group", get("/page", agent="ShopBot/3 (+http://shop.test)")),
    ("another group's allow", get("/shop/1", agent="ShopBot/3")),
    ("the group of all", get("/page", agent="Mozilla/5.0 (X11; Linux) Other/1")),
    ("the group of all at the root", get("/", agent="Mozilla/5.0 (X11; Linux) Other/1")),
    ("no User-Agent", get("/page", agent="")),
    ("robots.txt itself", get("/robots.txt")),
    ("an empty rule", get("/any", at="open")),
    ("no robots.txt", get("/any", at="none")),
    ("a forbidden robots.txt", get("/any", at="forbid")),
    ("an unavailable robots.txt", get("/any", at="down")),
    ("the same again", get("/any", at="down")),
    ("a moved robots.txt", get("/elsewhere/1", at="moved")),
    ("a robots.txt in gzip", get("/coded/1", at="coded")),
    ("a robots.txt that is a page", get("/any", at="page")),
    ("a robots.txt in a circle", get("/any", at="loop")),
    ("a robots.txt that breaks off", get("/any", at="cut")),
    ("a robots.txt with odd spelling", get("/upper/1", at="meta")),
    ("a page with use fields", get("/free/fields", at="usage")),
    ("HEAD", ask("HEAD", "http://{site}/page")),
    ("HEAD denied", ask("HEAD", "http://{site}/private/diary")),
    ("POST", ask("POST", "http://{site}/form", "Content-Length: 3", body="a=b")),
    ("POST denied, with its body", ask("POST", "http://{site}/private/form", "Content-Length: 3", body="a=b")),
    ("PUT in chunks with a trailer", ask("PUT", "http://{site}/file", "Transfer-Encoding: chunked", "Trailer: X-End",
                                        body="3\r\nabc\r\n0\r\nX-End: 1\r\n\r\n")),
    ("an expectation", ask("POST", "http://{site}/form", "Expect: 100-continue", "Content-Length: 3", body="a=b")),
    ("an expectation, denied", ask("POST", "http://{site}/private/form", "Expect: 100-continue", "Content-Length: 3", body="a=b")),
    ("an unknown expectation", ask("POST", "http://{site}/form", "Expect: tea", "Content-Length: 3", body="a=b")),
    ("OPTIONS *", ask("OPTIONS", "http://{site}")),
    ("OPTIONS * in origin-form", ask("OPTIONS", "*", host="{site}")),
    ("OPTIONS with no forwards left", ask("OPTIONS", "http://{site}/page", "Max-Forwards: 0")),
    ("OPTIONS with one forward left", ask("OPTIONS", "http://{site}/page", "Max-Forwards: 1")),
    ("TRACE", ask("TRACE", "http://{site}/page")),
    ("an unknown method", ask("PURGE", "http://{site}/page")),
    ("a method in small letters", ask("get", "http://{site}/page")),
    ("Range", get("/part", "Range: bytes=2-5")),
    ("conditions", get("/not-modified", "If-None-Match: \"a\"")),
    ("a chunked answer", get("/chunked", "TE: trailers")),
    ("a redirect", get("/redirect")),
    ("a coded answer", get("/coded", "Accept-Encoding: gzip")),
    ("no content", get("/nothing")),
    ("early hints", get("/early")),
    ("an answer until the end", get("/old")),
    ("fields of one hop", get("/hop", "Connection: x-mine", "X-Mine: 1", "Proxy-Connection: keep-alive", "TE: trailers, gzip")),
    ("fields that name another target", get("/page", "X-Original-URL: /private/diary", "X-Rewrite-URL: /a", "X-Forwarded-Host: b",
                                            "Forwarded: host=c", "X-HTTP-Method-Override: PUT")),
    ("fields of this program", get("/page", "Crawlgate-Usage: a", "Proxy-Status: crawlgate", "Via: 1.0 other")),
    ("cookies and credentials", get("/busy", "Cookie: a=b", "Authorization: Basic YTpi", "Proxy-Authorization: Basic YTpi")),
    ("X-Robots-Tag", get("/noindex")),
    ("a folded field of the answer", get("/fold")),
    ("an answer of two lengths", get("/two-lengths")),
    ("an answer that is no HTTP", get("/no-http")),
    ("an answer that ends early", get("/short")),
    ("a connection without an answer", get("/shut")),
    ("an upgrade to WebSocket", get("/switch", *WS)),
    ("an upgrade to WebSocket, denied", get("/private/switch", *WS)),
    ("an upgrade that the origin declines", get("/page", *WS)),
    ("an upgrade to HTTP/2", get("/page", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")),
    ("HTTP/1.0", get("/page", version="1.0")),
    ("HTTP/1.0, kept", get("/page", "Connection: keep-alive", version="1.0")),
    ("HTTP/2.0 in a start line", get("/page", version="2.0")),
    ("HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("three requests at once", get("/page") + get("/private/1") + get("/nothing"), 3),
    ("a denied body that looks like a request", ask("POST", "http://{site}/private/1", "Content-Length: 27",
                                                    body="GET /smuggled HTTP/1.1\r\n\r\n\r") + get("/page"), 2),
    ("the Host names another origin", get("/page", host="open.test")),
    ("no Host", "GET http://{site}/page HTTP/1.1\r\nUser-Agent: TestBot\r\n\r\n"),
    ("two Hosts", get("/page", "Host: open.test")),
    ("origin-form", ask("GET", "/page", host="{site}")),
    ("another scheme", ask("GET", "gopher://{site}/page")),
    ("https in absolute-form", ask("GET", "https://{site_s}/page")),
    ("credentials in the target", ask("GET", "http://a:b@{site}/page", host="{site}")),
    ("a closed port", ask("GET", "http://site.test:1/page")),
    ("an unknown name", ask("GET", "http://unknown.invalid/page")),
    ("an address inside", ask("GET", "http://10.0.0.1/page")),
    ("an IPv6 address", ask("GET", "http://[fe80::1]/page")),
    ("a space in the target", "GET http://{site}/a b HTTP/1.1\r\nHost: {site}\r\n\r\n"),
    ("an octet above ASCII in the target", get("/\u00fc")),
    ("no target", "GET\r\n\r\n"),
    ("no request", "hello\r\n\r\n"),
    ("a TLS hello", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n"),
    ("two lengths", ask("POST", "http://{site}/form", "Content-Length: 3", "Content-Length: 4", body="a=b")),
    ("a length and chunks", ask("POST", "http://{site}/form", "Content-Length: 3", "Transfer-Encoding: chunked", body="0\r\n\r\n")),
    ("a length that is no number", ask("POST", "http://{site}/form", "Content-Length: +3", body="a=b")),
    ("an unknown transfer coding", ask("POST", "http://{site}/form", "Transfer-Encoding: gzip, chunked", body="0\r\n\r\n")),
    ("a chunk that is no number", ask("POST", "http://{site}/form", "Transfer-Encoding: chunked", body="z\r\nabc\r\n0\r\n\r\n")),
    ("a space before the colon", get("/page", "X-Odd : 1")),
    ("a folded field", get("/page", "X-Odd: 1", " 2")),
    ("a field without a colon", get("/page", "odd")),
    ("a control octet in a field", get("/page", "X-Odd: a\x01b")),
    ("a target that is too long", get("/" + 17000 * "a")),
    ("a head that is too long", get("/page", "X-Long: " + 70000 * "a")),
    ("too many fields", get("/page", *(f"X-{n}: 1" for n in range(120)))),
    ("CONNECT to a denied port", ask("CONNECT", "port.invalid:25")),
    ("CONNECT without a port", ask("CONNECT", "site.test")),
    ("CONNECT with a path", ask("CONNECT", "http://{site}/", host="{site}")),
    ("a page in a tunnel", ask("GET", "/page", host="{site_s}"), "tls site"),
    ("a denied page in a tunnel", ask("GET", "/private/diary", host="{site_s}"), "tls site"),
    ("two pages in a tunnel", ask("GET", "/chunked", host="{open_s}") + ask("HEAD", "/page", host="{open_s}"), "tls open"),
    ("absolute-form in a tunnel", ask("GET", "https://{site_s}/page"), "tls site"),
    ("another host in a tunnel", ask("GET", "/page", host="{open_s}"), "tls site"),
    ("an upgrade in a tunnel", ask("GET", "/switch", *WS, host="{site_s}"), "tls site"),
    ("no HTTP in a tunnel", "\x01\x02\x03\r\n\r\n", "tls site"),
    ("an opaque tunnel that rules forbid", ask("CONNECT", "{meta_s}")),
    ("an opaque tunnel that is open", ask("GET", "/page", host="{page_s}"), "tls page"),
]

# Requests by HTTP/2: a name, the URL, and options of curl.
BY_HTTP2 = [
    ("an allowed page", "https://{site_s}/page"),
    ("a denied page", "https://{site_s}/private/diary"),
    ("a path as it is", "https://{site_s}/a/../private/diary", "--path-as-is"),
    ("POST", "https://{site_s}/form", "-d", "a=b"),
    ("HEAD", "https://{site_s}/page", "-I"),
    ("a chunked answer", "https://{open_s}/chunked", "-H", "TE: trailers"),
    ("an answer that ends early", "https://{open_s}/short"),
    ("fields of one hop of the answer", "https://{open_s}/hop"),
    ("another host", "https://{open_s}/page", "-H", "Host: none.test"),
]

# What the gates have in common.
COMMON = """
[listen]
address = "127.0.0.1:0"
[robots]
retry_min = "1h"
retry_max_503 = "1h"
connect_timeout = "2s"
[tls]
ca_cert = "ca.crt"
ca_key = "ca.key"
extra_roots = ["../origin.pem"]
tunnel = ["meta.test", "page.test"]
[egress]
allow = ["127.0.0.0/8"]
connect_ports = ["1024-65535"]
[store]
path = "crawlgate.db"
[admin]
address = "127.0.0.1:0"
""" + "[upstream.hosts]\n" + "".join(f'"{name}.test" = "127.0.0.1"\n' for name in ROBOTS)

# The gate with most defaults, which all of `REQUESTS` go through.
MAIN = COMMON + """
[log]
decisions = "all"
"""

# The hash of `sesame-canary-4711`.
HASH = "$argon2id$v=19$m=19456,t=2,p=1$ud19yGgt2t4AfipxRPrpfw$kPH506PzXJAq7yCrHCHXJH9+4O1v+mWw0YsXWhZMgis"

# A gate of clients, overrides, purposes, signatures and users.
CLIENTS = COMMON.replace("[admin]", '[admin]\npublic_try = "127.0.0.1:0"') + f"""
[log]
decisions = "denied"
file = "decisions.jsonl"
redact_query = true
[audit]
durability = "strict"
log_name = "logs.example/clients"
[signals]
stamp = true
robots_tag = "enforce"
license = "enforce"
[[override]]
origin = "http://{{site}}"
pattern = "/private/press"
action = "allow"
by = "Ada Example"
reason = "written permission"
[[override]]
origin = "http://{{open}}"
pattern = "/closed"
action = "deny"
by = "Ada Example"
reason = "a complaint"
[[signing]]
name = "bot"
agent = "https://bot.example/.well-known/http-message-signatures-directory"
key = "bot.key"
plain_http = true
[[client]]
name = "news"
password = "{HASH}"
product_tokens = ["NewsBot", "TestBot"]
purpose = "news search"
purposes = ["train-ai"]
[[client]]
name = "trial"
password = "{HASH}"
mode = "report"
signing = "bot"
[[client]]
name = "person"
password = "{HASH}"
exempt = "a person asks for each page"
[[client]]
name = "few"
password = "{HASH}"
quota = {{ requests = 2, per = "1d" }}
[[client]]
name = "near"
listeners = ["secure", "local", "balanced"]
product_tokens = ["ShopBot"]
[[admin.user]]
name = "ada"
role = "operate"
password = "{HASH}"
[[listener]]
name = "secure"
address = "127.0.0.1:0"
tls = true
names = ["proxy.test"]
[[listener]]
name = "local"
unix = "local.sock"
[[listener]]
name = "balanced"
address = "127.0.0.1:0"
proxy_protocol_from = ["127.0.0.1"]
open = true
"""


def as_client(name, password="sesame-canary-4711"):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


CLIENT_REQUESTS = [
    ("no credentials", get("/page")),
    ("no credentials for CONNECT", ask("CONNECT", "{site_s}")),
    ("an unknown client", get("/page", as_client("unknown"))),
    ("a wrong password", get("/page", as_client("news", "wrong"))),
    ("another scheme of credentials", get("/page", "Proxy-Authorization: Bearer x")),
    ("tokens of the configuration", get("/private/diary?secret=1", as_client("news"), agent="curl/8")),
    ("an override that allows", get("/private/press/1", as_client("news"))),
    ("an override that denies", get("/closed/1", as_client("news"), at="open")),
    ("a use that robots.txt disallows", get("/page", as_client("news"), at="usage")),
    ("a use that robots.txt allows and the answer disallows", get("/free/fields", as_client("news"), at="usage")),
    ("a use that X-Robots-Tag disallows", get("/noindex", as_client("news"), at="open")),
    ("a use that nothing disallows", get("/page", as_client("news"), at="open")),
    ("a denial that is only reported", get("/private/diary", as_client("trial"))),
    ("a signed request", get("/page", as_client("trial"))),
    ("a signed request in a tunnel", ask("GET", "/page", host="{site_s}"), "tls site"),
    ("two more signed requests", 2 * get("/page?a=b", as_client("trial")), 2),
    ("an exempt client", get("/private/diary", as_client("person"))),
    ("a listener with TLS", get("/shop/1"), "at secure"),
    ("a listener with TLS, denied", get("/page"), "at secure"),
    ("a Unix socket", get("/shop/1"), "at local"),
    ("another request at a Unix socket", ask("HEAD", "http://{site}/shop/2", agent="Other/1"), "at local"),
    ("behind a balancer", "PROXY TCP4 192.0.2.9 192.0.2.1 4711 80\r\n" + get("/page"), "at balanced"),
    ("behind a balancer, without its header", get("/page"), "at balanced"),
    ("a quota, 1", get("/page", as_client("few"))),
    ("a quota, 2", get("/private/1", as_client("few"))),
    ("a quota, spent", get("/page", as_client("few"))),
]
