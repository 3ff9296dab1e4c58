# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # OUTDIR, RIG_* and so on are those of run
#
# Outer side of the rig: L1 on an arm64 CPU, which QEMU emulates with EL2.
#
# The outer machine's programs do not run there, so both levels have a root of Debian's arm64 packages,
# unpacked in the cache and never installed, and from the outer root the folders that a run needs. The
# program under test is cross-built from this checkout with the libraries of that root.

ARM64_SUITE=bookworm
# The programs of scenarios, QEMU for L2, libraries and headers of kvmft.
ARM64_PACKAGES="base-files base-passwd bash busybox-static coreutils dash diffutils findutils gawk grep gzip
	hostname kmod linux-perf mount perl-base procps qemu-system-arm sed tar trace-cmd util-linux
	libc6-dev libkmod-dev libtraceevent-dev libtracefs-dev libzstd-dev zlib1g-dev"

# No EFI: QEMU enters the image at EL2.
ARM64_MACHINE="virt,virtualization=on,gic-version=3"

# What run takes for --cpu $CPU. "max" has VHE and a counter of 1 GHz, cortex-a72 neither: 62.5 MHz.
arm64_defaults()
{
	ARM64_CPU=max,pauth-impdef=on
	[ "$CPU" = arm64 ] || ARM64_CPU=cortex-a72
	CPU=arm64 KERNEL_ARCH=arm64 QEMU_CPU=aarch64 QEMU_PACKAGE=qemu-system-arm
	RIG_GUEST_MACHINE=virt,gic-version=3
	CMDLINE=$(echo "$CMDLINE" | sed 's/ttyS0/ttyAMA0/')
}

# arm64_packages DIR: the packages with all that they depend on, into DIR/tree. Directories that are links
# (/bin) stay links.
arm64_packages()
{
	APT_ARCH=arm64
	apt_update "$ARM64_SUITE" || return
	pack_debs=$(apt_folder "$ARM64_SUITE")/cache/archives
	rm -f "$pack_debs"/*.deb
	: >"$1/status"
	# shellcheck disable=SC2086 # a list of package names
	apt_run "$ARM64_SUITE" apt-get -o Dir::State::status="$1/status" -o Debug::NoLocking=1 -y \
		--no-install-recommends --download-only install $ARM64_PACKAGES || return
	for pack_dir in bin lib sbin; do
		mkdir -p "$1/tree/usr/$pack_dir"
		ln -s "usr/$pack_dir" "$1/tree/$pack_dir"
	done
	for pack_deb in "$pack_debs"/*.deb; do
		dpkg-deb --fsys-tarfile "$pack_deb" |
			tar -xf - -C "$1/tree" --no-same-owner --keep-directory-symlink || return
	done
	rm -f "$pack_debs"/*.deb
	# What an installation would have made.
	ln -s gawk "$1/tree/usr/bin/awk"
	cp "$1/tree/usr/share/base-passwd/passwd.master" "$1/tree/etc/passwd"
	cp "$1/tree/usr/share/base-passwd/group.master" "$1/tree/etc/group"
}

arm64_fill()
{
	command -v aarch64-linux-gnu-gcc >/dev/null || {
		echo "gcc-aarch64-linux-gnu is not installed (contrib/deps.sh matrix)" >"$1.failed"
		touch -d @0 "$1.failed" # once it is installed, the next run goes on
		return 1
	}
	note "fetching Debian's arm64 packages, once"
	fill_tmp=$1.tmp.$$
	rm -rf "$fill_tmp" "$1.failed"
	mkdir -p "$fill_tmp"
	if (arm64_packages "$fill_tmp") >"$1.log" 2>&1; then
		rm -rf "$1"
		mv "$fill_tmp/tree" "$1"
		rm -rf "$fill_tmp"
		return
	fi
	rm -rf "$fill_tmp"
	log_reason "$1.log" >"$1.failed"
	return 1
}

# Print the root's folder, filling it first if need be. 1 after telling why not.
arm64_prepare_root()
{
	# Its name carries a hash of how it is made.
	arm_dir=$KVMFT_CACHE/arm64/$ARM64_SUITE-$(sed -n '/^ARM64_SUITE=/,/^$/p; /^arm64_packages()/,/^}/p' \
		"$VM_DIR/lib/arm64.sh" | md5sum | cut -c1-8)
	mkdir -p "$KVMFT_CACHE/arm64"
	if (
		flock 9
		[ -x "$arm_dir/usr/bin/qemu-system-aarch64" ] && [ "${REFRESH:-0}" = 0 ] && exit 0
		[ -z "$(find "$arm_dir.failed" -mmin -60 2>/dev/null)" ] || exit 1
		arm64_fill "$arm_dir"
	) 9>"$KVMFT_CACHE/arm64/.lock"; then
		echo "$arm_dir"
	else
		note "an arm64 root cannot be had: $(cat "$arm_dir.failed"); the log is $arm_dir.log"
		return 1
	fi
}

# arm64_build ROOT: kvmft and two small tools for arm64, from this checkout; prints kvmft's path.
arm64_build()
{
	build_dir=$PROJECT/build/arm64
	build_libs=$1/usr/lib/aarch64-linux-gnu
	mkdir -p "$build_dir"
	if ! {
		env PKG_CONFIG_LIBDIR="$build_libs/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$1" \
			make -C "$PROJECT" NODEPS=1 O="$build_dir" CC=aarch64-linux-gnu-gcc \
			CROSS_COMPILE=aarch64-linux-gnu- PKG_CONFIG=pkg-config \
			LDFLAGS="--sysroot=$1 -L$build_libs -Wl,-rpath-link,$build_libs" all &&
			for build_tool in tinyvm64 cntvct; do
				aarch64-linux-gnu-gcc -O1 -static -o "$build_dir/$build_tool" \
					"$VM_DIR/$build_tool.c" || exit
			done
	} >"$build_dir/make.log" 2>&1; then
		note "kvmft for arm64 cannot be had: $(log_reason "$build_dir/make.log"); the log is $build_dir/make.log"
		return 1
	fi
	echo "$build_dir/kvmft"
}

# The outer folders that both levels see besides that root.
arm64_binds()
{
	printf '%s\n' "$PROJECT" "$(dirname "$KVMFT")" "$KVMFT_CACHE" "$SCENARIO_DIR"
}

# arm64_start SECONDS: the emulated host in the background; $HOST_PID is its timeout(1).
arm64_start()
{
	# shellcheck disable=SC2086 # a command with options
	timeout -k 5 "$1" $RIG_HOST_QEMU -machine "$ARM64_MACHINE" -cpu "$ARM64_CPU" -smp "$HOST_CPUS" \
		-m "$HOST_MEM" -nodefaults -no-user-config -display none -no-reboot \
		-kernel "$RIG_HOST_KERNEL/$RIG_IMAGE" -initrd "$RIG_HOST_INITRAMFS" \
		-append "$CMDLINE rig.role=host rig.name=host rig.results=$OUTDIR \
rig.modules=$RIG_HOST_KERNEL/lib/modules rig.root=1 $HOST_CMDLINE" \
		-serial "file:$OUTDIR/console-host.log" \
		-virtfs "local,path=/,mount_tag=outer,readonly=on,security_model=none,multidevs=remap" \
		-virtfs "local,path=$OUTDIR,mount_tag=results,security_model=none" \
		-virtfs "local,path=$RIG_ROOT,mount_tag=root,readonly=on,security_model=none" \
		</dev/null 2>"$OUTDIR/qemu-host.log" &
	HOST_PID=$!
}
