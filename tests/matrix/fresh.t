#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# README's commands, typed on fresh machines: minimal roots of Debian 12 and 13 that have git, make and certificates
# (tests/matrix/lib.sh makes them), as root and as a user without sudo. Nothing of this machine is in there but its
# kernel and its network.
#
#   SUITES=bookworm WHO=an_admin BUILDERS=u tests/matrix/fresh.t

. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/lib.sh"

# machine: a fresh one, which has a user u, and this checkout's sources.
machine()
{
	rm -rf "${tmp:?}/machine" "${tmp:?}/src"
	mkdir "$tmp/src"
	# shellcheck disable=SC2016 # the inner shell's
	ok "$suite: a fresh machine" sh -ec 'cp -a "$1" "$2/machine"; chroot "$2/machine" useradd -u 1000 -m u
		tar -xf "$2/dist.tar.gz" -C "$2/src" --strip-components=1' sh "$roots/$suite-fresh" "$tmp"
}

# types WHO COMMAND: logged in as WHO, in a checkout of his own.
types()
{
	what="$suite, $1: $(echo "$2" | cut -c1-60)"
	[ "$1" = root ] && uid=0 || uid=1000
	chown -R "$uid" "$tmp/src"
	begin=$(date +%s)
	run on_machine "$1" "$2"
	echo "# $what: exit $rc, $(($(date +%s) - begin)) s"
	[ "$rc" = 0 ] || tail -n 40 "$out" | sed 's/^/# the end of it: /'
}

# shellcheck disable=SC2317 # run calls it
on_machine()
{
	in_root "$tmp/machine" "$tmp/src" su - "$1" -c "cd /out && $2"
}

demo_ends_well()
{
	status_is 0 "$what"
	is "$(tail -n 1 "$out" | grep -cE 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside')" 1 \
		"... its last line: no guest event is outside"
}

# builds WHO
builds()
{
	types "$1" "make clean && make"
	status_is 0 "$what"
	types "$1" "LINTIAN=1 make deb"
	status_is 0 "$what: without an error or a warning of lintian"
	out_has '^build/kvmft_[^ ]*\.deb$|/kvmft_[^ ]*\.deb$' "... and the package is there"
	types "$1" "TESTS=\"\$(ls tests/unit/test_*.c | sed 's,^,build/san/,; s,\.c\$,,')\" make check"
	status_is 0 "$1: the unit part of make check"
	is "$(tail -n 1 "$out" | grep -cE '^[1-9][0-9]{2,} passed, 0 failed, ')" 1 "... $(tail -n 1 "$out")"
}

a_user()
{
	machine
	types u "make demo"
	line=$(sed -n 's/^deps.sh: not root and no sudo; as root: //p' "$err")
	is "$(echo "$line" | grep -c '^apt-get .* libc6-dev ')" 1 "$what: without packages: one line to paste"
	types root "$line"
	status_is 0 "$what"
	types u "make demo"
	demo_ends_well
}

an_admin()
{
	machine
	types root "make demo"
	demo_ends_well
	types root "make deps"
	status_is 0 "$what"
	for builder in ${BUILDERS:-root u}; do
		builds "$builder"
	done
}

"${MAKE_PROGRAM:-make}" -C "$top" NODEPS=1 O="$tmp/dist" dist >"$tmp/dist.log" 2>&1
mv "$tmp"/dist/*.tar.gz "$tmp/dist.tar.gz"
for suite in ${SUITES:-bookworm trixie}; do
	if why=$(root_prepare "$suite" "$suite-fresh"); then
		for who in ${WHO:-a_user an_admin}; do
			$who
		done
	else
		skip "$suite" "$why"
	fi
done
finish
