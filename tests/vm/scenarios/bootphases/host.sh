# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Guests recorded from the exec of their VMM on (`kvmft record -- qemu ...`): one as it is, and one each with a VMM that
# sleeps before it makes its VM, with a slow disk, and with a CPU limit, one of two vCPUs, and one whose state was saved
# before it reads its disk. Leaves NAME.tar and console-NAME.log.
#
#   BOOTS="plain sleep disk limit two restore"   which of them

. "$VM_LIB/host.sh"

need_kvmft
boots=${BOOTS:-plain sleep disk limit two restore}
root=/tmp/root
mkdir -p /tmp/cgroup /tmp/cgroup.slow "$root/proc" "$root/dev" "$root/modules"
mount -t cgroup2 none /tmp/cgroup && echo +cpu >/tmp/cgroup/cgroup.subtree_control

# A guest that loads its disk's driver, reads it, and says when in its log; then the marker, in the log and as a write
# to port 0x80.
cp -L "$(command -v busybox)" "$root/busybox"
n=100
modprobe -d "${RIG_GUEST_KERNEL}" -S "$(uname -r)" --ignore-install --show-depends virtio_pci >/tmp/depends
modprobe -d "${RIG_GUEST_KERNEL}" -S "$(uname -r)" --ignore-install --show-depends virtio_blk >>/tmp/depends
for module in $(sed -n 's/^insmod \([^ ]*\).*/\1/p' /tmp/depends | awk '!seen[$0]++'); do
	case $module in
	*.xz) xz -dc "$module" ;;
	*) cat "$module" ;;
	esac >"$root/modules/$n.ko"
	n=$((n + 1))
done
cat >"$root/init" <<'END'
#!/busybox sh
/busybox mount -t proc none /proc
/busybox mount -t devtmpfs none /dev
for m in /modules/*.ko; do /busybox insmod "$m"; done
case $(/busybox cat /proc/cmdline) in
*rig.held*)
	echo "rig: held" >/dev/ttyS0
	/busybox sleep 20
	;;
esac
echo "rig: reads begin" >/dev/kmsg
for at in 0 100 200 300 400 500 600 700; do /busybox dd if=/dev/vda of=/dev/null bs=4k count=1 skip=$at; done
echo "rig: reads end" >/dev/kmsg
echo "rig: marker" >/dev/kmsg
/busybox printf '\102' | /busybox dd of=/dev/port bs=1 seek=128 conv=notrunc
/busybox dmesg | /busybox grep -E 'rig:|Run /init|Linux version' >/dev/ttyS0
/busybox poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >/tmp/initramfs
cp "/.outer$RIG_GUEST_KERNEL/$RIG_IMAGE" /tmp/kernel
truncate -s 16M /tmp/disk.raw

# Becomes a VMM in that cgroup.
cat >/tmp/limited <<'END'
echo $$ >/tmp/cgroup/slow/cgroup.procs
exec "$@"
END

# A VMM waits for the reader of its FIFO.
opens_held()
{
	cat /proc/[0-9]*/wchan 2>/dev/null | grep -q wait_for_partner
}

# saves: the state of a guest that sleeps before it reads its disk goes to a file.
saves()
{
	mkdir -p "$GUEST_RUN/saved"
	"$@" -monitor "unix:$GUEST_RUN/saved/monitor.sock,server=on,wait=off" </dev/null >/tmp/saved.log 2>&1 &
	echo $! >"$GUEST_RUN/saved/pid"
	wait_until 300 grep -qs 'rig: held' "$RESULTS/console-$name.log" || guest_die saved "is not held"
	guest_monitor saved 'migrate "exec:cat >/tmp/state"' >/dev/null
	check "restore: its state is saved" test -s /tmp/state
	guest_monitor saved quit >/dev/null || :
}

for name in $boots; do
	drive=file=/tmp/disk.raw,if=virtio,format=raw
	before='' held='' smp=1
	rm -f /tmp/held
	case $name in
	sleep) # to open it for writing waits for a reader, who comes so much later
		mkfifo /tmp/held
		(wait_until 200 opens_held; sleep "${SLEEP:-15}"; cat /tmp/held >/dev/null) &
		;;
	disk) drive=$drive,throttling.bps-total=2048 ;;
	limit)
		mkdir -p /tmp/cgroup/slow
		echo "${LIMIT:-30000} 100000" >/tmp/cgroup/slow/cpu.max
		before="sh /tmp/limited"
		;;
	two) smp=2 ;;
	restore) held=rig.held ;;
	esac
	note "$name"
	set -- "$RIG_GUEST_QEMU" -name "$name,debug-threads=on" -machine "$RIG_GUEST_MACHINE,accel=kvm" -cpu "$RIG_GUEST_CPU" \
		-smp "$smp" -m 256 -nodefaults -no-user-config -display none -no-reboot -kernel /tmp/kernel -initrd /tmp/initramfs \
		-drive "$drive" -append "$RIG_CMDLINE noxsave rdinit=/init $held" -serial "file:$RESULTS/console-$name.log" \
		-chardev file,id=held,path=/tmp/held
	if [ "$held" ]; then
		saves "$@"
		set -- "$@" -incoming "exec:cat /tmp/state"
	fi
	# shellcheck disable=SC2086 # a command of two words
	"$KVMFT" record -b 16M -e default -e mem -e boot -o "/tmp/$name" -- $before "$@" </dev/null >"/tmp/$name.log" 2>&1
	check "$name: recorded to its end" grep -q 'rig: marker' "$RESULTS/console-$name.log"
	sed 's/^/# /' "/tmp/$name.log"
	carry "/tmp/$name"
	rm -rf "/tmp/${name:?}"
done
finish
