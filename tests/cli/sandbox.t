#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# The sandbox of readers. That each of them does with it, in every format: a kvmft is run whose filter kills
# where the shipped one says no, and the calls that were made are held against the list. That nothing else
# is possible: tests/tools/sandbox.c tries, with either filter. And what is said when a layer is missing.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
plain=${KVMFT_PLAIN:-$kvmft}
build=$(dirname "$plain")
attack=$build/tests/tools/sandbox
killer=$build/tests/kill/sandbox
golden=$top/tests/golden

if [ ! -x "$killer" ] || [ ! -x "$attack" ]; then
	ok "the attackers are built without sanitizers: make tests" false
	finish
fi

# ---- readers do with it ----

cd "$tmp" || exit 1
for side in host guest; do
	ok "$side is compiled" "$tools/mkcap" --capture "$side" "$golden/latency-$side.txt"
done
ok "a trace.dat" "$tools/mkcap" --clock x86-tsc --trace-dat one.dat "$golden/report-basic.txt"
ok "markers" "$tools/gensdt" "$golden/sdt.txt" program
ok "accesses" "$tools/mkcap" --capture access "$golden/report-access.txt"
ok "a pair" "$tools/genpair" --host pair-host --guest pair-guest --vcpus 3 --ms 20
mkfifo fifo
if command -v strace >/dev/null && strace -o /dev/null true 2>"$tmp/strace.log"; then
	tracer="strace -f -qq -a1 -s0 -o $tmp/calls"
else
	tracer=
	skip "the calls that are made" "strace is not installed, or may not trace"
fi

good=0
# reader ARGUMENT...: ends by itself, as the shipped one does, and says the same.
reader()
{
	"$plain" "$@" >"$tmp/want" 2>"$tmp/want.err" </dev/null
	want=$?
	rm -rf "$tmp/made"
	# shellcheck disable=SC2086 # words
	$tracer "$build/tests/kill/kvmft" "$@" >"$out" 2>"$err" </dev/null
	rc=$?
	case $want in 0 | 3) good=$((good + 1)) ;; esac
	status_is "$want" "$(echo "$*" | cut -c1-100)"
	ok "... and prints the same" cmp "$tmp/want" "$out"
	[ ! -s "$tmp/calls" ] || cat "$tmp/calls" >>"$tmp/all"
}

for format in text json perfetto html; do
	reader merge --format $format host guest=one
	reader merge --format $format --clock guest-tsc pair-host pair-guest
	reader merge --format $format --qemu "$golden/qemu-log.log:log" host guest=one
	reader merge --format $format one.dat
	reader merge --force --format $format -o made host guest=one
done
for clock in host-tsc ns mono_raw mono boot realtime; do
	reader merge --clock $clock pair-host pair-guest
done
for input in host one.dat; do
	for format in text json csv; do
		reader report --tsc-khz 1000000 -i $input --format $format
		reader report --tsc-khz 1000000 -i $input --format $format --split --percentiles --per vcpu
	done
done
for class in mmio ioport msr hypercall cpuid page-fault fast-mmio inject; do
	reader report -i access --event $class
done
for format in text json csv html; do
	reader latency all --format $format host guest=one
	reader latency all --force --format $format -o made host guest=one
done
for format in text json csv; do
	reader blame -C 2 --format $format host guest=one
	reader verify --format $format pair-host pair-guest
	reader verify --format $format --solve pair-host pair-guest
	reader qemu sdt --format $format program
	reader qemu list-formats --format $format "$golden/qemu-events.txt"
done
for to in json perfetto html text; do
	reader export --force -i host --to $to -o made guest=one
done
for version in "" "--clock guest-tsc"; do
	reader export --force -i host -o made $version guest=one
	rm -f made*
	[ -n "$version" ] || reader export --force -i one.dat -o made $version
	mv made again.dat
	reader report --tsc-khz 1000000 -i again.dat
