#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft report --by process on recordings that are built, at 1 GHz, so that a cycle is a ns: who ran, for how long, and
# within which bounds; and what is not known when evidence is taken away. tests/vm/processes.t has real guests.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
A=0x10000000 B=0x20004000 idle=0xffffc90000004000 stack=0xffffc90000010000

# host [VENDOR [OLD]]: from lines "ENTRY EXIT CR3 CPL RSP CODE [MODES [FS]]" and lines of mkcap's on stdin, the capture of a
# host. OLD: as up to Linux 6.1, where kvm_exit comes after the probe. With $based the probe has the base of FS.
host()
{
	rm -rf "$tmp/host"
	{
		echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
		echo "meta vcpu vm=100-12 id=0 tid=101 offset=0 tsc=1"
		echo "meta machine arch=x86_64 vendor=${1:-AuthenticAMD}"
		echo "meta task tid=100 tgid=100 comm=qemu"
		echo "meta task tid=101 tgid=100 comm=vcpu0"
		echo event kvmft guest_cr3 19020 u64:cr3 u64:rip u64:rsp u8:cpl u64:code u64:modes ${based:+u64:fs}
		echo "recorded kvm_mmio ${recorded-kvmft:guest_cr3} sched:sched_switch sched:sched_wakeup kvm_nested_vmexit"
		awk -v old="${2:-}" '
		NF > 5 && $3 ~ /^0x/ {
			exited = "101 kvm_exit exit_reason=" $6 " isa=2 guest_rip=0x401000"
			cr3 = "101 kvmft:guest_cr3 cr3=" $3 " rip=0x401000 rsp=" $5 " cpl=" $4 " code=" $6 " modes=" ($7 ? $7 : 1) \
				($8 == "" ? "" : " fs=" $8)
			print 0, $1, "101 kvm_entry vcpu_id=0"
			print 0, $2, old ? cr3 : exited
			if ($7 != "none")
				print 0, $2 + (old ? 0 : 10), old ? exited : cr3
			next
		}
		{ print }' | sort -s -n -k 1,1 -k 2,2
	} >"$tmp/host.text"
	"$mkcap" --capture "$tmp/host" "$tmp/host.text" || echo "# the host is not built"
}

usual()
{
	cat <<-EOF
		1000 2000 $A 3 0x7fff0000 0x60
		2100 4100 $A 3 0x7fff0000 0x60
		0 4120 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55
		0 4180 55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
		4200 5200 $B 3 0x7fff0000 0x60
		5300 6300 $B 0 $stack 0x400
		6400 6900 $B 0 $idle 0x78
		9000 9300 $B 0 $idle 0x78
		20000 21000 $A 3 0x7fff0000 0x60
	EOF
}

guest()
{
	cat >"$tmp/guest.text" <<-EOF
		meta side name=guest
		meta cpu n=0 apicid=0
		meta task tid=77 tgid=77 comm=alpha
		meta task tid=78 tgid=78 comm=beta
		0 1100 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
		0 4300 77 sched:sched_switch prev_pid=77 prev_state=0x100 next_pid=78
		0 6600 78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=0
		0 20100 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
	EOF
	rm -rf "$tmp/guest"
	"$mkcap" --capture "$tmp/guest" "$tmp/guest.text" || echo "# the guest is not built"
}

report() { run "$kvmft" report --by process "$@"; }

# row NAME COLUMN...: of the CSV.
row()
{
	name=$1
	shift
	awk -F, -v name="$name" -v want="$*" '
	NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(want, w, " "); next }
	$2 == name || $3 == name || (NF > 3 && $4 == name && !done) {
		for (i = 1; i <= n; i++) printf("%s%s", (i > 1 ? " " : ""), $at[w[i]])
		done = 1
		print ""
		exit
	}' "$out"
}

for old in "" old; do
	usual | host AuthenticAMD $old
	report --format csv "$tmp/host"
	status_is 0 "two processes and idle time${old:+, as of Linux 6.1}"
	is "$(row as-1 cr3 cpu_us at_least_us at_most_us exits top_exit)" \
		"$A 4.500 2.000 5.000 3 interrupt" "... the first one"
	is "$(row as-2 cr3 cpu_us at_least_us at_most_us exits faults)" "$B 2.000 1.000 4.800 2 1" \
		"... the second one, which ran until it was idle"
	is "$(row '(idle)' cpu_us at_least_us at_most_us exits top_exit)" "0.300 0.000 2.800 2 hlt" "... and idle"
	is "$(row as-1 in_exits_us stolen_us)" "0.140 0.060" "... time in exits and stolen, apart"
	is "$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "cpu_us") c = i } NR > 1 { n += $c } END { print n * 1000 }' "$out")" \
		6800 "... add up to what the guest ran"
