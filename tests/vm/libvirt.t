#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft record --guest NAME=qga:'virsh qemu-agent-command DOMAIN'` through a real libvirt, which holds the agent's
# socket: a domain of type qemu with a kernel of the rig. It has no clock of KVM's; what is proved is that commands
# and streams get through. The test runs a libvirtd of its own, in namespaces that share no directory and no network
# with the machine.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/../cli/vmlib.sh"

for program in libvirtd virsh qemu-ga qemu-system-x86_64 cpio busybox unshare; do
	if ! command -v "$program" >/dev/null; then
		skip "libvirt" "no $program: contrib/deps.sh test installs libvirt-daemon-system, libvirt-clients and qemu-guest-agent"
		finish
	fi
done
if [ -z "${LIBVIRT_TEST_APART:-}" ]; then
	rm -rf "$tmp"
	LIBVIRT_TEST_APART=1 exec unshare --mount --net --propagation private sh "$0"
fi
need_recording libvirt
kvmft=$plain
session=$tmp/run

# wait_until COMMAND...: at most 120 s.
wait_until()
{
	n=0
	while ! "$@" && [ $n -lt 600 ]; do
		sleep 0.2
		n=$((n + 1))
	done
}

# ---- a guest ----

ok "a static program for the guest" "${MAKE_PROGRAM:-make}" -C "$top" -s STATIC=1 SMALL=1 NODEPS=1 O=build/static
kernel=$(
	KVMFT_CACHE=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft} KERNEL_ARCH=amd64 RIG_FAILED=125
	VM_DIR=$top/tests/vm
	note() { echo "# $*" >&2; }
	die() { note "$*" && exit "$RIG_FAILED"; }
	. "$VM_DIR/lib/apt.sh"
	. "$VM_DIR/lib/kernel.sh"
	kernel_prepare 6.1
)
ok "a kernel for it" test -s "$kernel/vmlinuz"
root=$tmp/root
(
	. "$top/tests/vm/lib/initramfs.sh"
	mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for applet in sh mount insmod ls cat sleep mkdir grep ps killall setsid; do
		ln -s busybox "$root/bin/$applet"
	done
	for module in virtio_pci virtio_console; do
		initramfs_depends "$kernel" "$(cat "$kernel/version")" $module
	done | awk '!seen[$0]++' | while read -r file; do
		cp "$file" "$root/modules/"
		echo "/modules/${file##*/}"
	done >"$root/modules/order"
	# shellcheck disable=SC2046 # names of libraries
	cp -L --parents "$(command -v qemu-ga)" $(ldd "$(command -v qemu-ga)" | grep -o '/[^ ]*') "$root/"
	cp "$top/build/static/kvmft" "$root/bin/kvmft"
)
cat >"$root/init" <<'END'
#!/bin/sh
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tracefs tracefs /sys/kernel/tracing
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
while read -r module; do
	insmod "$module"
done </modules/order
until port=$(ls /dev/vport*p1 2>/dev/null); do
	sleep 0.1
done
# A killed one is started again, as a service is.
while :; do
	qemu-ga -m virtio-serial -p "$port" -t /tmp
	sleep 1
done
END
chmod 755 "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$tmp/initrd"

# domain NAME DEVICE...: its description.
domain()
{
	cat <<END
<domain type='qemu'>
<name>$1</name><memory unit='MiB'>384</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>$kernel/vmlinuz</kernel><initrd>$tmp/initrd</initrd>
<cmdline>console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check mitigations=off</cmdline></os>
<cpu mode='custom'><model>qemu64</model></cpu><features><acpi/></features>
<devices><emulator>$(command -v qemu-system-x86_64)</emulator>
<serial type='file'><source path='$tmp/console-$1'/></serial><memballoon model='none'/>
$2</devices></domain>
END
}

# ---- a libvirt ----

for dir in /run/libvirt /run/dbus /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
	mkdir -p "$dir"
	mount -t tmpfs tmpfs "$dir"
done
mkdir /var/log/libvirt/qemu
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
dynamic_ownership = 0
remember_owner = 0
stdio_handler = "file"
END
libvirtd -p "$tmp/libvirtd.pid" >"$tmp/libvirtd.log" 2>&1 &
libvirtd=$!
end_libvirt()
{
	# It may be gone while its domains are not.
	for file in /run/libvirt/qemu/*.pid; do
		[ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null
	done
	kill "$libvirtd" 2>/dev/null
	wait "$libvirtd" 2>/dev/null
	vmlib_cleanup
}
trap end_libvirt EXIT
answers() { virsh version >/dev/null 2>&1; }
wait_until answers
if ! answers; then
	ok "libvirtd answers" false
	sed 's/^/# /' "$tmp/libvirtd.log"
	finish
fi

channel="<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
domain vm1 "$channel" >"$tmp/vm1.xml"
domain silent "" >"$tmp/silent.xml"
ok "a domain" virsh create "$tmp/vm1.xml"
virsh create "$tmp/silent.xml" >/dev/null
domain off "$channel" >"$tmp/off.xml"
virsh define "$tmp/off.xml" >/dev/null
"$tinyvm" --ms 600000 >/dev/null 2>&1 &
vm=$!

# ask DOMAIN REQUEST [ARGUMENTS]
ask() { virsh qemu-agent-command "$1" "{\"execute\":\"$2\"${3:+,\"arguments\":$3}}" 2>/dev/null; }

# in_guest COMMAND: what it prints there.
in_guest()
{
	pid=$(ask vm1 guest-exec "{\"path\":\"sh\",\"arg\":[\"-c\",\"$1\"],\"capture-output\":true}" |
		sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
	exited() { ask vm1 guest-exec-status "{\"pid\":$pid}" >"$tmp/status" && grep -q '"exited":true' "$tmp/status"; }
	wait_until exited
	sed -n 's/.*"out-data":"\([^"]*\)".*/\1/p' "$tmp/status" | base64 -d
}
left() { in_guest 'ls /dev/shm /tmp /sys/kernel/tracing/instances | grep kvmft; ps | grep kvmft.[r]ecord'; }

