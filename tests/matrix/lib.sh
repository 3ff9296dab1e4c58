# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# For cells.t: foreign places to build in, kept in the cache of the rig and never installed.
#
# Each returns 1 after telling why on stdout, which becomes the reason of a skip.

KVMFT_CACHE=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft}
roots=$KVMFT_CACHE/roots

note()
{
	echo "matrix: $*" >&2
}
# shellcheck disable=SC2154 # top and tmp are the caller's
. "$top/tests/vm/lib/apt.sh"

# need COMMAND PACKAGE
need()
{
	command -v "$1" >/dev/null || { echo "$1 is not installed (package $2)"; return 1; }
}

# root_prepare SUITE NAME [PACKAGE]...: a minimal root of Debian's suite with certificates, git, make and these, in
# $roots/NAME; made anew when they are others.
root_prepare()
{
	apt_locked root_prepare_alone "$@"
}

root_prepare_alone()
{
	suite=$1 name=$2
	shift 2
	[ -e "$roots/$name/packages" ] && [ "$(cat "$roots/$name/packages")" = "$*" ] && return
	need mmdebstrap mmdebstrap || return
	[ "$(id -u)" = 0 ] || { echo "only root makes a chroot"; return 1; }
	mkdir -p "$roots"
	# Another checkout's test may be in there.
	[ ! -d "$roots/$name" ] || flock "$roots/$name/packages" rm -rf "${roots:?}/$name"
	rm -rf "${roots:?}/$name.tmp"
	# It makes pipes that dash writes to, which knows no descriptor beyond 9: those of prove and locks are not its.
	# shellcheck disable=SC2154 # tmp
	if ! mmdebstrap --variant=minbase --include="$(echo ca-certificates git make "$@" | tr ' ' ,)" "$suite" \
		"$roots/$name.tmp" "$(apt_mirror)" >"$tmp/mmdebstrap.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; then
		echo "no root of $suite: $(grep '^E: ' "$tmp/mmdebstrap.log" | head -n 1)"
		return 1
	fi
	echo "$*" >"$roots/$name.tmp/packages"
	mv "$roots/$name.tmp" "$roots/$name"
}

# in_root NAME FOLDER COMMAND...: in that root, or in that of the path NAME, with the checkout at /src (also the working
# folder), the folder at /out, and a /tmp of its own. The mounts are seen by the command alone.
in_root()
{
	case $1 in
	/*) root=$1 ;;
	*) root=$roots/$1 ;;
	esac
	root_out=$2
	shift 2
	mkdir -p "$root/src" "$root/out" "$root_out"
	# shellcheck disable=SC2016 # the inner shell's
	flock -s "$root/packages" unshare -m sh -c '
		root=$1 src=$2 out=$3
		shift 3
		mount --bind "$root" "$root" &&
			mount --bind "$src" "$root/src" && mount --bind "$out" "$root/out" &&
			mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" &&
			mount --rbind /dev "$root/dev" &&
			mount -t tmpfs tmpfs "$root/tmp" &&
			exec timeout 7200 chroot "$root" sh -c "cd /src && exec \"\$@\"" sh "$@"' sh \
		"$root" "$top" "$root_out" "$@"
}

# cross_machine NAME: of which architecture the functions below are; sets $cross_triplet, $cross_tree and so on. Debian 12
# has no riscv64.
cross_machine()
{
	cross_name=$1 cross_suite=bookworm
	case $1 in
	arm64) cross_cpu=aarch64 cross_triplet=aarch64-linux-gnu ;;
	riscv64) cross_cpu=riscv64 cross_triplet=riscv64-linux-gnu cross_suite=trixie ;;
	ppc64el) cross_cpu=ppc64le cross_triplet=powerpc64le-linux-gnu ;;
	esac
	cross_tree=$roots/$1/tree
	cross_libs=$cross_tree/usr/lib/$cross_triplet
}

# Its libraries, unpacked in $cross_tree.
cross_prepare()
{
	need "$cross_triplet-gcc" "gcc-$cross_triplet" || return
	need "qemu-$cross_cpu-static" qemu-user-static || return
	[ -z "$(cross_loader)" ] || return 0
	mkdir -p "$roots"
	rm -rf "$roots/$cross_name.tmp"
	if ! (
		APT_ARCH=$cross_name
		apt_update "$cross_suite" && apt_fetch "$cross_suite" "$roots/$cross_name.tmp" libc6 libtracefs-dev libtracefs1 \
			libtraceevent-dev libtraceevent1 libkmod-dev libcmocka-dev libcmocka0 libzstd1 libzstd-dev zlib1g \
			zlib1g-dev libsqlite3-0 libsqlite3-dev
	) >"$tmp/$cross_name.log" 2>&1; then
		echo "no packages of $cross_name: $(tail -n 1 "$tmp/$cross_name.log")"
		return 1
	fi
	rm -rf "${roots:?}/$cross_name"
	mv "$roots/$cross_name.tmp" "$roots/$cross_name"
}

# Older packages have it below /lib.
cross_loader()
{
	find "$cross_tree" -path "*/$cross_triplet/ld*.so.*" -type f 2>/dev/null | head -n 1
}

# run_cross PROGRAM...: not by -L of QEMU, where a program that opens / would be in there.
run_cross()
{
	timeout 900 "qemu-$cross_cpu-static" "$(cross_loader)" \
		--library-path "$cross_libs:$cross_tree/lib/$cross_triplet" "$@"
}

# The source of cmocka, one file, in $roots/cmocka: Debian has none for musl.
cmocka_prepare()
{
	[ -e "$roots/cmocka/src/cmocka.c" ] && return
	mkdir -p "$roots"
	rm -rf "$roots/cmocka.tmp"
	mkdir "$roots/cmocka.tmp"
	if ! (
		apt_source bookworm "$roots/cmocka.tmp" --download-only cmocka && cd "$roots/cmocka.tmp" &&
			tar -xf cmocka_*.orig.tar.?z --strip-components=1
	) >"$tmp/cmocka.log" 2>&1; then
		echo "no source of cmocka: $(tail -n 1 "$tmp/cmocka.log")"
		return 1
	fi
	rm -rf "$roots/cmocka"
	mv "$roots/cmocka.tmp" "$roots/cmocka"
}
