#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# `kvmft check`: on this machine, as others see it (not root, in namespaces, locked down), and that
# it changes nothing. tests/unit/test_kernel_feat.c has the machines that this one is not.

. "$(dirname "$0")/lib.sh"

# item NAME: how the last run found it.
item()
{
	awk -v name="$1" '$1 == name { print $2; exit }' "$out"
}

# Reaches the program from anywhere, also as another user.
bin=$(mktemp -d)
trap 'rm -rf "$tmp" "$bin"' EXIT
cp "$kvmft" "$bin/kvmft"
chmod 755 "$bin" "$bin/kvmft"
nobody()
{
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/kvmft" "$@"
}

# in_namespaces SETUP ARGUMENT...: in a mount namespace that SETUP has changed.
in_namespaces()
{
	setup=$1
	shift
	run unshare -m sh -c "$setup; exec \"\$@\"" sh "$bin/kvmft" "$@"
}

run "$kvmft" check --host --guest
status_is 2 "host and guest at once"
run "$kvmft" check --format xml
status_is 2 "unknown format"
run "$kvmft" check --prove --guest
status_is 2 "--prove of one side"
run "$kvmft" check -o "$tmp/kept"
status_is 2 "-o without --prove"

# ---- not root ----

if command -v setpriv >/dev/null && [ "$(id -u)" = 0 ]; then
	for side in host guest; do
		nobody check --$side
		status_is 4 "not root, $side"
		err_one_line "not root, $side"
		err_has "cannot record as a $side: .*privilege" "... names what is lacking"
		is "$(item privilege)" LACKING "... and the list has it"
		out_has 'remedy: run as root' "... with a remedy"
	done
	nobody check
	err_has "cannot record as a (host|guest|host and guest): .*privilege" "... and of a machine that is both"
else
	skip "not root" "needs root and setpriv"
fi

if [ "$(id -u)" != 0 ]; then
	skip "as root" "not root"
	finish
fi

# ---- root ----

mounts()
{
	cut -d ' ' -f 5- /proc/self/mountinfo | LC_ALL=C sort
}

mounts >"$tmp/mounts"
run "$kvmft" check
side=$(sed -n '1s/^as a \([a-z]*\) .*/\1/p' "$out")
case $side in
host | guest) result 0 "side is from what this machine is: $side" ;;
*) result 1 "side is from what this machine is" && show_run ;;
esac
mounts >"$tmp/mounts.after"
ok "nothing was mounted" cmp "$tmp/mounts" "$tmp/mounts.after"
for side in host guest; do
	run "$kvmft" check --$side
	lacking=$(grep -c ' LACKING ' "$out")
	if [ "$lacking" = 0 ]; then
		status_is 0 "$side: nothing lacks: exit 0"
		# On a KVM of neither vendor it is not known whether there will be exits.
		events=$(sed -n 's/^kvm-events  *\([a-z]*\) .*/\1/p' "$out")
		out_has "^can record$([ "$events" != unknown ] || echo ' what is ok'): " "... says so"
		is "$(wc -c <"$err" | tr -d ' ')" 0 "... nothing on stderr"
	else
		status_is 4 "$side: $lacking items lack: exit 4"
		out_has '^cannot record: ' "... says so"
		err_one_line "$side: lacking"
	fi
	# An item that is missing is followed by two lines: its purpose and its remedy.
	is "$(awk '/^[a-z]/ && $2 ~ /LACKING|absent/ { want = 2; name = $1; next }
		want == 2 { if ($0 !~ /^ +(needed|used) for: /) print name; want = 1; next }
		want == 1 { if ($0 !~ /^ +remedy: /) print name; want = 0 }' "$out")" "" \
		"$side: all that lacks has purpose and remedy"
	cp "$out" "$tmp/text"
	run "$kvmft" check --$side --format csv
	is "$(head -n 1 "$out")" "side,name,state,required,found,purpose,remedy" "$side: CSV has a header"
	is "$(sed -n "s/^$side,\([a-z0-9-]*\),.*/\1/p" "$out")" \
		"$(awk '/^[a-z0-9-]+ +(ok|LACKING|absent|unknown) / { print $1 }' "$tmp/text")" \
		"$side: CSV and text have the same items"
	is "$(grep -c "^$side,[a-z0-9-]*,lacking,yes," "$out")" "$lacking" "$side: CSV and text lack the same"
	run "$kvmft" check --$side --format json
	is "$(wc -l <"$out" | tr -d ' ')" 1 "$side: JSON is one line"
	is "$(tr '{' '\n' <"$out" | sed -n 's/^"name":"\([a-z0-9-]*\)".*/\1/p')" \
		"$(awk '/^[a-z0-9-]+ +(ok|LACKING|absent|unknown) / { print $1 }' "$tmp/text")" \
		"$side: JSON and text have the same items"
	is "$(grep -o '"state":"lacking","required":true' "$out" | wc -l | tr -d ' ')" "$lacking" \
		"$side: JSON and text lack the same"
	if command -v python3 >/dev/null; then
		ok "$side: JSON is well-formed" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$out"
	else
		skip "$side: JSON is well-formed" "python3 is not installed"
	fi
