#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Prometheus' own reader takes the metrics that kvmft prints, also with names that need escapes: of a capture, of a tree
# of them, and live of VMs from which others take the CPU.

. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../cli/vmlib.sh"

if ! command -v promtool >/dev/null; then
	skip "what Prometheus reads" "promtool is not installed (contrib/deps.sh matrix)"
	finish
fi

# reads FILE NAME: as OpenMetrics. This reader wants a time of each sample.
reads()
{
	sed 's/^[^#].*/& 1700000000/' "$1" >"$tmp/stamped"
	rm -rf "$tmp/tsdb"
	run promtool tsdb create-blocks-from openmetrics "$tmp/stamped" "$tmp/tsdb"
	status_is 0 "$2: Prometheus reads it"
	is "$(awk 'END { print $6 }' "$out")" "$(grep -vc '^#' "$1")" "... every sample"
}

printf '# TYPE a gauge\na{b="c"d"} 1\n# EOF\n' >"$tmp/bad"
run promtool tsdb create-blocks-from openmetrics "$tmp/bad" "$tmp/tsdb"
status_is 1 "a name that is not escaped is none that it reads"

"$makers/mkcap" --capture "$tmp/host" "$top/tests/golden/latency-host.txt"
sed -i 's/^\(vm .*name=\)[^ ]*/\1a%22b%5cc/' "$tmp/host/meta"
cat >"$tmp/skew.txt" <<'END'
meta begin tsc=1000
meta stop tsc=2000000000
meta vm id=100-12 pid=100 fd=12 name=a%22b%5cc
meta vcpu vm=100-12 id=0 tid=101 offset=-1000 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=102 offset=-413331 ratio=0 frac=48
0 2000 101 kvm_entry vcpu_id=0
1 3000 102 kvm_entry vcpu_id=1
0 1900000000 101 kvm_entry vcpu_id=0
1 1900000000 102 kvm_entry vcpu_id=1
END
"$makers/mkcap" --capture "$tmp/skew" "$tmp/skew.txt"
for what in "report --split:host" "latency irq:host" clock:skew; do
	# shellcheck disable=SC2086 # a command and its options
	run "$kvmft" ${what%:*} --format openmetrics "$tmp/${what#*:}"
	cp "$out" "$tmp/metrics"
	ok "${what%:*} --format openmetrics has samples of that VM" grep -qF 'vm="a\"b\\c"' "$tmp/metrics"
	reads "$tmp/metrics" "${what%:*}"
done

need_recording "live metrics"
if ! command -v taskset >/dev/null; then
	skip "live metrics" "taskset is not installed"
	finish
fi
cpu=$(awk '/^Cpus_allowed_list/ { n = split($2, a, /[-,]/); print a[n] }' /proc/self/status)
echo 'int main(void) { for (;;) { } }' >"$tmp/spin.c"
ok "a program that computes" "${CC:-cc}" -O0 -o "$tmp/a\"b\\c" "$tmp/spin.c"
taskset -c "$cpu" "$tmp/a\"b\\c" &
vm=$!
taskset -c "$cpu" "$tinyvm" --ms 3600000 --pause 200 >"$tmp/one" 2>&1 &
vm="$vm $!"
wait_for_line "$tmp/one"
for format in openmetrics prometheus; do
	n=0
	# Until that one was seen to take something.
	until [ $n -ge 20 ] || { run "$kvmft" exits --steal --format $format -o "$tmp/metrics" 1 &&
		grep -qF ',by="a\"b\\c"' "$tmp/metrics"; }; do
		n=$((n + 1))
	done
	ok "exits --steal --format $format has the program" grep -qF ',by="a\"b\\c"' "$tmp/metrics"
	[ $format = prometheus ] || reads "$tmp/metrics" "exits --steal"
done
promtool check metrics <"$tmp/metrics" >"$tmp/said" 2>&1
is "$? $(cat "$tmp/said")" "0 " "... Prometheus has nothing to say of the older text"
finish
