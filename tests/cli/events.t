#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft-events(7) has all events of KVM, says of each what records it, and whether an analysis uses it. Profiles of
# kvmft record.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

page=$top/man/kvmft-events.7
known=$tmp/known
sed -n 's/^\.It Cm \([a-z_]*\) Pq .*/\1/p' "$page" | sort >"$known"

# ---- the page and the sources ----

is "$(sed -n 's/^\([a-z_]*\) .*/\1/p' "$top/tests/data/kvm-events.txt" | sort | comm -23 - "$known")" "" \
	"every event of Linux 5.10 to 7.2 is in the manual"
is "$(uniq -d "$known")" "" "... once"

# recorded_by WORD SET: the events with that word are those of the set in the sources
recorded_by()
{
	sed -n "/^\.It Cm .* Pq .*\b$1\b/s/^\.It Cm \([a-z_]*\) .*/\1/p" "$page" | sort >"$tmp/page"
	sed -n "/ set_$2\[\]/,/^};/s/.*\"kvm[mu]*:\([a-z_]*\)\".*/\1/p" "$top/src/record/what.c" | sort |
		comm -12 - "$known" >"$tmp/set"
	is "$(wc -l <"$tmp/set" | tr -d ' ')" "$3" "the set $2 has as many events of KVM"
	ok "... which the manual says" diff "$tmp/set" "$tmp/page"
}
recorded_by default host 49
recorded_by lean lean 3
recorded_by mem mem 13
recorded_by always clock 4

# A role, or a class of report, is what an analysis looks at.
sed -n 's/.*{ "kvm[mu]*", "\([a-z_|]*\)".*/\1/p' "$top/src/events/roles.c" | tr '|' '\n' >"$tmp/roles"
grep -oE '([{] |TP[(])"kvm_[a-z_]+"' "$top/src/exits/classes.c" | sed 's/.*"\(.*\)"/\1/' >>"$tmp/roles"
echo kvm_exit >>"$tmp/roles" # of the architectures
sort -u "$tmp/roles" | comm -12 - "$known" >"$tmp/have"
awk '/^\.It Cm/ { name = $3 } /^Used by/ { print name }' "$page" | sort >"$tmp/used"
ok "the manual says of those with a role that they are used" diff "$tmp/have" "$tmp/used"

# ---- on this machine ----

need_tracefs profiles
events=/sys/kernel/tracing/events
if ! [ -d "$events/kvm" ]; then
	skip "profiles" "this kernel has no events of KVM"
	finish
fi
is "$(ls -d "$events"/kvm/*/ "$events"/kvmmmu/*/ 2>/dev/null | sed 's,/$,,; s,.*/,,' | sort | comm -23 - "$known")" "" \
	"every event of KVM that this kernel has is in the manual"

# profile WORDS...: the events of KVM that a recording with these options has
profile()
{
	run timeout 300 "$kvmft" record --as host -d 20ms --force -o "$tmp/p" "$@"
	status_is 0 "record $*"
	sed -n 's/^name: \([a-z_]*\)$/\1/p' "$tmp/p/formats" | sort | comm -12 - "$known" >"$tmp/got"
}
# here WORDS: what the manual says of one of these words, as far as this kernel has it
here()
{
	sed -nE "/^\.It Cm .* Pq .*($1)/s/^\.It Cm ([a-z_]*) .*/\1/p" "$page" | sort | while read -r name; do
		[ ! -d "$events/kvm/$name" ] && [ ! -d "$events/kvmmmu/$name" ] || echo "$name"
	done
}
profile -p $$ --profile lean
here 'lean|always' >"$tmp/want"
ok "... has what the manual says" diff "$tmp/want" "$tmp/got"
profile -p $$
here 'default|always' >"$tmp/want"
ok "... has what the manual says" diff "$tmp/want" "$tmp/got"
profile -p $$ --profile lean -e kvm:kvm_fpu
{ here 'lean|always'; echo kvm_fpu; } | sort >"$tmp/want"
ok "... -e adds to a profile what it names" diff "$tmp/want" "$tmp/got"
profile -p $$ --profile full
here 'default|mem|full|always' >"$tmp/want"
ok "... has what the manual says" diff "$tmp/want" "$tmp/got"

finish
