#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# A directory of captures in the place of HOST GUEST..., in every command that reads captures: with the
# file `session` and without; with sides that are missing, and files that somebody made up. And a tar
# archive in the place of the directory.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
run=$tmp/run
mkdir "$run"
"$tools/genpair" --host "$run/host" --guest "$run/web" || exit 1
id=$(sed -n 's/^vm id=\([^ ]*\).*/\1/p' "$run/host/meta" | head -n 1)

# same NAME SESSION-COMMAND -- COMMAND: the same output and status.
same()
{
	name=$1
	shift
	a=
	while [ "$1" != -- ]; do
		a="$a $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # words without blanks
	"$kvmft" $a >"$tmp/a" 2>"$tmp/a.err"
	arc=$?
	for f in "$tmp/a" "$tmp/a.err"; do # an archive is not called as the directory is
		sed "s,$of/,$run/,g" "$f" >"$tmp/b"
		mv "$tmp/b" "$f"
	done
	run "$kvmft" "$@"
	is "$arc" "$rc" "$name: the exit status"
	ok "... the output" cmp "$tmp/a" "$out"
	is "$(cat "$tmp/a.err")" "$(cat "$err")" "... the messages"
	ok "... and there is some" test -s "$tmp/a" -o -s "$tmp/file"
}

# all_commands NAME =SEL WHAT: WHAT is a session, as $run is
all_commands()
{
	of=$3
	same "merge $1" merge "$of" -- merge "$run/host" "$run/web$2"
	same "merge to JSON $1" merge --format json "$of" -- merge --format json "$run/host" "$run/web$2"
	same "verify $1" verify "$of" -- verify "$run/host" "$run/web$2"
	same "latency $1" latency all "$of" -- latency all "$run/host" "$run/web$2"
	same "report $1" report "$of" -- report "$run/host"
	same "report -i $1" report -i "$of" -- report -i "$run/host"
	same "report --split $1" report --split -i "$of" -- report --split -i "$run/host"
	same "export $1" export --to json -i "$of" -- export --to json -i "$run/host" "$run/web$2"
	same "convert $1" convert -i "$of" --from guest-tsc --to host-tsc 100000000000 -- \
		convert -i "$run/host" -i "$run/web" --from guest-tsc --to host-tsc 100000000000
	same "diff $1" diff "$of" "$of" -- diff "$run/host,$run/web$2" "$run/host,$run/web$2"
	for side in one two; do
		rm -f "$tmp/$side"*
	done
	"$kvmft" export -q -i "$of" -o "$tmp/one"
	"$kvmft" export -q -i "$run/host" -o "$tmp/two" "$run/web$2"
	is "$(find "$tmp" -maxdepth 1 -name 'one*' | wc -l | tr -d ' ')" 2 "export to trace.dat $1: a file for each side"
	for f in "$tmp"/one*; do
		ok "... ${f##*/one} is the same" cmp "$f" "$tmp/two${f##*/one}"
	done
}

all_commands "without a session file" "" "$run"
same "with a slash" merge "$run/" -- merge "$run/host" "$run/web"
tar cf "$run.tar" -C "$tmp" run
all_commands "of a tar archive" "" "$run.tar"
cat >"$run/session" <<EOF
kvmft-session version=1
side name=host dir=host role=host
side name=web dir=web role=guest vm=$id how=ssh%20root@web
end side=web reason=control status=0
something new=1
EOF
all_commands "with a session file" "=$id" "$run"
tar czf "$run.tar.gz" -C "$run" .
all_commands "of a packed tar archive" "=$id" "$run.tar.gz"
cd "$run" || exit
run "$kvmft" merge -q .
cd "$top" || exit
status_is 0 "the session is here"
run "$kvmft" merge -q --side web "$run"
status_is 0 "a side by its name in the session"
is "$(awk '{ print $1 }' "$out" | sort -u)" syn "... is the guest, whatever its VM is called"
run "$kvmft" merge "$run"
cp "$out" "$tmp/alone"
run "$kvmft" merge "$run" "$run/web=$id"
status_is 0 "one of its captures beside it, to say whose it is"
ok "... replaces that of the session" cmp "$out" "$tmp/alone"
run "$kvmft" merge "$run" "$run/web=nosuch"
status_is 1 "... and is what counts"
run "$kvmft" merge "$run" "$run/host"
status_is 1 "... but not the host"
err_has 'named as host and as guest' "... whose capture is no guest's"
ln -s "$run" "$tmp/link"
run "$kvmft" verify "$tmp/link"
status_is 0 "a link to a session"

