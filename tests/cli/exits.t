#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft exits: options, errors and what it needs of a machine. Counts of real guests: tests/vm/exits.t.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

# ---- what needs no tracefs ----

# wrong PATTERN ARGUMENT...: exit 2, one line that has PATTERN.
wrong()
{
	pattern=$1
	shift
	run "$kvmft" exits "$@"
	status_is 2 "exits $*"
	err_has "$pattern" "... says $pattern"
	err_one_line "exits $*"
}

wrong '-p and -T exclude' -p 1 -t 1
wrong '-v and -a exclude' -p 1 -v 0 -a
wrong '-p and --vm exclude' -p 1 --vm x
wrong '-T and -v exclude' -t 1 -v 0
wrong '-v needs -p PID' -v 0
wrong '-a needs -p PID' -a
wrong '--count needs --interval' --count 3
wrong 'at least 1' --interval 1 --count 0
wrong '--interval: must be' --interval 0
wrong '--top and --format json' --top --format json
wrong '--top and -o' --top -o x
wrong 'not a duration' soon
wrong 'not a duration' 0
wrong 'too many operands' 1 2
wrong 'not a process id' -p 0
wrong 'not a list of thread ids' -T 1,x
wrong 'not a process id' -p 99999999999
wrong 'is not one of text, json, csv, openmetrics' --format xml
wrong 'is not one of auto, kernel, user' --engine bpf
# kvmexit's users put options behind the duration.
wrong '-a needs' 5 -a
wrong 'not .*number' --v x

mkdir "$tmp/dir"
ln -s nowhere "$tmp/link"
for file in "$tmp/dir" "$tmp/link" /dev/null; do
	run "$kvmft" exits -o "$file" 1
	status_is 1 "-o $file is refused"
	err_has 'not a plain file' "... and why"
done
ok "... /dev/null is what it was" test -c /dev/null
run "$kvmft" exits -o "$tmp/none/x" 1
status_is 1 "-o in a folder that is not there is refused"
err_has 'its folder: No such file' "... at once"

# ---- a table of 1,000 vCPUs with 40 reasons each ----

plain_tools=$(dirname "${KVMFT_PLAIN:-$top/build/kvmft}")/tests/tools
if [ -x "$plain_tools/exits_load" ]; then
	run "$plain_tools/exits_load" 1000 40
	status_is 0 "40,000 cells"
	sed 's/^/# /' "$err"
	ok "... in at most 8 MiB" awk '$1 == "VmHWM:" && $2 <= 8192 { ok = 1 } END { exit !ok }' "$err"
	is "$(wc -l <"$out" | tr -d ' ')" 40001 "... a row each"
else
	skip "40,000 cells" "tests/tools/exits_load is not built"
fi

need_recording "counting exits"

run "$kvmft" exits -p 999999999 1
status_is 1 "a process that is not there"
err_has 'no process 999999999' "... is named"
run "$kvmft" exits -p $$ 1
status_is 1 "a process that is not a VM"
err_has "PID $$ .* is not a VM.*kvmft list" "... is reported"
err_one_line "a process that is not a VM"
run "$kvmft" exits -t 999999999 1
status_is 1 "a thread that is not there"
run "$kvmft" exits -t $$ 1
status_is 1 "a thread of no VM"
cp "$err" "$tmp/letter.err"
run "$kvmft" exits --tid $$ 1
ok "... --tid, as kvmexit has it, says the same" cmp "$tmp/letter.err" "$err"
err_has "TID $$ .* is not a VM" "... is reported"
# Root in a container may lack the right to look at others: what we may look at is reported all the same.
if command -v setpriv >/dev/null; then
	run setpriv --bounding-set=-sys_ptrace "$kvmft" exits -p $$ 1
	err_has "PID $$ .* is not a VM|cannot tell whether PID $$ .*CAP_SYS_PTRACE" "... nor without CAP_SYS_PTRACE"
	ok "... without the word unknown, in one line" test "$(wc -l <"$err")" -eq 1
else
	skip "without CAP_SYS_PTRACE" "setpriv is not installed"
