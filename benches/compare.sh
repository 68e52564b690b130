#!/usr/bin/env bash
# crawlgate beside nginx and Squid, on this machine: benches/compare.sh [CRAWLGATE]
#
# Each proxy in turn forwards what wrk asks of eight origins, pinned to the last CPU; wrk and the origins (an nginx)
# have the others. What counts is the proxy's CPU time per request, which depends less on what else the machine does than
# wall time. Rounds rotate through the proxies; ratios are taken within a round, and medians over the rounds are shown.
#
# nginx and Squid decide as cheaply as they can: one fixed pattern for all origins stands for robots.txt, and nothing is
# recorded. nginx is given a fixed list of origins, since it keeps no connections to others. crawlgate runs with its
# defaults: it fetches each origin's robots.txt (100 rules), judges by it and records denials.
#
# CRAWLGATE is the program; without it, it is built. Programs that are missing are installed from Debian's packages if
# this runs as root. All traffic stays on the loopback interface.
# COMPARE_ROUNDS (3), COMPARE_SECONDS (3) and COMPARE_PORT (18400, and the three after it) may be set.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
rounds=${COMPARE_ROUNDS:-3} seconds=${COMPARE_SECONDS:-3} port=${COMPARE_PORT:-18400}
origins=8
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

die() { printf 'compare.sh: %s\n' "$*" >&2; exit 2; }

# --- What it takes ----------------------------------------------------------------------------------------------------
PATH=$PATH:/usr/sbin:/sbin
missing=()
for pair in nginx:nginx squid:squid wrk:wrk taskset:util-linux pgrep:procps curl:curl; do
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
for p in "$port" $((port + 1)) $((port + 2)) $((port + 3)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then die "port $p is in use: set COMPARE_PORT"; fi
done
crawlgate=${1:-}
if [[ -z $crawlgate ]]; then
    (cd "$here/.." && cargo build --profile dist --locked)
    crawlgate=$(cd "$here/.." && cargo metadata --no-deps --format-version 1 --locked |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/dist/crawlgate
fi
[[ -x $crawlgate ]] || die "$crawlgate: not a program"

cpus=$(nproc)
pin_proxy=() pin_load=()
if ((cpus > 1)); then
    pin_proxy=(taskset -c $((cpus - 1)))
    pin_load=(taskset -c "0-$((cpus - 2))")
fi

# --- Processes --------------------------------------------------------------------------------------------------------
work=$(mktemp -d)
chmod 755 "$work" # Squid gives up its privileges
started=()
clean_up() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

declare -A pid_of port_of
start() { # NAME PORT COMMAND…
    local name=$1 at=$2
    shift 2
    "$@" >"$work/$name.out" 2>&1 </dev/null &
    started+=($!)
    pid_of[$name]=$! port_of[$name]=$at
    for _ in {1..100}; do
        if (exec 3<>"/dev/tcp/127.0.0.1/$at") 2>/dev/null; then return; fi
        kill -0 "${pid_of[$name]}" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/$name.out" >&2
    die "$name does not listen on port $at"
}

tree() { # PID: it and all below it
    printf '%s\n' "$1"
    local child
    for child in $(pgrep -P "$1" || true); do tree "$child"; done
}

ticks() { # PID: CPU ticks of the tree so far, ended children included
    local pid line sum=0 fields
    for pid in $(tree "$1"); do
        line=$(cat "/proc/$pid/stat" 2>/dev/null) || continue
        read -ra fields <<<"${line##*) }"
        sum=$((sum + fields[11] + fields[12] + fields[13] + fields[14]))
    done
    printf '%s\n' "$sum"
}

# --- The origins ------------------------------------------------------------------------------------------------------
mkdir -p "$work/www/pages" "$work/www/private" "$work/tmp"
head -c 1024 /dev/zero | tr '\0' x >"$work/www/pages/1k"
cp "$work/www/pages/1k" "$work/www/private/1k"
head -c 10000000 /dev/zero | tr '\0' x >"$work/www/pages/10m"
{
    printf 'User-agent: *\nDisallow: /private/\n'
    for n in {01..79}; do printf 'Disallow: /section-%s/private/\n' "$n"; done
    for n in {01..20}; do printf 'Disallow: /*?*sort-%s=\n' "$n"; done
} >"$work/www/robots.txt"
chmod -R a+rX "$work/www"
addresses=$(for ((n = 1; n <= origins; n++)); do printf '127.0.9.%s:%s ' "$n" "$port"; done)

nginx_paths="client_body_temp_path $work/tmp; proxy_temp_path $work/tmp; fastcgi_temp_path $work/tmp;
  uwsgi_temp_path $work/tmp; scgi_temp_path $work/tmp;"
user=""
if ((EUID == 0)); then user="user root;"; fi
cat >"$work/origin.conf" <<END
daemon off; $user worker_processes 1; pid $work/origin.pid; error_log $work/origin.log warn;
events { worker_connections 4096; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
  open_file_cache max=100; $nginx_paths
  server {
    listen 127.0.0.1:$port;
$(for address in $addresses; do printf '    listen %s backlog=4096;\n' "$address"; done)
    root $work/www;
  }
}
END
start origin "$port" "${pin_load[@]}" nginx -p "$work" -e "$work/origin.log" -c "$work/origin.conf"

# --- The proxies ------------------------------------------------------------------------------------------------------
cat >"$work/nginx.conf" <<END
daemon off; $user worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log warn;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; $nginx_paths
$(for address in $addresses; do
    printf '  upstream o_%s { server %s; keepalive 64; keepalive_requests 1000000000; }\n' \
        "${address//[.:]/_}" "$address"
done)
  map \$http_host \$upstream_name {
$(for address in $addresses; do printf '    "%s" o_%s;\n' "$address" "${address//[.:]/_}"; done)
  }
  server {
    listen 127.0.0.1:$((port + 1)) backlog=4096;
    location /private/ { return 403; }
    location / {
      proxy_pass http://\$upstream_name; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host \$http_host;
      proxy_max_temp_file_size 0;
    }
  }
}
END
cat >"$work/squid.conf" <<END
http_port 127.0.0.1:$((port + 2))
cache deny all
acl private urlpath_regex ^/private/
http_access deny private
http_access allow all
access_log none
cache_log $work/squid.log
pid_filename none
coredump_dir $work
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
END
cat >"$work/crawlgate.toml" <<END
[listen]
address = "127.0.0.1:$((port + 3))"
[tls]
ca_cert = "$work/ca.crt"
ca_key = "$work/ca.key"
[log]
file = "$work/decisions.jsonl"
[store]
path = "$work/crawlgate.db"
END
: >"$work/squid.log" && chmod 666 "$work/squid.log"
start nginx $((port + 1)) "${pin_proxy[@]}" nginx -p "$work" -e "$work/nginx.log" -c "$work/nginx.conf"
start squid $((port + 2)) "${pin_proxy[@]}" squid -N -f "$work/squid.conf"
start crawlgate $((port + 3)) "${pin_proxy[@]}" "$crawlgate" --config "$work/crawlgate.toml"
proxies=(nginx squid crawlgate)

# --- Measurements -----------------------------------------------------------------------------------------------------
# name | path | connections | expected status
scenarios=(
    "1 KB, allowed|/pages/1k|64|200"
    "1 KB, denied|/private/1k|64|403"
    "10 MB, allowed|/pages/10m|8|200"
)

for proxy in "${proxies[@]}"; do
    for scenario in "${scenarios[@]}"; do
        IFS='|' read -r name path _ expected <<<"$scenario"
        for address in $addresses; do
            got=$(curl -sS --max-time 10 -o /dev/null -w '%{http_code}' -A 'BenchBot/1.0' \
                -x "127.0.0.1:${port_of[$proxy]}" "http://$address$path")
            [[ $got == "$expected" ]] || die "$proxy answers $got to http://$address$path instead of $expected"
        done
    done
done

say() { if [[ -t 2 ]]; then printf '\r%-60s\r' "$1" >&2; fi; }

hz=$(getconf CLK_TCK)
measure() { # SCENARIO PROXY: µs of CPU per request, requests per second, p50 µs, CPU seconds per GB
    local name path connections expected before after numbers
    IFS='|' read -r name path connections expected <<<"${scenarios[$1]}"
    before=$(ticks "${pid_of[$2]}")
    numbers=$("${pin_load[@]}" wrk -t1 --timeout 30s -c"$connections" -d"${seconds}s" -s "$here/absolute.lua" \
        "http://127.0.0.1:${port_of[$2]}" -- "$port" "$origins" "$path" | sed -n 's/^numbers //p')
    after=$(ticks "${pid_of[$2]}")
    awk -v ticks=$((after - before)) -v hz="$hz" -v expected="$expected" -v who="$2: $name" '{
        cpu = ticks / hz
        wrong = expected == 200 ? $2 : $1 - $2
        if (wrong || $3) printf "%s: %d wrong answers, %d failures\n", who, wrong, $3 > "/dev/stderr"
        printf "%.3f %.0f %d %.4f\n", cpu * 1e6 / $1, $1 / $5, $6, cpu / ($4 / 1e9)
    }' <<<"$numbers"
}

