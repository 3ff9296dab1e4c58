#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# The format html: its size, that nothing in a capture can become HTML, and how a browser shows it.

. "$(dirname "$0")/lib.sh"

gen=${KVMFT_TOOLS:-$top/build/tests/tools}/gen
events=200000

ok "a capture is made" "$gen" --capture "$tmp/host" --events $events --cpus 4
# With readings of the time of day: two cycles are one ns.
for s in 0 100; do
	echo "time tsc=$((s * 2000000000 + 1)) width=2 mono_raw=${s}000000001 mono=${s}000000001 boot=${s}000000001 real=$((1795269900 + s))000000000"
done >>"$tmp/host/meta"
run "$kvmft" merge --format html -o "$tmp/page.html" "$tmp/host"
status_is 0 "merge --format html"
events=$(sed -n 's/.*host: \([0-9]*\) events.*/\1/p' "$err")
size=$(wc -c <"$tmp/page.html" | tr -d ' ')
ok "at most 40 bytes an event ($((size / events)))" test "$size" -le $((events * 40))
ok "it is whole" sh -c "tail -n 1 '$tmp/page.html' | grep -q '</html>'"
is "$(grep -c 'https\?://' "$tmp/page.html")" 0 "it contains no URL"

# ---- hostile names ----

cp -r "$tmp/host" "$tmp/evil"
# </script><img src=x onerror=document.title=1> and a quote, as the capture escapes them
echo 'task tid=1000 comm=%3C/script%3E%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D1%3E"' >>"$tmp/evil/meta"
run "$kvmft" merge --format html -o "$tmp/evil.html" "$tmp/evil"
status_is 0 "a capture with a hostile name"
is "$(grep -c 'onerror' "$tmp/evil.html")" 0 "... which is nowhere in the page as text"
is "$(grep -c '</script>' "$tmp/evil.html")" "$(grep -c '</script>' "$tmp/page.html")" "... and ends no script"

# ---- a host and its guest, whose chains are known ----

# A later message of the same vector, to an APIC that does not accept it, is not the source of what is injected,
# nor is one from before events were lost.
mkcap=$(dirname "$gen")/mkcap
cat >"$tmp/trace-events" <<'END'
virtio_blk_handle_write(void *vdev, void *req, uint64_t sector, size_t nsectors) "vdev %p req %p sector %"PRIu64" nsectors %zu"
virtio_blk_req_complete(void *vdev, void *req, int status) "vdev %p req %p status %d"
said(const char *what) "says %s"
END
{
	echo "event ftrace print 5 u64:ip text:buf"
	sed '/^1   7100/a 1 7500 100 kvm_msi_set_irq address=0xfee01000 data=0x26' "$top/tests/golden/latency-host.txt"
	cat <<'END'
1  17100 100 ftrace:print ip=0 buf=virtio_blk_handle_write vdev 0x50 req 0x60 sector 4096 nsectors 8
1  17200 100 ftrace:print ip=0 buf=said says </script><img src=x onerror=document.title=1>
1  17300 100 ftrace:print ip=0 buf=virtio_blk_req_complete vdev 0x50 req 0x60 status 0
1  17500 100 kvm_msi_set_irq address=0xfee00000 data=0x40
1  17600 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x40
0 gap 5
0  19000 101 kvm_entry vcpu_id=0
0  19100 101 kvm_exit exit_reason=1 isa=1
0  19200 101 kvm_inj_virq vector=0x40 soft=0 reinjected=0
END
} >"$tmp/chain-host.txt"
"$mkcap" --capture "$tmp/chain-host" "$tmp/chain-host.txt"
cp "$top/tests/golden/latency-guest.txt" "$tmp/chain-guest.txt"
"$mkcap" --capture "$tmp/chain-guest" "$tmp/chain-guest.txt"
run "$kvmft" latency all --format html -o "$tmp/chain.html" --qemu "$tmp/trace-events:events" \
	"$tmp/chain-host" "$tmp/chain-guest=one"
status_is 3 "latency --format html, of a capture with a gap"
is "$(grep -c 'onerror' "$tmp/chain.html")" 0 "what QEMU said is nowhere in the page as text"