done
report "$tmp/host"
status_is 0 "as text"
out_has '^vm1: 6.8 us in the guest, by the address spaces at its exits$' "... how long, by what"
out_has '^# not recorded: 1 us may be of any of them' "... and what is not known"
out_has '^as-2 +~0.002 +0.001 ' "... times with bounds that are further than 5 % away are marked"
out_has '^# ~: a bound is more than 5 % away; the guest exited 1029412 times for each second that it ran$' "... and how often it exited"
report --format json "$tmp/host"
out_has '"from":"cr3"' "as JSON: by what"
out_has "\"cr3\":\"$A\",\"name\":null,\"cpu_ns\":4500,\"at_least_ns\":2000,\"at_most_ns\":5000" "... and rows"
out_has '"reasons":\[{"reason":"interrupt","exits":3}\]' "... with all reasons"
is "$(grep -o '"async_faults":[^,]*' "$out" | sort -u)" '"async_faults":null' "... without async page faults, which were not recorded"
{ usual; echo 0 4150 101 kvm_async_pf_not_present token=0x1000 gva=0x5000; } | host
report --format csv "$tmp/host"
is "$(row as-1 async_faults) $(row as-2 async_faults)" "1 0" "an async page fault is of the process that was told of it"
usual | sed /sched:sched_switch/d | host
run "$kvmft" export --to trace.dat -o "$tmp/foreign.dat" -i "$tmp/host"
report --format csv "$tmp/foreign.dat"
is "$(row as-1 async_faults stolen_us)" " " "a trace.dat with formats of what was not recorded: neither is known"
usual | host
sed 's/ sched:sched_wakeup//' "$tmp/host.text" >"$tmp/nowake.text"
"$mkcap" --capture "$tmp/nowake" "$tmp/nowake.text"
report --format csv "$tmp/nowake"
is "$(row as-1 exits stolen_us)" "3 " "without sched_wakeup nobody knows when it wanted a CPU"
report --top 1 "$tmp/host"
out_has '^# 2 more rows are not shown$' "--top leaves rows out, and says so"

guest
run "$kvmft" report --names "$tmp/guest=vm1" -i "$tmp/host"
status_is 2 "--names without --by process"
report --format csv "$tmp/host" "$tmp/guest=vm1"
mv "$out" "$tmp/named"
report --format csv --names "$tmp/guest=vm1" "$tmp/host"
ok "--names GUEST is the same" cmp "$tmp/named" "$out"
status_is 0 "with a guest's capture for names"
is "$(row as-1 name judged agree)" "alpha 2 2" "... the first one"
is "$(row as-2 name judged agree)" "beta 2 2" "... the second one"
is "$(row '(idle)' name judged agree)" " 2 2" "... idle has none"
report "$tmp/host" "$tmp/guest=vm1"
out_has '^# names are by sched_switch in the guest: it says the same of 6 of 6 exits$' "... and how often both say the same"

tasks() { run "$kvmft" report --by task "$@"; }
tasks --format csv "$tmp/host" "$tmp/guest=vm1"
status_is 0 "--by task: what the guest itself recorded"
is "$(row alpha tid cpu_us exits)" "77 3.000 2" "... the first one, until its capture ends"
is "$(row beta tid cpu_us exits)" "78 2.100 2" "... the second one"
is "$(row idle tid cpu_us exits)" "0 0.700 2" "... idle"
grep -v sched_switch "$tmp/guest.text" >"$tmp/less.text"
echo "0 1100 77 irq:irq_handler_entry irq=30" >>"$tmp/less.text"
"$mkcap" --capture "$tmp/less" "$tmp/less.text"
tasks "$tmp/host" "$tmp/less=vm1"
status_is 4 "a guest without sched_switch"
err_has 'not recorded: sched_switch, which says what ran: `kvmft record` in the guest' "... says what is missing"

