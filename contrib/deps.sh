#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# deps.sh [--list DISTRO] [build|test|demo|all|matrix]: install what building, testing or showing
# kvmft needs (default build). Debian and Ubuntu: by apt, and only what is missing; if nothing is,
# nothing is changed and the network is not used. Fedora, Alpine, Arch: the package list is
# printed for the user to install.

set -eu

usage()
{
	cat <<-END
	Usage: deps.sh [--list debian|ubuntu|fedora|alpine|arch] [build|test|demo|all|matrix]
	Installs (Debian, Ubuntu) or lists the packages kvmft needs; default: build.
	  --list DISTRO   only print the list
	END
}

die()
{
	echo "deps.sh: $*" >&2
	exit 1
}

# The rig in tests/vm: runs an emulated KVM host and its guests.
DEBIAN_RIG="qemu-system-x86 qemu-guest-agent busybox-static iproute2 cpio kmod xz-utils zstd msr-tools util-linux perl"
DEBIAN_BUILD="gcc libc6-dev make pkg-config libtracefs-dev libtraceevent-dev libkmod-dev libzstd-dev zlib1g-dev
	libsqlite3-dev"
DEBIAN_TEST="clang libcmocka-dev trace-cmd mandoc cppcheck shellcheck codespell clang-tidy
	clang-format strace protobuf-compiler zsh fish dpkg-dev debhelper lintian
	nodejs chromium libkshark-dev libjson-c-dev libtracecmd-dev systemtap-sdt-dev g++ e2fsprogs less python3
	dropbear-bin socat sqlite3 musl-tools jq build-essential libclang-rt-dev mmdebstrap"

# tests/matrix: foreign roots, architectures and C libraries; what builds a QEMU, there and for tests/vm; a second
# browser for tests/html. Only for make check-all.
DEBIAN_MATRIX="gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
	gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross qemu-user-static
	meson ninja-build python3 libglib2.0-dev libpixman-1-dev libfdt-dev libattr1-dev libcap-ng-dev
	firefox-esr libvirt-daemon-system libvirt-clients prometheus prometheus-node-exporter"

FEDORA_RIG="qemu-system-x86 qemu-guest-agent busybox iproute-tc cpio kmod xz zstd msr-tools util-linux perl dpkg apt"
FEDORA_BUILD="gcc make pkgconf-pkg-config libtracefs-devel libtraceevent-devel kmod-devel
	libzstd-devel zlib-devel sqlite-devel"
FEDORA_TEST="clang clang-tools-extra compiler-rt libcmocka-devel perl-Test-Harness trace-cmd
	mandoc cppcheck ShellCheck codespell strace protobuf-compiler perf systemtap-sdt-devel
	gcc-c++ e2fsprogs dropbear socat sqlite"

ALPINE_RIG="qemu-system-x86_64 qemu-guest-agent busybox-static iproute2 cpio kmod xz zstd msr-tools util-linux perl dpkg
	apt coreutils"
ALPINE_BUILD="gcc musl-dev linux-headers make pkgconf libtracefs-dev libtraceevent-dev
	kmod-dev zstd-dev zlib-dev sqlite-dev"
ALPINE_TEST="clang clang-extra-tools compiler-rt cmocka-dev perl-utils trace-cmd mandoc
	cppcheck shellcheck py3-codespell strace protobuf perf g++ e2fsprogs dropbear dropbear-dbclient socat sqlite"

ARCH_RIG="qemu-system-x86 qemu-guest-agent busybox iproute2 cpio kmod xz zstd msr-tools util-linux perl dpkg apt"
ARCH_BUILD="gcc make pkgconf libtracefs libtraceevent kmod zstd zlib sqlite"
ARCH_TEST="clang compiler-rt cmocka trace-cmd mandoc cppcheck shellcheck codespell strace
	protobuf perf e2fsprogs dropbear socat sqlite"

perf_package()
{
	if [ "$1" = ubuntu ]; then
		echo linux-tools-generic
	else
		echo linux-perf
	fi
}

