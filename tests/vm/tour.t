#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# kvmft-tour(7): `make tour` makes the captures of all its walks, and each command that is printed behind a $ works on
# them. WALKS chooses; TOUR=DIR: with captures that are there.

. "$(dirname "$0")/tap.sh"

page=$top/man/kvmft-tour.7
walks=$(sed -n 's|^\.Pa build/tour/\([a-z]*\) \.$|\1|p' "$page")
is "$(sed -n 's/^\.Nd a guided tour of \([a-z]*\) walks: .*/\1/p' "$page")" eight "NAME says how many walks"
is "$(echo "$walks" | wc -l | tr -d ' ')" 8 "... and so many have captures"
if [ -z "${TOUR:-}" ]; then
	TOUR=$tmp/tour
	# shellcheck disable=SC2086 # a list
	ok "contrib/tour" env KVMFT="$plain" TOUR="$TOUR" sh "$top/contrib/tour" ${WALKS:-}
fi
mkdir "$tmp/bin"
ln -s "$(realpath "$kvmft")" "$tmp/bin/kvmft"
PATH=$tmp/bin:$PATH
for walk in ${WALKS:-$walks}; do
	# What is behind a $, with the lines that a \ joins to it.
	awk -v walk="$walk" '
		/^\.Pa build\/tour\// { on = $2 == "build/tour/" walk }
		on && (more || sub(/^\$ /, "")) { more = sub(/\\e$/, ""); printf "%s%s", $0, more ? "" : "\n" }' \
		"$page" >"$tmp/commands"
	ok "$walk: has commands" test -s "$tmp/commands"
	while read -r line; do
		# A wrong offset, and clocks that are ill.
		case $line in
		*--tsc-offset\ -27679026482\ host* | "kvmft clock host") want=1 ;;
		*) want=0 ;;
		esac
		(cd "$TOUR/$walk" && sh -c "$line") >"$out" 2>"$err" </dev/null
		rc=$?
		is "$rc" $want "$walk: $line"
		[ $rc = $want ] || sed 's/^/# /' "$err"
		ok "... says something" test -s "$out" -o -s "$err"
	done <"$tmp/commands"
done
finish
