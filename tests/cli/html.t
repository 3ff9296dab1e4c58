#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The format html: its size, that nothing in a capture can become HTML, and how a browser takes it.

. "$(dirname "$0")/lib.sh"

gen=${KVMFT_TOOLS:-$top/build/tests/tools}/gen
events=200000

ok "a capture is made" "$gen" --capture "$tmp/host" --events $events --cpus 4
run "$kvmft" merge --format html -o "$tmp/page.html" "$tmp/host"
status_is 0 "merge --format html"
events=$(sed -n 's/.*host: \([0-9]*\) events.*/\1/p' "$err")
size=$(wc -c <"$tmp/page.html" | tr -d ' ')
ok "at most 40 bytes an event ($((size / events)))" test "$size" -le $((events * 40))
ok "it is whole" sh -c "tail -n 1 '$tmp/page.html' | grep -q '</html>'"
is "$(grep -c 'https\?://' "$tmp/page.html")" 0 "it names no address"

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
run "$kvmft" latency all --format html -o "$tmp/chain.html" --trace-events "$tmp/trace-events" \
	"$tmp/chain-host" "$tmp/chain-guest=one"
status_is 3 "latency --format html, of a capture with a gap"
is "$(grep -c 'onerror' "$tmp/chain.html")" 0 "what QEMU said is nowhere in the page as text"

# Nothing tells how fast the TSC runs.
grep -v 'sched_switch\|kvm_vcpu_wakeup' "$top/tests/golden/latency-host.txt" >"$tmp/cycles-host.txt"
for side in host guest; do
	"$mkcap" --capture "$tmp/cycles-$side" "$tmp/$([ $side = host ] && echo cycles || echo chain)-$side.txt"
	sed -i '/^tsc /d' "$tmp/cycles-$side/meta"
done
run "$kvmft" latency irq --format html -o "$tmp/cycles.html" "$tmp/cycles-host" "$tmp/cycles-guest=one"
status_is 0 "latency --format html, in cycles"

# The VM's name is the host's knowledge, too.
sed 's/name=one/name=castor/' "$tmp/chain-host.txt" >"$tmp/castor.txt"
"$mkcap" --capture "$tmp/castor" "$tmp/castor.txt"
run "$kvmft" merge --format html -o "$tmp/castor.html" "$tmp/castor"
ok "a host's page has the name of its VM" sh -c "sed -n 's/.*id=\"data\">//; /^[A-Za-z0-9+/=]*\(<.*\)*\$/s/<.*//p' '$tmp/castor.html' |
	base64 -d 2>/dev/null | grep -aq castor"

# What was concluded of a recording of trace-cmd's.
foreign=
if "$kvmft" merge -q --format html -o "$tmp/foreign.html" "$top/tests/golden/foreign/pair/host.dat" \
	"$top/tests/golden/foreign/pair/guest.dat" 2>"$err"; then
	foreign=foreign
else
	skip "a page of trace-cmd's recordings" "$(head -n 1 "$err")"
fi

# ---- in a browser ----

missing=
for tool in node chromium; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	skip "in a browser" "not installed:$missing"
	finish
fi
want_chain='{ "lanes": ["one v0", "· one tasks", "· one interrupts", "one block I/O", "one QEMU", "· qemu-100", "thief-55 ran instead"],
	"slices": ["guest", "halted", "preempted", "waiting", "write 2048", "write 4096", "local_timer"],
	"said": "</script><img src=x onerror=document.title=1>", "gaps": 1, "link": true, "arrows": [
	"· one tasks > · one tasks: 500 7120", "· qemu-100 > one v0: 6000 6900", "one v0 > · one interrupts: 6900 7050",
	"one v0 > · one interrupts: 9450 9530" ] }'
want_cycles='{ "lanes": ["one v0"], "link": true, "beside": ["times are in CYCLES", "lanes, 17000 cycles", "MSI irq 30: 1, p50 1050 cycles",
	"accepted 3; measured 2; open at the end 1"] }'
want_foreign='{ "beside": ["pid:161: tids:228,232 taken for one VM by thread-ids; TSC offset found in the events: ",
	"times may be off by 42549 cycles"] }'
for page in page evil chain cycles $foreign; do
	name='' want='' n=$events
	case $page in
	evil) name='</script><img src=x onerror=document.title=1>"' ;;
	chain) want=$want_chain n='' ;;
	cycles) want=$want_cycles n='' ;;
	foreign) want=$want_foreign n='' ;;
	esac
	if timeout 100 node "$top/tests/html/page.js" "$tmp/$page.html" "$n" "$name" "$want" >"$tmp/$page.tap" 2>&1; then
		result 0 "$page.html: the browser test ends"
	else
		result 1 "$page.html: the browser test ends"
		sed 's/^/# /' "$tmp/$page.tap"
	fi
	grep '^# ' "$tmp/$page.tap"
	while read -r line; do
		case $line in
		"ok "*) result 0 "$page.html: ${line#* - }" ;;
		"not ok "*) result 1 "$page.html: ${line#* - }" ;;
		esac
	done <"$tmp/$page.tap"
done
finish