done
out_has '"name":"x86-tsc"' "JSON has items"
cp "$tmp/text" "$out" # of the guest
is "$(item kvm-module)" "" "a guest is not asked for the kvm module"

# What check says about this machine agrees with a look at it.
fs=/sys/kernel/tracing
[ -d "$fs/instances" ] || fs=/sys/kernel/debug/tracing
if [ -d "$fs/instances" ]; then
	run "$kvmft" check --host
	for pair in kprobes:kprobe_events uprobes:uprobe_events snapshot:snapshot \
		subbuf-size:buffer_subbuf_size_kb kvm-events:events/kvm/kvm_exit/id; do
		want=absent
		[ "${pair%%:*}" != kvm-events ] || want=LACKING
		[ ! -e "$fs/${pair#*:}" ] || want=ok
		# Whether a back end of its own raises them is not known.
		[ "$pair $want" != "kvm-events:events/kvm/kvm_exit/id ok" ] ||
			! find /sys/module -maxdepth 1 -name 'kvm_*' ! -name kvm_intel ! -name kvm_amd | grep -q . || want=unknown
		is "$(item "${pair%%:*}")" "$want" "${pair%%:*}: $want, as ${pair#*:} is"
	done
	# and what it promises is kept
	if "$kvmft" check --host >/dev/null 2>&1; then
		run timeout 300 "$kvmft" record --as host -q -e kvm:kvm_exit -d 0.1 -o "$tmp/cap"
		status_is 0 "check says that recording is possible, and it is"
	else
		run timeout 300 "$kvmft" record --as host -q -d 0.1 -o "$tmp/cap"
		is "$([ "$rc" != 0 ] && echo yes)" yes "check says that recording is not possible, and it is not"
	fi
else
	skip "as tracefs is" "tracefs is not mounted"
fi

# ---- the proof ----