# Page tables of the user and of the kernel (KPTI), PCIDs; and processes whose tables are next to each other.
host <<EOF
1000 2000 0x10001005 3 0x7fff0000 0x60
2100 3100 0x10000005 0 $stack 0x400
3200 4200 0x10001805 3 0x7fff0000 0x60
5000 6000 0x20001006 3 0x7fff0000 0x60
EOF
report --format csv "$tmp/host"
is "$(row as-1 cr3 cpu_us at_least_us exits)" "$A 3.500 2.000 3" "two page tables of one process are one row"
report --format json "$tmp/host"
out_has '"two_tables":true' "... and JSON says so"
host <<EOF
1000 2000 0x10000000 3 0x7fff0000 0x60
2100 3100 0x10001000 3 0x7fff0000 0x60
EOF
report --format csv "$tmp/host"
is "$(row as-2 cr3 cpu_us)" "0x10001000 0.500" "tables of two processes, side by side, are two rows"

# With an interrupt at the begin of the turn in which it switched, the guest is taken to have done so then.
{ usual; echo "0 4150 101 kvm_inj_virq vector=236 soft=0 reinjected=0"; } | host
report --format csv "$tmp/host"
is "$(row as-1 cpu_us at_most_us) $(row as-2 cpu_us at_most_us)" "4.000 5.000 2.500 4.800" "an interrupt dates a switch"

host <<EOF
1000 1010 $A 3 0x7fff0000 0x60
2100 12100 $A 3 0x7fff0000 0x60
EOF
report "$tmp/host"
out_has '^as-1 +0.010 +0.010 ' "times with near bounds have no mark"
is "$(grep -c '~' "$out")" 0 "... and nothing is said of one"

# So it is where its kernel exited, as to set a timer; not where user code did, or where that is not known.
timer='3000 4000 '"$A 0 $stack 0x7c"
later='4100 8100 '"$B 3 0x7fff0000 0x60"
{ echo "1000 2000 $A 3 0x7fff0000 0x60"; echo "$timer"; echo "$later"; } >"$tmp/timed"
host <"$tmp/timed"
report --format csv "$tmp/host"
is "$(row as-1 cpu_us at_most_us) $(row as-2 cpu_us at_most_us)" "2.000 6.000 4.000 5.000" "an exit of its kernel dates a switch"
sed "s/^$timer$/3000 4000 $A 3 0x7fff0000 0x60/" "$tmp/timed" | host
report --format csv "$tmp/host"
is "$(row as-1 cpu_us) $(row as-2 cpu_us)" "4.000 2.000" "... one of its program does not"
sed "s/^$timer$/& none/" "$tmp/timed" | host
report --format json "$tmp/host"
out_has '"unknown_ns":6000' "... without its guest_cr3 nobody knows who ran"

# An interrupt's stack belongs to whoever was interrupted: to the idle task, after a halt.
irq=0xffffc90000100000
host <<EOF
1000 2000 $A 0 $irq 0x60
2100 3100 $B 0 $irq 0x60
3200 3700 $B 0 $idle 0x78
9000 9200 $B 0 $irq 0x60
9300 9400 $B 0 $idle 0x78
20000 21000 $A 0 $irq 0x60
21100 22100 $B 0 $irq 0x60
EOF
report --format csv "$tmp/host"
is "$(row '(idle)' cpu_us exits)" "0.300 3" "an interrupt of the idle task is no process's"

# ---- the base of FS, which is a thread's own ----

# A kernel thread on a stack of its own, an interrupt and a system call on others; at last a program that has none.
entry=0xfffffe0000002fd0 thread=0xffffc90000020000 fs=0x7f0000001740
cat >"$tmp/based" <<EOF
1000 2000 $A 3 0x7fff0000 0x60 1 $fs
2100 3100 $A 0 $thread 0x400 1 0
3200 4200 $A 0 $entry 0x60 1 $fs
4300 5300 $B 0 $entry 0x60 1 0x7f1000001740
5400 6400 $B 3 0x7fff0000 0x60 1 0x7f1000001740
6500 6600 $B 0 $idle 0x78 1 0
8000 9000 0x30000000 3 0xffff0000 0x60 1 0
9100 10100 0x30000000 0 $stack 0x60 1 0
EOF
based=1 host <"$tmp/based"
report --format csv "$tmp/host"
is "$(row as-1 exits)/$(row as-2 exits)/$(row as-3 exits)/$(row '(kernel)' exits)/$(row '(idle)' exits)" 2/2/2/1/1 \
	"the base of FS tells a kernel's thread from a process, whatever the stack"
