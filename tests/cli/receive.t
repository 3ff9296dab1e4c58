#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: timing
#
# `kvmft receive`: what it makes of a stream, of a stream that is cut at any byte, and of what a
# hostile sender makes up. No kernel is needed.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
golden=$top/tests/golden
mkstream=$tools/mkstream
cap=$tmp/cap
made=$tmp/made
"$tools/mkcap" --capture "$made" "$golden/latency-host.txt" || exit 1
"$mkstream" "capture $made" end >"$tmp/whole" || exit 1

# receive STREAM [OPTION...]: into $got, which is removed before.
got=$tmp/got
receive()
{
	stream=$1
	shift
	rm -rf "$got"
	timeout 300 "$kvmft" receive -o "$got" "$@" <"$stream" >"$out" 2>"$err"
	rc=$?
}

# refused NAME MESSAGE LINE...: a stream of these lines behind a good beginning ends at what is
# wrong; what came before is there, with exit status 3.
refused()
{
	name=$1
	message=$2
	shift 2
	"$mkstream" "capture $cap" "$@" >"$tmp/bad"
	receive "$tmp/bad"
	status_is 3 "$name"
	err_has "$message" "... is reported"
	ok "... what came before is there" cmp "$got/seg000000/cpu0" "$cap/seg000000/cpu0"
	ok "... and no other file is" no_more_than "$cap"
}

# nothing NAME MESSAGE STREAM: no capture is made at all.
nothing()
{
	receive "$3"
	status_is "${4:-1}" "$1"
	err_has "$2" "... is reported"
	is "$(find "$tmp" -maxdepth 1 -name '*got*')" "" "... and nothing is left"
}

files() { (cd "$1" && find . | LC_ALL=C sort); }
no_more_than() { [ "$(files "$1")" = "$(files "$got")" ]; }

# ---- what is sent is what is stored ----

receive "$tmp/whole"
status_is 0 "a whole stream"
ok "... has the same data" diff -r "$made/seg000000" "$got/seg000000"
is "$(stat -c %a "$got" "$got/meta" | tr '\n' ' ')" "700 600 " "... that only its owner can read"
err_has "$got: .* of data" "... is reported"
"$kvmft" merge "$made" >"$tmp/want" 2>/dev/null
run "$kvmft" merge "$got"
status_is 0 "... which can be read"
ok "... and is the same time line" cmp "$out" "$tmp/want"
mv "$got" "$cap"
"$mkstream" "capture $cap" end >"$tmp/whole"
receive "$tmp/whole"
ok "what was received, sent again, is the same" diff -r "$cap" "$got"
receive "$tmp/whole" -q
is "$(cat "$err")" "" "--quiet is silent"
run "$kvmft" receive -o "$got"
status_is 1 "a capture that exists is not replaced"
err_has "exists" "... is reported"
timeout 300 "$kvmft" receive --force -q -o "$got" <"$tmp/whole"
is "$?" 0 "... but with --force"
ok "... and is whole" diff -r "$cap" "$got"
run "$kvmft" receive
status_is 2 "no -o"
mkfifo "$tmp/fifo"
cat "$tmp/whole" >"$tmp/fifo" &
receive "$tmp/fifo"
status_is 0 "through a pipe"
ok "... the same" diff -r "$cap" "$got"
"$mkstream" "capture $cap" "frame 77 1 2 text:something-new" "frame 7 0 0 -" end >"$tmp/newer"
receive "$tmp/newer"
status_is 0 "frames of a later version are skipped"
ok "... the same" diff -r "$cap" "$got"

# Bytes that come one by one.
perl -e '$| = 1; local $/; my $s = <STDIN>; syswrite(STDOUT, $_) for split //, $s' <"$tmp/whole" >"$tmp/fifo" &
receive "$tmp/fifo"
status_is 0 "byte by byte"
ok "... the same" diff -r "$cap" "$got"

# ---- cut anywhere ----