# ---- archives ----

# as_tar NAME: $tmp/x.tar is read as the session is
as_tar()
{
	run "$kvmft" merge "$tmp/x.tar"
	status_is 0 "$1"
	ok "... is read as the directory" cmp "$out" "$tmp/alone"
}
for f in "$run.tar" "$run.tar.gz"; do
	for how in 'cat "$2" | "$1" merge -' '"$1" merge - <"$2"'; do
		run sh -c "$how" sh "$kvmft" "$f"
		status_is 0 "${f##*/}: $how"
		ok "... is read as the directory" cmp "$out" "$tmp/alone"
	done
	"$kvmft" blame "$f" >"$tmp/blame" 2>/dev/null
	run sh -c 'cat "$2" | "$1" blame -' sh "$kvmft" "$f"
	ok "... and blamed" cmp "$out" "$tmp/blame"
	run sh -c 'cat "$2" | "$1" report -i -' sh "$kvmft" "$f"
	status_is 0 "... and its host is an input"
done
ln -s run "$tmp/link"
for format in gnu pax v7; do
	tar cf "$tmp/x.tar" --format=$format -C "$tmp" ./run link
	as_tar "an archive of the kind $format, with a link"
done
rm "$tmp/link"
long=$(printf '%090d' 0)
mkdir -p "$tmp/up/$long"
cp -r "$run" "$tmp/up/$long/run"
tar cf "$tmp/x.tar" --format=ustar -C "$tmp/up" "$long"
as_tar "a name in two parts, of ustar"
mkdir "$tmp/up/$long/$long"
for format in gnu pax; do
	tar cf "$tmp/x.tar" --format=$format --transform "s,$long,$long/$long," -C "$tmp/up" "$long"
	as_tar "long names, by $format"
	tar cf "$tmp/x.tar" --format=$format --transform "s,$long,$long/$long/$long/$long," -C "$tmp/up" "$long"
	run "$kvmft" merge "$tmp/x.tar"
	status_is 1 "names longer than any capture's, by $format"
	err_has 'sparse files, or names of 300 bytes: unpack' "... are refused"
done
rm -r "$tmp/up"
echo "kvmft-capture version=99" >"$tmp/meta"
tar cf "$tmp/x.tar" --transform s,meta,host/meta, -C "$tmp" meta
tar rf "$tmp/x.tar" -C "$run" host web session
as_tar "a file twice: the later one counts"
if command -v zstd >"$tmp/ok.log"; then
	tar c -C "$tmp" run | zstd -q >"$tmp/x.tar"
	as_tar "packed with zstd"
else
	skip "packed with zstd" "no zstd to pack with"
fi
tar cf "$tmp/x.tar" -C "$run" host
run "$kvmft" report "$tmp/x.tar"
status_is 0 "a capture alone"
cp "$out" "$tmp/kept"
run "$kvmft" report "$run/host"
ok "... is read as its directory" cmp "$out" "$tmp/kept"
run "$kvmft" report -i "$run.tar" -i "$run.tar.gz"
status_is 0 "the hosts of two archives"
run "$kvmft" -v merge "$run.tar.gz"
err_has 'confined by:' "an archive is read confined"
gzip -c "$run/host/meta" >"$tmp/x.gz"
run "$kvmft" merge "$tmp/x.gz"
status_is 1 "what is packed, but neither archive nor recording"
err_has 'gzip, and neither a recording nor text' "... is reported"
size=$(wc -c <"$run.tar")
for n in 513 $((size / 2)) $((size - 11000)) 1024; do
	head -c "$n" "$run.tar" >"$tmp/x.tar"
	run "$kvmft" merge "$tmp/x.tar"
	ok "an archive of $n bytes is incomplete" test "$rc" = 3 -o "$rc" = 1
	err_has 'cut short|has no directory' "... is reported"
