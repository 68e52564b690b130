"""The fixed command lines, configurations and pages. A new case is one row.

A command line is read as a shell reads words. `{KEY}` stands for a fact that the run has learned, such as the id of a decision.
"""

# Command lines with a fault.
WRONG_WORDS = """
nothing
serve --nothing
serve --listen nowhere
check
check nowhere
check ftp:/x
check http://site.test/ --robots robots.txt --agent ''
check http://site.test/ --robots missing.txt
check --jsonl --urls missing.txt
check --robots robots.txt --since yesterday --origin http://site.test
check http://site.test/ --purpose everything
log --limit many
log --since tomorrow-ish
log --verdict perhaps
log --format yaml
log --format sqlite
log --reason because
log show
log show 0
log ack
sql
audit
audit verify
audit verify nothing
audit verify 01KB7W3Y5E000000000VY7H1Q2
audit prove
audit consistency 2 1
audit verify-evidence missing.json
audit export
report
report --since 1d -o report.txt --json
origins show
origins show nowhere
override add http://site.test allow
override add nowhere deny --until 1d --by ada --reason x
override add http://site.test deny --until 3000-01-01 --by ada --reason x
override remove 4711 --by ada
client check unknown
client add 'a b' --generate
admin user add ada --role king --generate
ca setup nothing
store
store backup
fleet status
fleet check
collect
squid-helper --concurrency many
completions nothing
config
config show --json
run
ready
""".strip().split("\n")

# Configurations with a fault: a name, and the text.
WRONG_CONFIGS = [
    ("no TOML", "listen = ["),
    ("an unknown section", "[nothing]\na = 1\n"),
    ("an unknown key", "[listen]\nadress = \"127.0.0.1:0\"\n"),
    ("a key twice", "[listen]\nhttp2 = true\nhttp2 = false\n"),
    ("a number in place of text", "[listen]\naddress = 8118\n"),
    ("text in place of a truth", "[listen]\nhttp2 = \"yes\"\n"),
    ("an address without a port", "[listen]\naddress = \"127.0.0.1\"\n"),
    ("an open listener", "[listen]\naddress = \"0.0.0.0:0\"\n"),
    ("a duration without a unit", "[limits]\nheader_timeout = \"10\"\n"),
    ("a duration that is too long", "[limits]\nheader_timeout = \"400d\"\n"),
    ("a size with a wrong unit", "[limits]\nheader_bytes = \"64 bananas\"\n"),
    ("a number below the range", "[robots]\nmax_redirects = 1\nsize_limit = \"1KiB\"\n"),
    ("a share above 1", "[robots]\nrefresh_ahead = 1.5\njitter = -1\n"),
    ("bounds in the wrong order", "[robots]\nfresh_min = \"2d\"\nfresh_max = \"1d\"\nretry_min = \"1h\"\nretry_max = \"1m\"\n"),
    ("a wrong word", "[robots]\nprofile = \"bing\"\n[policy]\nmode = \"off\"\n[log]\ndecisions = \"some\"\n"),
    ("a wrong status", "[robots]\ndeny_statuses = [200]\nunreachable_status = 418\n"),
    ("a wrong network", "[egress]\nallow = [\"10.0.0.0/33\", \"*.*.example\"]\nconnect_ports = [0, \"9-1\"]\n"),
    ("a wrong product token", "[agent]\nproduct_tokens = [\"Bot 1\"]\nsigning = \"none\"\n"),
    ("one of two keys", "[tls]\nca_cert = \"ca.crt\"\n"),
    ("missing files", "[tls]\nextra_roots = [\"missing.pem\"]\n[admin]\ncert = \"missing.pem\"\nkey = \"missing.key\"\n"),
    ("a wrong proxy", "[[upstream.proxy]]\nhosts = [\"*\"]\nurl = \"gopher://proxy\"\n"),
    ("a wrong host entry", "[upstream.hosts]\n\"site.test\" = \"nowhere\"\n"),
    ("an override without a person", "[[override]]\norigin = \"https://site.example\"\naction = \"allow\"\n"),
    ("a wrong override", "[[override]]\norigin = \"nowhere\"\naction = \"maybe\"\nuntil = \"soon\"\nby = \"a\"\nreason = \"b\"\n"),
    ("two clients of a name", "[[client]]\nname = \"a\"\nnetworks = [\"10.0.0.0/8\"]\n[[client]]\nname = \"a\"\nnetworks = [\"10.0.0.0/8\"]\n"),
    ("a client without a name", "[[client]]\nnetworks = [\"10.0.0.0/8\"]\n"),
    ("a wrong client", "[[client]]\nname = \"A b\"\npassword = \"plain\"\nlisteners = [\"none\"]\nquota = { per = \"1d\" }\nexempt = \"x\"\n"),
    ("a wrong purpose", "[policy]\npurposes = [\"all\"]\nreport_origins = [\"site\"]\n"),
    ("a wrong signing", "[[signing]]\nname = \"news\"\nagent = \"http://bot.example/\"\nkey = \"missing.key\"\nlifetime = \"2d\"\n"),
    ("a wrong witness", "[[audit.witness]]\nname = \"w\"\nurl = \"ftp://w\"\nvkey = \"x\"\n[audit]\nquorum = 3\n"),
    ("a wrong fleet", "[fleet]\nengine = \"valkey.example\"\npatience = \"0s\"\n"),
    ("a wrong user", "[[admin.user]]\nname = \"ada\"\nrole = \"king\"\n"),
    ("a console beyond this machine", "[admin]\naddress = \"0.0.0.0:0\"\n"),
    ("a wrong listener", "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nunix = \"a.sock\"\nmode = \"999\"\ntls = true\n"),
    ("a wrong level", "[log]\nlevel = \"loud\"\nformat = \"xml\"\n"),
    ("a wrong collector", "[telemetry]\notlp_endpoint = \"nowhere\"\nsample = 2\n"),
]

