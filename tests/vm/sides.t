#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft record --guest` on a real host with real guests, by ssh and by the guest agent.

. "$(dirname "$0")/tap.sh"

for program in dropbear dbclient dropbearkey socat qemu-ga; do
	if ! command -v "$program" >/dev/null; then
		skip "sides" "no $program: contrib/deps.sh test installs dropbear-bin, socat and qemu-guest-agent"
		finish
	fi
done
ok "a static program for guests that have none" "${MAKE_PROGRAM:-make}" -C "$top" -s STATIC=1 SMALL=1 NODEPS=1 O=build/static

# Each connection takes ten seconds there: most of the steps are left to check-all. Each boot does some of them,
# so that less is repeated when the emulator breaks. It does not break with one CPU on the host and one in the
# guest; with two, no step that keeps both sides busy got to its end.
groups="qga,live push"
[ -z "${CHECK_ALL:-}" ] || groups="qga,live,marker apart,flight two,reset,bring push,slow cut,full"
mkdir "$tmp/all"
for group in ${SIDES_STEPS:-$groups}; do
	cpus='--host-cpus 1 --vcpus 1'
	case $group in
	*qga* | *apart*) cpus= ;;
	esac
	# shellcheck disable=SC2086 # a list
	rig sides --timeout 900 $cpus --env "SIDES=$(echo "$group" | tr , ' ')"
	cp -r "$rig"/* "$tmp/all/"
done
rig=$tmp/all

# proof SESSION: all of its guests lie in their windows.
proof()
{
	run "$kvmft" verify "$rig/$1"
	status_is "${2:-0}" "$1: aligned"
	run "$kvmft" merge "$rig/$1"
	status_is "${2:-0}" "$1: merge"
	err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "... 0 events outside"
}

proof push
is "$(grep -c '^vm1 .*block:block_rq_issue' "$out")" "$(grep -c '^vm1 .*block:block_rq_complete' "$out")" "... requests and their ends"
ok "... all that was asked for" test "$(grep -c '^vm1 .*block:block_rq_issue' "$out")" -ge 36
is "$(sed -n 's/^side name=vm1 .*uuid=\([^ ]*\).*/\1/p' "$rig/push/session")" \
	"$(sed -n 's/^vm .*name=vm1 uuid=\([^ ]*\).*/\1/p' "$rig/push/host/meta" | head -n 1)" "... the session knows the VM"
proof qga

# live: what trace --guest printed.
run cat "$rig/live.err"
err=$out
err_has 'vm1: [1-9][0-9]* events, 0 lost' "live: lines of the guest"
err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "... 0 events outside"
ok "... requests of the guest" test "$(grep -c '^vm1 .*block:block_rq_issue' "$rig/live.txt")" -ge 36
is "$(sed 's/^[^]]*\] *//' "$rig/live.txt" | awk '$1 + 0 < last { n++ } { last = $1 + 0 } END { print n + 0 }')" \
	"$(sed -n 's/.*: \([0-9]*\) events came late.*/\1/p' "$rig/live.err" | awk '{ n += $1 } END { print n + 0 }')" \
	"... in order of time but for those that came late"
err=$tmp/stderr
if [ -n "${CHECK_ALL:-}" ]; then
	# Bytes per event: the same with and without a stream.
	apart=$("$kvmft" export -q -i "$rig/apart" --to text | wc -l)
	together=$("$kvmft" export -q -i "$rig/together/vm1" --to text | wc -l)
	a=$(cat "$rig"/apart/seg*/cpu* | wc -c)
	b=$(cat "$rig"/together/vm1/seg*/cpu* | wc -c)
	echo "# apart: $apart events, $a bytes; together: $together events, $b bytes"
	ok "apart and together: thousands of events" test "$apart" -gt 1000 -a "$together" -gt 1000
	ok "together: no more data for an event than apart" test $((b * apart / 100)) -le $((a * together / 80))
	for how in flight marker; do
		proof $how
		# The trigger is the first request; the program's marker was written behind its last one.
		which=1
		[ $how = flight ] || which='$'
		asked=$("$kvmft" merge -q --clock host-tsc --side vm1 -e block:block_rq_issue "$rig/$how" 2>/dev/null |
			sed -n "${which}s/^[^]]*\\] *\\([0-9]*\\) .*/\\1/p")
		stopped=$(sed -n 's/^segment .*why=control .*stopped=\([0-9]*\).*/\1/p' "$rig/$how/host/meta" | head -n 1)
		khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$rig/$how/host/meta")
		first=$("$kvmft" merge -q --clock host-tsc "$rig/$how/host" 2>/dev/null | sed -n '1s/^[^]]*\] *\([0-9]*\) .*/\1/p')
		echo "# trigger in the guest to the end of the host's ring: $(((stopped - asked) / khz)) ms; the ring began $(((asked - first) / khz)) ms before it"
		ok "$how: the host's ring has the moment of the guest's trigger, ..." test "$asked" -gt "$first" -a "$asked" -lt "$stopped"
		ok "... two seconds before it" test $(((asked - first) / khz)) -ge 2000
	done
	ok "marker: what the program said is in the capture" grep -q '^fired why=trigger .*text=a%20slow%20request' "$rig/marker/vm1/meta"
	proof bring
	proof two 3
	err_has 'alignment of vm2: [1-9][0-9]* guest events checked, 0 outside' "... of the guest that was killed, too"
	run "$kvmft" verify "$rig/slowly"
	ok "slowly: aligned, whatever was lost" test "$rc" = 0 -o "$rc" = 3
	proof cut 3
else
	skip "slow and cut links, a full disk, two guests" "make check-all runs them"
fi
finish