# The TSC frequency is not known.
grep -v 'sched_switch\|kvm_vcpu_wakeup' "$top/tests/golden/latency-host.txt" >"$tmp/cycles-host.txt"
for side in host guest; do
	"$mkcap" --capture "$tmp/cycles-$side" "$tmp/$([ $side = host ] && echo cycles || echo chain)-$side.txt"
	sed -i '/^tsc /d' "$tmp/cycles-$side/meta"
done
run "$kvmft" latency irq --format html -o "$tmp/cycles.html" "$tmp/cycles-host" "$tmp/cycles-guest=one"
status_is 0 "latency --format html, in cycles"

# The host knows the VM's name, too.
sed 's/name=one/name=castor/' "$tmp/chain-host.txt" >"$tmp/castor.txt"
"$mkcap" --capture "$tmp/castor" "$tmp/castor.txt"
run "$kvmft" merge --format html -o "$tmp/castor.html" "$tmp/castor"
ok "a host's page has the name of its VM" sh -c "sed -n '/ id=\"data\">/,/<\/script>/p' '$tmp/castor.html' |
	sed 's/.* id=\"data\">//; s/<.*//' | base64 -d 2>/dev/null | grep -aq '.castor.*\"vm\":\"castor\"'"

# Two VMs, many reasons, and threads of a VMM of which the capture has only their events; one of the vCPUs does
# nothing any more, and one is gone, long before the end.
{
	cat <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
meta vm id=200-12 pid=200 fd=12 name=two
meta vcpu vm=200-12 id=0 tid=201 offset=0 ratio=0 frac=48
meta task tid=100 tgid=100 comm=qemu
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=102 tgid=100 comm=CPU%201/KVM
meta task tid=201 tgid=200 comm=CPU%200/KVM
meta task tid=103 comm=worker
meta task tid=104 comm=IO%20mon
meta task tid=55 tgid=55 comm=thief
event sched sched_process_fork 900 s32:parent_pid s32:child_pid
2    500 100 sched:sched_process_fork parent_pid=100 child_pid=104
2    600 100 sched:sched_wakeup pid=103 target_cpu=1
2    700 104 kvm_msi_set_irq address=0xfee01000 data=0x26
2    800 201 kvm_entry vcpu_id=0
2    900 201 kvm_exit exit_reason=12 isa=1
2    990 201 sched:sched_switch prev_pid=201 prev_state=16 next_pid=0
1   1000 102 kvm_entry vcpu_id=1
1   2000 102 kvm_exit exit_reason=1 isa=1
1   2100 102 sched:sched_switch prev_pid=102 prev_state=0x100 next_pid=103
1   6000 103 sched:sched_switch prev_pid=103 prev_state=1 next_pid=55
1   7000  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=102
1   7100 102 kvm_entry vcpu_id=1
1   7200 102 kvm_exit exit_reason=30 isa=1
1   7300 102 kvm_userspace_exit reason=2
1   7400 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=0
END
	t=1000
	for reason in 0 1 2 3 7 8 9 10 13 14 15 16 18 19 28 29 30 31 32 36 39 40 41 43 44 45 46 47 48 49 52 54 55 56 58; do
		echo "0 $t 101 kvm_entry vcpu_id=0"
		echo "0 $((t + 400)) 101 kvm_exit exit_reason=$reason isa=1"
		t=$((t + 600))
	done
} >"$tmp/many.txt"
"$mkcap" --capture "$tmp/many" "$tmp/many.txt"
run "$kvmft" merge --format html -o "$tmp/many.html" "$tmp/many"
status_is 0 "two VMs and their threads"

# Exits in another order, with others before them.
for page in there back; do
	{
		echo 'meta vm id=100-12 pid=100 fd=12 name=one'
		echo 'meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48'
		t=1000
		for reason in $([ $page = there ] && echo 1 13 30 54 55 || echo 16 55 54 30 13 1); do
			echo "0 $t 101 kvm_entry vcpu_id=0"
			echo "0 $((t + 400)) 101 kvm_exit exit_reason=$reason isa=1"
			t=$((t + 600))
		done
		echo "0 $t 101 kvm_entry vcpu_id=0"
	} >"$tmp/$page.txt"
	"$mkcap" --capture "$tmp/$page" "$tmp/$page.txt"
	run "$kvmft" merge --format html -o "$tmp/$page.html" "$tmp/$page"
	status_is 0 "exits, $page"