for ((round = 0; round < rounds; round++)); do
    for scenario in "${!scenarios[@]}"; do
        for ((turn = 0; turn < ${#proxies[@]}; turn++)); do
            proxy=${proxies[(turn + round) % ${#proxies[@]}]}
            say "round $((round + 1)) of $rounds: ${scenarios[scenario]%%|*}, $proxy"
            measure "$scenario" "$proxy" >>"$work/$scenario.$proxy"
        done
    done
done
say ""

middle() { sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

median() { awk -v column="$2" '{ print $column }' "$1" | middle; } # FILE COLUMN

ratio() { paste -d ' ' "$1" "$2" | awk '{ print $1 / $5 }' | middle; } # FILE FILE: of their CPU per request

printf '%s, %s CPUs; %s, %s, %s\n\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n1)" "$cpus" \
    "$(nginx -v 2>&1 | sed 's/.*: //')" "$(squid -v | sed -n '1s/.*Version /squid\//p')" "$("$crawlgate" --version)"
printf '| | proxy | CPU µs/request | CPU s/GB | ÷ nginx | ÷ squid | requests/s | p50 ms |\n'
printf '|---|---|---:|---:|---:|---:|---:|---:|\n'
for scenario in "${!scenarios[@]}"; do
    for proxy in "${proxies[@]}"; do
        file=$work/$scenario.$proxy
        awk -v name="${scenarios[scenario]%%|*}" -v proxy="$proxy" -v cpu="$(median "$file" 1)" \
            -v rate="$(median "$file" 2)" -v p50="$(median "$file" 3)" -v per_gb="$(median "$file" 4)" \
            -v nginx="$(ratio "$file" "$work/$scenario.nginx")" \
            -v squid="$(ratio "$file" "$work/$scenario.squid")" 'BEGIN {
            gb = name ~ /MB/ ? sprintf("%.2f", per_gb) : "–"
            printf "| %s | %s | %.1f | %s | %.2f | %.2f | %d | %.2f |\n",
                name, proxy, cpu, gb, nginx, squid, rate, p50 / 1000
        }'
    done
done