cut -d ' ' -f 1-7 "$tmp/based" | host
report --format csv "$tmp/host"
is "$(row as-1 exits)/$(row '(kernel)' exits)" 3/ "... and where it was not recorded, the stack does, if it was in several"

# A page table whose user is another program later; one of its threads ends, and borrows what ran before.
own=0xffffc90000030000 other=0x7f8000001740
based=1 host <<EOF
1000 2000 $A 3 0x7fff0000 0x60 1 $fs
2100 3100 $A 0 $stack 0x60 1 $fs
3200 4200 $B 3 0x7fff0000 0x60 1 $other
4300 5300 $B 0 $own 0x60 1 $other
5400 6400 $B 0 $stack 0x60 1 0
7600 8600 $B 0 $own 0x60 1 $other
8700 9700 $A 3 0x7fff0000 0x60 1 $other
EOF
report --format csv "$tmp/host"
is "$(row as-1 cr3 exits)/$(row as-2 cr3 exits)/$(row as-3 cr3 exits)" "$A 3/$B 3/$A 1" \
	"a thread that ends is of its process, and another program with that page table is another one"
based=1 host <<EOF
1000 2000 $A 3 0x7fff0000 0x60 1 $fs
2100 3100 $A 3 0x7fff0000 0x60 1 $other
3200 4200 $A 3 0x7fff0000 0x60 1 $fs
5000 6000 $A 3 0x7fff0000 0x60 1 0x1000
EOF
report --format csv "$tmp/host"
is "$(row as-1 exits)/$(row as-2 exits)" 4/ "... not if they take turns, or have their data elsewhere"

# The guest's sched_switch comes before its switch.
host <<EOF
1000 2000 $A 0 $stack 0x400
4200 4400 $A 0 $stack 0x400
5300 6300 $B 0 $thread 0x400
6400 6900 $B 0 $idle 0x78
20000 21000 $A 3 0x7fff0000 0x60
EOF
report --format json "$tmp/host" "$tmp/guest=vm1"
out_has '"judged":3,"agree":3,"in_switch":1' "an exit between sched_switch and the switch is neither right nor wrong"

# ---- evidence taken away ----

usual | grep -v '^0 ' >"$tmp/turns"
recorded='' host <"$tmp/turns" >/dev/null
sed -i '/guest_cr3/d' "$tmp/host.text"
rm -rf "$tmp/host"
"$mkcap" --capture "$tmp/host" "$tmp/host.text"
report "$tmp/host"
status_is 4 "without the probe's events"
err_has 'not recorded: which process a guest ran: `kvmft record --guest-processes` on the host .AMD., or .* --by task HOST GUEST`' \
	"... says what would have told"
sed -i 's/AuthenticAMD/GenuineIntel/' "$tmp/host.text"
rm -rf "$tmp/host"
"$mkcap" --capture "$tmp/host" "$tmp/host.text"
report "$tmp/host"
status_is 4 "of an Intel host"
err_has 'only hosts with AMD.s CPUs can tell; `kvmft record` in the guest as well' "... says that it cannot tell"

sed 's/$/ 7/' "$tmp/turns" | host
report "$tmp/host"
status_is 4 "encrypted registers"
err_has 'not recorded: .*: its registers are encrypted' "... are said"
sed 's/$/ 8/' "$tmp/turns" | host
report "$tmp/host"
status_is 4 "shadow paging"
err_has 'not recorded: .*: without nested paging .kvm_amd.npt=0. CR3 is KVM.s' "... is said"
sed '1s/$/ 7/' "$tmp/turns" | host
report "$tmp/host"
status_is 0 "one exit with encrypted registers"
out_has '^# not recorded: 1 exits with encrypted registers' "... is counted"

