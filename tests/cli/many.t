#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Captures of many hosts: report and blame of a directory of such are what each alone has, and their sum.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
golden=$top/tests/golden
cd "$tmp" || exit

mkdir -p day/web1 day/web2 day/db
"$tools/mkcap" --capture day/web1/host "$golden/latency-host.txt"
"$tools/mkcap" --capture day/web1/one "$golden/latency-guest.txt"
sed -i 's/^side name=host/side name=guest/' day/web1/one/meta
"$tools/mkcap" --capture day/web2/0600 "$golden/report-split.txt"
"$tools/mkcap" --capture day/web2/0700 "$golden/latency-host.txt"
"$tools/mkcap" --capture day/db/only "$golden/report-split.txt"

run "$kvmft" report -i day
status_is 0 "report of a tree"
is "$(grep '^==>' "$out" | tr '\n' ' ')" \
	"==> day/db/only <== ==> day/web1/host <== ==> day/web2/0600 <== ==> day/web2/0700 <== ==> all 4 together <== " \
	"... in the order of their names, without the guest"
run "$kvmft" report -i day/db/only -i day/web1/host day/web2/0600
out_has '^==> all 3 together <==$' "--input several times, and an operand"
run "$kvmft" report --by rip -i day/db/only -i day/web1/host
status_is 2 "... but one host for --by rip"
table_head() { sed -n "\\,^==> $1,,\$p" "$out" | grep Samples% | head -n 1 | tr -s ' '; }
is "$(table_head all)" "$(table_head day/db)" "the last table has the columns of the others"
for key in sample time max_t min_t mean_t ev_name; do
	run "$kvmft" report -k "$key" day/db/only day/db/../db/only day/web2/0600
	sed -n '/^==> all/,$s/^ *\([A-Z_]*\) .*%.*/\1/p' "$out" | grep . >got
	"$kvmft" report -k "$key" day/db/only 2>/dev/null | sed -n 's/^ *\([A-Z_]*\) .*[0-9]%.*us.*/\1/p' >want
	ok "... and, of what is twice the same, the same order (-k $key)" sh -c "test -s got && cmp got want"
done
run "$kvmft" report -i day
"$kvmft" report day/web1/host day/db/only 2>/dev/null >want
run "$kvmft" report day/web1/host day/db/only ./day/web1/host
ok "one that is named twice counts once" cmp "$out" want
err_has '^kvmft: \./day/web1/host is named more than once: it counts once$' "... which is reported"
mkdir tree
cp -r day/db/only tree/one
head -c 100 /dev/zero >tree/a.dat
ln tree/a.dat "tree/$(printf 'y\033]0;pwn\007\nkvmft: forged.dat')"
run "$kvmft" report -i tree
err_has '^kvmft: tree/y\?\]0;pwn\?\?kvmft: forged\.dat is named more than once: it counts once$' \
	"names in a tree are printed without control characters"
is "$(LC_ALL=C tr -d '\n -~' <"$err" | wc -c | tr -d ' ') $(grep -c '^kvmft: forged' "$err")" "0 0" "... and on their own lines"
rm -r tree
run "$kvmft" report --top 1 -i day
is "$(sed -n '/^==> all/,$p' "$out" | grep -c '%')" 2 "--top is of the sum, too: its head and a row"
is "$(sed -n '/^==> all/,$p' "$out" | tail -n 1)" "$("$kvmft" report -i day 2>/dev/null | tail -n 1)" "... and sums are of all rows"
run "$kvmft" report -i day
for c in db/only web1/host web2/0600; do
	"$kvmft" report -i "day/$c" >want 2>/dev/null
	sed -n "\\,^==> day/$c ,,/^==> /p" "$out" | sed '1d;$d' >got # and an empty line between two
	printf '\n' >>want
	ok "... $c has its own tables" cmp got want
done