done
# Chunks of compressed files.
ok "many events" "$tools/gen" --trace-dat many.dat --events 60000 --cpus 2
dat_v7 many.dat made zstd || skip "a compressed file" "no trace-cmd that writes it"
if [ -s made ]; then
	mv made packed.dat
	reader merge packed.dat
fi
rm -f many.dat packed.dat
reader convert --from host-tsc --to guest-tsc --tsc-offset -5 100 200
reader convert --from host-tsc --to kvmclock -i pair-host -i pair-guest 1000000000000
reader convert --from host-tsc --to guest-tsc --vm 1 1
ok "$good of them did what they were asked for" test "$good" -ge 75
# What goes wrong, and says so.
head -c 3000 one.dat >cut.dat
head -c 200 /dev/urandom >noise.dat
for input in cut.dat noise.dat none /dev/null .; do
	reader merge $input
	reader report -i $input
	reader verify $input $input
	reader export --force -o made -i $input
done
if [ -c /dev/full ]; then
	"$build/tests/kill/kvmft" merge host guest=one >/dev/full 2>"$err"
	is "$?" 1 "a full disk is an error, not a death"
fi
# shellcheck disable=SC2016 # the inner shell's
ok "... nor is a reader that goes" sh -c '"$0" merge pair-host pair-guest 2>/dev/null | head -n 1; true' \
	"$build/tests/kill/kvmft"
if command -v script >/dev/null; then
	ok "on a terminal" script -qec "$build/tests/kill/kvmft merge host guest=one" /dev/null
else
	skip "on a terminal" "script is not installed"
fi

# What was called behind the last step into the sandbox, by each process: all of it is on the list.
if [ -n "$tracer" ]; then
	awk '/PR_SET_SECCOMP/ { on[$1] = 1; next }
		/^[0-9]+ +[a-z_0-9]+\(/ && on[$1] { sub(/\(.*/, "", $2); n[$2]++ }
		/\+\+\+ exited/ { delete on[$1] }
		/\+\+\+ killed by SIGSYS/ { print "killed" }
		END { for (c in n) print c }' "$tmp/all" | sort >"$tmp/used"
	ok "no one was killed" sh -c '! grep killed "$0"' "$tmp/used"
	echo "# used: $(tr '\n' ' ' <"$tmp/used")"
	ok "... and they were seen" grep -qx openat "$tmp/used"
fi

# ---- nothing else is possible ----

mkdir prey
cd prey || exit 1
landlock=$("$attack" entered | cut -d' ' -f2)
case $landlock in
4 | 5 | 6 | 7) ;;
*)
	skip "the attacks" "this kernel has no seccomp filters"
	finish
	;;
esac
unharmed="typed into the terminal: 0
process: unharmed
victim: mode 600, owner $(id -u), 8 bytes, 1 names, from now
other: not made"
"$attack" free >"$tmp/free"
is "$?" 0 "without a sandbox"
"$attack" denied >"$tmp/denied"
is "$?" 0 "with the shipped one"
"$killer" denied >"$tmp/killed"
is "$?" 0 "with the one that kills"
attacks=$(grep -c ': ' "$tmp/killed")
ok "more than 150 attacks" test "$attacks" -gt 150
if [ "$(id -u)" = 0 ]; then
	ok "... 100 of them succeed without a sandbox" test "$(grep -c ': done$' "$tmp/free")" -ge 100
	ok "... as the process sees" grep -qx 'process: harmed' "$tmp/free"
fi
# Memory without a name holds what comes packed or through a pipe.
is "$(grep -vE ': killed$|^clone3: ENOSYS$|^memfd_create: done$' "$tmp/killed")" "$unharmed" \
	"in it all are killed, but what libraries try first"
is "$(grep -vE ': (EPERM|ENOSYS)$|^memfd_create: done$' "$tmp/denied")" "$unharmed" "... or, in the shipped one, denied"

