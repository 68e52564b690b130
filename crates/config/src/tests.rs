//! Tests of the configuration, and the files that they share.

use std::path::Path;
use std::time::Duration;

use super::units::{days, hours, secs};
use super::*;

mod found;
mod mistakes;
mod policy;
mod service;
mod values;
mod written;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/crawlgate/config.toml"))
}

/// A file in which keys of all kinds differ from their defaults.
const OTHER: &str = r#"
[listen]
address = ["[::1]:0", "192.0.2.1:3128"]
allow = ["10.0.0.0/8", "192.0.2.7"]
open = true
http2 = false
[[listener]]
name = "fleet"
address = "0.0.0.0:8443"
tls = true
cert = "proxy.pem"
key = "/keys/proxy.key"
client_ca = "clients.pem"
client_cert = "optional"
allow = ["10.0.0.0/8"]
proxy_protocol_from = ["10.0.0.5", "10.1.0.0/16"]
[[listener]]
name = "local"
unix = "run/crawlgate.sock"
mode = "0660"
[[listener]]
name = "minted"
address = "127.0.0.1:0"
tls = true
names = ["Proxy.example", "127.0.0.1"]
[limits]
connections = 10
connections_per_client = 5
requests = 8
requests_per_client = 4
header_timeout = "1s"
body_timeout = "2s"
body_rate = 0
idle_timeout = "1m1s"
tunnel_idle_timeout = "7m"
header_fields = 50
header_bytes = 4097
uri_bytes = "4KiB"
http2_streams = 7
http2_window = "128KiB"
http2_resets = 9
http2_control_frames = 300
drain = "0s"
[agent]
product_tokens = ["Googlebot-Image", "Googlebot"]
mismatch = "deny"
require_identity = true
signing = "all"
[robots]
profile = "google"
disallow_for = "6h"
last_good_until = "20d"
finally = "allow"
fresh = "1h"
fresh_min = "1m"
fresh_max = "48h"
refresh_ahead = 1
retry_min = "50ms"
retry_max = "2h"
retry_max_503 = "6m"
jitter = 0
size_limit = "1MiB"
max_redirects = 6
connect_timeout = "1s"
first_byte_timeout = "2s"
fetch_timeout = "3s"
max_fetches = 32
fetches_per_second = 50
hold = "4s"
lenient = false
path_guard = false
soft_404 = false
soft_404_phrases = ["nothing  here", "nichts da"]
deny_statuses = [401, 403]
unreachable_status = 503
user_agent = "Fleet/1.0 (+https://fleet.example)"
cache = { origins = 10, bytes = "1MiB" }
[pace]
requests_per_second = 2
burst = 3
max_hold = "1s"
max_held = 100
concurrency = 4
crawl_delay = "honour"
max_crawl_delay = "1m"
backoff = false
backoff_max = "10m"
[tls]
ca_cert = "ca.pem"
ca_key = "/keys/ca.key"
leaf_lifetime = "24h"
leaf_cache = 10
tunnel = ["bank.example", "*.Bank.example", "*"]
extra_roots = ["origin.pem", "/roots.pem"]
name_constraints = ["example.com", "10.0.0.0/8"]
[upstream]
connect_timeout = "1s"
response_timeout = "2s"
body_timeout = "4s"
idle_timeout = "3s"
idle_per_host = 0
http2 = false
http1_hosts = ["old.example", "*.Old.example"]
ftp = false
http2_streams = 7
http2_connections = 3
http2_window = "1MiB"
via = false
hosts = { "Site.example" = "192.0.2.1", "other.example." = "2001:db8::1" }
[[upstream.proxy]]
hosts = ["*.intranet.example", "wiki.example"]
direct = true
[[upstream.proxy]]
hosts = "*.onion"
url = "socks5://127.0.0.1:9050"
[[upstream.proxy]]
hosts = ["*"]
url = "http://proxy.example:3128"
credentials_file = "proxy.pass"
[egress]
allow = ["127.0.0.0/8", "[::1]:8080", "*.Intranet.example:8443"]
deny = "203.0.113.0/24"
connect_ports = [443, "8000-8999"]
[log]
decisions = "all"
file = "decisions.jsonl"
stdout = true
rotate_bytes = "1MiB"
rotate_daily = false
keep = 1
on_failure = "continue"
redact_query = true
level = "warn,crawlgate::proxy=debug"
format = "json"
[telemetry]
otlp_endpoint = "https://otlp.example/tenant/"
headers_file = "otlp.headers"
service_name = "crawlgate-7"
sample = 0.5
logs = false
[store]
path = "store.db"
synchronous = "normal"
[audit]
durability = "strict"
keep = "forever"
max_size = "unlimited"
refusals_per_minute = 60
checkpoint_every = "1m"
log_name = "logs.example.org/fra-1"
quorum = 2
collection = "logs"
[ship]
to = "https://collect.example/ship/"
every = "1m"
token_file = "ship.token"
[fleet]
sentinels = ["s1.example:26379", "[2001:db8::7]:26379"]
master = "crawl"
tls = true
cert = "engine.pem"
key = "/keys/engine.key"
user = "cg"
password_file = "engine.password"
key_file = "/keys/fleet.key"
name = "fra-1"
prefix = "cg"
patience = "20s"
timeout = "100ms"
[[audit.witness]]
name = "notary"
url = "https://witness.example/w1/"
vkey = "witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH"
[[audit.witness]]
name = "second"
url = "https://witness.example/w2/"
vkey = "witness.example/w2+b638667e+BAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"
ca = "w2.pem"
[admin]
socket = "/run/gate.sock"
address = '[::]:9000'
token_file = 'token'
cert = 'console.pem'
key = '/keys/console.key'
user = [{ name = 'ada', role = 'review', token = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' }]
hosts = ['gate.example']
connections = 7
public_try_per_minute = 3
[signals]
content_usage = "record"
content_signal = "off"
tdm_reservation = "record"
tdmrep = "enforce"
robots_tag = "enforce"
license = "enforce"
licenses = ["https://site.example/license.xml"]
withhold = false
stamp = true
[policy]
mode = "report"
report_origins = ["https://Site.example", "http://other.example:8080"]
report_clients = ["10.0.0.0/8", "192.0.2.7"]
purposes = "search"
[[override]]
origin = "https://site.example"
pattern = "/press/*.html$"
action = "allow"
covers = "usage"
until = "2026-12-31"
by = "Ada \"the gate\" Example"
reason = "written permission"
[[override]]
origin = "http://other.example"
action = "deny"
by = "Ada"
reason = "asked to stay away"
[[client]]
name = "fleet-7"
networks = ["10.1.0.0/16", "192.0.2.7"]
listeners = "local"
certificates = ["Crawler.example"]
product_tokens = ["NewsBot", "Googlebot"]
user_agent = "NewsBot/2.0 (+https://news.example/bot)"
purpose = "news \"search\""
purposes = ["train-ai", "search"]
signing = "news"
mode = "enforce"
exempt = "a person asks for \"each\" page"
profile = "archive"
requests_per_second = 20
burst = 10
quota = { requests = 100000, bytes = "10GiB", per = "24h" }
connections = 100
requests = 50
[[client]]
name = "rest"
quota = { requests = 10, per = "1m" }
[[signing]]
name = "all"
agent = "https://Bot.example"
key = "all.key"
[[signing]]
name = "news"
agent = "https://news.example/keys.json"
key = "/keys/news.key"
publish = ["news.key.next", "/keys/news.key.last"]
lifetime = "5m"
cover = "authority"
form = "string"
plain_http = true
"#;