# The second exit has no event of the probe: 2 us of its turn, and 1 us of the next, may be anybody's.
sed '2s/$/ none/' "$tmp/turns" | host
report --format csv "$tmp/host"
is "$(row as-1 cpu_us at_least_us at_most_us exits)" "2.000 0.000 5.000 2" "an exit without CR3 is in no row, but in bounds"
is "$(row as-2 cpu_us at_least_us at_most_us)" "2.500 1.000 6.800" "... of all"
report --format json "$tmp/host"
out_has '"unknown_ns":4000,"exits":7,"without_cr3":1' "... and counted"

host <"$tmp/turns"
awk '/ 4200 101 kvm_entry/ { print "0 gap 5" } { print }' "$tmp/host.text" >"$tmp/gap.text"
rm -rf "$tmp/gap"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.text"
report --format csv "$tmp/gap"
status_is 3 "with lost events"
is "$(row as-2 cpu_us at_least_us)" "2.500 1.000" "... what came after them is counted"
is "$(row as-1 cpu_us at_least_us)" "4.000 2.000" "... and before"
is "$(row as-2 at_most_us)" 4.890 "... but who ran at the gap, and in the first turn after it, is not certain"
awk '!/ 4200 101 kvm_entry/' "$tmp/host.text" >"$tmp/gap.text"
rm -rf "$tmp/gap"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.text"
report --format json "$tmp/gap"
out_has '"without_entry":1' "an exit without entry is counted"
report --format csv "$tmp/gap"
is "$(row as-2 cpu_us exits)" "1.500 2" "... but has no time"

# ---- another VM, whose guest makes more stacks, or address spaces, than are kept ----

host AuthenticAMD <<-EOF
	$(usual)
EOF
report --format csv "$tmp/host"
grep '^vm1' "$out" >"$tmp/alone"
for what in stacks spaces; do
	n=65540
	[ $what = spaces ] || n=131080
	{
		echo "meta vm id=200-12 pid=200 fd=12 name=vm2"
		echo "meta vcpu vm=200-12 id=0 tid=201 offset=0 tsc=1"
		# the events of the first one are behind all of these
		awk '$1 == "0" { $2 += 100000000 } { print }' "$tmp/host.text"
		awk -v n=$n -v what=$what 'BEGIN { for (i = 0; i < n; i++) {
			t = 1000 + i * 100
			print 1, t, "201 kvm_entry vcpu_id=0"
			print 1, t + 40, "201 kvm_exit exit_reason=0x60 isa=2 guest_rip=0x401000"
			print 1, t + 50, "201 kvmft:guest_cr3 rip=0x401000 code=0x60 modes=1 cr3=" (what == "stacks" ? "0x1000" : "0x" i "0000"),
				"cpl=" (what == "stacks" ? 0 : 3) " rsp=" (what == "stacks" ? "0x" i "0000" : "0x10000")
		} }'
	} >"$tmp/two.text"
	rm -rf "$tmp/two"
	"$mkcap" --capture "$tmp/two" "$tmp/two.text"
	report --format csv "$tmp/two"
	status_is 0 "another VM's $what: report"
	grep '^vm1' "$out" >"$tmp/beside"
	ok "... tells of this one what it tells of it alone" cmp "$tmp/alone" "$tmp/beside"
done

# ---- the recorder, on a machine that has no such guests ----

if [ ! -w /sys/kernel/tracing/kprobe_events ]; then
	skip "record --guest-processes" "kprobe_events cannot be written"
elif [ -e /sys/kernel/btf/kvm_amd ]; then
	skip "record --guest-processes" "kvm_amd is loaded: tests/vm/processes.t has that"
else
	before=$(cat /sys/kernel/tracing/kprobe_events)
	run "$kvmft" record --as host --guest-processes -o "$tmp/none" -- true
	status_is 4 "record --guest-processes without kvm_amd"
	err_has "guest-processes: (only on AMD|.*is kvm_amd loaded)" "... says what it lacks"
	is "$(cat /sys/kernel/tracing/kprobe_events)" "$before" "... and leaves no probe"
	ok "... and no capture" test ! -e "$tmp/none"
fi

# ---- options ----

for o in "--key time" "--vcpu 0" "--split" "--from 1" "--event ioport" "--per vm"; do
	# shellcheck disable=SC2086 # an option and its value
	report $o "$tmp/host"
	status_is 2 "--by process and $o exclude each other"
done
tasks "$tmp/host"
status_is 2 "--by task: of which guest?"
err_has "only the guest knows" "... is asked"
finish
