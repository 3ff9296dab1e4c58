#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft list: a real VM of two vCPUs with a gap between their ids, in all formats.

. "$(dirname "$0")/lib.sh"

# Without privileges nothing can be seen: exit 4 and why.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$tmp"
	cp "$kvmft" "$tmp/kvmft-copy"
	chmod 755 "$tmp/kvmft-copy"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/kvmft-copy" list
	status_is 4 "without rights no VM is seen"
	if grep -q ' /sys/kernel/debug debugfs ' /proc/mounts; then
		err_has 'no VM runs here: .*root' "... and learns why"
	else
		err_has 'no VM runs here: (debugfs is not mounted|.*sysfs is not mounted)' "... and learns why"
	fi
	err_has '[0-9]+ processes could not be looked at' "... and that there may be some"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/kvmft-copy" list --format json
	status_is 4 "... in JSON, too"
	out_has '^\{.*"vms":\[\]\}$' "... with an empty list"
else
	skip "without rights no VM is seen" "not root, or setpriv is not installed"
fi
run "$kvmft" list --format xml
status_is 2 "an unknown format"
run "$kvmft" list operand
status_is 2 "an operand"

if [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then
	skip "a real VM" "/dev/kvm is absent or not ours"
	finish
fi
ok "tinyvm builds" "${CC:-cc}" -O1 -o "$tmp/tinyvm" "$top/tests/vm/tinyvm.c" -lpthread
mkfifo "$tmp/in"
"$tmp/tinyvm" --vcpus 2 --first-id 1 --stride 2 --ms 20000 --name tiny,one >"$tmp/vm" 2>"$tmp/vm.err" <"$tmp/in" &
vm_job=$!
trap 'kill "$vm_job" 2>/dev/null; rm -rf "$tmp"' EXIT
exec 7>"$tmp/in"
i=0
while [ ! -s "$tmp/vm" ] && kill -0 "$vm_job" 2>/dev/null && [ $i -lt 50 ]; do
	sleep 0.1
	i=$((i + 1))
done
if ! [ -s "$tmp/vm" ] && grep -q '^tinyvm: ' "$tmp/vm.err"; then
	wait "$vm_job"
	is $? 77 "tinyvm fails for want of KVM only"
	skip "a real VM" "$(cat "$tmp/vm.err")"
	finish
fi
# pid P vm-fd F tids A B
read -r _ pid _ fd _ tid1 tid2 <"$tmp/vm"
sleep 0.3

run "$kvmft" list
status_is 0 "there is a VM"
out_has "^$pid-$fd  name " "its PID-FD begins a block"
out_has "tinyvm, pid $pid, 2 vCPUs, master clock: (likely|no|unknown)" "VMM, vCPUs, master clock"
out_has "^  of user $(id -u) \(you\), started by .*, pid $$\$" "which VMM it is, and its parent"
out_has "^ +VCPU +TID +TID-SOURCE +TSC-OFFSET +AS-HEX +TSC-RATIO/FRAC" "the table has a head"

run "$kvmft" list --format csv
status_is 0 "CSV"
is "$(head -n 1 "$out")" \
	"vm,pid,fd,name,uuid,vmm,master_clock,vcpu,tid,tid_source,tsc_offset,tsc_offset_hex,scaling,tsc_ratio,tsc_frac_bits,guest_mode,note" \
	"CSV: the columns"
grep "^$pid-$fd," "$out" | sed 's/"[^"]*"/NAME/' >"$tmp/rows"
is "$(cut -d, -f1-3,6 "$tmp/rows" | sort -u)" "$pid-$fd,$pid,$fd,tinyvm" "CSV: the VM in each row"

if [ "$(cut -d, -f8 "$tmp/rows" | tr '\n' ' ')" = " " ]; then
	# A VM may be listed without vCPUs only where debugfs does not show them: the note says so.
	ok "CSV: no vCPU, and a note" grep -q 'no TSC offsets' "$out"
	skip "offsets of a real VM" "debugfs does not show VMs here"
	finish
fi
is "$(cut -d, -f8 "$tmp/rows" | tr '\n' ' ')" "1 3 " "CSV: vCPU ids, not indices"
case $(cut -d, -f10 "$tmp/rows" | sort -u | tr '\n' ' ') in
"debugfs ")
	is "$(cut -d, -f9 "$tmp/rows" | tr '\n' ' ')" "$tid1 $tid2 " "CSV: the threads that run them" ;;
