#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft export --to sqlite: Debian's sqlite3 finds nothing wrong with the file, whatever its shape, and the questions of
# kvmft-sql(7) have the answers that kvmft's own commands give of the same captures.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
golden=$top/tests/golden
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v sqlite3 >/dev/null; then
	skip "databases" "sqlite3 is not installed"
	finish
fi
cd "$tmp" || exit

sql() { sqlite3 -bail "$@"; }

# 3 captures with 480 fields each of one event, all called otherwise: more than a table has columns.
for n in 0 1 2; do
	printf '%s\n' "event kvm wide 3000 u64:a" "meta vm id=100-12 pid=100 name=one" \
		"meta vcpu vm=100-12 id=0 tid=100 offset=-1000 ratio=0 frac=48" "0 $((n ? 5000 : 6000)) 100 kvm:wide a=7" >wide.txt
	"$tools/mkcap" --capture wide$n wide.txt
	awk -v n=$n '/field:u64/ { for (i = 0; i < 480; i++) printf "\tfield:u8 f%d;\toffset:8;\tsize:1;\tsigned:0;\n", n * 480 + i; next } 1' \
		wide$n/events/kvm/wide >format && cat format >wide$n/events/kvm/wide
	[ $n = 0 ] || sed -i 's/^side name=host/side name=guest/' wide$n/meta
done
run "$kvmft" export -q -i wide0 --to sqlite -o wide.db --tsc-offset -1000 wide1=one wide2=one
status_is 3 "more fields than a table has columns"
err_has 'an event has more fields than a table has columns: the rest is left out' "... is reported"
is "$(sql wide.db 'PRAGMA integrity_check' "SELECT count(*) FROM notes WHERE text LIKE '%more fields%'" 'SELECT sum(f0), sum(f999) FROM wide')" \
	"ok
1
7|7" "... and in the notes"

# The formats of exits, but none came; "reason" is a field like others where it is no exit's.
{
	grep '^meta' "$golden/latency-host.txt"
	printf '%s\n' "event kvm kvm_userspace_exit 3001 u32:reason u32:errno" "0 5000 101 kvm:kvm_userspace_exit reason=2 errno=4"
} >none.txt
"$tools/mkcap" --capture none none.txt
{ cat "$golden/latency-host.txt"; echo recorded kvm_userspace_exit; } >host.txt
"$tools/mkcap" --capture host host.txt
cp host/events/kvm/kvm_entry host/events/kvm/kvm_exit none/events/kvm
{
	grep -v '^end ' none/meta
	grep -e '^event .*kvm_entry' -e '^event .*kvm_exit' -e '^end ' host/meta
} >meta
mv meta none/meta
run "$kvmft" export -i none --to sqlite -o none.db
status_is 0 "no exits"
err_has "^kvmft: no exits: no kvm_exit events in none: no VM ran, or they were not recorded$" "... is reported"
is "$(sql none.db "SELECT count(*) FROM notes WHERE text LIKE 'no exits: %'" "SELECT reason, errno FROM kvm_userspace_exit")" \
	"1
2|4" "... and in the notes; the reason has its name"

# ---- questions ----

questions()
{
	db=$1
	numbers=$2
	shift 2
	for n in $numbers; do
		ok "$db: question $n" python3 "$here/sql_questions.py" "$kvmft" "$top/man/kvmft-sql.7" "$db" "$n" "$@"
	done
}

"$tools/mkcap" --capture guest "$golden/latency-guest.txt"
run "$kvmft" export -i host --to sqlite -o made.db guest=one
status_is 0 "a host and its guest"
err_has "rows: sqlite3 made.db" "... and what to do next"
is "$(sql made.db 'PRAGMA integrity_check')" ok "... nothing is wrong with the file"
is "$(stat -c %a made.db)" 600 "... which is its owner's alone"
questions made.db "1 2 3 4 5 6 7 8 9 10" host guest=one
is "$(sql made.db "SELECT count(*) FROM events")" "$("$kvmft" merge -q --format json host guest=one | grep -c '"kind":"event"')" \
	"... all events are there"