run "$kvmft" report --format csv -i day
cp "$out" tree.csv
"$kvmft" report --format csv day/*/* >list.csv 2>/dev/null
is "$(cut -d, -f1 list.csv | sort -u | wc -l)" 5 "CSV: a header and four captures, from a list as well"
is "$(sort list.csv | cksum)" "$(sort tree.csv | cksum)" "... with the same rows"
run "$kvmft" report --format json -i day
is "$(wc -l <"$out" | tr -d ' ')" 5 "JSON: a line for each, and the sum"
ok "... each is JSON, and the sum is over all" python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
want = {}
for l in lines[:-1]:
    for r in l["result"]["sections"][0]["rows"]:
        w = want.setdefault(r["event"], [0, 0, 0])
        w[0] += r["samples"]
        w[1] += r["total_ns"]
        w[2] = max(w[2], r["max_ns"])
got = {r["name"]: [r["count"], r["total_ns"], r["max_ns"]] for r in lines[-1]["together"]}
print(got, want)
sys.exit(got != want)' "$out"

# One that is damaged does not end the others.
rm day/web2/0700/meta
run "$kvmft" report -i day
status_is 3 "a damaged capture: exit 3"
err_has "^kvmft: day/web2/0700: " "... it is named"
err_has "1 of 4 captures gave no result" "... and counted"
out_has "all 3 together" "... the others are there"
run "$kvmft" report --format json -i day
out_has '"capture":"day/web2/0700","exit":1,"error":' "... in JSON as well"
rm -r day/web2/0700

# Its name is a letter of the message.
mkdir e
run "$kvmft" report e
err_has "^kvmft report: e: not a kvmft capture: cannot read meta" "a directory with a short name is named"

# One beside a host that does not say whose it is: no guest of its.
mkdir -p pair/bad
cp -r day/db/only pair/host
echo nonsense >pair/bad/meta
for command in report blame; do
	run "$kvmft" "$command" pair
	status_is 3 "$command of a host and a broken capture: exit 3"
	err_has "^kvmft: pair/bad: not a kvmft capture" "... it is named"
done
run "$kvmft" merge pair
status_is 1 "... they are no session"
err_has "pair/bad does not say whether it is of a host or a guest" "... and why is said"

# Among many that are good: a broken one, an empty one, an empty directory, and some that may not be read.
mkdir -p fleet/void
for n in 1 2 3 4 5; do
	cp -r day/db/only fleet/h$n
done
cp -r day/db/only fleet/broken
head -c 100 fleet/broken/seg000000/cpu0 >fleet/cut && mv fleet/cut fleet/broken/seg000000/cpu0
cp -r day/db/only fleet/empty && : >fleet/empty/meta
mkdir fleet/closed && cp -r day/db/only fleet/closed/h6
chmod a+x "$tmp"
chmod -R a+rX fleet
chmod 000 fleet/closed
nobody=
[ "$(id -u)" != 0 ] || nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
if ! $nobody test -r fleet/h1/meta || ! $nobody "$kvmft" --version >"$tmp/ok.log" 2>&1; then
	skip "captures that may not be read" "another user cannot reach this place"
else
	# shellcheck disable=SC2086 # words
	run $nobody "$kvmft" report -i fleet
	status_is 3 "a directory with captures that cannot be read: exit 3"
	err_has "^kvmft: cannot read fleet/closed: Permission denied: what is in there is left out$" "... what may not be read is named"
	err_has "2 of 7 captures gave no result" "... what can be found is counted"
	out_has "all 5 together" "... the others are there"
	for name in broken empty closed; do
		is "$(grep -c "fleet/$name" "$err")" 1 "... $name takes one line"
	done
	# shellcheck disable=SC2086 # words
	run $nobody "$kvmft" report -i fleet/*/
	status_is 3 "the same by their names: exit 3"
	err_has "^kvmft: fleet/closed/: cannot open the capture: Permission denied$" "... what may not be read is named"
	err_has "4 of 9 captures gave no result" "... and counted"
	out_has "all 5 together" "... the others are there"
	for command in report blame; do
		# shellcheck disable=SC2086 # words
		run $nobody "$kvmft" $command fleet/closed
		status_is 1 "$command of one that may not be read: exit 1"
		err_has "^kvmft $command: fleet/closed: cannot open the capture: Permission denied$" "... it is named"
	done
fi
chmod 700 fleet/closed

