#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# `kvmft record --qemu`: QEMU's trace events are on during the capture, and afterwards as they were,
# whatever ends it.

# With a /run of its own: what a killed recorder leaves there is finished by any that begins, as those of sides.t, which
# runs beside this.
if [ -z "${OWN_RUN:-}" ] && unshare -m true 2>/dev/null; then
	OWN_RUN=1 exec unshare -m sh -c 'mount -t tmpfs -o mode=755 none /run && exec sh "$0"' "$0"
fi

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"
. "$(dirname "$0")/qemulib.sh"

for args in "--monitor /x" "--qemu -virtio_*" "--qemu a/b"; do
	# shellcheck disable=SC2086 # words on purpose
	run "$kvmft" record --as host $args -o "$tmp/usage"
	status_is 2 "wrong usage: $args"
	ok "... and nothing was made" test ! -e "$tmp/usage"
done
need_recording "record --qemu"
trap 'qemu_stop; unhold_socket; vmlib_cleanup' EXIT
if ! have_qemu; then
	skip "record --qemu" "no qemu-system-x86_64 here"
	finish
fi
mkdir "$tmp/dir"
qemu_start "$tmp/dir" -qmp unix:qmp.sock,server=on,wait=off -monitor unix:hmp.sock,server=on,wait=off
qmp=$tmp/dir/qmp.sock
hmp=$tmp/dir/hmp.sock

# on ARGUMENT...: a capture, during which the other monitor is asked what is on.
on()
{
	run timeout 120 "$kvmft" record --as host -e kvm:kvm_pio "$@" -- \
		sh -c "\"$kvmft\" qemu events --monitor $hmp --format csv >$tmp/during"
	during=$(sed -n 's/,enabled.*//p' "$tmp/during" | tr '\n' ' ')
}

"$kvmft" qemu set --monitor "$hmp" runstate_set on virtio_blk_handle_read on >/dev/null
before="runstate_set virtio_blk_handle_read "
on -o "$tmp/a" --monitor "$qmp" --qemu 'virtio_blk_*' --qemu '-virtio_blk_data*' --qemu '-virtio_blk_r*'
status_is 0 "capture with QEMU's events"
on=$(events_called "^virtio_blk_" "^virtio_blk_(data|r|handle_read$)")
is "$during" "$(events_called "^(virtio_blk_|runstate_set$)" "^virtio_blk_(data|r)")" \
	"... which are on until then, except those left out"
err_has "^kvmft: $(echo "$on" | wc -w) trace events of QEMU $qemu_pid are on" "... which is reported"
is "$(states --monitor "$hmp")" "$before" "... and as they were afterwards"
file_has "$tmp/a/meta" "^qemu pid=$qemu_pid binary=/.*qemu-system-x86_64 backends=.*log.* found=.*log:text.* version=$qemu_version.* monitor=QMP%20" \
	"the capture knows QEMU, its version, its program and back ends"
file_has "$tmp/a/meta" "^qemu_on pid=$qemu_pid before=0 events=$(echo "${on% }" | tr " " ,)$" \
	"... what was switched on"
file_has "$tmp/a/meta" "^qemu_on pid=$qemu_pid before=1 events=runstate_set,virtio_blk_handle_read$" \
	"... and what was on before"
run "$kvmft" merge "$tmp/a"
err_has "^kvmft: host: " "... and can be read"
on -o "$tmp/b" --monitor "$qmp" --qemu default --qemu 'virtio_*'
ok "default, and a wildcard" test "$(echo "$during" | wc -w)" -gt 20
is "$(states --monitor "$hmp")" "$before" "... states as before"
run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/c" --monitor "$hmp" --qemu vm_state_notify -- true
status_is 0 "through HMP"
is "$(states --monitor "$qmp")" "$before" "... states as before"
run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/d" --monitor "$qmp" --qemu virtio_blk_handel_read
status_is 1 "an event that there is not"
err_has "did you mean virtio_blk_handle_read" "... is reported"
ok "... and no capture made" test ! -e "$tmp/d"
run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/a" --monitor "$qmp" --qemu 'virtio*'
status_is 1 "set-up that fails later"
is "$(states --monitor "$hmp")" "$before" "... states as before"
hold_socket "$qmp"
run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/d" --monitor "$qmp" --qemu 'virtio*'
status_is 1 "a monitor that is held"
err_has "busy: no greeting within" "... is reported"
unhold_socket