# Commands that need no gate; a second member is standard input. `robots.txt`, `usage.txt` and `bad.txt` are there.
PLAIN = [
    ("--version",), ("config show",), ("config check",), ("config show --config {reference}",), ("config check --config {reference}",),
    ("config show --config missing.toml",),
    *((f"check {url} --robots robots.txt --agent {agent} {form}",)
      for form in ("", "--json", "--quiet")
      for agent in ("TestBot", "'Mozilla/5.0 (compatible; NewsBot/2.1; +http://n.test)'", "ShopBot", "LostBot", "LostBot --agent ShopBot")
      for url in ("http://site.test/private/a http://site.test/private/open http://site.test/x/%2e%2e/private/a",
                  "https://site.test/ https://site.test/shop https://site.test/robots.txt https://site.test/a.pdf?x",)),
    *((f"check http://usage.test{path} --robots usage.txt --agent TestBot --purpose {purpose} {form}",)
      for form in ("", "--json") for path in ("/page", "/free/page", "/closed/") for purpose in ("train-ai", "ai-input,search", "tdm")),
    ("check http://usage.test/ --robots usage.txt --response head.txt --tdmrep tdm.json --purpose train-ai --json",),
    ("check http://usage.test/ --robots usage.txt --response head.txt --tdmrep tdm.json --purpose train-ai",),
    ("check --robots robots.txt",), ("check --robots robots.txt --json",), ("check --robots robots.txt --strict",),
    ("check --robots usage.txt",), ("check --robots bad.txt",), ("check --robots bad.txt --json",), ("check --robots -", b"Disallow: /\n"),
    ("check --robots robots.txt --urls - --agent TestBot", b"# some\nhttp://site.test/private/\n\nnot a url\nhttp://site.test/\n"),
    ("check --jsonl --agent TestBot", b'{"url":"http://a.test/x","robots":"User-agent: *\\nDisallow: /x\\nfoo\\n","notes":true}\n'
     b'not json\n{"url":"x"}\n{"url":"http://a.test/y/../x","agents":["A","B"],"robots_base64":"RGlzYWxsb3c6IC94Cg=="}\n'
     b'{"url":"http://a.test/a/../x","robots":"User-agent: *\\nDisallow: /x\\nContent-Usage: train-ai=n\\n","purposes":["train-ai"],'
     b'"response":"HTTP/1.1 200 OK\\r\\nX-Robots-Tag: noai\\r\\n\\r\\n","tdmrep":null}\n{"url":"http://a.test/","robots":7}\n'),
    ("completions bash",), ("completions fish",), ("completions zsh",), ("completions elvish",), ("completions powershell",), ("man",),
    ("client check news", b"sesame-canary-4711\n"), ("client list",), ("admin user list",), ("signing list",),
    ("log",), ("origins",), ("audit verify --all",), ("store check",),
]