# What is not read is reported.
deep=tower
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do deep=$deep/$n; done
mkdir -p $deep
cp -r day/db/only tower/top
cp -r day/db/only $deep/under
run "$kvmft" report -i tower
status_is 3 "a tree that is too deep: exit 3"
err_has "^kvmft: cannot read $deep: too many levels of directories: what is in there is left out$" "... it is named"

# Captures that claim to have taken centuries, together more than 64 bits of ns.
awk 'BEGIN { print "0 1000 101 kvm_entry vcpu_id=0"
	for (i = 1; i < 21; i++) printf "0 %d00000000000000000 101 kvm_%s\n", i * 5, i % 2 ? "exit exit_reason=12 isa=1" : "entry vcpu_id=0" }' >ages.txt
mkdir ages
for n in 1 2 3 4; do "$tools/mkcap" --capture ages/$n ages.txt; done
run "$kvmft" report -i ages --format json
is "$(tail -n 1 "$out" | sed 's/.*"total_ns":\([0-9]*\).*/\1/')" 18446744073709551615 "a sum that is too large is the largest, not a small one"
err_has '^kvmft: times add up to more than 584 years: such a sum is shown as the largest number of ns in 64 bits$' "... which is said"
run "$kvmft" report -i ages
is "$(awk '$1 == "HLT" && $3 ~ /%/ { print $7 }' "$out" | sort -u)" 500000000000000.00us "... no mean is below the shortest"
awk '{ for (c = 0; c < 8; c++) { $1 = c; $3 = 101 + c; print } }' ages.txt | sort -n -k 2,2 -s >ages8.txt
mkdir ages8
for n in 1 2; do "$tools/mkcap" --capture ages8/$n ages8.txt; done
run "$kvmft" report -i ages8
is "$(awk '$1 == "HLT" && $3 ~ /%/ { print $7 }' "$out" | sort -u)" 500000000000000.00us "... of one capture, either"

run "$kvmft" report nothing day/none
status_is 1 "none can be read: exit 1"
run "$kvmft" report --by stack day
status_is 2 "--by stack: one at a time"
run "$kvmft" report --event nonsense day
status_is 2 "an option is checked before anything is read"

# Names on a terminal.
cp -r day/db/only "day/$(printf 'x\033[31m')"
run "$kvmft" report -i day
ok "control characters of names do not reach the terminal" sh -c "! grep -q '$(printf '\033')' '$out' '$err'"
rm -r day/x*

# ---- blame ----

mkdir -p more/a more/b
cp -r day/web1 more/a/run
cp -r day/web1 more/b/run
# One capture beside directories of sessions is one of all, and does not stand for them.
mkdir mixed
cp -r day/web1/host mixed/stray
cp -r day/web1 mixed/run
run "$kvmft" report -i mixed
is "$(grep '^==>' "$out" | tr '\n' ' ')" "==> mixed/run/host <== ==> mixed/stray <== ==> all 2 together <== " \
	"report: a capture beside a session"
run "$kvmft" blame mixed
is "$(grep '^==>' "$out" | tr '\n' ' ')" "==> mixed <== ==> mixed/run <== ==> all 2 together <== " "... blame"

run "$kvmft" blame more
status_is 0 "blame of a tree of sessions"
is "$(grep -c '^==> more/./run <==' "$out")" 2 "... a list for each"
n=$("$kvmft" blame --format csv more/a/run 2>/dev/null | cut -d, -f1-8 | sort -u | grep -vc '^what,')
out_has "Total Spikes:$((2 * n))," "... and all together"
run "$kvmft" blame more/a/run more/b/run
is "$(grep -c '^==> more/./run <==' "$out")" 2 "sessions by their names"
run "$kvmft" blame --by cause --format json more
is "$(wc -l <"$out" | tr -d ' ')" 3 "JSON: a line for each, and the sum"
# With -i, captures of hosts that lie side by side are no pair of host and guest.
run "$kvmft" blame -i day/web1/host day/db/only
is "$(grep '^==>' "$out" | tr '\n' ' ')" "==> day/web1/host <== ==> day/db/only <== ==> all 2 together <== " \
	"blame -i: each by itself"