done

# 2,400 requests, each in those before it.
{
	printf '%s\n' 'meta side name=guest' 'meta cpu n=0 apicid=0' 'meta task tid=77 tgid=77 comm=victim'
	awk 'BEGIN { for (k = 0; k < 2400; k++) printf "0 %d 77 block:block_rq_issue dev=1 sector=%d nr_sector=8 bytes=4096\n", 2000 + k * 100, k
		for (k = 2399; k >= 0; k--) printf "0 %d 77 block:block_rq_complete dev=1 sector=%d nr_sector=8\n", 250000 + (2399 - k) * 100, k
		print "0 500000 77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0" }'
} >"$tmp/nested-guest.txt"
cat >"$tmp/nested-host.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=101 tgid=100 comm=CPU%200/KVM
0   1000 101 kvm_entry vcpu_id=0
0 600000 101 kvm_exit exit_reason=1 isa=1
END
for side in host guest; do
	"$mkcap" --capture "$tmp/nested-$side" "$tmp/nested-$side.txt"
done
run "$kvmft" merge --format html -o "$tmp/nested.html" "$tmp/nested-host" "$tmp/nested-guest=one"
status_is 0 "requests that lie in others"

# A task of the guest that waits for what the host does to its vCPU, and one that waits longer for a task of the guest.
cat >"$tmp/slow-host.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=55 tgid=55 comm=thief
0   1000 101 kvm_entry vcpu_id=0
0  20000 101 kvm_exit exit_reason=1 isa=1
0  20100 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55
0  25100  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
0  25200 101 kvm_entry vcpu_id=0
0  90000 101 kvm_exit exit_reason=1 isa=1
0  91000 101 kvm_entry vcpu_id=0
0  95000 101 kvm_exit exit_reason=1 isa=1
0  95500  55 kvm_userspace_exit reason=5
END
cat >"$tmp/slow-guest.txt" <<'END'
meta side name=guest
meta cpu n=0 apicid=0
meta task tid=77 tgid=77 comm=victim
meta task tid=78 tgid=78 comm=%3C/script%3E
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  19000   0 sched:sched_wakeup pid=77 target_cpu=0
0  25300  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
0  28000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=78
0  40000  78 sched:sched_wakeup pid=77 target_cpu=0
0  60000  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
0  61000  77 irq:irq_handler_entry irq=9
0  61100  77 irq:irq_handler_exit irq=9
0  61200  77 irq:softirq_entry vec=1
0  61300  77 irq:softirq_exit vec=1
END
for side in host guest; do
	"$mkcap" --capture "$tmp/slow-$side" "$tmp/slow-$side.txt"
done
run "$kvmft" merge --format html -o "$tmp/slow.html" "$tmp/slow-host" "$tmp/slow-guest=one"
status_is 0 "slow moments"
is "$(grep -c '</script>' "$tmp/slow.html")" "$(grep -c '</script>' "$tmp/page.html")" "... whose tasks' names end no script"
run "$kvmft" merge --format html --from 30us -o "$tmp/later.html" "$tmp/slow-host" "$tmp/slow-guest=one"
status_is 0 "slow moments of a window"

# The axis of wall-clock time.
"$(dirname "$gen")/genpair" --host "$tmp/wall-host" --guest "$tmp/wall-guest" --vcpus 2 --ms 20 >/dev/null
run "$kvmft" merge --format html --clock realtime -o "$tmp/wall.html" "$tmp/wall-host"
wall=
[ "$rc" != 0 ] || wall=wall
status_is 0 "in wall-clock time"

# What was concluded from a recording of trace-cmd.
foreign=
if "$kvmft" merge -q --format html -o "$tmp/foreign.html" "$top/tests/golden/foreign/pair/host.dat" \
	"$top/tests/golden/foreign/pair/guest.dat" 2>"$err"; then
	foreign=foreign
