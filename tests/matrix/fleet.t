#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# contrib/fleet with Debian's prometheus and node_exporter, which run here on 127.0.0.1 for a minute or two: what Prometheus
# answers is what kvmft's own tables say.

. "$(dirname "$0")/../cli/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
fleet=$top/contrib/fleet
for need in prometheus prometheus-node-exporter promtool; do
	if ! command -v "$need" >/dev/null; then
		skip "a fleet in Prometheus" "$need is not installed (contrib/deps.sh matrix)"
		finish
	fi
done
cd "$tmp" || exit
pids=
# shellcheck disable=SC2154 # by the loop
trap 'for pid in $pids; do kill "$pid" 2>/dev/null; done; wait; rm -rf "$tmp"' EXIT

# ---- what needs no server ----

ok "the rules are rules" promtool check rules "$fleet/rules.yml"
ok "the alerts come when they should, and not before" promtool test rules "$fleet/rules_test.yml"
ok "the dashboard is JSON, and asks for metrics that exist" python3 -c '
import json, re, sys
text = open(sys.argv[1]).read()
json.loads(text)
known = set(re.findall(r"kvmft_\w+", open(sys.argv[2]).read())) | set(re.findall(r"kvmft:[\w:]+", open(sys.argv[2]).read()))
known |= {"kvmft_latency_seconds_bucket", "kvmft_exits", "kvmft_capture_seconds"}
asked = set(re.findall(r"kvmft[_:][\w:]+", text))
print(asked - known)
sys.exit(bool(asked - known) or not asked)' "$fleet/dashboard.json" "$fleet/rules.yml"

mkdir collect
"$tools/genpair" --host host --guest guest --ms 500 --vcpus 2
sed -i 's/^end .*/begin tsc=1000000000000\nstop tsc=1001000000000\n&/' host/meta
"$kvmft" report -i host --split --format openmetrics >collect/kvmft_report.prom 2>"$err"
for side in host guest; do # in which the host's scheduler was recorded
	"$tools/mkcap" --capture late-$side "$top/tests/golden/latency-$side.txt"
done
"$kvmft" latency sched --format openmetrics late-host late-guest=one >collect/kvmft_latency.prom 2>"$err"
"$tools/exits_load" --prometheus 1000 40 1 >collect/kvmft_exits.prom 2>"$err"
"$kvmft" clock --format openmetrics late-host >collect/kvmft_clock.prom 2>"$err" # it cannot tell
for f in kvmft_report kvmft_latency kvmft_clock kvmft_exits; do
	ok "promtool check metrics: $f" sh -c "promtool check metrics <collect/$f.prom"
done
is "$(cat collect/*.prom | sed -n 's/^# TYPE //p' | sort | uniq -d)" "" "no family is in two files: a collector takes each once"

# ---- scraped ----

free_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
node=$(free_port)
prom=$(free_port)
prometheus-node-exporter --collector.disable-defaults --collector.textfile --collector.textfile.directory="$tmp/collect" \
	--web.listen-address="127.0.0.1:$node" >node.log 2>&1 &
pids="$pids $!"
cat >prometheus.yml <<END
global: {scrape_interval: 8s, scrape_timeout: 8s, evaluation_interval: 2s}
rule_files: [$fleet/rules.yml]
scrape_configs:
- job_name: node
  static_configs: [{targets: ["127.0.0.1:$node"]}]
END
prometheus --config.file=prometheus.yml --storage.tsdb.path="$tmp/tsdb" --web.listen-address="127.0.0.1:$prom" >prom.log 2>&1 &
pids="$pids $!"

# ask QUERY: the value of one series, or nothing.
ask()
{
	promtool query instant "http://127.0.0.1:$prom" "$1" 2>/dev/null | sed -n 's/.*=> \([^ ]*\) @.*/\1/p'
}
for _ in $(seq 90); do
	[ -z "$(ask 'kvmft:exits:per_second')" ] || break
	sleep 1
done