run "$kvmft" blame -i day/web1 more/*/
is "$(grep '^==>' "$out" | tr '\n' ' ')" "==> day/web1 <== ==> more/a/run <== ==> more/b/run <== ==> all 3 together <== " \
	"... and of sessions and directories"
run "$kvmft" blame --format csv -i more/a
"$kvmft" blame --format csv more/a/run >want 2>/dev/null
ok "... one alone is as without -i" cmp want "$out"
run "$kvmft" blame
status_is 2 "blame of nothing"
run "$kvmft" blame more/a
status_is 0 "a tree of one session is that"
ok "... without a head" sh -c "! grep -q '==>' '$out'"

# ---- metrics ----

run "$kvmft" report -i day/web1/host --split --format openmetrics
status_is 0 "report --format openmetrics"
is "$(sed -n 's/^kvmft_exits{.*reason="\([^"]*\)"} /\1,/p' "$out" | sort)" \
	"$("$kvmft" report -i day/web1/host --per all --format csv 2>/dev/null | awk -F, 'NR > 1 { print $3 "," $4 }' | sort)" \
	"... has the report's samples"
ok "... and its times" sh -c "sed -n 's/^kvmft_exit_seconds{.*} //p' '$out' | awk '{ s += \$1 } END { exit s < 0.0000001 }'"
is "$(awk '/^kvmft_exit_seconds{/ { t += $NF } /^kvmft_exit_part_seconds{/ { p += $NF } END { printf "%.9f", t - p }' "$out")" 0.000000000 \
	"... whose parts are all of them"
is "$(tail -n 1 "$out")" "# EOF" "... and is whole"
cp "$out" report.prom
run "$kvmft" latency irq,timer --format openmetrics day/web1/host day/web1/one=one
status_is 0 "latency --format openmetrics"
is "$(sed -n 's/^kvmft_latency_seconds_count{analysis="irq".*} //p' "$out")" \
	"$("$kvmft" latency irq --format csv day/web1/host day/web1/one=one 2>/dev/null | awk -F, '$1 == "irq" && $4 == "total" { n += $5 } END { print n }')" \
	"... has the interrupts that were measured"
is "$(sed -n 's/^kvmft_latency_seconds_bucket{analysis="irq".*le="+Inf"} //p' "$out")" \
	"$(sed -n 's/^kvmft_latency_seconds_count{analysis="irq".*} //p' "$out")" "... all of them in buckets"
is "$(cat report.prom "$out" | sed -n 's/^# TYPE \([^ ]*\).*/\1/p' | sort | uniq -d)" "" "no family is in both"
"$tools/exits_load" --prometheus 1100 3 1 >vms.prom 2>/dev/null
is "$(grep -c '^kvm_exits_total{vm="[0-9]' vms.prom)" 3000 "exits by VM: of the first 1,000 VMs"
is "$(grep -c '^kvm_exits_total{vm="",' vms.prom)" 3 "... and of the others together"
ok "... no exit is missing" sh -c "
	'$tools/exits_load' 1100 3 1 2>/dev/null | awk 'NR > 1 { n += \$4 } END { print n }' >want
	awk '/^kvm_exits_total/ { n += \$NF } END { print n }' vms.prom | cmp - want"
ok "... without a label for threads" sh -c "! grep -q 'tid=' vms.prom"
# Two VMs that are called the same, and ports that a guest has chosen: 150 of them.
awk 'BEGIN { for (i = 0; i < 2; i++) printf "meta vm id=%d-1 pid=%d name=twin\nmeta vcpu vm=%d-1 id=0 tid=%d offset=0 ratio=0 frac=48\n", 100 + i, 100 + i, 100 + i, 200 + i
	for (i = 0; i < 1000; i++) { t = 200 + i % 2; p = i < 300 ? i / 2 : 7
		printf "0 %d %d kvm_exit exit_reason=30 isa=1\n0 %d %d kvm_pio rw=1 port=%d size=1 count=1\n0 %d %d kvm_entry\n", i * 900, t, i * 900 + 50, t, p, i * 900 + 100, t }
}' >twins.txt
"$tools/mkcap" --capture twins twins.txt
for of in "vmexit --split" ioport; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" report -i twins --event $of --format openmetrics
	status_is 0 "two VMs of one name, report --event $of"
	is "$(sed '/^#/d; s/ [^ ]*$//' "$out" | sort | uniq -d)" "" "... no sample comes twice"
	out_has '^kvmft_exits{vm="twin",uuid="",number="2",reason=' "... and the second one is distinguished"
	is "$(awk '/^kvmft_exits{/ { n += $NF } END { print n }' "$out")" 1000 "... nothing is missing"