# sides DOMAIN OPTION...
sides()
{
	rm -rf "$session"
	domain=$1
	shift
	run timeout 100 "$kvmft" record --as host -e kvm:kvm_pio -o "$session" --guest "vm1=qga:virsh qemu-agent-command $domain" \
		--guest-options '--as guest' --guest-options '-e sched:sched_switch' "$@"
}

begin_sides()
{
	rm -rf "$session"
	timeout 100 "$kvmft" record --as host -e kvm:kvm_pio -o "$session" --guest 'vm1=qga:virsh qemu-agent-command vm1' \
		--guest-options '--as guest' --guest-options '-e sched:sched_switch' "$@" >"$out" 2>"$err" </dev/null &
	recorder=$!
	all_live() { grep -q '^start ' "$session/session" 2>/dev/null; }
	wait_until all_live
}

ended()
{
	wait "$recorder"
	rc=$?
	recorder=
}

# refused NAME DOMAIN MESSAGE OPTION...: one line says why, and what the host recorded is kept.
refused()
{
	name=$1
	domain=$2
	message=$3
	shift 3
	sides "$domain" -d 1s "$@"
	status_is 3 "$name"
	is "$(grep -c '^kvmft: vm1: ' "$err")" 1 "... one line"
	err_has "^kvmft: vm1: $message" "... says why"
	is "$(ls "$session" | tr '\n' ' ')" "host session " "... and the host's capture is kept"
}

reason_of() { sed -n "s/^end side=$1 reason=\([^ ]*\).*/\1/p" "$session/session"; }

# ---- what cannot be reached ----

refused "no such domain" nosuch "does not record: virsh qemu-agent-command nosuch: .*failed to get domain"
refused "a domain that is off" off "does not record: .*domain is not running"
refused "a domain without a port for the agent" silent "does not record: .*agent is not configured"
virsh destroy silent >/dev/null
if ! ask vm1 guest-ping >/dev/null; then
	refused "a guest whose agent has not begun" vm1 "does not record: .*agent is not"
fi
mkdir "$tmp/none"
run env PATH="$tmp/none" "$kvmft" record --as host -e kvm:kvm_pio -o "$session" \
	--guest 'vm1=qga:virsh qemu-agent-command vm1' -d 1s
status_is 4 "no virsh"
err_has "^kvmft record: vm1: does not record: .*cannot run virsh: No such file" "... says why"

# ---- a guest that is reached ----

up() { ask vm1 guest-ping >/dev/null; }
wait_until up
ok "the agent answers" up
sides vm1 -d 6s
status_is 0 "a host and a guest, through libvirt"
sed 's/^/# /' "$err"
is "$(reason_of host) $(reason_of vm1)" "control control" "... and how they ended"
for side in host vm1; do
	made=$(awk '/^stats when=end/ { for (i = 1; i <= NF; i++) if (sub("^read=", "", $i)) n += $i } END { print n }' "$session/$side/meta")
	run "$kvmft" export -i "$session/$side" --to text
	status_is 0 "$side: its capture can be read"
	is "$(grep -c 'kvm:kvm_pio\|sched:sched_switch' "$out")" "$made" "... all that was made is there"
	ok "... which is not nothing ($made)" test "$made" -gt 50
done
run "$kvmft" merge "$session/host"
status_is 0 "merge of the host"
is "$(left)" "" "nothing is left in the guest"

begin_sides
sleep 2
kill -INT "$(pgrep -P "$recorder")"
ended
status_is 0 "Ctrl-C ends both"
is "$(reason_of host) $(reason_of vm1)" "control control" "... in order"
is "$(left)" "" "... nothing is left in the guest"

refused "an event that the guest lacks" vm1 "does not record: .*no_such_event" --guest-options '-e sched:no_such_event'
is "$(left)" "" "... nothing is left in the guest"

begin_sides -d 8s
ask vm1 guest-exec '{"path":"killall","arg":["qemu-ga"]}' >/dev/null
ended
status_is 3 "the agent is killed"
err_has "vm1: .*what came before is in" "... is reported"
is "$(reason_of host)" control "... the host went on"
wait_until up
gone() { [ -z "$(left)" ]; }
wait_until gone
is "$(left)" "" "... the recorder in the guest sees it, and goes"

begin_sides -d 6s
virsh destroy vm1 >/dev/null
ended
status_is 3 "the domain is destroyed"
err_has "vm1: .*what came before is in" "... is reported"
is "$(reason_of host)" control "... the host went on"
is "$(our_instances)" "" "no instance is left"
is "$(tracefs_state)" "$state_before" "the kernel's own settings are as before"
finish