"unknown ")
	is "$(cut -d, -f9 "$tmp/rows" | tr -d '\n')" "" "CSV: no thread where it is not known" ;;
*)
	is "$(cut -d, -f10 "$tmp/rows" | tr '\n' ' ')" "debugfs debugfs " "CSV: how the threads were found" ;;
esac

debugfs=/sys/kernel/debug/kvm/$pid-$fd
if ! [ -d "$debugfs" ]; then
	out_has "no TSC offsets: .*(debugfs|sysfs) is not mounted|debugfs does not show" "what is missing is named"
	skip "offsets of a real VM" "no $debugfs"
	finish
fi
offset=$(cut -d, -f11 "$tmp/rows" | head -n 1)
is "$offset" "$(cat "$debugfs/vcpu1/tsc-offset")" "CSV: the TSC offset as debugfs has it"
is "$(cut -d, -f12 "$tmp/rows" | head -n 1)" "$(printf '0x%016x' "$offset")" "CSV: its bits in hex"
if [ -e "$debugfs/vcpu1/tsc-scaling-ratio" ]; then
	is "$(cut -d, -f14,15 "$tmp/rows" | head -n 1)" \
		"$(cat "$debugfs/vcpu1/tsc-scaling-ratio"),$(cat "$debugfs/vcpu1/tsc-scaling-ratio-frac-bits")" \
		"CSV: the ratio as debugfs has it"
else
	is "$(cut -d, -f13-15 "$tmp/rows" | sort -u)" "none,," "CSV: not scaled"
fi

run "$kvmft" list --format json
status_is 0 "JSON"
is "$(wc -l <"$out" | tr -d ' ')" 1 "JSON: one document"
out_has "\"vm\":\"$pid-$fd\",\"pid\":$pid,\"pid_sure\":(true|false),\"fd\":$fd,\"name\":" "JSON: the VM"
out_has "\"uid\":$(id -u),\"started_by\":\"[^\"]+\",\"started_by_pid\":$$," "JSON: whose it is"
out_has "\"vcpu\":3,\"tid\":[0-9a-z]+,\"tid_source\":\"[a-z-]+\",\"tsc_offset\":-?[0-9]+,\"tsc_offset_hex\":\"0x[0-9a-f]{16}\",\"scaling\":\"(none|scaled)\"" "JSON: a vCPU"
if command -v python3 >/dev/null; then
	ok "JSON: well-formed" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$out"
else
	skip "JSON: well-formed" "python3 is not installed"
fi

# convert takes the same VM, by PID-FD, from this machine.
scale=
if [ "$(cut -d, -f13 "$tmp/rows" | head -n 1)" = scaled ]; then
	scale="--tsc-ratio $(cut -d, -f14,15 "$tmp/rows" | head -n 1 | tr , /)"
fi
run "$kvmft" convert --from host-tsc --to guest-tsc --vm "$pid-$fd" --vcpu 1 123456789012345
status_is 0 "convert with --vm and no capture"
# shellcheck disable=SC2086
is "$(cat "$out")" "$("$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset "$offset" $scale 123456789012345)" \
	"... uses that vCPU's offset"
run "$kvmft" convert --from host-tsc --to guest-tsc --vm no-such-vm 1
status_is 1 "convert with a VM that does not exist"
err_has "no-such-vm.*$pid-$fd" "... lists those that do"

kill "$vm_job"
wait "$vm_job" 2>/dev/null
run "$kvmft" list
ok "a dead VM is gone" sh -c "! grep -q '^$pid-$fd ' '$out'"

# shellcheck disable=SC2016 # the inner shell's
run unshare -m sh -c 'mount -t tmpfs none /sys && exec "$1" list' sh "$kvmft"
# 0: a VM of another test runs, and is listed.
ok "without /sys (exit $rc)" test "$rc" = 4 -o "$rc" = 0
err_has "/sys/kernel/debug does not exist: sysfs is not mounted: mount -t sysfs none /sys" "... the kernel is not blamed"
finish