done
is "$(grep -c '^kvmft_exits{vm="twin",uuid="",reason=' "$out") $(sed -n 's/^kvmft_exits{vm="twin",uuid="",reason="(others)"} //p' "$out")" \
	"101 50" "... with a label for the 100 most frequent, and one for the others"
run "$kvmft" latency vcpu --format openmetrics twins
is "$(sed '/^#/d; s/ [^ ]*$//' "$out" | sort | uniq -d)" "" "latency: no sample comes twice"
run "$kvmft" report -i twins
is "$(sed -n 's/^Analyze events for \(.*\), all VCPUs:$/\1/p' "$out" | tr '\n' ' ')" "all VMs VM 100-1 VM 101-1 " "... they have a table each"
run "$kvmft" report -i twins --format csv
is "$(awk -F, 'NR > 2 { print $1, $4 }' "$out" | tr '\n' ' ')" "100-1 500 101-1 500 " "... in CSV, too"
run "$kvmft" report -i twins --vm 101-1
out_has '^Analyze events for VM 101-1, all VCPUs:' "... and are found by that"
run "$kvmft" blame --what stall -q twins
is "$(sed -n 's/.*stall, \([^ ]*\) vCPU.*/\1/p' "$out" | sort -u | tr '\n' ' ')" "100-1 101-1 " "... in the spikes of blame"
for i in 0 1; do
	printf 'meta side name=guest\n0 3%d0 9 sched:sched_wakeup pid=1\n' $((i + 2)) >twin$i.txt
	"$tools/mkcap" --capture twin$i twin$i.txt
