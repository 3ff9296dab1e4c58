# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: Bochs, an emulator of Intel CPUs with VMX, which QEMU's TCG lacks.
#
# Built once from Debian's source package (no debugger, no screen: four minutes on one core) and
# kept in the cache with the BIOS and the boot loader that it needs, none of them installed:
#	bin/bochs
#	firmware/	BIOS-bochs-latest, vgabios.stdvga.bin
#	grub/		grub-mkimage and the folder i386-pc of its modules
# A failure is kept for an hour with its reason, so that a machine without network does not try
# at each run.

BOCHS_SUITE=trixie
BOCHS_BOOT_SUITE=bookworm
BOCHS_BOOT_PACKAGES="bochsbios vgabios grub-common grub-pc-bin"

# bochs_sed FILE PATTERN TEXT: replaces what matches, which must be there, by the text.
bochs_sed()
{
	grep -q "$2" "$1" && sed -i "s/$2/$3/" "$1" && return
	echo "$1: nothing matches $2"
	return 1
}

# What Debian's source has wrong.
bochs_mend()
{
	# Its CPU claims leaves 0x15 and 0x16, by which a kernel would take the TSC for one of 3.5 GHz,
	# while its rate is what `ips` says.
	bochs_sed cpu/cpudb/intel/corei7_skylake-x.cc 'max_std_leaf = 0x16;' 'max_std_leaf = 0x14;' &&
		# It refuses descriptors of posted interrupts that begin within a page (Bochs' bug 556); the
		# CPU asks for 64 bytes only.
		bochs_sed cpu/vmx.cc '! *IsValidPageAlignedPhyAddr(vm->pid_addr)' \
			'!IsValidPhyAddr(vm->pid_addr) || (vm->pid_addr \& 0x3f)' &&
		# An interrupt of the host gave a guest that had interrupts off what was pending for it.
		bochs_sed cpu/event.cc 'if (is_pending(BX_EVENT_PENDING_VMX_VIRTUAL_INTR))' \
			'if (is_unmasked_event_pending(BX_EVENT_PENDING_VMX_VIRTUAL_INTR))' &&
		# A notification that comes when nothing is posted any more was an interrupt of vector 255.
		bochs_sed cpu/vapic.cc 'vector = BX_CPU_THIS_PTR lapic->highest_priority_int(virr);' \
			'int top = BX_CPU_THIS_PTR lapic->highest_priority_int(virr); vector = top < 0 ? 0 : top;'
}

# The display of instructions per second is done in a signal handler, which dead-locks.
bochs_configure()
{
	CXXFLAGS="-O2 -fno-strict-aliasing -w" CFLAGS="-O2 -w" ./configure \
		--enable-cpu-level=6 --enable-x86-64 --enable-vmx=2 --enable-smp --enable-avx --enable-evex \
		--enable-cet --enable-protection-keys --enable-memtype --enable-fpu --enable-pci \
		--enable-all-optimizations --enable-repeat-speedups --disable-debugger --disable-show-ips \
		--with-nogui --without-x11
}

# bochs_source FOLDER: the upstream tarball, unpacked there. Some mirrors lack the .dsc beside it,
# which is not needed: what apt leaves has the checksum of the index.
bochs_source()
{
	apt_source "$BOCHS_SUITE" "$1" --download-only bochs
	(cd "$1" && tar -xf bochs_*.orig.tar.*)
}

# bochs_build FOLDER, which is new: puts everything into it.
bochs_build()
{
	bochs_source "$1/src" &&
		(cd "$1"/src/bochs-*/ && bochs_mend && bochs_configure && nice -n 19 make) &&
		mkdir "$1/bin" && strip -o "$1/bin/bochs" "$1"/src/bochs-*/bochs && rm -rf "$1/src"
}

# bochs_boot FOLDER: BIOS and boot loader.
bochs_boot()
{
	apt_update "$BOCHS_BOOT_SUITE" || return
	# shellcheck disable=SC2086 # a list of package names
	apt_fetch "$BOCHS_BOOT_SUITE" "$1/boot" $BOCHS_BOOT_PACKAGES &&
		mkdir "$1/firmware" "$1/grub" &&
		cp "$1"/boot/tree/usr/share/bochs/BIOS-bochs-latest \
			"$1"/boot/tree/usr/share/vgabios/vgabios.stdvga.bin "$1/firmware/" &&
		cp -r "$1/boot/tree/usr/lib/grub/i386-pc" "$1/boot/tree/usr/bin/grub-mkimage" "$1/grub/" &&
		rm -rf "${1:?}/boot"
}

bochs_fill()
{
	for fill_tool in g++ make apt-get; do
		command -v "$fill_tool" >/dev/null && continue
		echo "$fill_tool is not installed (contrib/deps.sh test)" >"$1.failed"
		touch -d @0 "$1.failed" # once it is installed, the next run goes on
		return 1
	done
	note "building Bochs, once (some minutes)"
	fill_tmp=$1.tmp.$$
	rm -rf "$fill_tmp" "$1.failed"
	mkdir -p "$fill_tmp"
	if bochs_boot "$fill_tmp" >"$1.log" 2>&1 && bochs_build "$fill_tmp" >>"$1.log" 2>&1; then
		rm -rf "$1"
		mv "$fill_tmp" "$1"
		return
	fi
	rm -rf "$fill_tmp"
	log_reason "$1.log" >"$1.failed"
	return 1
}

# Print the folder described on top, filling it first if need be. 1 after telling why not.
bochs_prepare()
{
	# Its name carries a hash of how it is made.
	bochs_dir=$KVMFT_CACHE/bochs/3.0-$(sed -n '/^bochs_mend()/,/^bochs_source()/p' \
		"$VM_DIR/lib/bochs.sh" | md5sum | cut -c1-8)
	mkdir -p "$KVMFT_CACHE/bochs"
	if (
		flock 9
		[ -x "$bochs_dir/bin/bochs" ] && [ "${REFRESH:-0}" = 0 ] && exit 0
		[ -z "$(find "$bochs_dir.failed" -mmin -60 2>/dev/null)" ] || exit 1
		bochs_fill "$bochs_dir"
	) 9>"$KVMFT_CACHE/bochs/.lock"; then
		echo "$bochs_dir"
	else
		note "Bochs cannot be had: $(cat "$bochs_dir.failed"); the log is $bochs_dir.log"
		return 1
	fi
}
