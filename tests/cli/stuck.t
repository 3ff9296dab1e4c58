#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft stuck on small VMs of our own that hang in known ways. Here KVM may tell of no exits; what those
# add is tests/vm/stuck.t.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

# ---- what needs no VM ----

for n in 0 0.1 5000 soon; do
	run "$kvmft" stuck --duration $n
	status_is 2 "--duration $n"
done
run "$kvmft" stuck --format csv
status_is 2 "an unknown format"
run "$kvmft" stuck --guest-kallsyms "$tmp/none"
status_is 1 "symbols that are not there"
err_has 'cannot read .*/none: No such file' "... is reported"
printf 'not\0kallsyms\n0000000000000000 T hidden\nffffffff81000000 D data\n' >"$tmp/symbols"
run "$kvmft" stuck --guest-kallsyms "$tmp/symbols"
status_is 1 "a file without a function"
err_has "is it the guest's /proc/kallsyms" "... and what it should be"
err_one_line "a file without a function"
mkfifo "$tmp/fifo"
run timeout 300 "$kvmft" stuck --guest-kallsyms "$tmp/fifo"
status_is 1 "symbols that are no plain file"

# ---- a recording ----

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
# built NAME, of $tmp/NAME.events: a host's capture of one VM with a vCPU, and a trace.dat that knows nothing of either.
built()
{
	{
		echo "meta vm id=100-12 pid=100 fd=12 name=one"
		echo "meta vcpu vm=100-12 id=0 tid=101 offset=0 tsc=1"
		echo "meta task tid=101 tgid=100 comm=CPU%200/KVM"
		echo "recorded kvm_inj_virq kvm_apicv_accept_irq"
		cat "$tmp/$1.events"
	} >"$tmp/$1.text"
	ok "$1 is built" "$mkcap" --capture "$tmp/$1" --formats formats-6.1-kvm.txt "$tmp/$1.text"
	ok "... as trace.dat" "$mkcap" --trace-dat "$tmp/$1.dat" --formats formats-6.1-kvm.txt "$tmp/$1.events"
}

# recorded NAME CLASS VERDICT PATTERN: what is said of both.
recorded()
{
	for input in "$tmp/$1" "$tmp/$1.dat"; do
		run "$kvmft" stuck -i "$input"
		status_is 0 "${input##*/}: answered"
		out_has "^[a-z0-9:]+.*: $3\$" "... the VM is $3"
		out_has "^  vCPU 0, thread 101: $2\$" "... the class is $2"
		tr -s '\n ' ' ' <"$out" >"$tmp/line"
		file_has "$tmp/line" "$4" "... and why"
		err_has 'not recorded: .kvmft record -e default .*sched_switch' "... what is not recorded, and how to"
	done
}

# One page, for ever; each time its tick is on its way again.
awk 'BEGIN { for (t = 1000; n < 400; t += 2200) {
	print 0, t, "101 kvm_entry vcpu_id=0"
	print 0, t + 1000, "101 kvm_exit exit_reason=48 guest_rip=0xffffffffc0771aa2 isa=1 info1=0x683 vcpu_id=0"
	print 0, t + 1400, "101 kvm_page_fault vcpu_id?=0 fault_address=0x2594fe0 error_code=0x683"
	print 0, t + 2000, "101 kvm_inj_virq vector=0xec"
	n++ } }' >"$tmp/loop.events"
built loop
recorded loop exit-loop stuck 'EPT_VIOLATION at 0xffffffffc0771aa2, fault at 0x2594fe0, 100.0 %'
run "$kvmft" stuck -i "$tmp/loop" --format json
out_has '"needs":\["host sched:sched_switch","host sched:sched_wakeup","host kvm:kvm_userspace_exit"\]' "... in JSON, too"
out_has '"class":"exit-loop","stuck":true,"sure":true' "... which is sure"
# A program that spins: nine of ten exits are its tick's, and the host finds it in the program.
awk 'BEGIN { for (t = 1000000; n < 1000; t += 1000000) {
	print 0, t, "101 kvm_entry vcpu_id=0"
	print 0, t + 900000, "101 kvm_exit exit_reason=32 guest_rip=0xffffffff8107e914 isa=1 vcpu_id=0"
	print 0, t + 901000, "101 kvm_msr write=1 ecx=0x6e0 data=1 exception=0"
	if (n++ % 10 == 0) {
		print 0, t + 910000, "101 kvm_entry vcpu_id=0"
		print 0, t + 950000, "101 kvm_exit exit_reason=1 guest_rip=0x55d0c0de1004 isa=1 vcpu_id=0" } } }' >"$tmp/busy.events"