else
	skip "a page of trace-cmd's recordings" "$(head -n 1 "$err")"
fi

# More threads than the page remembers: each event is still its own thread's.
awk 'BEGIN { print " c-1 [000] 1.0000001: kvm_entry: vcpu 0, rip 0x1\n c-1 [000] 1.0000002: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0"
	for (i = 2; i < 131200; i++) printf " t-%d [000] 1.%07d: e: a=1\n", i, i }' >"$tmp/crowd.txt"
if command -v python3 >/dev/null; then
	run "$kvmft" merge -q --format html -o "$tmp/crowd.html" "$tmp/crowd.txt"
	status_is 0 "131,198 threads"
	is "$(python3 "$top/tests/cli/html_last.py" "$tmp/crowd.html")" 131199 "... the last event is of the last one"
	rm "$tmp"/crowd.*
else
	skip "131,198 threads" "python3 is not installed"
fi

# ---- in a browser ----

# By the page's elements alone, which any browser can print.
dom()
{
	timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" --dump-dom \
		"file://$tmp/$1.html" 2>"$err" | tr -d '\n' >"$tmp/dom"
}
if command -v chromium >/dev/null; then
	dom many
	sed 's/.*<ol id="names">//; s/<\/ol>.*//' "$tmp/dom" | grep -o '<li title="[^"]*"' | sed 's/.*title=//' >"$tmp/names"
	ok "as elements: lanes have names" test "$(wc -l <"$tmp/names")" -ge 8
	is "$(sort "$tmp/names" | uniq -d)" "" "... each its own"
	dom chain
	for id in prev next all theme ask; do
		ok "... a button $id" grep -q "<button id=\"$id\"" "$tmp/dom"
	done
	ok "... the worst moments before all tables" sh -c "sed 's/<table.*//' '$tmp/dom' | grep -q '<h2>Worst moments</h2><ol><li><a href=\"#t='"
	rows=$(grep -o '<th scope="rowgroup"[^>]*><a href="#t=[-0-9.]*,[-0-9.]*"' "$tmp/dom" | wc -l)
	is "$rows" "$(grep -o '<th scope="rowgroup"' "$tmp/dom" | wc -l)" "... each row of the tables leads to a moment ($rows)"
	ok "... there are some" test "$rows" -gt 3
	is "$(grep -o '<div class="bars">' "$tmp/dom" | wc -l)" "$rows" "... and has a histogram"
	for page in there back; do
		dom $page
		grep -o '<span><i style="background: [^"]*"></i>exit: [^<]*' "$tmp/dom" | grep -v ': RDTSC$' | sort -t: -k3 >"$tmp/$page.colours"
	done
	is "$(wc -l <"$tmp/there.colours")" 5 "... exits have colours"
	ok "... which they have on another page, too" cmp "$tmp/there.colours" "$tmp/back.colours"
	dom cycles
	ok "... what was not recorded is named" grep -q '<p>not recorded: .*off-cpu (host sched:sched_switch' "$tmp/dom"
else
	skip "the page's elements" "not installed: chromium"
fi

if ! command -v node >/dev/null; then
	skip "in a browser" "not installed: node"
	finish
fi
want_chain='{ "lanes": ["one v0 CPU 0/KVM-101 cpu 0", "one v0 guest tasks", "one v0 guest interrupts", "one block I/O", "one QEMU",
	"one host qemu-100 cpu 1", "host thief-55 ran instead cpu 0"],
	"slices": ["guest", "halted", "preempted", "waiting", "write 2048", "write 4096", "local_timer"],
	"said": "</script><img src=x onerror=document.title=1>", "gaps": 1, "link": true, "arrows": [
	"one v0 guest tasks > one v0 guest tasks: 500 7120", "one host qemu-100 cpu 1 > one v0 CPU 0/KVM-101 cpu 0: 6000 6900",
	"one v0 CPU 0/KVM-101 cpu 0 > one v0 guest interrupts: 6900 7050", "one v0 CPU 0/KVM-101 cpu 0 > one v0 guest interrupts: 9450 9530" ] }'