is "$(sql made.db "SELECT sum(stored) FROM cpus")" "$(sql made.db "SELECT sum(stored) FROM sources")" "... of each CPU"
is "$(sql made.db "SELECT group_concat(n, ' ') FROM (SELECT event || '=' || count(*) AS n FROM events GROUP BY event ORDER BY event)")" \
	"$("$kvmft" merge -q --format json host guest=one | sed -n 's/.*"event":"\([^"]*\)".*/\1/p' | LC_ALL=C sort | uniq -c |
		awk '{ printf "%s%s=%s", sep, $2, $1; sep = " " }')" "... of each type"
is "$(sql made.db "SELECT count(*), sum(ts IS NOT NULL), min(ts) <= max(ts) FROM kvm_exit e JOIN exits USING (ts)" | cut -d'|' -f3)" 1 \
	"... exits join their events"
is "$(sql made.db "SELECT sum(kernel + user + poll + blocked + runnable + preempted - time) FROM exits")" 0 "parts of exits are their time"
"$tools/mkcap" --capture lacks "$golden/latency-host.txt"
run "$kvmft" export -q -i lacks --to sqlite -o lacks.db
is "$(sql lacks.db "SELECT count(*) > 0, sum(kernel IS NOT NULL), sum(user IS NOT NULL), sum(blocked IS NULL) FROM exits WHERE time")" "1|0|0|6" \
	"... but those for which kvm_userspace_exit had to be recorded are not known without it"
run "$kvmft" export -q -i host --to sqlite --clock host-tsc -o cycles.db guest=one
is "$(sql cycles.db "SELECT value FROM info WHERE name = 'unit'")" cycles "--clock host-tsc: cycles"
is "$(sql cycles.db "SELECT group_concat(vcpu_id) FROM kvm_entry" | cut -c1-3)" "$(sql made.db "SELECT group_concat(vcpu_id) FROM kvm_entry" | cut -c1-3)" \
	"... of the same events"
khz=$(sql cycles.db "SELECT value FROM info WHERE name = 'tsc_khz'")
is "$(sql cycles.db "SELECT sum(abs((entry - ts) * 1000000.0 / $khz - time) > 0.51) FROM exits WHERE entry NOT NULL")" 0 "... which are exact"

# The name of a type may become better than it was in its first rows: here what raises interrupt 30.
{
	sed '/^1   7000 /d' "$golden/latency-host.txt"
	cat <<-END
		1 18500 100 kvm_msi_set_irq address=0xfee00000 data=0x26
		1 18600 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
		0 18800 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
		0 19000 101 kvm_entry vcpu_id=0
		0 20000 101 kvm_exit exit_reason=1 isa=1
	END
} >twice.txt
{
	cat "$golden/latency-guest.txt"
	echo "0 19050 77 irq:irq_handler_entry irq=30"
	echo "0 19120 77 irq:irq_handler_exit irq=30"
} >twice-guest.txt
"$tools/mkcap" --capture twice twice.txt
"$tools/mkcap" --capture twice-guest twice-guest.txt
"$kvmft" export -q -i twice --to sqlite -o twice.db twice-guest=one
is "$(sql twice.db "SELECT type, count(*), sum(time) FROM chains WHERE analysis = 'irq' GROUP BY type")" \
	"236 local_timer|1|820
MSI irq 30|2|1500" "types of chains have the names that latency gives them"

# Only a part of the time.
"$kvmft" export -q -i host --to sqlite --from 0.000002 --until 0.000006 -o part.db guest=one
is "$(sql part.db "SELECT count(*) FROM events")" \
	"$("$kvmft" merge -q --from 0.000002 --to 0.000006 --format json host guest=one | grep -c '"kind":"event"')" "--from, --until: those events"
is "$(sql part.db "SELECT count(*) FROM exits")" "$(sql made.db "SELECT count(*) FROM exits WHERE ts >= 2000 AND entry <= 6000")" "... and those exits"
for until in 0.000002 0.000003 0.000004 0.000005 0.000006; do
	"$kvmft" export -q -i host --to sqlite --force --until $until -o part.db guest=one
	echo "$(sql part.db "SELECT count(*) FROM exits") $("$kvmft" report --to $until host 2>/dev/null | sed -n 's/^Total Samples:\([0-9]*\),.*/\1/p')"
done >counts
ok "... as many as report counts, wherever the time ends" awk '$1 != $2 + 0 { bad = 1 } { n[$1] } END { exit bad || length(n) < 2 }' counts

# One side alone.
run "$kvmft" export -i host --to sqlite -o alone.db
status_is 0 "a host alone"
questions alone.db "1 2 3 6 7 9" host
run "$kvmft" export -i guest --to sqlite -o inside.db
status_is 0 "a guest alone"
is "$(sql inside.db 'PRAGMA integrity_check' "SELECT count(*) FROM exits" "SELECT side FROM sources")" "ok
0
guest" "... has events"

# ---- losses ----

"$tools/mkcap" --capture lossy "$golden/report-loss.txt"
run "$kvmft" export -i lossy --to sqlite -o lossy.db
status_is 3 "lost events: exit 3"
questions lossy.db "1 2 3" lossy
is "$(sql lossy.db "SELECT sum(lost IS NULL) > 0, (SELECT lost IS NULL FROM sources) FROM losses")" "1|1" "... some of unknown number"
sed '/^0   3000/a 0 gap 5' "$golden/latency-host.txt" >gap.txt
"$tools/mkcap" --capture gap gap.txt
run "$kvmft" export -i gap --to sqlite -o gap.db guest=one
status_is 3 "lost events that were counted: exit 3"
questions gap.db "1 2 3 6 7 8 9" gap guest=one
is "$(sql gap.db "SELECT kind, lost FROM losses" "SELECT lost, produced - stored FROM sources WHERE side = 'host'")" "gap|5
5|5" "... are in both places"

# ---- names that are taken ----

cp -r host evil
sed -i 's/^name: .*/name: Exits/; s/ data;/ Ts;/; s/^print fmt: .*/print fmt: ""/' evil/events/kvm/kvm_msi_set_irq
mv evil/events/kvm/kvm_msi_set_irq evil/events/kvm/Exits
sed -i 's/name=kvm_msi_set_irq/name=Exits/' evil/meta
run "$kvmft" export -q -i evil --to sqlite -o evil.db
is "$(sql evil.db 'PRAGMA integrity_check' "SELECT count(*) FROM kvm_Exits WHERE Ts_ > 0" "SELECT count(*) > 0 FROM exits" \
	"SELECT event FROM events WHERE event LIKE '%exits'")" "ok
1
1
kvm:Exits" "an event and a field that are called like a table and a column"

# ---- usage ----

run "$kvmft" export -i host --to sqlite
status_is 2 "no -o: exit 2"
run "$kvmft" export -i host --to sqlite -o made.db
status_is 1 "an existing file is left alone"
run "$kvmft" export -i host --to sqlite --clock guest-tsc --to trace.dat -o other.db
status_is 2 "a name that says otherwise is refused"

# ---- recordings of trace-cmd ----

cp "$golden"/foreign/pair/*.dat .
run "$kvmft" export -i host.dat -o foreign.db guest.dat
if grep -q zstd "$err"; then
	skip "recordings of trace-cmd" "$(head -n 1 "$err")"
	finish
fi
status_is 0 "recordings of trace-cmd"
is "$(sql foreign.db 'PRAGMA integrity_check')" ok "... nothing is wrong with the file"
questions foreign.db "1 2 3 6 7 8 9 10" host.dat guest.dat
is "$(sql foreign.db "SELECT count(*) > 0 FROM notes WHERE text LIKE 'irq: %'")" 1 "... and what could not be had is noted"
finish
