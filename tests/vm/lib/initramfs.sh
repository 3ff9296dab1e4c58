# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: the small initramfs both levels boot from. It holds busybox, the
# script init and the modules needed to reach the 9p root, already decompressed (unpacking
# .ko.xz under emulation is slow). Modules are stored in load order, one list a level.

INITRAMFS_GUEST="virtio_pci 9pnet_virtio 9p overlay virtio_blk msr"
INITRAMFS_HOST="virtio_pci 9pnet_virtio 9p overlay kvm_amd msr"
INITRAMFS_INTEL="ata_piix sd_mod ext4 overlay kvm_intel msr"
INITRAMFS_ARM64="virtio_pci 9pnet_virtio 9p overlay virtio_blk"

# Busybox in place of these, for init and (first in PATH) for scenarios: simple ones, where an
# option more or less will not surprise.
INITRAMFS_APPLETS="[ awk basename cat chmod chroot cmp cp cut dd dirname dmesg echo env expr
	false grep head hostname id insmod ip kill ln ls md5sum mkdir mknod mount mv nproc od
	poweroff printf readlink rm rmdir sed seq setsid sleep sort stty sync tail tee test
	touch tr true truncate umount uname uniq wc xargs"

# Files to load for module $3 of kernel $2 in folder $1, dependencies first. Built-in ones
# need nothing.
initramfs_depends()
{
	modprobe -d "$1" -S "$2" --ignore-install --show-depends "$3" 2>/dev/null |
		sed -n 's/^insmod \([^ ]*\).*/\1/p'
}

initramfs_module()
{
	case $1 in
	*.xz)	xz -dc "$1" ;;
	*.zst)	zstd -dcq "$1" ;;
	*.gz)	gzip -dc "$1" ;;
	*)	cat "$1" ;;
	esac
}

# Store the modules "$4..." in root $3 and write their load order to modules.LEVEL.
initramfs_modules()
{
	mod_kernel=$1
	mod_level=$2
	mod_root=$3
	shift 3
	mod_version=$(cat "$mod_kernel/version")
	for mod_name; do
		initramfs_depends "$mod_kernel" "$mod_version" "$mod_name"
	done | awk '!seen[$0]++' | while read -r mod_file; do
		mod_base=${mod_file##*/}
		mod_base=${mod_base%%.ko*}.ko
		[ -e "$mod_root/modules/$mod_base" ] ||
			initramfs_module "$mod_file" >"$mod_root/modules/$mod_base" || exit 1
		echo "$mod_base"
	done >"$mod_root/modules.$mod_level"
	grep -qE '9p|ext4' "$mod_root/modules.$mod_level" || die "kernel $mod_version: no 9p or ext4 module"
}

# That of L1's CPU.
initramfs_busybox()
{
	if [ -n "$RIG_ROOT" ]; then
		echo "$RIG_ROOT/bin/busybox"
	else
		command -v busybox
	fi
}

initramfs_build()
{
	build_kernel=$1
	build_out=$2
	build_root=$(mktemp -d)
	for build_dir in modules applets proc sys dev outer rw new; do
		mkdir "$build_root/$build_dir"
	done
	cp "$(initramfs_busybox)" "$build_root/applets/busybox"
	for build_applet in $INITRAMFS_APPLETS; do
		ln -s busybox "$build_root/applets/$build_applet"
	done
	cp "$VM_DIR/lib/init" "$build_root/init"
	chmod 755 "$build_root/init"
	# shellcheck disable=SC2086 # lists of module names
	{
		[ "$CPU" != intel ] || INITRAMFS_HOST=$INITRAMFS_INTEL
		[ "$CPU" != arm64 ] || INITRAMFS_HOST=$INITRAMFS_ARM64 INITRAMFS_GUEST=$INITRAMFS_ARM64
		initramfs_modules "$build_kernel" host "$build_root" $INITRAMFS_HOST
		initramfs_modules "$build_kernel" guest "$build_root" $INITRAMFS_GUEST
	}
	(cd "$build_root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) \
		>"$build_out.tmp.$$" || die "cpio failed"
	rm -rf "$build_root"
	mv "$build_out.tmp.$$" "$build_out"
}

# Print the initramfs of the kernel folder $1, for a host of $CPU and its guests. The name carries a
# hash of all that goes in.
initramfs_prepare()
{
	ifs_hash=$(echo "$CPU" | cat - "$VM_DIR/lib/init" "$VM_DIR/lib/initramfs.sh" "$1/version" \
		"$(initramfs_busybox)" | md5sum | cut -c1-12)
	ifs_file=$1/initramfs-$ifs_hash.cpio
	if [ ! -s "$ifs_file" ]; then
		initramfs_build "$1" "$ifs_file" || exit
	fi
	echo "$ifs_file"
}