value() { sed -n "s/^$1{[^}]*$2[^}]*} //p" collect/*.prom; }
is "$(ask 'node_textfile_scrape_error')" 0 "node_exporter takes all files"
samples=$("$kvmft" report -i host --format csv --per all 2>/dev/null | awk -F, 'NR > 1 { n += $4 } END { print n }')
is "$(ask 'sum(kvmft_exits)')" "$samples" "Prometheus has as many exits as the report"
is "$(ask 'round(kvmft:exits:per_second * 0.5)')" "$samples" "... per second, of half a second"
is "$(ask 'kvmft_exit_seconds{reason="EXCEPTION_NMI"}')" "$(value kvmft_exit_seconds EXCEPTION_NMI)" "... and their time"
total=$("$kvmft" report -i host --format json 2>/dev/null | sed -n 's/.*"sections":\[{[^[]*"total_ns":\([0-9]*\).*/\1/p')
is "$(ask 'round(sum(kvmft_exit_seconds) * 1e9, 1)' | awk '{ printf "%.0f\n", $1 }')" "$total" "... to the ns"
is "$(ask 'kvmft_alignment_ok')" 1 "the alignment is proved"
is "$(ask 'kvmft_capture_lost_events')" 0 "nothing was lost"
is "$(ask 'count(kvm_exits_total)')" 40000 "1,000 VMs with 40 reasons each: 40,000 series"
is "$(ask 'count(kvm_exits_total{tid!=""}) or vector(0)')" 0 "... without a label for threads"

# All that the dashboard and the rules ask for exists; alerts are asked without their comparison. Grafana's variables have
# values; the one for instances is all of them, and then one, which Grafana escapes.
cat >asked.py <<'END'
import json, re, sys
board = json.load(open(sys.argv[1]))
names = {v["name"] for v in board["templating"]["list"]}
for v in board["templating"]["list"]:
    if v["type"] == "query":
        print(*re.fullmatch(r"label_values\((\S+), (\w+)\)", v["definition"]).group(2, 1))
for p in board["panels"]:
    for t in p.get("targets", []):
        for instance in ".*", re.escape(sys.argv[3]).replace("\\", "\\\\"):
            expr = t["expr"].replace("$instance", instance)
            print("|".join(re.findall(r"{{(\w+)}}", t["legendFormat"])), expr)
            if "$" in expr:
                sys.exit(f"a variable that is none: {expr}")
    used = {u for u in re.findall(r"\$\{?(\w+)", json.dumps(p))}
    if used - names or (p.get("targets") and not p["datasource"]):
        sys.exit(f"{p['title']}: {used - names}")
for line in open(sys.argv[2]):
    expr = re.match(r"    expr: (.*)", line)
    if expr:
        print("-", re.sub(r" (>|==) [0-9.]+$", "", expr[1]))
END
ok "all variables are the dashboard's" sh -c "python3 asked.py \"$fleet/dashboard.json\" \"$fleet/rules.yml\" 127.0.0.1:$node >asked"
ok "there are expressions" test "$(wc -l <asked)" -ge 25
while read -r labels expr; do
	ok "has series: $expr" test -n "$(ask "$expr")"
	[ "$labels" != - ] || continue
	promtool query instant "http://127.0.0.1:$prom" "$expr" 2>/dev/null |
		grep -Eo "[{ ]($labels)=\"[^\"]+\"" | sed 's/.\(.*\)=.*/\1/' | sort -u >got
	is "$(tr '\n' '|' <got)" "$(echo "$labels" | tr '|' '\n' | sort | tr '\n' '|')" "... with what its legend names"
done <asked

# Counters: what came in between.
"$tools/exits_load" --prometheus 1000 40 2 >collect/.new 2>"$err"
before=$(ask 'sum(kvm_exits_total)')
mv collect/.new collect/kvmft_exits.prom
want=$(awk '/^kvm_exits_total/ { n += $NF } END { printf "%.0f\n", n }' collect/kvmft_exits.prom)
for _ in $(seq 60); do
	[ "$(ask 'sum(kvm_exits_total)' | awk '{ printf "%.0f\n", $1 }')" != "$want" ] || break
	sleep 1
done
is "$(ask 'sum(kvm_exits_total)' | awk '{ printf "%.0f\n", $1 }')" "$want" "counters go on (before: $before)"
is "$(ask 'count(resets(kvm_exits_total[3m]) > 0) or vector(0)')" 0 "... and never back"

echo "# file: $(stat -c %s collect/kvmft_exits.prom) bytes, series: $(ask 'scrape_samples_scraped'), scrape: $(ask 'scrape_duration_seconds') s"
finish