built busy
recorded busy running running 'of 100 RIPs 100.0 % are in user space: 100.0 % around 0x55d0c0de1004; halted 0.0 %'
# The guest's own capture knows which task that is, unless it lacks switches, or since it lost events.
guest_of_busy()
{
	echo "meta side name=guest"
	echo "meta cpu n=0 apicid=0"
	echo "0 1100000 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=500 next_comm=prog"
	[ -z "$1" ] || echo "$1"
	echo "0 751100000 500 sched:sched_switch prev_pid=500 prev_state=0 next_pid=600 next_comm=other"
	echo "0 900100000 600 msr:read_msr msr=0x11 val=5"
}
guest_of_busy "" >"$tmp/guest.text"
guest_of_busy "0 gap 3" >"$tmp/guest.gap.text"
cp "$tmp/guest.text" "$tmp/guest.less.text"
for g in guest guest.gap guest.less; do
	ok "$g: compiled" "$mkcap" --capture "$tmp/$g" "$tmp/$g.text"
done
"${KVMFT_TOOLS:-$top/build/tests/tools}/ablate" --drop sched:sched_switch "$tmp/guest.less" >/dev/null
run "$kvmft" stuck -i "$tmp/busy" "$tmp/guest=one" --format json
status_is 0 "with the guest's capture"
is "$(jq -c '.vms[].vcpus[].tasks | map(.pct *= 1)' "$out")" '[{"tid":500,"comm":"prog","pct":75},{"tid":600,"comm":"other","pct":25}]' \
	"... which task it is"
run "$kvmft" stuck -i "$tmp/busy" "$tmp/guest=one"
tr -s '\n ' ' ' <"$out" >"$tmp/line"
file_has "$tmp/line" 'its task: 75\.0 % prog-500, 25\.0 % other-600;' "... in text"
run "$kvmft" stuck -i "$tmp/busy" "$tmp/guest.gap=one" --format json
status_is 3 "a guest that lost events"
err_has 'one: 3 events, 3 lost' "... which is said"
is "$(jq -c '.vms[].vcpus[].tasks | map(.tid)' "$out")" '[600]' "... not since it lost events"
run "$kvmft" stuck -i "$tmp/busy" "$tmp/guest.less=one"
tr -s '\n ' ' ' <"$out" >"$tmp/line"
file_has "$tmp/line" 'which task of the guest is not recorded .sched:sched_switch there.' "... nor without switches"
run "$kvmft" stuck "$tmp/guest"
status_is 4 "a guest's capture in place of a host's"
err_has "no vCPU's kvm_entry and kvm_exit: record both on the host" "... says what lacks"
# The same on SVM before 6.12, whose fast path traces the access first.
sed 's/exit_reason=32/exit_reason=0x7c/; s/exit_reason=1 /exit_reason=0x60 /; s/isa=1/isa=2/' "$tmp/busy.events" |
	awk '/0x7c/ { held = $0; next } { print } held { sub(/^0 [0-9]*/, "0 " $2, held); print held; held = "" }' >"$tmp/svm.events"
built svm
recorded svm running running 'of 100 RIPs 100.0 % are in user space'
# It halts, and its tick wakes it.
awk 'BEGIN { for (t = 1000000; n < 100; t += 4000000) {
	print 0, t, "101 kvm_entry vcpu_id=0"
	print 0, t + 50000, "101 kvm_exit exit_reason=12 guest_rip=0xffffffff81050000 isa=1 vcpu_id=0"
	n++ } }' >"$tmp/idle.events"
built idle
recorded idle idle running 'halted, and interrupts wake it; halted 98.[0-9] % of the time'
# One that spins with interrupts off.
awk 'BEGIN { for (t = 1000000; n < 100; t += 4000000) {
	print 0, t, "101 kvm_entry vcpu_id=0"
	print 0, t + 3990000, "101 kvm_exit exit_reason=1 guest_rip=0xffffffff81050000 isa=1 vcpu_id=0"
	n++ } }' >"$tmp/spin.events"
built spin
run "$kvmft" stuck -i "$tmp/spin" --format json
out_has '"class":"spinning","stuck":true,"sure":true,"why":"at 0xffffffff81050000: 100 of 100 RIPs .* it took no interrupt' \
	"one that spins"