# Files beside those commands.
FILES = {
    "head.txt": "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=y\r\ntdm-reservation: 1\r\nX-Robots-Tag: noai, noindex\r\n\r\n",
    "tdm.json": '[{"location": "/*", "tdm-reservation": 1, "tdm-policy": "https://usage.test/policy.json"}]\n',
    "bad.txt": "Disallow: /before\nUser-agent: a\nUser-agent: Bot 2\nAllow: x\nDisallow: /a*b$c\nDissallow: /t\nUser agent: b\n\n"
               "Crawl-delay: soon\nDisallow: /%zz\nDisallow: /ü\nUnknown: 1\nSitemap: x\nHost: y\nUser-agent: *\n",
}

# Commands about the records of the main gate while it runs.
RECORDS = [(line,) for line in """
ready
log
log --all
log --json --all
log --format csv --all
log --json --verdict allow --limit 3
log --reason path_guard
log --client 127.0.0.1 --limit 2
log --agent ShopBot
log --path /private/* --origin http://{site}
log --rule 'Disallow: /private/'
log --failed
log --events
log --events --json
log --summary origin
log --summary reason --json
log --summary rule --format csv
log show {id}
log show {id} --json
log show {tunnel}
log ack {id} --note 'the owner knows' --by ada
log ack --rule 'Disallow: /*.pdf$' --note known --by ada --yes
log ack {id} --note again --by grace
log --acknowledged
log --unacknowledged --reason path_guard --json
log --json --events --limit 3
origins
origins list --json
origins --state unreachable
origins show http://{site}
origins show http://{site} --json
origins show http://{site} --robots
origins show http://{down}
origins show http://{site} --as '*'
origins sitemaps
origins sitemaps --agent TestBot --json
origins refresh http://{site}
origins refresh http://{down}
origins forget http://{loop}
origins show http://{loop}
override list
override add http://{site} /private/ allow --until 30d --by ada --reason 'a letter'
override add http://{open} deny --until 2h --by ada --reason 'a complaint'
override add https://{usage_s} /x allow_usage --until 30d --by ada --reason 'a licence'
override list
override list --json
override remove 2 --by grace
override remove 2 --by grace
override list --all
check http://{site}/private/diary --agent TestBot
check http://{site}/private/diary --agent TestBot --json
check http://{down}/x http://{open}/ --json --agent TestBot
check http://{none}/x --agent TestBot --fresh --allow 127.0.0.0/8
check --robots usage.txt --origin http://{site} --since 1d
check --robots usage.txt --origin http://{site} --since 1d --json
check --robots usage.txt --origin http://{site} --since 1d --jsonl
sql "SELECT type, name, sql FROM store.sqlite_master ORDER BY type, name"
sql "SELECT name, type FROM pragma_table_info('decisions')"
sql "PRAGMA user_version"
sql "SELECT reason, count(*) AS n FROM decisions GROUP BY reason ORDER BY n DESC, reason"
sql --format csv "SELECT url, status, rule_text FROM denials WHERE reason = 'path_guard'"
sql --format jsonl "SELECT * FROM decisions LIMIT 3"
sql "SELECT origin, identity, state, status, bytes FROM origins ORDER BY 1, 2"
sql "DELETE FROM override"
sql "SELECT nothing"
store size
store check
audit key
audit verify --all
audit verify --all --json
audit verify {id}
audit verify {id} --json --full
audit verify {tunnel}
audit prove {id} -o evidence.json
audit verify-evidence evidence.json
audit verify-evidence evidence.json --full
audit prove --reason path_guard -o evidence.jsonl
audit verify-evidence evidence.jsonl
audit checkpoint
audit consistency {old} {new}
audit export --to export
audit tiles tiles
collect --from export --to collection --trust-new
collect --list --to collection
log --log '*' --collection collection --limit 2
report --since 1d -o - --by 'Ada Example'
report --since 1d --json - -o report.html --origin http://{site}
report --since 1d --origins-csv - -o again.html
store backup backup.db
audit verify --all --store backup.db
audit verify --all --store backup.db --key crawlgate.log.key
squid-helper --url http://127.0.0.1:{console} --concurrency 0
ca show
ca setup curl
ca setup
fleet status
config show
""".strip().split("\n")]

