# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # OUTDIR, RIG_* and so on are those of run
#
# Outer side of the rig: L1 on an Intel CPU, which lib/bochs.sh emulates.
#
# Bochs has no 9p, so L1 gets disks in place of the outer root:
#	root.img	in the cache: the outer programs that scenarios use, with their libraries
#	run.img		of this run: kernel and initramfs, the checkout's tests/vm, the program under
#			test, and what .rig holds at the start
#	out.img		of this run: the way back, a tar of $RESULTS
#	boot.img	of this run: GRUB without a file system, which knows the one thing to boot
# /init of L1 lays root.img and run.img upon each other; that is what QEMU in L1 hands to L2 by 9p,
# so for L2 all is as it is on the other CPU.

# First the programs that every scenario needs.
INTEL_PROGRAMS="qemu-system-x86_64 busybox sh dash tar modprobe
	bash [ awk basename bzip2 cat chmod chroot cmp comm cp cut date dd diff dirname dmesg du echo env
	expr fallocate false file find flock fold grep egrep gzip head hostname id ip join kill less ln ls lsmod
	md5sum mkdir mkfifo mknod mkswap mktemp modinfo mount mountpoint mv nice nproc od paste perf perl pgrep
	pidof printf ps pwd rdmsr readlink realpath renice rm rmdir rmmod script sed seq setsid sha256sum
	sleep sort split stat stdbuf stty swapon sync tac tail taskset tc tee test timeout touch tr trace-cmd true
	truncate tty umount uname uniq uptime wc which wrmsr xargs xz"

# The boot loader enters the compressed image, which would move the kernel. Bochs' CPU has neither
# microcode nor all MSRs of what it says it is.
INTEL_CMDLINE="nokaslr dis_ucode_ldr clearcpuid=aperfmperf"

# Perl, with the files that it loads for the rig's own functions.
intel_perl()
{
	perl -MIO::Socket::UNIX -MTime::HiRes -MDynaLoader -e '
		print "$_\n" for grep { -e } values %INC, @DynaLoader::dl_shared_objects;'
}

# What QEMU reads when it boots a kernel by its PVH entry; where it looks is its own business.
intel_firmware()
{
	qemu-system-x86_64 -L help | while read -r firm_dir; do
		firm_dir=$(realpath "$firm_dir")
		for firm_file in bios-256k.bin pvh.bin linuxboot_dma.bin multiboot_dma.bin kvmvapic.bin efi-virtio.rom; do
			[ ! -e "$firm_dir/$firm_file" ] || echo "$firm_dir/$firm_file"
		done
	done
}

# The programs and libraries on stdin, with all libraries that they load.
intel_closure()
{
	while read -r clos_file; do
		echo "$clos_file"
		ldd "$clos_file" 2>/dev/null | grep -oE '/[^ ]+'
	done | sort -u
}

# intel_copy ROOT: the files on stdin, at their own paths below ROOT; links become files.
intel_copy()
{
	for copy_dir in bin sbin lib lib32 lib64; do
		[ ! -L "/$copy_dir" ] || [ -e "$1/$copy_dir" ] || [ -L "$1/$copy_dir" ] ||
			ln -s "$(readlink "/$copy_dir")" "$1/$copy_dir"
	done
	mkdir -p "$1/usr/bin" "$1/usr/sbin" "$1/usr/lib" "$1/usr/lib64"
	sed 's|^/||' | tar -chf - -C / -T - | tar -xf - -C "$1"
}

# intel_image FOLDER IMAGE: an ext2 file system of it, with a little room.
intel_image()
{
	truncate -s "$(($(du -sm "$1" | cut -f 1) * 5 / 4 + 16))M" "$2"
	PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext2 -m 0 -E root_owner=0:0 -d "$1" "$2"
}

intel_root_files()
{
	for root_tool in $INTEL_PROGRAMS; do
		root_path=$(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			sh -c 'command -v "$1"' - "$root_tool" 2>/dev/null) && echo "$root_path"
	done
	intel_perl
}

# Print root.img, making it first if the programs have changed.
intel_root()
{
	intel_root_files | intel_closure >"$OUTDIR/.rig/root-files"
	intel_firmware >>"$OUTDIR/.rig/root-files"
	for root_file in passwd group nsswitch.conf; do
		[ ! -e "/etc/$root_file" ] || echo "/etc/$root_file"
	done >>"$OUTDIR/.rig/root-files"
	root_hash=$({
		cat "$VM_DIR/lib/intel.sh"
		xargs stat -L -c '%n %s %Y' <"$OUTDIR/.rig/root-files"
	} | md5sum | cut -c1-12)
	root_image=$KVMFT_CACHE/bochs/root-$root_hash.img
	if [ ! -s "$root_image" ]; then
		root_tmp=$(mktemp -d)
		# Another checkout's may be in use.
		find "$KVMFT_CACHE/bochs" -name 'root-*.img*' -mmin +180 -delete
		intel_copy "$root_tmp" <"$OUTDIR/.rig/root-files" &&
			intel_image "$root_tmp" "$root_image.tmp.$$" || return
		rm -rf "$root_tmp"
		mv "$root_image.tmp.$$" "$root_image"
	fi
	touch "$root_image"
	echo "$root_image"
}

# Copies modules from kernel folder $2 into the tree $1: KVM's, those of disks in memory and of guests' networks. If
# others are needed, they are in the initramfs.
intel_kernel()
{
	kern_modules=$2/lib/modules/$(cat "$2/version")
	mkdir -p "$1$kern_modules/kernel"
	cp "$2/version" "$2/$RIG_IMAGE" "$1$2/"
	cp "$kern_modules"/modules.* "$1$kern_modules/"
	(
		cd "$kern_modules/kernel" || exit
		for kern_part in arch/x86/kvm virt drivers/block/zram drivers/block/null_blk fs/configfs mm \
			drivers/vhost drivers/virtio drivers/net/tap.ko* drivers/net/tun.ko* drivers/net/virtio_net.ko* \
			drivers/net/net_failover.ko* net/core/failover.ko* net/sched/sch_netem.ko*; do
			[ ! -e "$kern_part" ] || cp -r --parents "$kern_part" "$1$kern_modules/kernel/"
		done
	)
}

# The program under test, what the tests have built beside it, the scenarios.
intel_project()
{
	proj_dir=$(dirname "$KVMFT")
	for proj_file in "$KVMFT" "$proj_dir"/tests/tools/*; do
		case $proj_file in
		*.[od]) ;;
		*) [ ! -x "$proj_file" ] || echo "$proj_file" ;;
		esac
	done | intel_closure | intel_copy "$1"
	mkdir -p "$1$VM_DIR" "$1$SCENARIO_DIR"
	cp -r "$VM_DIR/." "$1$VM_DIR/"
	cp -r "$SCENARIO_DIR/." "$1$SCENARIO_DIR/"
	# There is no compiler on the disk. Only one step of scenario clock needs the first.
	sh "$VM_DIR/lib/clockos.sh" "$1$VM_DIR"
	for disk_vm in tinyvm memvm clockvm; do
		cc -O1 -pthread -o "$1$VM_DIR/$disk_vm" "$VM_DIR/$disk_vm.c"
	done
}

intel_run()
{
	run_tree=$(mktemp -d)
	mkdir -p "$run_tree/fs" "$run_tree/results"
	cp "$RIG_HOST_KERNEL/vmlinuz" "$run_tree/vmlinuz"
	cp "$RIG_HOST_INITRAMFS" "$run_tree/initrd"
	intel_project "$run_tree/fs"
	for run_kernel in "$RIG_HOST_KERNEL" "$RIG_GUEST_KERNEL"; do
		intel_kernel "$run_tree/fs" "$run_kernel"
	done
	cp "$RIG_GUEST_INITRAMFS" "$run_tree/fs$RIG_GUEST_INITRAMFS"
	cp -r "$OUTDIR/.rig" "$run_tree/results/"
	intel_image "$run_tree" "$OUTDIR/.rig/run.img"
	rm -rf "$run_tree"
}

# A disk that boots: the first sector loads what stands behind it.
intel_boot()
{
	cat >"$OUTDIR/.rig/grub.cfg" <<-END
		set root=(hd1)
		linux /vmlinuz $CMDLINE $INTEL_CMDLINE rig.role=host rig.name=host rig.results=$OUTDIR \
		rig.modules=$RIG_HOST_KERNEL/lib/modules rig.disks=1 $HOST_CMDLINE
		initrd /initrd
		boot
	END
	"$BOCHS_DIR/grub/grub-mkimage" -d "$BOCHS_DIR/grub/i386-pc" -O i386-pc -p '(hd1)' \
		-c "$OUTDIR/.rig/grub.cfg" -o "$OUTDIR/.rig/core.img" biosdisk ext2 linux boot || return
	cat "$BOCHS_DIR/grub/i386-pc/boot.img" "$OUTDIR/.rig/core.img" >"$OUTDIR/.rig/boot.img"
	truncate -s 8M "$OUTDIR/.rig/boot.img"
}

# Time is counted in instructions, 400 million a second, so each run is the same, whatever else
# the machine does.
intel_config()
{
	cat <<-END
		config_interface: textconfig
		display_library: nogui
		romimage: file=$BOCHS_DIR/firmware/BIOS-bochs-latest
		vgaromimage: file=$BOCHS_DIR/firmware/vgabios.stdvga.bin
		vga: extension=vbe, update_freq=1
		mouse: enabled=0
		cpu: model=corei7_skylake_x, count=$HOST_CPUS, ips=400000000, \
		reset_on_triple_fault=0, ignore_bad_msrs=1
		clock: sync=none
		memory: guest=$HOST_MEM, host=$HOST_MEM
		boot: disk
		ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
		ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15
		ata0-master: type=disk, path="$OUTDIR/.rig/boot.img", mode=flat
		ata0-slave: type=disk, path="$OUTDIR/.rig/run.img", mode=flat
		ata1-master: type=disk, path="$RIG_ROOT_IMAGE", mode=volatile, journal="$OUTDIR/.rig/root.redo"
		ata1-slave: type=disk, path="$OUTDIR/.rig/out.img", mode=flat
		com1: enabled=1, mode=file, dev="$OUTDIR/console-host.log"
		com2: enabled=1, mode=file, dev="$OUTDIR/host.log"
		log: $OUTDIR/bochs.log
		panic: action=fatal
		error: action=report
		info: action=ignore
		debug: action=ignore
	END
}

# All that Bochs needs in $OUTDIR/.rig; 1 when something could not be made.
intel_disks()
{
	RIG_ROOT_IMAGE=$(intel_root) && intel_run && intel_boot &&
		truncate -s 1G "$OUTDIR/.rig/out.img" && intel_config >"$OUTDIR/.rig/bochsrc"
}

# shellcheck disable=SC2034 # HOST_PID is for run
# intel_start SECONDS: the emulated host in the background; $HOST_PID is its timeout(1).
intel_start()
{
	intel_disks >"$OUTDIR/qemu-host.log" 2>&1 || die "cannot make L1's disks, see $OUTDIR/qemu-host.log"
	timeout -k 5 "$1" "$BOCHS_DIR/bin/bochs" -q -f "$OUTDIR/.rig/bochsrc" </dev/null \
		>"$OUTDIR/qemu-host.log" 2>&1 &
	HOST_PID=$!
}

# Unpacks what L1 left on its disk, if anything, and removes the disks.
intel_results()
{
	tar -xf "$OUTDIR/.rig/out.img" -C "$OUTDIR" --no-same-owner --no-overwrite-dir 2>/dev/null
	rm -f "$OUTDIR"/.rig/*.img "$OUTDIR"/.rig/*.img.lock "$OUTDIR/.rig/root.redo"
}