done
run "$kvmft" merge twins twin0=100-1 twin1=101-1
is "$(awk '!/^host/ { print $1 }' "$out" | tr '\n' ' ')" "100-1 101-1 " "... in the lines of their guests"
out_has '^host .*-20[01] ' "... beside those of the host"
run "$kvmft" merge --format json twins twin0=100-1 twin1=101-1
is "$(sed -n '/kvm:kvm_exit/s/.*"vm":"\([^"]*\)".*/\1/p' "$out" | sort | uniq -c | tr -s ' \n' ' ')" " 500 100-1 500 101-1 " \
	"... in those of the host as JSON"
run "$kvmft" merge --side twin twins twin0=100-1 twin1=101-1
is "$(cut -d' ' -f1 "$out" | tr '\n' ' ')" "100-1 101-1 " "... the name means both, and says so"
run "$kvmft" merge --side 101-1 twins twin0=100-1 twin1=101-1
is "$(cut -d' ' -f1 "$out" | tr '\n' ' ')" "101-1 " "... and PID-FD one"
run "$kvmft" verify twins twin0=100-1 twin1=101-1
is "$(sed -n 's/^\(10[01]-1\):.*/\1/p' "$out" | tr '\n' ' ')" "100-1 101-1 " "... in verify"
run "$kvmft" exits --per vm 1
status_is 2 "exits --per vm is for metrics"
run "$kvmft" report --format openmetrics day
status_is 2 "--format openmetrics: one capture at a time"

# ---- on any number of CPUs, results are shown in their order ----

mkdir grow
for n in 11 12 13 14 15 16 17 18 19 20 21; do
	"$makers/gen" --capture grow/$n --events $((n * 500)) --cpus 2 >gen.log 2>&1
	"$kvmft" report --format csv grow/$n 2>/dev/null | sed "1d; s|^|\"grow/$n\",|"
done >want
for cpus in 0 0-63; do
	run taskset -c $cpus "$kvmft" report --format csv grow
	sed 1d "$out" >got
	ok "on CPUs $cpus: each result is that of its capture" cmp got want
done
rm -rf grow

# ---- a process that is killed costs its capture ----

"$makers/gen" --capture long --events 3000000 --cpus 2 >gen.log 2>&1
# Kills the process that reads it; it may be done before.
killed_reader()
{
	nice -n 15 "$kvmft" report --format csv -i day/db -i long -i day/web1 >"$out" 2>"$err" &
	report=$!
	n=0
	while [ $n -lt 500 ] && [ -d /proc/$report ]; do
		for pid in $(cat /proc/$report/task/$report/children 2>/dev/null); do
			if find "/proc/$pid/fd" -lname '*/long/*' 2>/dev/null | grep -q .; then
				kill -9 "$pid"
				break 2
			fi
		done
		n=$((n + 1))
	done
	wait $report
	rc=$?
}
tries=0
killed_reader
while [ $rc = 0 ] && [ $tries -lt 20 ]; do
	tries=$((tries + 1))
	killed_reader
done
status_is 3 "the process that reads a capture is killed"
err_has '^kvmft: long: the process that read it was killed$' "... its capture has no result"
rm -rf long

# The first process is killed when it has taken one, and has not yet told anybody; results are larger than pipes.
cat >die.c <<-'END'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <sys/stat.h>
	#include <unistd.h>
	static int forks, dies;
	pid_t fork(void)
	{
		pid_t pid = ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();
		dies = forks++ == 2 && !pid; /* after those that list what is there */
		return pid;
	}
	ssize_t write(int fd, const void *b, size_t n)
	{
		struct stat st;
		if (dies && !fstat(fd, &st) && S_ISFIFO(st.st_mode))
			__builtin_trap();
		return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, b, n);
	}
END
if [ "$(nproc)" -gt 1 ] && "${CC:-cc}" -shared -fPIC -o die.so die.c -ldl 2>"$err"; then
	awk 'BEGIN { for (i = 0; i < 40000; i++) printf "0 %d 200 kvm_exit exit_reason=30 isa=1\n0 %d 200 kvm_mmio type=2 len=4 gpa=%d val=0\n0 %d 200 kvm_entry\n",
		i * 900, i * 900 + 50, i * 4096, i * 900 + 100 }' >mmio.txt
	mkdir large
	for n in 1 2 3 4 5; do "$makers/mkcap" --capture large/$n mmio.txt; done
	run env LD_PRELOAD="$tmp/die.so" timeout 300 "${KVMFT_PLAIN:-$kvmft}" report --event mmio --format csv large
	status_is 3 "a process is killed between taking a capture and saying so: nobody waits for ever"
	is "$(grep -c '^kvmft: large/[1-5]: the process that read it was killed$' "$err")" 1 "... one capture has no result"
	is "$(cut -d, -f1 "$out" | sort -u | wc -l)" 5 "... the others have"
	rm -rf large
else
	skip "a process is killed before it says what it took" "it takes two CPUs and a compiler"
fi

# ---- contrib/fleet, with a recorder that has a capture at hand ----

mkdir "$tmp/bin" "$tmp/prom"
cat >"$tmp/bin/kvmft" <<END
#!/bin/sh
[ "\$1" != record ] || exec cp -r "$tmp/fleet-host" "\$3"
exec "$kvmft" "\$@"
END
chmod +x "$tmp/bin/kvmft"
"$tools/mkcap" --capture "$tmp/fleet-host" "$golden/latency-host.txt"
run env PATH="$tmp/bin:$PATH" sh "$top/contrib/fleet/kvmft-fleet" "$tmp/nowhere"
status_is 1 "kvmft-fleet without its directory"
err_has "^kvmft-fleet: $tmp/nowhere is no directory: install" "... says so"
run env PATH="$tmp/bin:$PATH" sh "$top/contrib/fleet/kvmft-fleet" "$tmp/prom"
if [ "$(id -u)" != 0 ]; then
	status_is 1 "kvmft-fleet, in a directory of a user"
	err_has "^kvmft-fleet: others than root may change $tmp/prom: give a directory of root's" "... says what it needs"
	finish
fi
status_is 0 "kvmft-fleet"
is "$(cd "$tmp/prom" && ls -A | tr '\n' ' ')" "kvmft_advise.prom kvmft_clock.prom kvmft_latency.prom kvmft_report.prom " "... writes all"
ok "... whole" sh -c 'for f in "$0"/*; do tail -n 1 "$f" | grep -qx "# EOF" || exit 1; done' "$tmp/prom"
finish