# On arm64 what its interrupt controller has shows that.
for event in "" vgic_update_irq_pending; do
	{
		echo "meta machine uname=Linux%206.1.0 arch=aarch64 long=8 endian=little"
		sed 's/ vcpu_id=0$//; s/exit_reason=1 guest_rip=\(0x[0-9a-f]*\) isa=1/ret=0 esr_ec=0 vcpu_pc=\1/; s/kvm_entry$/kvm_entry vcpu_pc=0/' \
			"$tmp/spin.events"
		echo "meta vm id=100-12 pid=100 fd=12 name=one"
		echo "meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48"
		echo "meta task tid=101 tgid=100 comm=CPU%200/KVM"
		[ -z "$event" ] || echo "recorded $event"
	} >"$tmp/arm.txt"
	ok "arm64: compiled" "$mkcap" --capture "$tmp/arm$event" --formats formats-6.1-arm64.txt "$tmp/arm.txt"
	run "$kvmft" stuck -i "$tmp/arm$event"
	out_has "^  vCPU 0, thread 101: $([ -n "$event" ] && echo spinning || echo unknown)\$" "... ${event:-without what its GIC has}"
done
{ head -n 40 "$tmp/spin.events"; echo 0 gap 7; tail -n 40 "$tmp/spin.events"; } >"$tmp/lost.events"
built lost
# The same, and a loop, where it was not recorded how a guest takes interrupts.
ablate=${KVMFT_TOOLS:-$top/build/tests/tools}/ablate
for name in spin loop; do
	cp -r "$tmp/$name" "$tmp/$name.less"
	"$ablate" --drop kvm:kvm_inj_virq "$tmp/$name.less" >/dev/null
	run "$kvmft" stuck -i "$tmp/$name.less" --format json
	out_has '"verdict":"unknown".*"class":"unknown","stuck":false,"sure":false,"why":"[^"]*interrupts[^"]* not recorded' \
		"$name without kvm_inj_virq: unknown"
	out_has '"needs":\[.*"host kvm:kvm_inj_virq, kvm_apicv_accept_irq"\]' "... and what it needs"
done
# A CPU that trace-cmd record -M perhaps left out: what the vCPU did there would not be here.
[ -e "$tmp/loop/seg000000/cpu1" ] || : >"$tmp/loop/seg000000/cpu1"
ok "a loop, of one CPU of two" "$kvmft" export -q -i "$tmp/loop" -o "$tmp/loop-some.dat"
run "$kvmft" stuck -i "$tmp/loop-some.dat" --format json
out_has '"class":"exit-loop","stuck":true,"sure":false' "... is not sure"
err_has 'has a CPU without events, which was perhaps not recorded' "... and why"
run "$kvmft" stuck -i "$tmp/lost"
status_is 3 "events were lost"
err_has '7 events lost' "... how many"
out_has ': spinning$' "... and what the others show"
run "$kvmft" stuck -i "$tmp/lost" --format json
out_has '"class":"spinning","stuck":true,"sure":false' "... which is not sure"
printf '0 1000 101 kvm_mmio type=2 len=4 gpa=0x1000 val=1\n' >"$tmp/none.text"
"$mkcap" --trace-dat "$tmp/none.dat" "$tmp/none.text"
run "$kvmft" stuck -i "$tmp/none.dat"
status_is 4 "a recording without exits"
err_has 'record both on the host' "... what it takes"
# A vCPU that never ran while it was recorded: nothing shows what it did.
{ echo "meta vcpu vm=100-12 id=1 tid=102 offset=0 tsc=1"; cat "$tmp/idle.text"; } >"$tmp/two.text"
sed -i '1{h;d}; 2{G}' "$tmp/two.text"
ok "one that never ran" "$mkcap" --capture "$tmp/two" --formats formats-6.1-kvm.txt "$tmp/two.text"
run "$kvmft" stuck -i "$tmp/two"
out_has '^  vCPU 1, thread 102: unknown$' "... is unknown"
out_has 'none of its entries and exits was recorded' "... and why"
if command -v strace >/dev/null; then
	strace -f -o "$tmp/calls" -e trace=openat,prctl "${KVMFT_PLAIN:-$kvmft}" stuck -i "$tmp/loop" --vm one \
		--guest-kallsyms "$tmp/symbols" >/dev/null 2>&1
	# The first time is for the rule that it may be read.
	is "$(sed '/PR_SET_SECCOMP/,$d' "$tmp/calls" | grep -c 'symbols"') $(sed '1,/PR_SET_SECCOMP/d' "$tmp/calls" | grep -c 'symbols"')" \
		"1 1" "symbols are read by a confined process"