# Each of the first bytes and 150 of the others, in make check a third of them: the result is readable as far as it
# came, or was never begun; nothing else.
size=$(stat -c %s "$tmp/whole")
each=3
[ "${CHECK_ALL:-0}" != 1 ] || each=1
step=$((size * each / 150))
bad_cuts=
kept=0
n=0
while [ "$n" -lt "$size" ]; do
	head -c "$n" "$tmp/whole" >"$tmp/cut"
	receive "$tmp/cut" -q
	case $rc in
	3)
		kept=$((kept + 1))
		[ -d "$got" ] && timeout 300 "$kvmft" merge -q "$got" >"$out" 2>"$err"
		case $? in
		0 | 3) ;;
		1) grep -qE 'no events|no recording' "$err" || bad_cuts="$bad_cuts $n:merge" ;;
		*) bad_cuts="$bad_cuts $n:merge" ;;
		esac
		;;
	1) [ ! -e "$got" ] || bad_cuts="$bad_cuts $n:left" ;;
	*) bad_cuts="$bad_cuts $n:$rc" ;;
	esac
	if [ "$n" -lt 100 ]; then n=$((n + each)); else n=$((n + step)); fi
done
is "$bad_cuts" "" "a cut stream is a readable capture, or refused"
ok "... and most are" test "$kept" -gt $((120 / each))
head -c $((size - 1)) "$tmp/whole" >"$tmp/cut"
receive "$tmp/cut"
status_is 3 "without its last byte"
err_has "was cut at byte $((size - 1)): .*; what came before is kept$" "... is reported"
ok "... all is there" diff -r "$cap" "$got"
head -c 40 "$tmp/whole" >"$tmp/cut"
receive "$tmp/cut"
status_is 1 "cut before a recording begins"
ok "... nothing is there, and nothing else is said" sh -c "! test -e '$got' && ! grep -q kept '$err'"

# ---- no stream ----

: >"$tmp/empty"
nothing "an empty input" "nothing arrived" "$tmp/empty"
echo hello >"$tmp/text"
nothing "text" "not a stream of kvmft record" "$tmp/text"
gzip -c "$tmp/whole" >"$tmp/packed"
nothing "a packed stream" "packed by gzip: zcat FILE | kvmft receive" "$tmp/packed"
for f in whole packed; do
	run "$kvmft" merge "$tmp/$f"
	status_is 1 "merge of a stream, $f"
	err_has "kvmft receive" "... names what reads it"
done
head -c 65536 /dev/urandom >"$tmp/random"
nothing "noise" "not a stream of kvmft record" "$tmp/random"
head -c 100000 /dev/zero >"$tmp/zero"
nothing "zeros" "not a stream of kvmft record" "$tmp/zero"
"$mkstream" "hello kvmft-stream version=2 capture=1" end >"$tmp/later"
nothing "a later version" "a newer kvmft" "$tmp/later" 4
"$mkstream" "hello kvmft-stream version=1 capture=99" end >"$tmp/later"
nothing "a later version of captures" "a newer kvmft" "$tmp/later" 4
"$mkstream" hello end >"$tmp/nothing"
nothing "a stream of nothing" "no recording" "$tmp/nothing"

# ---- a hostile sender ----

refused "a frame without its mark" "damaged" "bytes hex:00000000000000000000000000000000000000000000000000"
refused "a frame that is too long" "damaged" "frame 1 0 0 - 0xffffffffffffffff"
refused "meta without a newline" "meta does not end" "frame 1 0 0 text:vm"
refused "meta with control characters" "invalid bytes" 'frame 1 0 0 hex:766d1b5b0a'
refused "bad meta" "not a record" 'frame 1 0 0 text:=\n'
refused "another size of sub-buffers" "contradicts the first" \
	"frame 1 0 0 hex:$(printf 'ring clock=x86-tsc subbuf=8192\n' | od -An -tx1 | tr -d ' \n')"
refused "data of nothing" "is empty" "times 1000000 frame 4 0 0 -"
refused "half a sub-buffer" "not whole sub-buffers" "frame 4 0 0 zeros:100"
refused "a CPU beyond all" "impossible number" "frame 4 0xffffffff 0 zeros:4096"
refused "a segment that has not begun" "not begun" "frame 4 0 5 zeros:4096"
refused "segments out of order" "not the next one" "frame 6 0 7 -"
refused "a file of another name" "unknown name" "frame 3 4 0 text:metaX"
refused "a path" "unknown name" "frame 3 9 0 text:../passwdX"
refused "an absolute path" "unknown name" "frame 3 11 0 text:/etc/passwdX"
refused "a file's name is longer than the frame" "unknown name" "frame 3 31 0 text:x"
refused "more of a sub-buffer than fits" "fits" "frame 5 0 0 hex:00000000000000000000000000000000f00f0000$(printf '%0400d' 0)"
refused "more of a sub-buffer that did not come" "never began" "frame 5 9 0 zeros:64"
refused "more of a sub-buffer, of nothing" "but empty" "frame 5 0 0 zeros:4"
refused "an end that counts otherwise" "gives another number" "end 12"
"$mkstream" hello "frame 4 0 0 zeros:4096" >"$tmp/bad"
nothing "data before their format is known" "before the record .ring." "$tmp/bad"

