//! Messages about mistakes.
//!
//! Longer than 400 lines of code because it is one table: each row is a mistake and its message.

use super::*;

/// Returns the message for a text with faults, without the directory.
fn message(text: &str) -> String {
    let error = parse(text).expect_err("has a fault").to_string();
    error.replace("/etc/crawlgate/", "")
}

#[test]
fn each_mistake_is_reported_with_line_key_value_and_allowed_values() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        (
            "a name that is none of the choice",
            "\n[robots]\nprofile = \"strict\"",
            "config.toml:3: [robots] profile = \"strict\": not one of \"standard\", \"google\", \"archive\"",
        ),
        ("a misspelt key", "[robots]\nprofil = 'google'", "config.toml:2: [robots] profil = 'google': unknown key; did you mean profile?"),
        (
            "a key of another section",
            "[listen]\nmax_redirects = 5",
            "config.toml:2: [listen] max_redirects = 5: unknown key; it belongs to [robots]",
        ),
        (
            "a key like none",
            "[agent]\ncolour = 'red'",
            "config.toml:2: [agent] colour = 'red': unknown key; known here: mismatch, product_tokens, require_identity, signing",
        ),
        (
            "a shipped log without a store",
            "[store]\npath = ''\n[ship]\nto = 'logs'",
            "config.toml:4: [ship] to = 'logs': the decision log is in the store, but [store] path is \"\"; name a file there",
        ),
        (
            "a log shipped by another scheme",
            "[ship]\nto = 's3://bucket/logs'",
            "config.toml:2: [ship] to = 's3://bucket/logs': expected a directory, or a URL without credentials and query: \
             \"/mnt/evidence/fra-1\", \"https://collect.example/ship\", or \"\"",
        ),
        (
            "a token that others read",
            "[ship]\nto = 'http://collect.example/ship'\ntoken_file = 't'",
            "config.toml:2: [ship] to = 'http://collect.example/ship': with a token_file, name a URL with https: others read \
             the token on the way",
        ),
        (
            "a fleet without its key",
            "[fleet]\nengine = '127.0.0.1:6379'",
            "config.toml:2: [fleet] engine = '127.0.0.1:6379': key_file is missing, the key that all instances share; \
             `crawlgate fleet key FILE` makes one",
        ),
        (
            "a fleet with a pace for addresses",
            "[pace]\nper_address = true\n[fleet]\nengine = '127.0.0.1:6379'\nkey_file = 'k'",
            "config.toml:4: [fleet] engine = '127.0.0.1:6379': [pace] per_address = true holds only on one machine, as \
             each resolves names for itself; set it to false",
        ),
        (
            "a page for everyone behind a proxy that hides addresses",
            "[admin]\npublic_try = '0.0.0.0:8120'\n[[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.example:3128'",
            "config.toml:2: [admin] public_try = '0.0.0.0:8120': it asks public addresses only, and crawlgate does not see the \
             addresses behind an [[upstream.proxy]]: leave out one of them",
        ),
        (
            "sentinels without a primary",
            "[fleet]\nsentinels = '127.0.0.1:26379'\nkey_file = 'k'",
            "config.toml:2: [fleet] sentinels = '127.0.0.1:26379': master is missing, the name under which the sentinels \
             know the engine's primary",
        ),
        (
            "a certificate without its key",
            "[fleet]\ntls = true\ncert = 'a.pem'",
            "config.toml:3: [fleet] cert = 'a.pem': a certificate and its private key belong together: set cert and key",
        ),
        (
            "a certificate without TLS",
            "[fleet]\ncert = 'a.pem'\nkey = 'a.key'",
            "config.toml:2: [fleet] cert = 'a.pem': only TLS shows a certificate: set tls = true",
        ),
        (
            "an engine of another kind",
            "[fleet]\nengine = 'http://127.0.0.1:6379'",
            "config.toml:2: [fleet] engine = 'http://127.0.0.1:6379': expected a host and a port, or a URL: \
             \"valkey.example:6379\", \"valkeys://valkey.example:6379\"; a URL begins with redis://, rediss://, valkey:// or \
             valkeys://, or \"\"",
        ),
        ("a client without a name", "[[client]]\nnetworks = '10.0.0.0/8'", "config.toml:2: [[client]] name is missing"),
        (
            "a client without a name, after another one",
            "[[client]]\nname = 'a'\n[[client]]\nnetworks = '10.0.0.0/8'",
            "config.toml:4: [[client]] name is missing",
        ),
        (
            "a client without anything, after another one",
            "[[client]]\nname = 'a'\n[[client]]\n",
            "config.toml:3: [[client]] name is missing",
        ),
        (
            "two clients of one name",
            "[[client]]\nname = 'a'\nnetworks = '10.0.0.0/8'\n[[client]]\nname = 'a'",
            "config.toml:5: [[client]] name = 'a': another client has this name",
        ),
        (
            "a client behind one for everybody",
            "[[client]]\nname = 'a'\n[[client]]\nname = 'b'",
            "config.toml:4: [[client]] name = 'b': never reached: \"a\", before it, has no condition and fits everybody; \
             put that one last",
        ),
        (
            "a condition that no client meets",
            "[[client]]\nname = 'a'\nnetworks = []",
            "config.toml:3: [[client]] networks = []: expected at least one; leave the key out where it is no condition",
        ),
        (
            "an exemption of everybody",
            "[[client]]\nname = 'a'\nexempt = 'a person asks'",
            "config.toml:3: [[client]] exempt = 'a person asks': too many could be this client: give it a password \
             (`crawlgate client add`), certificates, or networks of at most a /8 (IPv6: a /16)",
        ),
        (
            "an exemption of everybody at a listener",
            "[[listener]]\nname = 'fleet'\nunix = 'a.sock'\n[[client]]\nname = 'a'\nlisteners = 'fleet'\n\
             networks = ['10.0.0.0/8', '2000::/3']\nexempt = 'a person asks'",
            "config.toml:8: [[client]] exempt = 'a person asks': too many could be this client: give it a password \
             (`crawlgate client add`), certificates, or networks of at most a /8 (IPv6: a /16)",
        ),
        (
            "an exemption without a reason",
            "[[client]]\nname = 'a'\nnetworks = '10.0.0.0/8'\nexempt = true",
            "config.toml:4: [[client]] exempt = true: expected a text in quotes",
        ),
        (
            "a name that no user can have",
            "[[client]]\nname = 'a:b'",
            "config.toml:2: [[client]] name = 'a:b': expected a name of 1 to 64 of a-z, 0-9, \"-\", \"_\" and \".\": \
             \"news\", \"fleet-7\"",
        ),
        (
            "a listener that there is not",
            "[[listener]]\nname = 'fleet'\nunix = 'a.sock'\n[[client]]\nname = 'a'\nlisteners = ['fleet', 'fleat']",
            "config.toml:6: [[client]] listeners = 'fleat': no [[listener]] has this name",
        ),
        (
            "a burst without a rate",
            "[[client]]\nname = 'a'\nburst = 2",
            "config.toml:3: [[client]] burst = 2: it goes with requests_per_second",
        ),
        (
            "a quota of nothing",
            "[[client]]\nname = 'a'\nquota = { per = '1d' }",
            "config.toml:3: [client.quota] per = '1d': name requests, bytes or both",
        ),
        ("a quota without a span", "[[client]]\nname = 'a'\nquota = { requests = 1 }", "config.toml:3: [client.quota] per is missing"),
        ("a misspelt section", "[robot]\nprofile = 'google'", "config.toml:1: robot: unknown section; did you mean robots?"),
        ("a key twice", "[robots]\nhold = '1s'\n\nhold = '2s'", "config.toml:4: not TOML: duplicate key hold"),
        ("a key without section", "profile = 'google'", "config.toml:1: profile = 'google': unknown key; it belongs to [robots]"),
        (
            "a section inside another",
            "[robots.pace]\nburst = 1",
            "config.toml:1: [robots] pace: unknown key; [pace] is a section of its own",
        ),
        ("a value where a section stands", "robots = true", "config.toml:1: robots: a section is written [robots]"),
        (
            "a console that everybody reaches",
            "[admin]\naddress = '10.0.0.1:8119'",
            "config.toml:2: [admin] address = '10.0.0.1:8119': reachable from other machines; name a file for the token that \
             they must show, token_file = \"admin.token\", or users, [[admin.user]], or listen on 127.0.0.1 and reach it by ssh -L",
        ),
        (
            "a user of the console without a role",
            "[[admin.user]]\nname = 'ada'\ntoken = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f'",
            "config.toml:2: [[admin.user]] role is missing",
        ),
        (
            "one with a role that there is not",
            "[[admin.user]]\nname = 'ada'\nrole = 'admin'\ntoken = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f'",
            "config.toml:3: [[admin.user]] role = 'admin': not one of \"read\", \"review\", \"operate\"",
        ),
        (
            "one without credentials",
            "[[admin.user]]\nname = 'ada'\nrole = 'read'",
            "config.toml:2: [[admin.user]] name = 'ada': this user has neither a password nor a token; `crawlgate admin user \
             add` makes an entry with one",
        ),
        (
            "two of one name",
            "[admin]\nuser = [{ name = 'a', role = 'read', token = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' },\n\
             { name = 'a', role = 'read', token = 'sha256:0000000000000000000000000000000000000000000000000000000000000000' }]",
            "config.toml:3: [[admin.user]] name = 'a': an earlier user has this name",
        ),
        (
            "two with one token",
            "[admin]\nuser = [{ name = 'a', role = 'read', token = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' },\n\
             { name = 'b', role = 'read', token = 'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' }]",
            "config.toml:3: [[admin.user]] token = …: an earlier user has this token",
        ),
        (
            "a token instead of its digest",
            "[[admin.user]]\nname = 'a'\nrole = 'read'\ntoken = '0123456789abcdef'",
            "config.toml:4: [[admin.user]] token = …: expected the digest of a token, \"sha256:\" and 64 digits, as `crawlgate \
             admin user add --token` makes it",
        ),
        (
            "a console's certificate without its key",
            "[admin]\ncert = 'console.pem'",
            "config.toml:2: [admin] cert = 'console.pem': a certificate and its key go together; set both or neither",
        ),
        (
            "a console without a port",
            "[admin]\naddress = '127.0.0.1'",
            "config.toml:2: [admin] address = '127.0.0.1': expected an IP address and a port, \"127.0.0.1:8119\" or \
             \"[::1]:8119\", or \"\"",
        ),
        (
            "a console's name with its port",
            "[admin]\nhosts = ['gate.example:8119']",
            "config.toml:2: [admin] hosts = 'gate.example:8119': expected a host name without port: \
             \"crawlgate.intranet.example\"",
        ),
        (
            "no place to allow",
            "[egress]\nallow = ['127.0.0.1', 'http://site.example']",
            "config.toml:2: [egress] allow = 'http://site.example': expected a network (\"10.0.0.0/8\", \"192.0.2.7\", \"::1\") \
             or a host (\"site.example\", \"*.site.example\"), alone or with a port (\"10.0.0.0/8:8080\", \"[::1]:8080\", \
             \"site.example:8080\")",
        ),
        (
            "no port",
            "[egress]\nconnect_ports = [0]",
            "config.toml:2: [egress] connect_ports = 0: expected a port, 8443, or a range of them, \"8000-8999\"",
        ),
        (
            "an upstream proxy of another kind, not repeated",
            "[[upstream.proxy]]\nhosts = '*'\nurl = 'https://u:p@proxy.example'",
            "config.toml:3: [[upstream.proxy]] url = …: expected the URL of a proxy: \"http://proxy.example:3128\", \
             \"socks5://proxy.example:1080\"",
        ),
        (
            "no way at all",
            "[[upstream.proxy]]\nhosts = '*'",
            "config.toml:2: [[upstream.proxy]] hosts = '*': name either the url of a proxy or direct = true",
        ),
        (
            "both ways at once",
            "[[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.example'\ndirect = true",
            "config.toml:4: [[upstream.proxy]] direct = true: name either the url of a proxy or direct = true",
        ),
        ("hosts of no way", "[[upstream.proxy]]\nurl = 'http://proxy.example'", "config.toml:2: [[upstream.proxy]] hosts is missing"),
        (
            "credentials twice",
            "[[upstream.proxy]]\nhosts = '*'\nurl = 'http://u:p@proxy.example'\ncredentials_file = 'f'",
            "config.toml:4: [[upstream.proxy]] credentials_file = 'f': it goes with a url that holds no credentials itself",
        ),
        (
            "a witness without a key",
            "[[audit.witness]]\nname = 'notary'\nurl = 'https://witness.example'",
            "config.toml:2: [[audit.witness]] vkey is missing",
        ),
        (
            "a witness with a password in its URL, not repeated",
            "[[audit.witness]]\nname = 'notary'\nurl = 'https://u:p@witness.example'\nvkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'",
            "config.toml:3: [[audit.witness]] url = …: expected the submission prefix of a witness, without credentials, query \
             and \"/add-checkpoint\": \"https://witness.example\", \"http://127.0.0.1:8080/w1\"",
        ),
        (
            "a witness without TLS and with a CA",
            "[[audit.witness]]\nname = 'a'\nurl = 'http://a.example'\nca = 'a.pem'\nvkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'",
            "config.toml:4: [[audit.witness]] ca = 'a.pem': it goes with a url that begins with https://",
        ),
        (
            "a witness with the key of a log",
            "[[audit.witness]]\nname = 'a'\nurl = 'https://a.example'\nvkey = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'",
            "config.toml:4: [[audit.witness]] vkey = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaAN…: this is the \
             key of a log, which does not cosign; expected the vkey that the operator of the witness publishes: name+id+key",
        ),
        (
            "two witnesses of one name",
            "[[audit.witness]]\nname = 'a'\nurl = 'https://a.example'\nvkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'\n\
             [[audit.witness]]\nname = 'a'\nurl = 'https://b.example'\nvkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'",
            "config.toml:6: [[audit.witness]] name = 'a': an earlier witness has this name\n\
             config.toml:8: [[audit.witness]] vkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwc…: an earlier \
             witness has this key",
        ),
        ("a quorum without witnesses", "[audit]\nquorum = 2", "config.toml:2: [audit] quorum = 2: there is no [[audit.witness]]"),
        ("a quorum of no witness", "[audit]\nquorum = 0", "config.toml:2: [audit] quorum = 0: expected a whole number from 1 to 100"),
        (
            "a quorum beyond the witnesses",
            "[audit]\nquorum = 2\n[[audit.witness]]\nname = 'a'\nurl = 'https://a.example'\nvkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'",
            "config.toml:2: [audit] quorum = 2: there is only one [[audit.witness]]",
        ),
        (
            "one table where there may be several",
            "[upstream]\nproxy = 'http://proxy.example'",
            "config.toml:2: [upstream] proxy: each one is written [[upstream.proxy]]",
        ),
        (
            "a duration without unit",
            "[limits]\ndrain = 30",
            "config.toml:2: [limits] drain = 30: expected a duration such as \"30s\" or \"1h30m\", from \"0s\" to \"24h\"",
        ),
        (
            "a time-out of zero",
            "[robots]\nfetch_timeout = \"0s\"",
            "config.toml:2: [robots] fetch_timeout = \"0s\": expected a duration such as \"30s\" or \"1h30m\", from \
             \"1ms\" to \"24h\"",
        ),
        (
            "less of a file than RFC 9309 asks for",
            "[robots]\nsize_limit = \"499KiB\"",
            "config.toml:2: [robots] size_limit = \"499KiB\": expected a number of octets or a size such as \"64KiB\", \
             from \"500KiB\" to \"64MiB\"",
        ),
        (
            "fewer redirects than RFC 9309 asks for",
            "[robots]\nmax_redirects = 4",
            "config.toml:2: [robots] max_redirects = 4: expected a whole number from 5 to 20",
        ),
        (
            "a negative number",
            "[limits]\nconnections = -1",
            "config.toml:2: [limits] connections = -1: expected a whole number from 1 to 1000000",
        ),
        ("not a number", "[robots]\njitter = nan", "config.toml:2: [robots] jitter = nan: expected a number from 0 to 1"),
        (
            "an origin that may never be asked",
            "[pace]\nconcurrency = 0",
            "config.toml:2: [pace] concurrency = 0: expected a whole number from 1 to 1000000, or \"unlimited\"",
        ),
        (
            "a crawl delay that is neither",
            "[pace]\ncrawl_delay = true",
            "config.toml:2: [pace] crawl_delay = true: not one of \"honour\", \"record\"",
        ),
        (
            "a rest shorter than the shortest",
            "[pace]\nbackoff_max = \"500ms\"",
            "config.toml:2: [pace] backoff_max = \"500ms\": expected a duration such as \"30s\" or \"1h30m\", from \"1s\" to \"24h\"",
        ),
        (
            "no fetch at all",
            "[robots]\nmax_fetches = 0",
            "config.toml:2: [robots] max_fetches = 0: expected a whole number from 1 to 100000",
        ),
        (
            "a rate of zero",
            "[pace]\nrequests_per_second = 0",
            "config.toml:2: [pace] requests_per_second = 0: expected a number from 0.00001 to 1000000, or \"unlimited\"",
        ),
        (
            "too many requests, as a status to deny",
            "[robots]\ndeny_statuses = [\n  401,\n  429,\n]",
            "config.toml:4: [robots] deny_statuses = 429: 429 always means unreachable",
        ),
        (
            "a status that is not the client's fault",
            "[robots]\ndeny_statuses = [500]",
            "config.toml:2: [robots] deny_statuses = 500: expected a status from 400 to 499",
        ),
        (
            "another answer for unreachable",
            "[robots]\nunreachable_status = 429",
            "config.toml:2: [robots] unreachable_status = 429: not one of 403, 502, 503, 504, or \"by_cause\"",
        ),
        (
            "freshness beyond its bound",
            "[robots]\nfresh = '48h'",
            "config.toml:2: [robots] fresh = '48h': fresh (2d) must not exceed fresh_max (24h): set both",
        ),
        (
            "an end before the beginning",
            "[robots]\nlast_good_until = '1d'",
            "config.toml:2: [robots] last_good_until = '1d': disallow_for (30d) must not exceed last_good_until (24h): \
             both count from the first failure",
        ),
        (
            "an address that others reach",
            "[listen]\naddress = \"0.0.0.0:8118\"",
            "config.toml:2: [listen] address = \"0.0.0.0:8118\": reachable from other machines; name the networks that \
             may use it, allow = [\"10.0.0.0/8\"], or let everybody in with open = true",
        ),
        (
            "an address without port",
            "[listen]\naddress = '127.0.0.1'",
            "config.toml:2: [listen] address = '127.0.0.1': expected an IP address and a port: \"127.0.0.1:8118\", \
             \"[::1]:8118\"",
        ),
        (
            "no address at all",
            "[listen]\naddress = []",
            "config.toml:2: [listen] address = []: expected at least one address, or a [[listener]]",
        ),
        ("a listener without a place", "[[listener]]\nname = 'fleet'", "config.toml:2: [[listener]] address is missing"),
        (
            "a listener in two places",
            "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:1'\nunix = 'a.sock'",
            "config.toml:4: [[listener]] unix = 'a.sock': a listener has an address or a Unix socket; make two of it",
        ),
        (
            "two listeners of one name",
            "[[listener]]\nname = 'a'\nunix = 'a'\n[[listener]]\nname = 'a'\nunix = 'b'",
            "config.toml:5: [[listener]] name = 'a': another listener has this name",
        ),
        (
            "a listener that others reach",
            "[[listener]]\nname = 'fleet'\naddress = '192.0.2.1:8118'\ntls = true\nnames = 'proxy.example'",
            "config.toml:3: [[listener]] address = '192.0.2.1:8118': reachable from other machines; name the networks \
             that may use it, allow = [\"10.0.0.0/8\"], or let everybody in with open = true",
        ),
        (
            "TLS without a certificate",
            "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:1'\ntls = true",
            "config.toml:4: [[listener]] tls = true: name a certificate with cert and key, or what the local CA mints \
             one for, names = [\"proxy.example\"]",
        ),
        (
            "half a certificate",
            "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:1'\ntls = true\ncert = 'a.pem'",
            "config.toml:5: [[listener]] cert = 'a.pem': a certificate and its key go together; set both or neither",
        ),
        (
            "a certificate without TLS",
            "[[listener]]\nname = 'fleet'\nunix = 'a'\nnames = ['proxy.example']",
            "config.toml:4: [[listener]] names = ['proxy.example']: it goes with tls = true",
        ),
        (
            "permissions that are none",
            "[[listener]]\nname = 'fleet'\nunix = 'a'\nmode = '0888'",
            "config.toml:4: [[listener]] mode = '0888': expected permissions as chmod takes them: \"0600\", \"0660\"",
        ),
        (
            "balancers without networks to speak for",
            "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:1'\nproxy_protocol_from = '10.0.0.5'",
            "config.toml:4: [[listener]] proxy_protocol_from = '10.0.0.5': name the networks of the crawlers that they \
             may speak for, allow = [\"10.0.0.0/8\"], or let everybody in with open = true",
        ),
        (
            "half a CA",
            "[tls]\nca_key = 'ca.key'",
            "config.toml:2: [tls] ca_key = 'ca.key': ca_cert and ca_key belong together: set both or neither",
        ),
        (
            "a pattern for a subtree",
            "[tls]\nname_constraints = ['*.example.com']",
            "config.toml:2: [tls] name_constraints = '*.example.com': expected a domain, which stands for itself and all \
             below it (\"example.com\", \".example\"), or a network (\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\")",
        ),
        (
            "a home that is not expanded",
            "[log]\nfile = '~/decisions.jsonl'",
            "config.toml:2: [log] file = '~/decisions.jsonl': ~ is not expanded here: write the whole path, or \"\"",
        ),
        (
            "a host that is none",
            "[upstream.hosts]\n'http://a' = '192.0.2.1'",
            "config.toml:2: [upstream.hosts] 'http://a' = '192.0.2.1': not a host name",
        ),
        (
            "an address that is none",
            "[upstream.hosts]\n'a.example' = 'b.example'",
            "config.toml:2: [upstream.hosts] 'a.example' = 'b.example': expected an IP address: \"192.0.2.1\"",
        ),
        (
            "a host twice",
            "[upstream.hosts]\n'a.example' = '192.0.2.1'\n'a.example.' = '192.0.2.2'",
            "config.toml:3: [upstream.hosts] 'a.example.' = '192.0.2.2': a second spelling of a host that is named before",
        ),
        (
            "a misspelt level",
            "[log]\nlevel = 'inof'",
            "config.toml:2: [log] level = 'inof': expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", \
             and target=level after commas, as in \"info,crawlgate::proxy=debug\"",
        ),
        (
            "a misspelt level of a target",
            "[log]\nlevel = 'info,crawlgate::proxy=loud'",
            "config.toml:2: [log] level = 'info,crawlgate::proxy=loud': expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", \
             and target=level after commas, as in \"info,crawlgate::proxy=debug\"",
        ),
        (
            "a target without a level",
            "[log]\nlevel = 'info,crawlgate::proxy='",
            "config.toml:2: [log] level = 'info,crawlgate::proxy=': expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", \
             and target=level after commas, as in \"info,crawlgate::proxy=debug\"",
        ),
        (
            "a field in a filter",
            "[log]\nlevel = 'info,crawlgate[{peer}]=debug'",
            "config.toml:2: [log] level = 'info,crawlgate[{peer}]=debug': expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", \
             and target=level after commas, as in \"info,crawlgate::proxy=debug\"",
        ),
        (
            "an override without a person who answers for it",
            "[[override]]\norigin = 'https://a.example'\naction = 'allow'\nreason = 'because'",
            "config.toml:2: [[override]] by is missing",
        ),
        (
            "an override of more than an origin",
            "[[override]]\norigin = 'https://a.example/x'\naction = 'allow'\nby = 'a'\nreason = 'b'",
            "config.toml:2: [[override]] origin = 'https://a.example/x': expected an origin: \"https://site.example\", \
             \"http://site.example:8080\"",
        ),
        (
            "one override, as a section",
            "[override]\norigin = 'https://a.example'",
            "config.toml:1: override: each one is written [[override]]",
        ),
        (
            "a day that does not exist",
            "[[override]]\norigin = 'https://a.example'\naction = 'deny'\nby = 'a'\nreason = 'b'\nuntil = '2026-02-30'",
            "config.toml:6: [[override]] until = '2026-02-30': expected a day, \"2026-12-31\" (it ends with that day, \
             UTC), or a time, \"2026-12-31T12:00:00Z\"",
        ),
        (
            "a collector with credentials",
            "[telemetry]\notlp_endpoint = 'http://user:secret@collector'",
            "config.toml:2: [telemetry] otlp_endpoint = …: expected the URL of an OpenTelemetry collector \
             that takes OTLP over HTTP, without credentials (they belong into headers_file) and query: \
             \"http://127.0.0.1:4318\", \"https://otlp.example\", or \"\"",
        ),
        (
            "an unknown key that may hold a password",
            "[[client]]\nname = 'a'\npasswrd = 'secret'",
            "config.toml:3: [[client]] passwrd = …: unknown key; did you mean password?",
        ),
        (
            "a collector without a scheme",
            "[telemetry]\notlp_endpoint = 'collector:4318'",
            "config.toml:2: [telemetry] otlp_endpoint = 'collector:4318': expected the URL of an OpenTelemetry collector \
             that takes OTLP over HTTP, without credentials (they belong into headers_file) and query: \
             \"http://127.0.0.1:4318\", \"https://otlp.example\", or \"\"",
        ),
        ("a share of more than all", "[telemetry]\nsample = 2", "config.toml:2: [telemetry] sample = 2: expected a number from 0 to 1"),
        (
            "messages in a format that there is not",
            "[log]\nformat = 'xml'",
            "config.toml:2: [log] format = 'xml': not one of \"text\", \"json\"",
        ),
        (
            "a store that keeps next to nothing",
            "[audit]\nmax_size = '10KiB'",
            "config.toml:2: [audit] max_size = '10KiB': expected a number of octets or a size such as \"64KiB\", from \
             \"1MiB\" to \"1048576GiB\", or \"unlimited\"",
        ),
    ];
    for (name, text, want) in cases {
        assert_eq!(message(text), want, "{name}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text =
        "colour = 1\n[robots]\nprofil = 2\nhold = 3\njitter = 4\n[listen]\naddress = ['x', 'y']\n";
    let lines: Vec<String> = message(text)
        .lines()
        .filter_map(|line| line.split(": ").nth(1).map(str::to_owned))
        .collect();
    assert_eq!(
        lines,
        [
            "colour = 1",
            "[robots] profil = 2",
            "[robots] hold = 3",
            "[robots] jitter = 4",
            "[listen] address = 'x'",
            "[listen] address = 'y'",
        ]
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    let cases = [
        ("a value without quotes", "[robots]\nprofile = strict\n", 2),
        ("a key twice", "[robots]\nhold = '1s'\n\nhold = '2s'", 4),
        ("a section without end", "\n\n[robots\n", 3),
    ];
    for (name, text, line) in cases {
        let Err(ConfigError::Invalid { faults, .. }) = parse(text) else {
            panic!("{name}: accepted");
        };
        let first = faults.first().unwrap();
        assert_eq!(first.line, line, "{name}: {first}");
        assert!(first.message.starts_with("not TOML: "), "{name}: {first}");
        assert!(!first.message.contains('\n'), "{name}: one line");
    }
}

#[test]
fn addresses_of_this_machine_need_no_allow_list() {
    for (name, address, accepted) in [
        ("IPv4 loopback", "127.0.0.2:1", true),
        ("IPv6 loopback", "[::1]:1", true),
        ("IPv4 loopback in IPv6", "[::ffff:127.0.0.1]:1", true),
        ("every address", "[::]:1", false),
        ("a private address", "10.0.0.1:1", false),
    ] {
        let closed = format!("[listen]\naddress = '{address}'\n");
        assert_eq!(parse(&closed).is_ok(), accepted, "{name}");
        assert!(parse(&format!("{closed}open = true")).is_ok(), "{name}");
        assert!(
            parse(&format!("{closed}allow = ['10.0.0.0/8']")).is_ok(),
            "{name}"
        );
    }
}
