#!/usr/bin/env bash
# A fleet on this machine: benches/fleet/lab.sh [try] [CRAWLGATE]
#
# Starts a redis-server with two replicas, three Sentinels, three instances of crawlgate, and HAProxy in front of them,
# which sends each host to one instance (consistent hashing), and another one if that is down. Everything listens on the
# loopback interface and writes to a temporary directory. It runs until Ctrl-C.
#
# With `try` it shows what a fleet does, and ends: an origin of this machine is crawled through all three instances while
# the primary engine and one instance are killed; the script counts what the origin saw. Exit code 1 if that is not what
# the documentation promises.
#
# CRAWLGATE is the program; without it, it is built. Programs that are missing are installed from Debian's packages if
# this runs as root. LAB_PORT (18500, and the twelve after it) may be set.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
port=${LAB_PORT:-18500}
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

die() { printf 'lab.sh: %s\n' "$*" >&2; exit 2; }

tries=false
if [[ ${1:-} == try ]]; then tries=true; shift; fi

# --- What it takes ----------------------------------------------------------------------------------------------------
PATH=$PATH:/usr/sbin:/sbin
missing=()
for pair in redis-server:redis-server redis-sentinel:redis-sentinel haproxy:haproxy curl:curl python3:python3; do
    command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
done
if ((${#missing[@]})); then
    install="apt-get install --no-install-recommends ${missing[*]}"
    ((EUID == 0)) || die "missing: ${missing[*]}. As root: $install"
    printf 'Installing %s\n' "${missing[*]}"
    # Debian starts what it installs; here that would only be in the way.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
for ((p = port; p < port + 13; p++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then die "port $p is in use: set LAB_PORT"; fi
done
crawlgate=${1:-}
if [[ -z $crawlgate ]]; then
    (cd "$here/../.." && cargo build --release --locked)
    crawlgate=$(cd "$here/../.." && cargo metadata --no-deps --format-version 1 --locked |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release/crawlgate
fi
[[ -x $crawlgate ]] || die "$crawlgate: not a program"
crawlgate=$(realpath "$crawlgate")

# --- Processes --------------------------------------------------------------------------------------------------------
work=$(mktemp -d)
declare -A process
clean_up() {
    trap - EXIT
    for pid in "${process[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

start() { # NAME COMMAND...
    local name=$1
    shift
    mkdir -p "$work/$name"
    (cd "$work/$name" && exec "$@" >"$work/$name.log" 2>&1) &
    process[$name]=$!
}

wait_for() { # WHAT COMMAND...
    local what=$1
    shift
    for _ in $(seq 1200); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    tail -n 5 "$work"/*.log >&2
    die "$what does not come"
}

# Engines at port 1 to 3 of the range, Sentinels at 4 to 6, instances at 7 to 9 and their consoles at 10 to 12.
engine() { echo $((port + $1)); }
sentinel() { echo $((port + 3 + $1)); }
instance() { echo $((port + 6 + $1)); }
console() { echo $((port + 9 + $1)); }
ask() { redis-cli -h 127.0.0.1 -p "$@"; }

for n in 1 2 3; do
    replica=()
    ((n == 1)) || replica=(--replicaof 127.0.0.1 "$(engine 1)")
    # An isolated primary refuses writes (3 s) before another one is promoted (5 s).
    start "engine$n" redis-server --port "$(engine $n)" --bind 127.0.0.1 --appendonly yes --appendfsync everysec \
        --maxmemory-policy noeviction --repl-diskless-sync-delay 0 --min-replicas-to-write 1 \
        --min-replicas-max-lag 2 "${replica[@]}"
done
has_replicas() { [[ $(ask "$(engine 1)" info replication) == *connected_slaves:2* ]]; }
wait_for "the replicas" has_replicas
for n in 1 2 3; do
    mkdir -p "$work/sentinel$n"
    cat >"$work/sentinel$n/sentinel.conf" <<END
port $(sentinel $n)
bind 127.0.0.1
sentinel monitor crawl 127.0.0.1 $(engine 1) 2
sentinel down-after-milliseconds crawl 5000
sentinel failover-timeout crawl 10000
END
    start "sentinel$n" redis-sentinel "$work/sentinel$n/sentinel.conf"
done
agree() { [[ $(ask "$(sentinel 1)" sentinel ckquorum crawl) == OK* ]]; }
wait_for "the quorum of the Sentinels" agree

"$crawlgate" fleet key "$work/fleet.key" >/dev/null
"$crawlgate" ca create --config <(printf '[tls]\nca_cert = "%s/ca.crt"\nca_key = "%s/ca.key"\n' "$work" "$work") >/dev/null
configure() { # N
    mkdir -p "$work/instance$1"
    cat >"$work/instance$1/config.toml" <<END
[listen]
address = "127.0.0.1:$(instance "$1")"
[admin]
address = "127.0.0.1:$(console "$1")"
[store]
path = "$work/instance$1/crawlgate.db"
[tls]
ca_cert = "$work/ca.crt"
ca_key = "$work/ca.key"
[egress]
allow = ["127.0.0.0/8"] # the origins of a lab are on this machine
connect_ports = ["1-65535"]
[pace]
requests_per_second = 4 # at each origin, by all instances together
[fleet]
sentinels = ["127.0.0.1:$(sentinel 1)", "127.0.0.1:$(sentinel 2)", "127.0.0.1:$(sentinel 3)"]
master = "crawl"
key_file = "$work/fleet.key"
name = "instance$1"
END
    start "instance$1" "$crawlgate" --config "$work/instance$1/config.toml" serve
}
for n in 1 2 3; do configure "$n"; done

cat >"$work/haproxy.cfg" <<END
defaults
    mode http
    timeout connect 5s
    timeout client 5m
    timeout server 5m
    timeout tunnel 1h
frontend crawlers
    bind 127.0.0.1:$port
    default_backend fleet
backend fleet
    # Each host has its instance, so each robots.txt is in one memory; it matters for speed and not for the promises.
    balance hdr(host)
    hash-type consistent
    option httpchk GET /ready
    default-server check inter 500ms fall 2 rise 1
$(for n in 1 2 3; do echo "    server instance$n 127.0.0.1:$(instance $n) port $(console $n)"; done)
END
start haproxy haproxy -db -f "$work/haproxy.cfg"
ready() { curl -sf -o /dev/null "http://127.0.0.1:$(console "$1")/ready"; }
for n in 1 2 3; do wait_for "instance $n" ready "$n"; done
# An instance refuses or defers, and says who it is.
in_front() { curl -si -m 10 -x "http://127.0.0.1:$port" http://127.0.0.1:1/ | grep -qi '^proxy-status: crawlgate'; }
wait_for "HAProxy" in_front

if ! $tries; then
    cat <<END
A fleet of three instances runs in $work.
  crawlers       HTTP_PROXY=http://127.0.0.1:$port, or one instance: 127.0.0.1:$(instance 1), $(instance 2), $(instance 3)
  CA             $work/ca.crt
  consoles       http://127.0.0.1:$(console 1)/, $(console 2), $(console 3)
  status         $crawlgate --config $work/instance1/config.toml fleet status
  engine         redis-cli -p $(engine 1); Sentinels at $(sentinel 1), $(sentinel 2), $(sentinel 3)
  fail over      kill ${process[engine1]}
  cut one off    kill -STOP ${process[instance2]}; kill -CONT ${process[instance2]}
Ctrl-C ends it.
END
    wait
    exit
fi

# --- What a fleet does ------------------------------------------------------------------------------------------------
mkdir "$work/site"
printf 'User-agent: *\nDisallow: /private/\n' >"$work/site/robots.txt"
echo page >"$work/site/page"
cat >"$work/origin.py" <<'END'
import functools, http.server, sys, time
class Site(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        print(f"{time.monotonic():.3f} {self.path}", flush=True)
site = functools.partial(Site, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), site)
print(server.server_address[1], flush=True)
server.serve_forever()
END
start origin python3 "$work/origin.py" "$work/site"
started() { [[ -s $work/origin.log ]]; }
wait_for "the origin" started
origin="http://127.0.0.1:$(head -n 1 "$work/origin.log")"

# How late a process wakes on this machine, at worst: so much more may come to the origin at once.
cat >"$work/stalls.py" <<'END'
import time
longest = 0
while True:
    begun = time.monotonic()
    time.sleep(0.01)
    late = time.monotonic() - begun - 0.01
    if late > longest:
        longest = late
        print(f"{longest:.3f}", flush=True)
END
start stalls python3 "$work/stalls.py"

crawl() { # PORT: asks for pages until all is over, one of four disallowed, and writes the status of each answer
    local n=0
    until [[ -e $work/over ]]; do
        path=/page
        ((n++ % 4)) || path=/private/page
        curl -s -o /dev/null -w '%{http_code}\n' -m 60 -x "http://127.0.0.1:$1" "$origin$path" || sleep 1
    done >>"$work/crawl$1"
}
printf 'Four crawlers ask for pages, one by way of HAProxy; the origin is sent four requests a second.\n'
for way in "$port" "$(instance 1)" "$(instance 2)" "$(instance 3)"; do crawl "$way" & crawlers+=($!); done
pages() { grep -c ' /page$' "$work/origin.log" || true; }
has_pages() { (($(pages) >= $1)); }
go_on() { wait_for "the origin's turn" has_pages $(($(pages) + $1)); } # PAGES: waits until so many more have come
go_on 25
printf 'The primary engine is killed.\n'
kill -KILL "${process[engine1]}"
wait "${process[engine1]}" 2>/dev/null || true
# More than were under way: another engine gives the turns.
go_on 25
printf 'One instance is killed.\n'
kill -KILL "${process[instance3]}"
wait "${process[instance3]}" 2>/dev/null || true
go_on 25
touch "$work/over"
wait "${crawlers[@]}"

sort "$work"/crawl[0-9]* | uniq -c | sed 's/^ */  answers: /; s/000$/none (the killed instance)/'
python3 - "$work/origin.log" "$work/stalls.log" <<'END'
import sys
late = max([0, *map(float, open(sys.argv[2]).read().split())])
seen = [line.split() for line in open(sys.argv[1]).read().splitlines()[1:]]
# Python tells of a connection that broke with an instance, too.
seen = [words for words in seen if len(words) == 2 and words[1].startswith("/")]
robots = sum(path == "/robots.txt" for _, path in seen)
private = sum(path.startswith("/private") for _, path in seen)
times = sorted(float(at) for at, path in seen)
burst = max(sum(at <= other < at + 1 for other in times) for at in times)
print(f"  at the origin: {len(seen)} requests, {robots} of them for robots.txt, {private} disallowed, at most {burst} in a second")
# Four in a second; one more where the first and the last are a second apart; and those that came late, by twice the worst.
sys.exit(not (robots == 1 and private == 0 and burst <= 5 + int(8 * late)))
END
for n in 1 2; do
    "$crawlgate" --config "$work/instance$n/config.toml" audit verify --all >/dev/null || die "the log of instance $n does not verify"
    echo "  the log of instance $n verifies"
done