# Each number of a system call. Of newer kernels on x86, 335 and 336 return from probes; no filter sees them.
# 435 is clone3, see above.
"$killer" numbers | grep allowed | grep -vE '^(33[56]|435) ' | sort >"$tmp/numbers"
"$killer" listed | sort >"$tmp/listed"
ok "each number: what is on the list, no other" diff "$tmp/listed" "$tmp/numbers"
case $(uname -m) in
x86_64)
	for way in x32 i386; do
		if [ $way = i386 ] && ! "$killer" way 2>/dev/null; then
			skip "each number of i386" "int 0x80 is a fault on this machine"
			continue
		fi
		"$killer" $way >"$tmp/$way"
		is "$(grep -c denied "$tmp/$way") $(grep -c allowed "$tmp/$way")" "512 0" \
			"each number of $way: none"
	done
	;;
esac
cd "$tmp" || exit 1

# ---- VMs of this machine: other processes are looked at before, as they are closed to whoever is confined ----

run "$plain" convert --from host-tsc --to guest-tsc --vm no-such-vm 1
case $rc in
1 | 4) ok "convert --vm: no such VM" true ;;
*) status_is 1 "convert --vm: no such VM" ;;
esac
if [ "$(id -u)" = 0 ]; then
	ok "... and root gets no advice to be root" sh -c '! grep -q "run as root" "$0"' "$err"
fi
if [ -n "$tracer" ]; then
	$tracer "$plain" convert --from host-tsc --to guest-tsc --vm no-such-vm 1 >"$out" 2>"$err" </dev/null
	ok "... its processes were looked at" grep -q 'readlinkat.*= [0-9]' "$tmp/calls"
	is "$(sed '1,/PR_SET_SECCOMP/d' "$tmp/calls" | grep -c readlinkat)" 0 "... and not after it is confined"
fi

# ---- what is missing is said ----

run "$plain" -v convert --from host-tsc --to guest-tsc --tsc-offset 1 1
status_is 0 "-v"
err_has "^kvmft: confined by: capabilities( Landlock)? seccomp($|; this kernel lacks: Landlock)" \
	"... shows the layers"
run "$plain" check
out_has "^seccomp  " "check reports seccomp"
out_has "^landlock  " "... and of Landlock"
if [ -n "$tracer" ]; then
	# inject CALL=HOW
	inject()
	{
		run strace -f -qq -o /dev/null -e "inject=$1" "$plain" -v convert --from host-tsc --to guest-tsc \
			--tsc-offset 1 1
	}

	inject landlock_create_ruleset:error=ENOSYS
	status_is 0 "a kernel without Landlock"
	err_has "^kvmft: confined by: capabilities seccomp; this kernel lacks: Landlock [(]kvmft check[)]$" "... is named by -v"
	inject prctl:error=EINVAL:when=3+
	status_is 0 "a kernel without filters"
	err_has "this kernel lacks: seccomp" "... is named by -v"
	for call in capset:error=EPERM landlock_restrict_self:error=E2BIG landlock_create_ruleset:error=ENOMEM:when=2 \
		landlock_create_ruleset:error=EPERM landlock_create_ruleset:error=ENOMEM prctl:error=EACCES:when=3 \
		prctl:error=EPERM:when=1 prctl:error=EINVAL:when=1; do
		inject $call
		status_is 1 "$call"
		err_has "^kvmft convert: cannot confine itself by (capabilities|Landlock|seccomp|no_new_privs): " "... is an error"
		is "$(wc -c <"$out")" 0 "... and nothing was read"
	done
	run strace -f -qq -o /dev/null -e inject=landlock_create_ruleset:error=EPERM "$plain" check
	is "$(grep -A 2 '^landlock' "$out" | grep -c 'forbidden: \|remedy: let the container permit landlock')" 2 \
		"check: what is forbidden is not missing, and who can mend it"
fi

finish
