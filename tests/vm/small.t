#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Hosts with little memory: Linux 6.1, where the events of an instance take 9 MB, and 6.12, where they take none. No
# shell, no busybox, an init in C, one VM, the smallest build of kvmft. What it does there must succeed, or be refused with
# the figure; the kernel never kills a process.
#
#   SMALL_MEM="6.1 96 6.12 78" tests/vm/small.t: other kernels, MB; with - after it: what records is refused there

. "$(dirname "$0")/tap.sh"

make=${MAKE_PROGRAM:-make}
cache=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft}
root=$tmp/root

ok "the smallest build" "$make" -C "$top" NODEPS=1 -j"$(nproc)" O="$tmp/small" SMALL=1 STATIC=1 MINIMAL=1 CPPFLAGS=-g0 all
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/ro" "$root/cap"
ok "its init" gcc -O1 -static -o "$root/init" "$top/tests/vm/small_init.c"
ok "its VM" gcc -O1 -static -pthread -o "$root/tinyvm" "$top/tests/vm/tinyvm.c"
strip -o "$root/kvmft" "$tmp/small/kvmft"

# boots KERNEL MB: the lines of its init into $tmp/said, all that the console has into $tmp/console.
boots()
{
	kernel=$1 mb=$2
	if ! "$top/tests/vm/run" --kernel "$kernel" --prepare boot >"$tmp/prepare.log" 2>&1; then
		skip "Linux $kernel" "$(tail -n 1 "$tmp/prepare.log")"
		return 1
	fi
	dir=$cache/kernels/$kernel
	rm -rf "$root/modules"
	mkdir "$root/modules"
	n=0
	for module in $(modprobe -d "$dir" -S "$(cat "$dir/version")" --ignore-install --show-depends kvm_amd |
		sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
		case $module in
		*.xz) xz -dc "$module" ;;
		*) cat "$module" ;;
		esac >"$root/modules/$n.ko"
		strip --strip-debug "$root/modules/$n.ko"
		n=$((n + 1))
	done
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) | gzip -1 >"$tmp/initramfs"
	qemu=$(ls "$cache"/qemu/*/usr/bin/qemu-system-x86_64 2>/dev/null | head -n 1)
	share=${qemu%/bin/*}/share
	# shellcheck disable=SC2086 # options, or none
	timeout 500 "${qemu:-qemu-system-x86_64}" ${qemu:+-L "$share/qemu" -L "$share/seabios"} -machine q35 -accel tcg \
		-cpu max,la57=off -smp 1 -m "$mb" -nodefaults -no-user-config -display none -no-reboot -serial "file:$tmp/console" \
		-kernel "$dir/vmlinux" -initrd "$tmp/initramfs" -append "console=ttyS0 quiet panic=-1 oops=panic tsc=reliable \
no_timer_check mitigations=off" </dev/null >"$tmp/qemu.log" 2>&1
	tr -d '\r' <"$tmp/console" | grep -a '^== ' >"$tmp/said"
	sed "s/^== /# $kernel, $mb MB: /" "$tmp/said" | sed -n '1p; $p; /\/kvmft/p' | awk '!seen[$0]++' | head -n 12
}

killed()
{
	grep -aE 'Out of memory|oom-kill|Kernel panic|BUG: |WARNING: ' "$tmp/console"
}

# statuses WORDS: of the commands that begin with them, each once.
statuses()
{
	awk -v w="$1" 'index($0, w) && $2 ~ /^[0-9]+$/ { print $2 }' "$tmp/said" | sort -u | tr '\n' ' '
}

# What the last check said, after all recordings.
memory()
{
	grep -a '^memory ' "$tmp/console" | tail -n 1 | awk '{ print $2 }'
}

cat >"$root/commands" <<'END'
& /tinyvm --ms 1000000 --pause 2000
/kvmft check --host
/kvmft record -q -o /ro/cap -d 1s
= 20 /kvmft record -q --force -o /cap/one -d 200ms
/kvmft exits 1
/kvmft trace -d 1s -e kvm:kvm_userspace_exit -N 5
/kvmft check --host
END

# shellcheck disable=SC2086 # a list
set -- ${SMALL_MEM:-6.1 96 6.1 90- 6.12 78}
while [ $# -gt 1 ]; do
	if boots "$1" "${2%-}"; then
		name="Linux $1 with ${2%-} MB"
		recorded=0
		[ "$2" = "${2%-}" ] || recorded=4
		ok "$name: boots, and gets to its end" grep -q '^== end' "$tmp/said"
		is "$(killed)" "" "... nothing is killed, the kernel does not complain"
		is "$(grep -c '/kvmft record -q --force' "$tmp/said") $(statuses '/kvmft record -q --force')" "20 $recorded " \
			"... 20 recordings: exit status $recorded"
		is "$(statuses '/kvmft exits')$(statuses '/kvmft trace')" "$recorded $recorded " "... exits, trace"
		is "$(statuses '/kvmft record -q -o /ro')" "1 " "... a place that cannot be written is refused"
		case $recorded in
		0) is "$(memory)" ok "... check has memory in the end" ;;
		*)
			is "$(memory)" absent "... check lacks memory in the end"
			ok "... and record says how much it takes" \
				grep -aq '^kvmft record: an instance takes [0-9]* KB here, 6 for each event' "$tmp/console"
			;;
		esac
	fi
	shift 2
done
finish
