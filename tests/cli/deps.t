#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# contrib/deps.sh: what it says, waits for and asks a user to type, with an apt-get that this test wrote; and its list:
# in a minimal Debian 12 with that list, kvmft builds. (tests/matrix/fresh.t has all of README's commands.)

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../matrix/lib.sh"

deps=$top/contrib/deps.sh
for distro in debian ubuntu fedora alpine arch; do
	sh "$deps" --list $distro build >"$tmp/build"
	for set in demo test all matrix; do
		sh "$deps" --list $distro $set >"$tmp/set"
		is "$(comm -23 "$tmp/build" "$tmp/set")" "" "$distro: $set has what the build needs"
	done
done
for package in jq build-essential libclang-rt-dev; do
	ok "make deps on Debian: $package" sh -c "sh '$deps' --list debian all | grep -qx $package"
done

# ---- what it does ----

# A machine that lacks three packages, where another apt-get holds a lock for two tries of what FAKE_BUSY says.
mkdir "$tmp/bin"
cat >"$tmp/bin/dpkg-query" <<'END'
#!/bin/sh
echo query >>"$FAKE/queries"
shift 3
for p; do
	case $p in
	gcc | jq) ;;
	zstd) echo zstd not-installed ;;
	*) echo "$p installed" ;;
	esac
done
END
cat >"$tmp/bin/apt-get" <<'END'
#!/bin/sh
echo "$*" >>"$FAKE/calls"
case " $* " in
*" --assume-no "*)
	printf '0 upgraded, 7 newly installed, 0 to remove and 0 not upgraded.\nNeed to get 12.3 MB of archives.\n'
	echo 'After this operation, 45.6 MB of additional disk space will be used.'
	exit 1
	;;
*" ${FAKE_BUSY:-nothing} "*)
	[ "$(grep -v -e --assume-no "$FAKE/calls" | grep -c " $FAKE_BUSY\>")" -lt 3 ] || exit 0
	echo 'Reading package lists...'
	echo "E: Could not get lock /var/lib/apt/$FAKE_BUSY. It is held by process 7 (apt-get)"
	exit 100
	;;
*" ${FAKE_FAILS:-nothing} "*)
	echo 'E: Unable to locate package gcc'
	exit 100
	;;
esac
END
# shellcheck disable=SC2016 # for that shell
printf '#!/bin/sh\necho "$FAKE_UID"\n' >"$tmp/bin/id"
printf '#!/bin/sh\n' >"$tmp/bin/sleep"
chmod 755 "$tmp/bin"/*

# as UID [NAME=VALUE]... COMMAND...
as()
{
	rm -f "$tmp/calls" "$tmp/queries"
	uid=$1
	shift
	run env FAKE="$tmp" FAKE_UID="$uid" PATH="$tmp/bin:$PATH" "$@"
}

if grep -q '^ID=debian' /etc/os-release; then
	as 0 sh "$deps" test
	status_is 0 "root: installs"
	is "$(cat "$err")" "deps.sh: installing gcc jq zstd (7 packages, 12.3 MB to fetch, 45.6 MB on disk)" \
		"... one line says what and how much"
	is "$(wc -l <"$tmp/queries")" 1 "... dpkg is asked once"
	file_has "$tmp/calls" '^-o [^ ]*=false install -y --no-install-recommends gcc jq zstd$' "... that, and no more"
	for busy in update install; do
		as 0 FAKE_BUSY=$busy sh "$deps" test
		status_is 0 "another apt-get is at work when $busy begins"
		is "$(grep -c "^deps.sh: waiting for /var/lib/apt/$busy. It is held by process 7 (apt-get)$" "$err")" 1 \
			"... which is said once"
		is "$(grep -v -e --assume-no "$tmp/calls" | grep -c " $busy\>")" 3 "... and waited for"
	done
	as 0 FAKE_FAILS=update sh "$deps" test
	status_is 1 "apt-get update fails"
	err_has '^E: Unable to locate' "... apt's reason is shown"
	as 0 FAKE_FAILS=install sh "$deps" test
	status_is 1 "apt-get install fails"
	err_has '^deps.sh: cannot install: gcc jq zstd$' "... with what it was"
	if command -v sudo >/dev/null; then
		skip "a user without sudo" "there is a sudo"
	else
		as 1000 sh "$deps" test
		status_is 1 "a user without sudo"
		is "$(cat "$err")" "deps.sh: not root and no sudo; as root: $(
			)apt-get update && apt-get install -y --no-install-recommends gcc jq zstd" "... gets one line to paste"
		ok "... and nothing was tried" test ! -e "$tmp/calls"
	fi
else
	skip "what deps.sh does" "this is no Debian"
fi

# ---- its list ----

# shellcheck disable=SC2046 # a list
if why=$(root_prepare bookworm bookworm-build $(sh "$deps" --list debian build)); then
	ok "a minimal Debian 12 with the build list: kvmft builds" in_root bookworm-build "$tmp/out" \
		make NODEPS=1 -j"$(nproc)" O=/out CFLAGS=-O0 CPPFLAGS=-g0
	run in_root bookworm-build "$tmp/out" /out/kvmft --version
	status_is 0 "... and runs"
else
	skip "a minimal Debian 12 with the build list" "$why"
fi
finish