# Without end: each of these has to end by itself, and keep what it may.
max=1M
most=34000
limited()
{
	name=$1
	message=$2
	shift 2
	rm -rf "$got"
	"$mkstream" "$@" | timeout 300 "$kvmft" receive -o "$got" --max-size $max >"$out" 2>"$err"
	rc=$?
	status_is 3 "$name"
	err_has "$message" "... is reported"
	ok "... takes no more than it may" test "$(du -s --apparent-size -k "$got" | cut -f 1)" -lt $most
}
limited "data without end" "max-size is reached" "capture $cap" "for-ever frame 4 0 0 zeros:4096"
meta="for-ever frame 1 0 0 text:$(printf '%0900d' 0)\n"
formats="for-ever frame 2 0 0 text:$(printf '%0900d' 0)"
limited "meta without end, and --max-size" "max-size is reached" "capture $cap" "$meta"
limited "formats without end, and --max-size" "max-size is reached" "capture $cap" "$formats"
{
	printf kallsyms
	head -c 16000000 /dev/zero
} >"$tmp/symbols"
{
	printf saved_tgids
	head -c 16000000 /dev/zero
} >"$tmp/tgids"
limited "large files, and --max-size" "max-size is reached" hello 'frame 1 0 0 text:begin\n' "frame 3 8 0 file:$tmp/symbols" \
	"frame 3 11 0 file:$tmp/tgids" "$formats"
rm "$tmp/symbols" "$tmp/tgids"
eval "limited 'segments without end, and --max-size' 'max-size is reached' 'capture $cap' $(seq -f "'frame 6 0 %.0f -'" 9000 | tr '\n' ' ')"
max=1G
most=70000
limited "meta without end" "more meta" "capture $cap" "$meta"
limited "formats without end" "more format" "capture $cap" "$formats"
"$mkstream" "capture $cap" "times 1000000 frame 7 0 0 -" "times 100000 frame 77 0 0 -" end >"$tmp/frames"
receive "$tmp/frames"
status_is 0 "1,100,000 frames of 0 bytes"
ok "... the same capture" diff -r "$cap" "$got"
"$mkstream" "capture $cap" "times 3000 frame 4 0 0 zeros:4096" end >"$tmp/much"
receive "$tmp/much" --max-size 1M
status_is 3 "--max-size"
err_has "max-size is reached" "... is reported"
ok "... holds" test "$(stat -c %s "$got/seg000000/cpu0")" -le 1048576
receive "$tmp/whole" --min-free 900000G
err_has "min-free is reached" "--min-free"
"$mkstream" hello 'frame 1 0 0 text:begin\n' "frame 6 0 1 -" >"$tmp/bad"
receive "$tmp/bad" --min-free 900000G
err_has "min-free is reached" "... also of folders without data"
for f in "frame 1 0 0 text:begin\n" "frame 2 0 0 text:x" "frame 3 11 0 text:saved_tgidsx"; do
	"$mkstream" hello "$f" >"$tmp/bad"
	receive "$tmp/bad" --min-free 900000G
	err_has "min-free is reached" "... and before ${f%% 0 *} is stored"
done

# Folders without data take inodes. The file system must keep some.
mkdir "$tmp/small"
if mount -t tmpfs -o size=16m,mode=700,nr_inodes=100 kvmft-test "$tmp/small" 2>/dev/null; then
	set --
	for s in $(seq 1 150); do set -- "$@" "frame 6 0 $s -"; done
	"$mkstream" "capture $cap" "$@" end >"$tmp/bad"
	timeout 300 "$kvmft" receive -q -o "$tmp/small/got" <"$tmp/bad" >"$out" 2>"$err"
	rc=$?
	status_is 3 "segments without end"
	err_has "less than 5 % of the inodes are free, and the sender is told to stop" "... is reported"
	ok "... others can still make files" mkdir "$tmp/small/other"
	umount "$tmp/small"
else
	skip "folders without data" "a tmpfs cannot be mounted here"
fi