fi
run "$kvmft" stuck -i "$tmp/loop" --seconds 2
status_is 2 "--seconds, which is -d, of a recording"
run "$kvmft" stuck -i "$tmp/loop" --vm nosuch
status_is 1 "a VM that is not in it"

need_recording "kvmft stuck"

# start OPTION...: a VM; its PID in $vm. On a busy machine it would be starved indeed.
start()
{
	first "$tinyvm" --ms 600000 "$@" >"$tmp/vm.out" 2>&1 &
	vm=$!
	wait_for_line "$tmp/vm.out"
	sleep 0.3
}

ends()
{
	kill -KILL "$vm"
	wait "$vm" 2>/dev/null
	vm=
}

# hangs NAME CLASS VERDICT PATTERN: what is said of the VM; the pattern may go over lines.
hangs()
{
	run "$kvmft" stuck --vm "$vm" --duration 1
	status_is 0 "$1: answered"
	out_has "^$vm-[0-9]+ \(.*, pid $vm\): $3\$" "... the VM is $3"
	out_has "^  vCPU 0, thread [0-9]+: $2\$" "... the class is $2"
	tr -s '\n ' ' ' <"$out" >"$tmp/line"
	file_has "$tmp/line" "$4" "... and why"
	ok "... in one line, into a pipe" awk '/^ {6}/ && was { exit 1 } { was = /^ {6}/ }' "$out"
	is "$(cat "$err")" "" "... nothing on stderr"
	nothing_left "$1"
}

run "$kvmft" stuck --vm nosuch
ok "a VM that is not there" test "$rc" = 1 -o "$rc" = 4
err_one_line "a VM that is not there"

run "$kvmft" stuck --engine nobody
status_is 2 "an unknown engine"

start --code e480ebfc
run "$kvmft" stuck --vm "$vm" --duration 1 --engine hist
if [ -e "$tracefs/events/kvm/kvm_exit/hist" ]; then
	status_is 0 "--engine hist"
else
	status_is 4 "--engine hist where the kernel has no hist triggers"
	err_has '^kvmft stuck: --engine hist: this kernel has no hist triggers [(]CONFIG_HIST_TRIGGERS[)]$' "... is reported"
fi
nothing_left "--engine hist"
run "$kvmft" stuck --vm "$vm" --duration 1 --engine ring
status_is 0 "--engine ring"
hangs "a loop on a port" exit-loop stuck '[0-9]+/s: .*in from port 0x80, (100|9[0-9])\.'
run "$kvmft" stuck --vm "$vm" --format json
status_is 0 "JSON"
cp "$out" "$tmp/json"
if command -v python3 >/dev/null; then
	ok "... is one document with what the manual names" python3 - "$tmp/json" "$top/man/kvmft-stuck.1" <<-'EOF'
		import json, re, sys
		d = json.load(open(sys.argv[1]))
		vm = d["vms"][0]
		vcpu = vm["vcpus"][0]
		names = set(re.findall(r"^\.Ql ([a-z_]+)", open(sys.argv[2]).read().split(".Ss JSON")[1], re.M))
		have = set(d) | set(vm) | set(vcpu) | {"comm", "pct"} # these of tasks, which a recording has
		assert have == names, have ^ names
		assert vcpu["class"] == "exit-loop" and vcpu["stuck"] and vm["verdict"] == "stuck", vcpu
		assert vcpu["access"] == "port" and vcpu["address"] == "0x80" and vcpu["write"] is False, vcpu
		assert vcpu["loop_per_s"] > 100 and d["seconds"] >= 1, (vcpu, d) # what set-up takes is not left
	EOF
else
	skip "JSON" "python3 is not installed"
fi
# Every class of the program is in the manual.
is "$(sed -n '/^static const struct {/,/^};/{ s/.*{ "\([a-z-]*\)".*{ "\([a-z-]*\)".*/\1 \2/; s/.*= { "\([a-z-]*\)".*/\1/; /^[a-z]/p; }' \
	"$top/src/stuck/judge.c" | grep -v '^static' | tr ' ' '\n' | sort)" \
	"$(sed -n '/^\.Ss Classes/,/^\.Ss What/s/^\.It Cm //p' "$top/man/kvmft-stuck.1" | sort)" "the manual has all classes"
