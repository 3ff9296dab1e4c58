# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: get a Debian kernel without installing it.
#
# A kernel is named by version (6.1, 6.12, 7.0), by Debian suite (bookworm-backports, sid), by
# a .deb or by an unpacked tree. Whatever it was, the result is one folder in the cache:
#	version		kernel release, e.g. 6.1.0-37-amd64; written last, so it means "complete"
#	vmlinuz		the image
#	vmlinux		the same decompressed, which saves seconds at each boot
#	lib/modules/R/	its modules, with modules.dep
# Its architecture is Debian's $KERNEL_ARCH.
# lib/apt.sh does the download.

# Which suite has this kernel. Only the newest of a branch is on a mirror, so a branch is a
# suite.
kernel_suite()
{
	case $1 in
	6.1)	echo bookworm ;;
	6.12)	echo trixie ;;
	7 | 7.*) echo sid ;;
	*)	echo "$1" ;;
	esac
}

# Download and unpack the packages of suite $2's kernel into $1/tree.
kernel_download()
{
	dl_suite=$2
	# shellcheck disable=SC2034 # for apt_run
	[ "$KERNEL_ARCH" = amd64 ] || APT_ARCH=$KERNEL_ARCH
	apt_update "$dl_suite" || exit "$RIG_FAILED"
	# The metapackage names the real one; from 7.0 on that is split in several.
	dl_pkgs=$(apt_run "$dl_suite" apt-cache depends --recurse --important \
			"linux-image-$KERNEL_ARCH" |
		grep -E "^linux-(image|binary|modules|base)-[0-9][^ ]*-$KERNEL_ARCH\$" | sort -u)
	[ -n "$dl_pkgs" ] || die "no linux-image-$KERNEL_ARCH in suite $dl_suite"
	# shellcheck disable=SC2086 # a list of package names
	apt_fetch "$dl_suite" "$1" $dl_pkgs || exit "$RIG_FAILED"
}

# Decompress the payload of bzImage $1: its place is in the setup header, offsets from
# Documentation/arch/x86/boot.rst. The last 4 bytes are the unpacked size. An image of arm64 is not
# compressed.
kernel_extract()
{
	if [ "$KERNEL_ARCH" = arm64 ]; then
		cat "$1"
		return
	fi
	ext_sects=$(od -An -tu1 -j 497 -N 1 "$1")
	ext_offset=$(od -An -tu4 -j 584 -N 4 "$1")
	ext_length=$(od -An -tu4 -j 588 -N 4 "$1")
	ext_start=$(((ext_sects + 1) * 512 + ext_offset))
	case $(od -An -tx1 -j "$ext_start" -N 4 "$1" | tr -d ' ') in
	fd377a58)	ext_tool="xz -dcq" ;;
	28b52ffd)	ext_tool="zstd -dcq" ;;
	1f8b*)		ext_tool="gzip -dcq" ;;
	*)		return 1 ;;
	esac
	tail -c "+$((ext_start + 1))" "$1" | head -c "$((ext_length - 4))" | $ext_tool
}

# Bring an unpacked tree into the form described on top.
kernel_finish()
{
	fin_dir=$1
	fin_image=$(find "$fin_dir/tree" -name 'vmlinuz*' -type f | sort | tail -n 1)
	fin_mods=$(find "$fin_dir/tree" -path '*/lib/modules/*' -prune -type d | tail -n 1)
	if [ -z "$fin_image" ] || [ -z "$fin_mods" ]; then
		die "no vmlinuz or no lib/modules/* in the kernel package ($fin_dir/tree)"
	fi
	fin_version=${fin_mods##*/}
	mkdir -p "$fin_dir/lib/modules"
	mv "$fin_image" "$fin_dir/vmlinuz"
	mv "$fin_mods" "$fin_dir/lib/modules/"
	rm -rf "$fin_dir/tree"
	kernel_extract "$fin_dir/vmlinuz" >"$fin_dir/vmlinux" ||
		die "cannot decompress $fin_dir/vmlinuz"
	depmod -b "$fin_dir" "$fin_version" || die "depmod failed for $fin_version"
	echo "$fin_version" >"$fin_dir/version"
}

# Fill the folder $1 from the kernel named $2.
kernel_fetch()
{
	fetch_dir=$1
	fetch_spec=$2
	fetch_tmp=$fetch_dir.tmp.$$
	rm -rf "$fetch_tmp"
	mkdir -p "$fetch_tmp/tree"
	case $fetch_spec in
	*.deb)	dpkg-deb -x "$fetch_spec" "$fetch_tmp/tree" || die "cannot unpack $fetch_spec" ;;
	/*)	cp -a "$fetch_spec/." "$fetch_tmp/tree/" || die "cannot copy $fetch_spec" ;;
	*)	kernel_download "$fetch_tmp" "$(kernel_suite "$fetch_spec")" ;;
	esac
	kernel_finish "$fetch_tmp"
	rm -rf "$fetch_dir"
	mv "$fetch_tmp" "$fetch_dir"
}

# Print the cache folder of kernel $1, filling it first if need be. A lock, because several
# runs may start at once on a cold cache.
kernel_prepare()
{
	prep_spec=$1
	case $prep_spec in
	*/* | *.deb)
		[ -e "$prep_spec" ] || die "no such kernel: $prep_spec"
		prep_spec=$(realpath "$prep_spec")
		prep_key=path-$(echo "$prep_spec" | md5sum | cut -c1-12)
		;;
	*)	prep_key=$prep_spec ;;
	esac
	[ "$KERNEL_ARCH" = amd64 ] || prep_key=$prep_key-$KERNEL_ARCH
	prep_dir=$KVMFT_CACHE/kernels/$prep_key
	mkdir -p "$KVMFT_CACHE/kernels"
	(
		flock 9
		[ -s "$prep_dir/version" ] && [ "${REFRESH:-0}" = 0 ] && exit 0
		kernel_fetch "$prep_dir" "$prep_spec"
	) 9>"$KVMFT_CACHE/kernels/.lock-$prep_key" || exit
	echo "$prep_dir"
}