# Somebody takes the name while folders come: nothing of the stream is left.
set --
for s in $(seq 1 3000); do set -- "$@" "frame 6 0 $s -"; done
"$mkstream" "capture $cap" "$@" end >"$tmp/many"
mkdir "$tmp/mine"
(
	while [ -z "$(ls -A "$tmp/mine")" ]; do sleep 0.05; done
	mkdir "$tmp/mine/got"
	exec cat "$tmp/many"
) | timeout 300 "$kvmft" receive -q -o "$tmp/mine/got" >"$out" 2>"$err"
rc=$?
status_is 1 "a name that is taken meanwhile"
is "$(ls -A "$tmp/mine")" got "... and nothing of the stream is left"

# Segments: the last N.
{
	echo "capture $cap"
	for s in 1 2 3 4 5; do
		printf 'frame 6 0 %s -\nframe 4 0 %s file:%s\n' "$s" "$s" "$cap/seg000000/cpu0"
	done
} >"$tmp/lines"
set --
while IFS= read -r line; do set -- "$@" "$line"; done <"$tmp/lines"
"$mkstream" "$@" end >"$tmp/segments"
receive "$tmp/segments"
status_is 0 "segments"
is "$(find "$got" -name 'seg*' | wc -l | tr -d ' ')" 6 "... are all there"
receive "$tmp/segments" --keep 2
is "$(cd "$got" && echo seg*)" "seg000004 seg000005" "--keep 2"
"$mkstream" "$@" "frame 4 0 1 file:$cap/seg000000/cpu0" >"$tmp/bad"
receive "$tmp/bad"
status_is 3 "data of a segment that is over"
err_has "that has not begun, or is over" "... is reported"
# ... of a flight recorder: what others' triggers caused takes no place of its own, and least the place of each other.
{
	printf 'hello\nframe 1 0 0 text:ring\\ssubbuf=4096\\sflight=1\\nbegin\\n\nframe 4 0 0 zeros:4096\n'
	s=1
	for by in g1 g1 g2 g1 g1; do
		printf 'frame 1 0 0 text:asked\\sby=%s\\n\nframe 6 0 %s -\nframe 4 0 %s zeros:4096\n' $by $s $s
		printf 'frame 1 0 0 text:segment\\sn=%s\\n\n' $s
		s=$((s + 1))
	done
} >"$tmp/lines"
set --
while IFS= read -r line; do set -- "$@" "$line"; done <"$tmp/lines"
"$mkstream" "$@" 'frame 1 0 0 text:end\sreason=duration\n' end >"$tmp/segments"
receive "$tmp/segments" --keep 2
status_is 0 "segments by triggers of others"
is "$(cd "$got" && echo seg*)" "seg000000 seg000003 seg000005" "... of the one with most of them the oldest goes"
receive "$tmp/segments" --keep 2 --max-size 8K
status_is 0 "... none ends the recording for want of room"
is "$(cd "$got" && echo seg*)" "seg000000 seg000005" "... own ones stay"
"$mkstream" "$@" 'frame 1 0 0 text:asked\sby=g2\n' "frame 6 0 6 -" "frame 4 0 6 zeros:8192" "frame 4 0 6 zeros:4096" \
	'frame 1 0 0 text:segment\sn=6\n' "frame 6 0 7 -" "frame 4 0 7 zeros:4096" \
	'frame 1 0 0 text:end\sreason=duration\n' end >"$tmp/segments"
receive "$tmp/segments" --keep 2 --max-size 8K
status_is 0 "... one that is too large"
is "$(cd "$got" && echo seg*)" "seg000000 seg000007" "... is left out"
run "$kvmft" merge -q "$got"
is "$(grep missing "$err" "$out")" "" "... which is no damage"

# ---- the receiver is killed, or told to end ----

"$mkstream" "capture $cap" "for-ever frame 7 0 0 -" >"$tmp/fifo" &
sender=$!
rm -rf "$got"
"$kvmft" receive -q -o "$got" <"$tmp/fifo" 2>"$err" &
receiver=$!
i=0
while [ ! -s "$got/seg000000/cpu0" ] && [ "$i" -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
kill -TERM "$receiver"
wait "$receiver"
is "$?" 3 "SIGTERM ends it"
wait "$sender" 2>/dev/null
ok "... what came is there" cmp "$got/seg000000/cpu0" "$cap/seg000000/cpu0"

# ---- nothing is followed, or written elsewhere ----

mkdir "$tmp/elsewhere"
ln -s "$tmp/elsewhere" "$tmp/link"
timeout 300 "$kvmft" receive -o "$tmp/link/got" <"$tmp/whole" >"$out" 2>"$err"
is "$?" 1 "a parent that is a link"
is "$(ls -A "$tmp/elsewhere")" "" "... is not followed"
finish