packages()
{
	matrix=
	case $1 in
	debian | ubuntu)
		build=$DEBIAN_BUILD rig=$DEBIAN_RIG matrix=$DEBIAN_MATRIX
		# Ubuntu has Firefox as a snap only.
		[ "$1" = debian ] || matrix=${matrix%firefox-esr}
		check="$DEBIAN_TEST $(perf_package "$1")"
		;;
	fedora)	build=$FEDORA_BUILD check=$FEDORA_TEST rig=$FEDORA_RIG ;;
	alpine)	build=$ALPINE_BUILD check=$ALPINE_TEST rig=$ALPINE_RIG ;;
	arch)	build=$ARCH_BUILD check=$ARCH_TEST rig=$ARCH_RIG ;;
	*)	die "no package list for '$1' (debian, ubuntu, fedora, alpine, arch)" ;;
	esac
	case $2 in
	build)	echo "$build" ;;
	demo)	echo "$build $rig" ;;
	test | all) echo "$build $rig $check" ;;
	matrix) echo "$build $rig $check $matrix" ;;
	esac | tr -s '[:space:]' '\n' | sort -u
}

# The distribution, or the family it says it belongs to.
distribution()
{
	ID='' ID_LIKE=''
	# shellcheck disable=SC1091 # the system's
	[ ! -r /etc/os-release ] || . /etc/os-release
	for id in $ID $ID_LIKE; do
		case $id in
		debian | ubuntu | fedora | alpine | arch)
			echo "$id"
			return
			;;
		esac
	done
	die "unknown distribution '$ID', see deps.sh --list"
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# apt_get ARGUMENT...: when another apt-get is at work, as after a boot or beside a second make, it is waited for.
apt_get()
{
	tries=0
	until said=$(as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o APT::Keep-Downloaded-Packages=false \
		"$@" 2>&1); do
		held=$(echo "$said" | sed -n 's/^E: Could not get lock \(.*\)/\1/p' | head -n 1)
		if [ -z "$held" ] || [ $tries -ge 600 ]; then
			echo "$said" | grep -v '^W: ' | tail -n 20 >&2
			return 1
		fi
		[ $tries != 0 ] || echo "deps.sh: waiting for $held" >&2
		tries=$((tries + 2))
		sleep 2
	done
}

install_missing()
{
	wanted=$(packages "$1" "$2")
	# shellcheck disable=SC2016,SC2086 # dpkg-query expands it; a list
	have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null | sed -n 's/ installed$//p')
	missing=$(echo "$wanted" | grep -vxF "${have:-/}" | tr '\n' ' ')
	missing=${missing% }
	[ -n "$missing" ] || return 0
	[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || die "not root and no sudo; as root: $(
		)apt-get update && apt-get install -y --no-install-recommends $missing"
	apt_get update || die "apt-get update failed; not installed: $missing"
	# shellcheck disable=SC2086 # a list
	size=$(LC_ALL=C apt-get install -o Debug::NoLocking=1 --assume-no --no-install-recommends $missing 2>/dev/null |
		sed -n 's/.* \([0-9]*\) newly installed.*/\1 packages/p; s/^Need to get \(.*B\) of arch.*/, \1 to fetch/p
			s/^After this operation, \(.*B\) of addit.*/, \1 on disk/p' | tr -d '\n')
	echo "deps.sh: installing $missing${size:+ ($size)}" >&2
	# shellcheck disable=SC2086 # a list
	apt_get install -y --no-install-recommends $missing || die "cannot install: $missing"
}

list=
set_name=
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--list)
		[ $# -gt 1 ] || { usage >&2; exit 2; }
		list=$2
		shift
		;;
	build | test | demo | all | matrix)
		[ -z "$set_name" ] || { usage >&2; exit 2; }
		set_name=$1
		;;
	*)
		usage >&2
		exit 2
		;;
	esac
	shift
done
set_name=${set_name:-build}

if [ -n "$list" ]; then
	packages "$list" "$set_name"
	exit 0
fi
distro=$(distribution)
case $distro in
debian | ubuntu)
	install_missing "$distro" "$set_name"
	;;
*)
	echo "deps.sh: packages to install on $distro:" >&2
	packages "$distro" "$set_name"
	;;
esac
