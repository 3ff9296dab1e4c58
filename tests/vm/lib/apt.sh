# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: Debian packages of any suite, without installing them.
#
# The machine's apt sources are read (for the mirror) and never changed: a private
# configuration with its own sources, state and cache folders does the download, so a suite
# need not be in the machine's sources.

# The Debian mirror this machine already uses. Lists may not have been fetched yet (a fresh
# container), in which case there is no origin to go by, only the address.
apt_mirror()
{
	if [ -n "${KVMFT_MIRROR:-}" ]; then
		echo "$KVMFT_MIRROR"
		return
	fi
	# shellcheck disable=SC2016 # apt expands these, not the shell
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" { print $NF; found = 1; exit }
			$NF ~ /\/debian\/?$/ && !any { any = $NF }
			END { if (!found && any) print any }'
}

# apt_folder SUITE: where the private configuration of a suite is. Packages are those of amd64, or of
# $APT_ARCH.
apt_folder()
{
	echo "$KVMFT_CACHE/apt/$1${APT_ARCH:+-$APT_ARCH}"
}

# apt_run SUITE COMMAND [ARGUMENTS]: apt-get or apt-cache, knowing nothing but SUITE. Lists stay compressed, as they are
# read once: 20 MB of a suite, not 180.
apt_run()
{
	apt_dir=$(apt_folder "$1")
	apt_cmd=$2
	shift 2
	"$apt_cmd" -qq -o Dir::Etc::sourcelist="$apt_dir/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State="$apt_dir/state" -o Dir::Cache="$apt_dir/cache" \
		-o Acquire::Languages=none -o Acquire::Retries=3 \
		-o Acquire::GzipIndexes=true -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
		-o APT::Architecture="${APT_ARCH:-amd64}" -o APT::Architectures="${APT_ARCH:-amd64}" \
		-o APT::Sandbox::User="$(id -un)" "$@"
}

# apt_locked COMMAND...: apt refuses a folder that another run's apt is at work in, as when an AMD and an Intel host
# are made ready at the same time on a new machine.
apt_locked()
{
	mkdir -p "$KVMFT_CACHE/apt"
	(
		if ! flock -n 9; then
			note "waiting for the downloads of another run"
			flock 9
		fi
		"$@"
	) 9>"$KVMFT_CACHE/apt/lock"
}

# apt_update SUITE: fetch its package list. 1 after a message if that is impossible.
apt_update()
{
	apt_locked apt_update_alone "$@"
}

apt_update_alone()
{
	upd_dir=$(apt_folder "$1")
	upd_keys=/usr/share/keyrings/debian-archive-keyring.gpg
	upd_mirror=$(apt_mirror)
	if [ -z "$upd_mirror" ]; then
		note "no Debian mirror in this machine's apt sources (set KVMFT_MIRROR=URI)"
		return 1
	fi
	mkdir -p "$upd_dir/state/lists/partial" "$upd_dir/cache/archives/partial"
	[ -r "$upd_keys" ] && upd_keys="[signed-by=$upd_keys] " || upd_keys=
	echo "deb $upd_keys$upd_mirror $1 main" >"$upd_dir/sources.list"
	if ! apt_run "$1" apt-get -o APT::Update::Error-Mode=any update >&2; then
		note "cannot read suite $1 of $upd_mirror"
		return 1
	fi
}

# apt_fetch SUITE DIR PACKAGE...: download into the empty folder DIR/deb and unpack into
# DIR/tree. 1 after a message if one of them cannot be had.
apt_fetch()
{
	apt_locked apt_fetch_alone "$@"
}

apt_fetch_alone()
{
	fetch_suite=$1
	fetch_into=$2
	shift 2
	note "fetching $*"
	mkdir -p "$fetch_into/deb" "$fetch_into/tree"
	if ! (cd "$fetch_into/deb" && apt_run "$fetch_suite" apt-get download "$@" >&2); then
		note "cannot download $*"
		return 1
	fi
	for fetch_deb in "$fetch_into"/deb/*.deb; do
		if ! dpkg-deb -x "$fetch_deb" "$fetch_into/tree"; then
			note "cannot unpack $fetch_deb"
			return 1
		fi
	done
	rm -rf "$fetch_into/deb"
}

# apt_source SUITE DIR [OPTION...] PACKAGE: a source package into the folder DIR, unpacked with Debian's
# patches unless an option says otherwise. 1 when it cannot be had.
apt_source()
{
	apt_locked apt_source_alone "$@"
}

apt_source_alone()
{
	source_suite=$1
	source_into=$2
	shift 2
	apt_update_alone "$source_suite" || return
	source_list=$(apt_folder "$source_suite")/sources.list
	source_deb=$(cat "$source_list")
	{
		echo "$source_deb"
		echo "$source_deb" | sed 's/^deb /deb-src /'
	} >"$source_list"
	mkdir -p "$source_into"
	apt_run "$source_suite" apt-get update &&
		(cd "$source_into" && apt_run "$source_suite" apt-get source "$@")
	source_got=$?
	echo "$source_deb" >"$source_list"
	return "$source_got"
}

# log_reason LOG: its line that says why it ended.
log_reason()
{
	grep -E '^(E:|run:)|rror:|not found|cannot' "$1" | head -n 1 | sed 's/^run: //' | grep . ||
		grep -v '^$' "$1" | tail -n 1
}