# What the commands above take from standard input.
STDIN = {"squid-helper --url http://127.0.0.1:{console} --concurrency 0":
         b"http://{site}/page TestBot\nhttp://{site}/private/x TestBot\nnonsense\n"}

# Commands after the end of the main gate.
AFTER = """
ready
log --json --limit 2
audit verify --all
audit verify {id}
store check
origins refresh http://{site}
audit key rotate --reason yearly --by ada
audit checkpoint
audit fork --reason lost
ca rotate
ca show
ca rotate --cancel
ca export exported
ca export home
store rebuild
""".strip().split("\n")

# Pages and the API of the main gate, which all have GET; those of docs/openapi.json without parameters come besides.
PAGES = """
/
/denials
/denials?verdict=allow
/denials?reason=path_guard
/denials?reason=nothing
/denials/export?format=csv
/denials/export?format=jsonl&reason=path_guard
/denials/acknowledge?reason=path_guard
/decisions/0
/decisions/{id}
/decisions/{tunnel}
/decisions/{id}/evidence.json
/decisions/01KB7W3Y5E000000000VY7H1Q2
/origins
/origins?state=unreachable
/origin?of=http%3A%2F%2Fsite.test%3A{http}
/origin?of=http%3A%2F%2Fdown.test%3A{http}
/origin/diff?of=http%3A%2F%2Fsite.test%3A{http}
/origin/diff?of=http%3A%2F%2Fsite.test%3A{http}&old={sha256}&new={sha256_open}
/origin/forget?of=http%3A%2F%2Fsite.test%3A{http}
/robots/{sha256}
/overrides
/overrides?all=true
/overrides?origin=http%3A%2F%2Fsite.test%3A{http}&pattern=%2Fa
/fleet
/report
/report?since=1d
/report/crawlgate-report.html?since=1d
/report/crawlgate-report.json?since=1d
/try
/try?url=http%3A%2F%2Fsite.test%3A{http}%2Fprivate%2Fa&agent=TestBot
/watch
/setup
/ca.crt
/sign-out
/live
/ready
/nothing
/metrics
/tlog/checkpoint
/tlog/tile/0/000
/.well-known/http-message-signatures-directory
/decide?url=http%3A%2F%2Fsite.test%3A{http}%2Fprivate%2Fa&agent=TestBot
/decide?url=http%3A%2F%2Fsite.test%3A{http}%2Fpage&agent=TestBot&method=GET
/decide
/api/v1/openapi.json
/api/v1/nothing
/api/v1/check
/api/v1/decisions?limit=2&order=oldest
/api/v1/decisions?reason=path_guard
/api/v1/decisions?limit=0
/api/v1/decisions?nothing=1
/api/v1/decisions?cursor=bad
/api/v1/decisions/{id}
/api/v1/decisions/{id}/evidence
/api/v1/decisions/{id}/proof
/api/v1/decisions/0
/api/v1/origins/http%3A%2F%2Fsite.test%3A{http}
/api/v1/origins/http%3A%2F%2Fsite.test%3A{http}/fetches
/api/v1/origins/nowhere
/api/v1/overrides?all=true
/api/v1/report?since=1d
/api/v1/sitemaps?agent=TestBot
/api/v1/snapshots/{sha256}
/api/v1/snapshots/{sha256}/diff/{sha256_open}
/api/v1/tallies?by=reason
/api/v1/tallies?by=rule
""".strip().split("\n")