done
head -c 20000 "$run.tar.gz" >"$tmp/x.tar"
run "$kvmft" merge "$tmp/x.tar"
ok "a packed one that is cut" test "$rc" = 3 -o "$rc" = 1
err_has 'cut short' "... is reported"

# Hostile ones: hostile NAME MESSAGE PERL, which changes fields of the first header
hostile()
{
	perl -e 'local $/; open F, "<", shift; $_ = <F>; my $h = substr $_, 0, 512;
		eval shift; substr($h, 148, 8) = " " x 8;
		substr($h, 148, 8) = sprintf "%06o\0 ", unpack "%32C*", $h;
		substr($_, 0, 512) = $h; print' "$run.tar" "$3" >"$tmp/x.tar"
	run "$kvmft" merge "$tmp/x.tar"
	ok "$1: exit $rc" test "$rc" = 1 -o "$rc" = 3
	err_has "$2" "... is reported"
}
file='substr($h, 156, 1) = "0";'
hostile "a path that leads out" 'outside of it' "$file"' substr($h, 0, 12) = "run/../../x\0"'
hostile "an absolute path" 'outside of it' "$file"' substr($h, 0, 6) = "/etc/x"'
hostile "a name for terminals" 'outside of it' "$file"' substr($h, 0, 7) = "../\033]0;"'
is "$(LC_ALL=C grep -c "$(printf '\033')" "$err")" 0 "... which does not reach them"
hostile "a sparse file" 'sparse' 'substr($h, 156, 1) = "S"'
hostile "8 EiB" 'cut short' 'substr($h, 124, 12) = "\200\0\0\0\177" . "\377" x 7'
hostile "a size of all bits" 'cut short' 'substr($h, 124, 12) = "\377" x 12'
hostile "a size that is no number" 'cut short' 'substr($h, 124, 12) = "99999999999\0"'
hostile "a pax header of 1 GB that is not there" 'cut short' 'substr($h, 156, 1) = "x"; substr($h, 124, 12) = "10000000000\0"'
ln -s /etc/passwd "$tmp/meta.link"
tar cf "$tmp/x.tar" --transform 's,meta.link,host/meta,' -C "$tmp" meta.link
run "$kvmft" report "$tmp/x.tar"
status_is 1 "a link in an archive"
err_has 'without a capture' "... is not followed"
if [ "${CHECK_ALL:-0}" = 1 ]; then
	perl -e 'print "\0" x (1 << 20) for 1 .. 1100' | gzip -1 >"$tmp/bomb.gz"
	{ tar c -C "$run" session | head -c 1024 | gzip; cat "$tmp/bomb.gz"; } >"$tmp/x.tar"
	run "$kvmft" merge "$tmp/x.tar"
	status_is 1 "one that is over 1 GiB unpacked"
	err_has 'unpacks to over 1 GiB, or to 250 times its size' "... is refused"
else
	skip "one that is over 1 GiB unpacked" "make check-all has it"
fi
perl -e 'print "\0" x (1 << 20) for 1 .. 200' | gzip >"$tmp/bomb.gz"
{ tar c -C "$run" session | head -c 1024 | gzip; cat "$tmp/bomb.gz"; } >"$tmp/x.tar"
run "$kvmft" merge "$tmp/x.tar"
status_is 1 "one of 200 kB that is 200 MB unpacked"
err_has 'unpacks to over 1 GiB, or to 250 times its size' "... is refused as well"
rm -f "$tmp/bomb.gz" "$tmp/x.tar"

# ---- what is missing ----

