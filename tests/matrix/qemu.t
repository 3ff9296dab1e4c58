#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A real QEMU with all trace back ends at once (qemu-source.sh): a simple file, the trace marker, a log,
# syslog and SDT markers of one and the same run must tell the same. And trace-file, which needs simple.

. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../cli/vmlib.sh"
. "$(dirname "$0")/../cli/qemulib.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu-source.sh"

here=$(cd "$(dirname "$0")" && pwd)
TZ=UTC
export TZ here kvmft
need_recording "QEMU with all trace back ends"
trap 'qemu_stop; vmlib_cleanup' EXIT
if ! why=$(qemu_source_prepare && echo "$qemu_source"); then
	skip "QEMU with all trace back ends" "$why"
	finish
fi
qemu_source=$why
qemu=$qemu_source/bin/qemu-system-x86_64
events=$qemu_source/share/qemu/trace-events-all
PATH=$qemu_source/bin:$PATH
export qemu

# ---- one run, all back ends ----

perl "$here/boot.pl" 64 >"$tmp/disk"
truncate -s 16M "$tmp/disk"

# In a /dev of its own, in which messages to syslog reach nobody else.
cat >"$tmp/run.sh" <<'END'
cd "$1" || exit
accel=$2
mkdir dev && mount -t tmpfs tmpfs dev || exit
for node in null zero full random urandom tty kvm; do
	[ ! -e "/dev/$node" ] || { : >"dev/$node" && mount --bind "/dev/$node" "dev/$node"; }
done
perl "$here/syslogd.pl" dev/log old new &
daemon=$!
until [ -S dev/log ]; do
	sleep 0.05
done
mount --rbind dev /dev || exit
timeout 200 "$kvmft" record --as host -e 'kvm:*' --sdt "$qemu:qemu:virtio_*" -o host -- \
	"$qemu" -accel "$accel" -m 32 -nodefaults -vga none -display none -no-reboot \
	-L /usr/share/seabios -L /usr/share/qemu -drive file=../disk,if=none,id=disk,format=raw,snapshot=on \
	-device virtio-blk-pci,drive=disk -trace 'virtio_*' -trace file=simple -D log -msg timestamp=on
status=$?
kill "$daemon"
wait "$daemon"
exit "$status"
END

# The bound that the summary states for the source called $1, in ns.
bound()
{
	sed -n "s/^kvmft merge: //; s/.*$1: placed by .*off by at most .*(\\([0-9.]*\\) us).*/\\1/p" "$err" |
		awk '{ printf "%d\n", $1 * 1000 + 1 }'
}

one_run()
{
	accel=$1
	mkdir "$tmp/$accel"
	run unshare -m sh "$tmp/run.sh" "$tmp/$accel" "$accel"
	status_is 0 "$accel: a disk is booted from and read"
	file_has "$tmp/$accel/host/meta" "^qemu pid=[0-9]+ binary=$qemu backends=log,simple,ftrace,syslog,dtrace found=log:text,simple:text,ftrace:text,syslog:text,dtrace:note version=7\.2" \
		"... the capture knows the QEMU and its five back ends"
	cd "$tmp/$accel" || exit
	run "$kvmft" merge host --qemu simple --qemu log --qemu old --qemu new --event 'qemu:*' --event 'sdt_qemu:*'
	status_is 0 "... all are merged"
	err_has "QEMU's events by $qemu_source/bin/../share/qemu/trace-events-all" "... by the declarations that lie where this QEMU has them"
	is "$(grep -c 'off by at most' "$err")" 4 "... and a bound is stated for each file"
	# shellcheck disable=SC2046 # numbers
	if perl "$here/same.pl" $(bound 'qemu#1') 0 $(bound 'qemu#2') $(bound 'qemu#3') $(bound 'qemu#4') 0 \
		<"$out" >"$tmp/same" 2>&1; then
		result 0 "... six witnesses: the same events, order and arguments, at times within the bounds"
	else
		result 1 "... six witnesses: the same events, order and arguments, at times within the bounds"
	fi
	sed "s/^/# $accel: /" "$tmp/same"
	cd "$tmp" || exit
}

one_run tcg
nothing_left "tcg"
one_run kvm

# ---- trace-file, and --qemu, with this QEMU ----

dump()
{
	"${KVMFT_TOOLS:-$top/build/tests/tools}/genqemu" --dump "$1" "$events" 2>/dev/null
}

asked()
{
	dump "$1" | grep -c '^handle_qmp_command '
}

mkdir "$tmp/dir"
qemu_start "$tmp/dir" -qmp unix:qmp.sock,server=on,wait=off -monitor unix:hmp.sock,server=on,wait=off \
	-trace "file=$tmp/dir/one"
for how in "--vm $vm_name" "--monitor $tmp/dir/qmp.sock" "--monitor $tmp/dir/hmp.sock"; do
	# shellcheck disable=SC2086 # option and argument
	run "$kvmft" qemu trace-file $how
	is "$rc $(cat "$out")" "0 Trace file \"$tmp/dir/one\" on." "trace-file ${how%% *}: names the file"
done
target="--monitor $tmp/dir/hmp.sock"
# shellcheck disable=SC2086
{
	"$kvmft" qemu set $target handle_qmp_command on >"$out"
	ask() { "$kvmft" qemu events --monitor "$tmp/dir/qmp.sock" virtio_notify >"$out"; }
	ask
	before=$(asked "$tmp/dir/one")
	run "$kvmft" qemu trace-file $target flush
	status_is 0 "trace-file flush"
	n=$(asked "$tmp/dir/one")
	ok "... writes what waited: $before, then $n commands" test "$n" -gt "$before"
	run "$kvmft" qemu trace-file $target off
	is "$rc $(cat "$out")" "0 Trace file \"$tmp/dir/one\" off." "trace-file off"
	n=$(asked "$tmp/dir/one")
	ask
	is "$(asked "$tmp/dir/one")" "$n" "... nothing is added any more"
	run "$kvmft" qemu trace-file $target set "$tmp/dir/t w \"o"
	status_is 0 "trace-file set, a name that needs quotes"
	run "$kvmft" qemu trace-file $target on
	out_has "^Trace file \".*t w .*o\" on" "trace-file on"
	ask
	run "$kvmft" qemu trace-file $target flush
	ok "... the new file has events" test "$(asked "$tmp/dir/t w \"o")" -gt 0
	is "$(asked "$tmp/dir/one")" "$n" "... the old one is as it was"
	"$kvmft" qemu trace-file $target off >"$out"
	"$kvmft" qemu trace-file $target on >"$out"
	"$kvmft" qemu trace-file $target flush >"$out"
	is "$(asked "$tmp/dir/t w \"o")" 0 "... on after off starts it again"
	run "$kvmft" qemu trace-file $target set "$tmp/nosuch/dir/file"
	"$kvmft" qemu set $target handle_qmp_command off >"$out"
}
run timeout 60 "$kvmft" record --as host -e kvm:kvm_pio -o "$tmp/live" --monitor "$tmp/dir/qmp.sock" --qemu 'handle_qmp*' -- true
status_is 0 "record --qemu"
file_has "$tmp/live/meta" "^qemu pid=$qemu_pid binary=$qemu backends=log,simple,ftrace,syslog,dtrace found=.*,simple:command version=7\.2" \
	"... the monitor confirms back end simple"
qemu_stop
finish