fi
run "$kvmft" exits -T "$$,x" 1
ok "-T with nonsense fails" test "$rc" != 0
run "$kvmft" exits -T ", ," 1
status_is 2 "-T with nothing"

# ---- a VM of this machine; its exits are seen only where KVM raises kvm_exit ----

mkfifo "$tmp/go"
"$tinyvm" --wait --vcpus 4 --iterations 200 <"$tmp/go" >"$tmp/vm.out" 2>&1 &
vm=$!
exec 9>"$tmp/go"
wait_for_line "$tmp/vm.out"
run "$kvmft" exits -p "$vm" -v 4 1
status_is 1 "a vCPU that is not there"
err_has "PID $vm has no vCPU 4; it has 0-3" "... and those that are"
run "$kvmft" exits --vm nosuch 1
status_is 1 "a VM that is not there"
err_has "$vm-" "... and the candidates are listed"
run "$kvmft" exits --engine kernel -p "$vm" 200ms
if [ -e "$tracefs/events/kvm/kvm_exit/hist" ]; then
	status_is 1 "a VM that does nothing has no exits"
else
	status_is 4 "no hist triggers here"
	err_has 'CONFIG_HIST_TRIGGERS' "... and what the kernel would need"
	run "$kvmft" exits --engine auto -p "$vm" 200ms
	err_has 'the kernel cannot count: .*CONFIG_HIST_TRIGGERS' "--engine auto says why kvmft counts"
	err_has 'kvmft counts: events recorded in kvmft' "... and that it does"
fi
run "$kvmft" exits -p "$vm" -a --time --format json 200ms
status_is 1 "no exits seen: not a success"
err_has 'no exits of PID .* were seen in' "... is reported"
out_has '"count":0,"exits":\[\]' "... and the table is there, empty"
run "$kvmft" exits -p "$vm" --interval 100ms --count 2 --format csv
is "$(cat "$out")" "time,seconds,pid,tid,vm,name,uuid,vcpu,reason,code,count" "CSV has its header once"

# The file is replaced in one step, and can be read by others.
umask 022
echo old >"$tmp/kvm.prom"
run "$kvmft" exits --format openmetrics -o "$tmp/kvm.prom" 200ms
is "$(tail -n 1 "$tmp/kvm.prom")" "# EOF" "-o FILE: the table is there, to its end"
is "$(stat -c %a "$tmp/kvm.prom")" 644 "... for all to read"
is "$(find "$tmp" -name "kvm.prom?*")" "" "... and nothing beside it"
is "$(cat "$out")" "" "... nothing on standard output"

# ---- ends ----

# count_vm ARGUMENT...: counts $vm in the background; returns when counting has begun.
count_vm()
{
	rm -f "$err"
	"$kvmft" exits --engine auto -p "$vm" "$@" >"$out" 2>"$err" 9>&- </dev/null &
	recorder=$!
	n=0
	until grep -qs 'counts:' "$err" || [ $n -ge 400 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}

# ends NAME SIGNAL: it prints the table and leaves nothing.
ends()
{
	count_vm --time
	kill "-$2" $recorder
	wait $recorder
	rc=$?
	recorder=
	status_is 1 "$1 ends it (nothing was seen)"
	out_has '^KVM_EXIT_REASON +COUNT +TOTAL\(us\) +AVG\(us\) +MAX\(us\)$' "... with the table"
	nothing_left "$1"
}

ends SIGINT INT
ends SIGTERM TERM

# The VM ends: nothing more can come.
count_vm 60
exec 9>&-
wait "$vm"
vm=
wait $recorder
rc=$?
recorder=
err_has 'the VM ended' "it ends with the VM"
sed 's/^/# /' "$out"

# A kernel with kvm_exit says what tinyvm says; others nothing.
if [ "$rc" = 0 ]; then
	io=$(awk '/^vcpu/ { split($3, a, "="); n += a[2] } END { print n }' "$tmp/vm.out")
	ok "... its exits were counted" awk -v io="$io" '$NF == io { ok = 1 } END { exit !ok }' "$out"
else
	status_is 1 "... and this machine's KVM raises no kvm_exit"
fi

nothing_left "after all"
is "$(tracefs_state)" "$state_before" "tracefs is as it was"
finish