# Whether it is right is tests/vm/prove.t's; here it must not call anything wrong, and leave nothing.
if [ -e /dev/kvm ] && [ -d "$fs/instances" ]; then
	run timeout 300 "$kvmft" check --prove -o "$tmp/kept"
	case $rc in
	0 | 3) out_has '^alignment    aligned ' "--prove: aligned" ;;
	*) status_is 4 "--prove: this KVM cannot be tried" && err_has '^kvmft check: .*(KVM|guest)' "... and why" ;;
	esac
	kept="$rc $(sed 's/ that it raised.*//' "$err")"
	ok "... the recording is kept" [ -s "$tmp/kept/host/meta" ]
	run "$kvmft" check --prove -o "$tmp/kept"
	status_is 1 "... and not written over"
	err_has "cannot make the directory $tmp/kept: File exists" "... as it says"
	# Whoever owns the directory above puts another in its place, with captures of his own.
	mkdir -p "$tmp/theirs" "$tmp/forged/host" "$tmp/forged/guest0"
	echo "forged" | tee "$tmp/forged/host/meta" >"$tmp/forged/guest0/meta"
	timeout 300 "$kvmft" check --prove -o "$tmp/theirs/p" >"$out" 2>"$err" </dev/null &
	n=0
	until [ -n "$(find "$tmp/theirs/p" -maxdepth 1 -name '*host*' 2>/dev/null)" ] || [ $n -gt 1000 ]; do
		sleep 0.01
		n=$((n + 1))
	done
	proving=$!
	judge=$(grep -l "^PPid:[[:space:]]*$proving\$" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n' | head -n 1)
	children=$(grep -l "^PPid:[[:space:]]*${judge:-none}\$" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n')
	# Shared pages and pipes of each: the guest's process has them, and the recorder has its own pipes.
	for child in $children; do
		grep -q '/dev/zero' "/proc/$child/maps" && echo "$child"
	done >"$tmp/sharing"
	for child in $children; do
		find "/proc/$child/fd" -lname 'pipe:*' -printf '%l\n' | sort -u
	done | sort | uniq -d >"$tmp/pipes"
	mv "$tmp/theirs/p" "$tmp/theirs/away" && mv "$tmp/forged" "$tmp/theirs/p"
	wait $proving
	is "$? $(sed 's/ that it raised.*//' "$err")" "$kept" "--prove reads what it recorded, wherever that was moved to"
	is "$(echo "$children" | wc -l | tr -d ' ') $(wc -l <"$tmp/sharing" | tr -d ' ')" "2 1" \
		"... of guest and recorder, the recorder cannot write what the guest saw"
	is "$(cat "$tmp/pipes")" "" "... nor to the pipes of the guest"
	ln -s "$tmp/theirs" "$tmp/link"
	run "$kvmft" check --prove -o "$tmp/link/new"
	status_is 1 "-o through a link"
	is "$(find "$tmp/theirs" -name new)" "" "... nothing is made there"
	# shellcheck disable=SC2016 # the inner shell's
	if unshare -m sh -c 'mount --bind /dev/null /dev/kvm' 2>"$err"; then
		run unshare -m sh -c 'mount --bind /dev/null /dev/kvm && exec "$@"' sh "$kvmft" check --prove -o "$tmp/early"
		status_is 1 "--prove of what is no KVM"
		is "$(ls -d "$tmp/early" 2>/dev/null)" "" "... leaves no empty directory in the way of the next one"
	else
		skip "--prove of what is no KVM" "$(cat "$err")"
	fi
else
	skip "--prove" "no /dev/kvm, or no tracefs"
fi

# ---- elsewhere ----

if ! unshare -m true 2>/dev/null; then
	skip "namespaces" "no right to make them"
	finish
fi
run unshare -pf --mount-proc "$kvmft" check --host
status_is 4 "in a PID namespace"
is "$(item pid-namespace)" LACKING "... that is what lacks"
out_has 'remedy: .*--pid=host' "... with its remedy"

hide="for m in /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug; do umount \$m 2>/dev/null; done"
in_namespaces "$hide" check --host
if ! grep -q tracefs /proc/filesystems || ! [ -d /sys/kernel ]; then
	skip "tracefs is not mounted" "no tracefs in this kernel, or no /sys to mount it in"
else
	is "$(item tracefs)" ok "tracefs is not mounted: record can"
	out_has 'not mounted now; kvmft record mounts it' "... is reported"
	if command -v setpriv >/dev/null; then
		run unshare -m sh -c "$hide; exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \
			'$bin/kvmft' check --host"
		status_is 4 "tracefs is not mounted and may not be"
		is "$(item tracefs)" LACKING "... that is what lacks"
		out_has 'remedy: as root: mount -t tracefs' "... with its remedy"
		is "$(item kvm-events)" unknown "... what it would show is unknown"
		is "$(item capabilities)" absent "... the capability, too"
	else
		skip "tracefs may not be mounted" "setpriv is not installed"
	fi
fi
if [ -d /sys/kernel/security ]; then
	for mode in confidentiality integrity; do
		in_namespaces "mount -t tmpfs none /sys/kernel/security &&
			echo 'none [$mode]' >/sys/kernel/security/lockdown" check --host
		want=ok
		[ $mode = integrity ] || want=LACKING
		is "$(item lockdown)" $want "locked down, $mode: $want"
	done
else
	skip "lockdown" "no /sys/kernel/security"
fi
if [ "$fs" = /sys/kernel/tracing ]; then
	in_namespaces "mount -o remount,ro,bind $fs" check --host
	is "$(item privilege)" LACKING "tracefs is read-only, as in a container"
	out_has 'Read-only file system' "... is reported"
	out_has 'remedy: mount tracefs read-write' "... with its remedy"
else
	skip "tracefs is read-only" "tracefs is not on /sys/kernel/tracing"
fi
finish