# Acts at the console's address: method, target, body.
ACTS = [
    ("POST", "/api/v1/check", '{"url":"http://{site}/private/a","agents":["TestBot"]}'),
    ("POST", "/api/v1/check", '{"url":"http://a.test/","robots":"User-agent: *\\nDisallow: /\\n","agents":["A"]}'),
    ("POST", "/api/v1/check", '{"nothing":1}'),
    ("POST", "/api/v1/refresh", '{"origin":"http://{site}"}'),
    ("POST", "/api/v1/overrides", '{"origin":"http://{site}","pattern":"/a","action":"deny","until":"1d","by":"ada","reason":"r"}'),
    ("POST", "/api/v1/overrides", '{"origin":"http://{site}"}'),
    ("DELETE", "/api/v1/overrides/3?by=ada", ""),
    ("POST", "/api/v1/decisions/{id}/acknowledgement", '{"note":"n","by":"ada"}'),
    ("POST", "/api/v1/acknowledgements?reason=path_guard", '{"note":"n","by":"ada"}'),
    ("DELETE", "/api/v1/origins/http%3A%2F%2Fpage.test%3A{http}", ""),
    ("PUT", "/api/v1/overrides", "{}"), ("POST", "/metrics", "x"), ("POST", "/", "x"), ("OPTIONS", "/", ""), ("HEAD", "/", ""),
]

# Configurations that a running gate reads again, and what it says then.
RELOADS = [
    ("a few keys", "was read again", lambda text: text.replace('decisions = "all"', 'decisions = "denied"\nlevel = "warn,crawlgate=info"')
     + '[policy]\nmode = "report"\n[[client]]\nname = "a"\nnetworks = ["10.0.0.0/8"]\nexempt = "b"\n'),
    ("many keys", "need a restart", lambda text: """
[listen]\naddress = "127.0.0.1:1"\nhttp2 = false
[limits]\nrequests = 9\nuri_bytes = "1KiB"\nhttp2_streams = 9\ndrain = "1s"
[agent]\nproduct_tokens = ["A"]\nmismatch = "deny"\nrequire_identity = true
[robots]\nprofile = "google"\nfresh = "1h"\nmax_fetches = 9\nlenient = false\ndeny_statuses = [401]\n[robots.cache]\norigins = 9
[signals]\ntdmrep = "record"\nstamp = true
[pace]\nrequests_per_second = 1\ncrawl_delay = "honour"
[tls]\nleaf_cache = 9\ntunnel = ["a.example"]
[egress]\nallow = ["10.0.0.0/8"]\ndeny = ["a.example"]
[upstream]\nvia = false\nhttp2 = false\nconnect_timeout = "1s"
[log]\ndecisions = "purposes"\nstdout = true\non_failure = "continue"\nredact_query = true
[telemetry]\nsample = 0.5
[store]\nsynchronous = "normal"
[audit]\ndurability = "strict"\nkeep = "forever"\nlog_name = "a"
[admin]\naddress = ""\nconnections = 9
[policy]\nmode = "report"\npurposes = ["tdm"]
"""),
    ("a fault", "stays as it was", lambda text: "[nothing]\na = 1\n[robots]\nfresh = 1\n"),
]

# Commands whose octets a program of another build must give for the same store.
SAME = """
log --json --all
log --format csv --all
log --json --events --all
sql --format jsonl "SELECT * FROM decisions"
sql --format jsonl "SELECT * FROM origins"
audit verify --all --json
audit verify {id} --json --full
audit prove {id}
audit checkpoint
audit key
origins list --json
override list --all --json
store check
""".strip().split("\n")

# Commands about the gate of clients.
CLIENT_RECORDS = """
log --all
log --json --all
log --client news
log --exempt
log --mode report --json
client list
client check news
admin user list
signing list
signing directory bot
signing rotate bot
override list
audit verify --all
report --since 1d -o -
config show
origins
""".strip().split("\n")

# Its pages: the address, and whether ada asks.
CLIENT_PAGES = [("/", False), ("/api/v1/status", False), ("/metrics", False), ("/live", False), ("/ready", False),
                ("/", True), ("/denials", True), ("/overrides", True), ("/report?since=1d", True), ("/api/v1/decisions", True),
                ("/setup", True), ("/.well-known/http-message-signatures-directory", True)]

# The page for everyone (`[admin] public_try`).
PUBLIC_PAGES = ["/", "/try", "/try?url=http%3A%2F%2Fsite.test%3A{http}%2Fpage&agent=TestBot", "/try?url=nowhere", "/denials", "/metrics"]