mv "$run/web" "$tmp/web"
run "$kvmft" merge "$run"
status_is 3 "a guest's capture is missing: exit 3"
err_has 'the session recorded web, but its capture is missing' "... is reported"
ok "... the host is shown" grep -q '^host' "$out"
cp "$run/session" "$tmp/session.kept"
printf 'side name=x dir=a\033]0;b\007 role=guest how=env\n' >>"$run/session"
run "$kvmft" merge "$run"
err_has 'recorded web, a.\]0;b., but' "... one with a name for terminals, too"
is "$(LC_ALL=C grep -c "$(printf '[\033\007]')" "$err")" 0 "... which does not reach them"
mv "$tmp/session.kept" "$run/session"
run "$kvmft" verify "$run"
status_is 2 "verify without a guest"
err_has 'no guest beside it' "... is reported"
mkdir "$tmp/elsewhere"
mv "$tmp/web" "$tmp/elsewhere/web"
ln -s "$tmp/elsewhere/web" "$run/web"
run "$kvmft" merge "$run"
err_has 'the session recorded web, but its capture is missing' "a link in a session is not followed"
rm "$run/web"
mv "$tmp/elsewhere/web" "$run/web"
mv "$run/host" "$tmp/host"
run "$kvmft" merge "$run"
status_is 1 "the host's capture is missing"
err_has 'run/host, the capture of the session.s host, is not there' "... is reported"
mv "$tmp/host" "$run/host"

# ---- made up ----

# refused NAME MESSAGE: with $tmp/made in its place
refused()
{
	cp "$tmp/made" "$run/session"
	run "$kvmft" merge "$run"
	status_is "${3:-1}" "$1"
	err_has "$2" "... is reported"
	err_one_line "$1"
	ok "... nothing is shown" test ! -s "$out"
}
hello="kvmft-session version=1"
: >"$tmp/made"
refused "an empty file" 'names no side'
echo "hello" >"$tmp/made"
refused "text" 'invalid line|not a kvmft session'
echo "kvmft-session version=2" >"$tmp/made"
refused "a later version" 'newer' 4
printf '%s\nside name=a dir=web role=guest\n' "$hello" >"$tmp/made"
refused "no host" 'does not list one host, then guests'
printf '%s\nside name=h dir=host role=host\nside name=h2 dir=web role=host\n' "$hello" >"$tmp/made"
refused "two hosts" 'one host'
printf '%s\nside name=h dir=../run/host role=host\n' "$hello" >"$tmp/made"
refused "a path" 'invalid side'
printf '%s\nside name=h dir=/etc role=host\n' "$hello" >"$tmp/made"
refused "an absolute path" 'invalid side'
printf '%s\nside name=h dir=. role=host\n' "$hello" >"$tmp/made"
refused "the directory itself" 'invalid side'
printf '%s\nside name=h role=host\n' "$hello" >"$tmp/made"
refused "no directory" 'invalid side'
printf '%s\nside name=h dir=host role=king\n' "$hello" >"$tmp/made"
refused "another role" 'invalid side'
printf '%s\nside name=h dir=host role=host\0\n' "$hello" >"$tmp/made"
refused "a NUL" 'not a kvmft session'
printf '%s\nside name=h dir=host role=host\nside name=w dir=we' "$hello" >"$tmp/made"
refused "a line that is cut" 'is cut short'
head -c 2000000 /dev/zero | tr '\0' 'a' >"$tmp/made"
refused "2 MB without a newline" 'not a kvmft session'
{
	printf '%s\nside name=h dir=host role=host\n' "$hello"
	perl -e 'print "side name=g dir=web role=guest\n" x 300'
} >"$tmp/made"
refused "300 guests" 'more captures'
rm "$run/session"
ln -s /etc/passwd "$run/session"
run "$kvmft" merge "$run"
status_is 1 "a link in the place of the file"
err_has 'cannot read .*/session' "... is not followed"
rm "$run/session"
mkfifo "$run/session"
run timeout 300 "$kvmft" merge "$run"
status_is 1 "a FIFO in its place"
rm "$run/session"

# ---- directories that belong to nobody ----

mkdir "$tmp/none"
run "$kvmft" merge "$tmp/none"
status_is 1 "a directory without captures"
err_has 'none' "... is reported"
cp -r "$run/host" "$run/host2"
run "$kvmft" merge "$run"
status_is 1 "two hosts"
err_has '2 of them of hosts.*name the captures that belong together' "... cannot be distinguished"
rm -r "$run/host" "$run/host2"
run "$kvmft" merge "$run"
status_is 1 "guests alone"
err_has '0 of them of hosts' "... are reported"
finish