is_on()
{
	"$kvmft" qemu events --monitor "$hmp" virtio_notify 2>/dev/null | grep -q '^enabled'
}

is_off()
{
	[ "$(states --monitor "$hmp" 2>/dev/null)" = "$before" ]
}

for signal in TERM INT HUP KILL; do
	"$kvmft" record --as host -q -e kvm:kvm_pio -o "$tmp/$signal" --monitor "$qmp" --qemu 'virtio_n*' &
	recorder=$!
	ok "SIG$signal: events are on" wait_until is_on
	kill "-$signal" "$recorder"
	wait "$recorder" 2>/dev/null
	recorder=
	ok "SIG$signal: ... and off again" wait_until is_off
done

# The process that switches back is killed as well: what is on is on disk, and reset finishes the work.
kill_both()
{
	"$kvmft" record --as host -q -e kvm:kvm_pio -o "$tmp/both" --monitor "$qmp" --qemu 'virtio_n*' &
	recorder=$!
	wait_until is_on || return 1
	# The helper's PID is in the name of its file, whoever else records.
	helper=$(grep -l "^qemu $qemu_pid " /run/kvmft/kvmft.* | head -n 1)
	helper=${helper##*/kvmft.}
	kill -KILL "${helper%%.*}" "$recorder"
	wait "$recorder" 2>/dev/null
	recorder=
	rm -rf "$tmp/both"
	sleep 0.3
	is_on
}

ok "recorder and helper killed: events stay on" kill_both
run timeout 300 "$kvmft" reset --dry-run
out_has "^QEMU $qemu_pid: [0-9]+ trace events that a killed kvmft had switched on: .*virtio_notify( |$)" \
	"... reset says which"
ok "... --dry-run changes nothing" is_on
run timeout 300 "$kvmft" reset
out_has "^QEMU $qemu_pid: .* are off again: .*virtio_notify( |$)" "... reset switches them off"
is "$(states --monitor "$hmp")" "$before" "... and no others"
ok "... once" sh -c "! grep -qs '^qemu $qemu_pid ' /run/kvmft/kvmft.*"
ok "both killed again" kill_both
# It waits for QEMU's answer for a second at most, and leaves the rest to the one after it.
for next in 1 2 3 4 5; do
	run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/next$next" -d 0.1s
	! grep -q "QEMU $qemu_pid: .* stay on" "$err" || continue
	break
done
err_has "QEMU $qemu_pid: .* are off again" "... the next recording switches them off as well"
is "$(states --monitor "$hmp")" "$before" "... and no others"

# A QEMU that ends meanwhile takes its states with it.
run timeout 300 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/e" --monitor "$qmp" --qemu 'virtio_n*' -- \
	sh -c "kill $qemu_pid; while kill -0 $qemu_pid 2>/dev/null; do sleep 0.1; done"
status_is 0 "QEMU ends during the capture"
err_has "QEMU $qemu_pid ended during the capture" "... is reported, and no error"
qemu_stop

# Five that never answer, and no other in sight: they are not waited for one after the other.
mkdir "$tmp/deaf"
cp "${KVMFT_TOOLS:-$top/build/tests/tools}/fakemon" "$tmp/deaf/qemu-system-x86_64"
# shellcheck disable=SC2016 # of that shell
if unshare --pid --fork --mount-proc true 2>"$tmp/unshare.log"; then
	begin=$(date +%s)
	run unshare --pid --fork --mount-proc sh -c 'cd "$1" && for n in 1 2 3 4 5; do
			./qemu-system-x86_64 "$1/$n" @deaf -qmp "unix:$1/$n,server=on,wait=off" &
		done
		sleep 0.5
		timeout 300 "$2" record --as host -e kvm:kvm_pio --qemu default -o "$1/cap"' sh "$tmp/deaf" "$kvmft"
	status_is 1 "QEMUs that do not answer"
	is "$(grep -c "cannot talk to QEMU" "$err")" 5 "... each is named"
	ok "... after some 10 s for all together" test $(($(date +%s) - begin)) -lt 20
else
	skip "QEMUs that do not answer" "no PID namespaces here"
fi
finish