# The cost of the shipped program, without set-up, whose time is counted apart.
plain=${KVMFT_PLAIN:-$top/build/kvmft}
"$plain" stuck --vm "$vm" --duration 6 >/dev/null 2>&1 &
recorder=$!
sleep 1.5
read -r from _ <"/proc/$recorder/schedstat"
sleep 4
read -r to _ <"/proc/$recorder/schedstat"
wait "$recorder"
echo "# CPU time of 4 s: $(((to - from) / 1000)) us"
ok "costs at most 1 % of a CPU" test $(((to - from) / 40000000)) -lt 1
kill -STOP "$vm"
hangs "SIGSTOP" stopped stuck "kill -CONT $vm"
run env KVMFT="$kvmft" ONCE=1 "$top/contrib/watchdog/kvmft-watchdog" "$vm" cat
status_is 3 "the watchdog sees it"
err_has "$vm is stuck: stopped" "... and how"
out_has '"verdict":"stuck"' "... its command gets the answer"
kill -CONT "$vm"
ends
cat >"$tmp/says" <<'EOF'
#!/bin/sh
cat <<'END'
[{"vm":"v","verdict":"stuck","vcpus":[{"class":"vmm","why":"in \"a\", \\[{b\\033c"},{"class":"halted","why":"c"}]}]
END
EOF
chmod +x "$tmp/says"
run env KVMFT="$tmp/says" ONCE=1 "$top/contrib/watchdog/kvmft-watchdog" v
is "$(sed 's/ *$//' "$err")" 'v is stuck: vmm halted
v: in "a", \[{b\033c
v: c' "the watchdog and an answer with quotes"

start --code b800208ed8a20000ebfb
hangs "a loop on MMIO" exit-loop stuck 'write to MMIO 0x20000'
ends
start --irqchip --code faf4
hangs "cli; hlt" halted stuck 'none came, and it set no timer; KVM has (no|[0-9]+) timers? armed to wake a guest'
ends
start --msi --code faf4
hangs "cli; hlt, and interrupts" halted stuck 'interrupts came \(most: vector 0x40, .* none woke it: it has them off'
ends
start --pause-io 60000000 --code e680ebfc
hangs "a VMM that sleeps over a port" vmm stuck 'asleep in .*nanosleep.*; KVM_RUN had returned IO: out to port 0x80'
ends
start --no-page --code a00080ebfb
hangs "a page that does not come" blocked stuck 'asleep in handle_userfault, called by KVM_RUN'
ends
# A hostile VMM: a file whose name ends as that of the vCPU's page does. It could be one that never comes.
start --code e680ebfc --decoy "$tmp/anon_inode:kvm-vcpu:0"
run timeout -s KILL 20 "$kvmft" stuck --vm "$vm" --duration 1
status_is 0 "a decoy of the vCPU's page: answered"
out_has 'asleep in ' "... as of a VMM that sleeps"
is "$(grep -c 'KVM_RUN had returned' "$out")" 0 "... nothing is read from it"
ends

# ---- what is not stuck ----

start --vcpus 2 --pause 20000
run "$kvmft" stuck --vm "$vm" --duration 1
out_has "^$vm-.*: running\$" "a VM that works is not stuck"
is "$(grep -cE '^  vCPU [01], thread [0-9]+: (running|idle)$' "$out")" 2 "... nor are its vCPUs"
run env KVMFT="$kvmft" ONCE=1 "$top/contrib/watchdog/kvmft-watchdog" "$vm"
status_is 0 "the watchdog is silent"
is "$(cat "$out" "$err")" "" "... at all"

# ---- ended early, and killed ----

# watching: until $recorder has set up, and then some looks.
watching()
{
	for _ in $(seq 300); do
		[ ! -d "$(echo /sys/kernel/tracing/instances/kvmft."$recorder".*)" ] || break
		sleep 0.1
	done
	sleep 2
}

"$kvmft" stuck --vm "$vm" --duration 60 >"$out" 2>"$err" &
recorder=$!
watching
kill -INT "$recorder"
wait "$recorder"
is "$?" 0 "Ctrl-C: what was seen until then"
err_has 'ended by a signal' "... is reported"
out_has '^  vCPU 1, thread' "... and shown"
nothing_left "Ctrl-C"
"$kvmft" stuck --vm "$vm" --duration 60 >"$out" 2>"$err" &
recorder=$!
watching
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
recorder=
run "$kvmft" reset
nothing_left "killed, and kvmft reset"
# shellcheck disable=SC2154 # of vmlib.sh
is "$(tracefs_state)" "$state_before" "tracefs is as it was"
ends
finish