want_many='{ "lanes": ["one v0 CPU 0/KVM-101 cpu 0", "one v1 CPU 1/KVM-102 cpu 1", "two v0 CPU 0/KVM-201 cpu 2",
	"one v0 host events", "one v1 host events", "one host worker-103 by wakeups cpu 1", "one host IO mon-104 cpu 2", "host thief-55 ran instead cpu 1"],
	"no_lanes": ["worker-103 ran", "mon-104 ran"], "ends": { "VMM": 6900, "halted": 490 }, "reasons": 30 }'
want_cycles='{ "lanes": ["one v0 CPU 0/KVM-101 cpu 0"], "link": true, "beside": ["times are in CYCLES", "lanes, 17.0 kcycles", "in cycles", "one MSI irq 3011.05 k",
	"accepted 3; measured 2; open at the end 1"] }'
want_slow='{ "spikes": [["guest-sched 20.0 us wakeup victim-77, one v0, at 0.000040", ["guest-sched 100 %", "</script>-78"], 39000, 59000],
	["host-task 6.30 us wakeup victim-77, one v0, at 0.000019", ["host-task 79 %", "5.00 us  79 %  host-task: thief-55"], 18000, 24300],
	["host-irq 1.00 us stall, one v0, at 0.000090", ["host-irq 100 %"], 89000, 90000]] }'
want_nested='{ "under": [["one block I/O", "write 0", 488850], ["one block I/O", "write 3", 488550]] }'
want_later='{ "spikes": [["guest-sched 20.0 us wakeup victim-77, one v0, at 0.000040", ["guest-sched 100 %"], 0, 20000],
	["host-irq 1.00 us stall, one v0, at 0.000090", ["host-irq 100 %"], 50000, 51000]] }'
want_foreign='{ "beside": ["pid:161: tids:228,232 taken for one VM by thread-ids; TSC offset found in the events: ",
	"times may be off by 42549 cycles"] }'

# BROWSER PREFIX: what page.js finds on the pages, under names that begin with PREFIX. The keys and the mouse are tried
# on a large page, on one with all kinds of lanes and on one with many VMs; on the others, too, by check-all.
look()
{
	for page in page evil chain cycles many nested slow later $wall $foreign; do
		name='' want='' n=$events brief=1
		case $page in
		page | chain | many) brief=0 ;;
		esac
		[ "${CHECK_ALL:-0}" != 1 ] || brief=0
		case $page in
		evil) name='</script><img src=x onerror=document.title=1>"' ;;
		chain) want=$want_chain n='' ;;
		cycles) want=$want_cycles n='' ;;
		many) want=$want_many n='' ;;
		nested) want=$want_nested n='' ;;
		slow) want=$want_slow n='' ;;
		later) want=$want_later n='' ;;
		wall) n='' ;;
		foreign) want=$want_foreign n='' ;;
		esac
		if BRIEF=$brief BROWSER=$1 timeout 300 node "$top/tests/html/page.js" "$tmp/$page.html" "$n" "$name" "$want" \
			>"$tmp/$page.tap" 2>&1; then
			result 0 "$2$page.html: the browser test ends"
		else
			result 1 "$2$page.html: the browser test ends"
			sed 's/^/# /' "$tmp/$page.tap"
		fi
		sed -n "s/^# /# $2/p" "$tmp/$page.tap"
		while read -r line; do
			case $line in
			"ok "*) result 0 "$2$page.html: ${line#* - }" ;;
			"not ok "*) result 1 "$2$page.html: ${line#* - }" ;;
			esac
		done <"$tmp/$page.tap"
	done
}
if command -v chromium >/dev/null; then
	look chromium ""
else
	skip "in Chromium" "not installed: chromium"
fi
if [ "${CHECK_ALL:-0}" != 1 ]; then
	skip "in Firefox" "make check-all has it"
elif command -v firefox-esr >/dev/null; then
	look firefox "firefox: "
else
	skip "in Firefox" "not installed: firefox-esr (contrib/deps.sh matrix has it)"
fi
finish
