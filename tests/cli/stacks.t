#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Kernel stacks: made captures with and without them say the same of everything else; what stacks
# are called, and of which event they are; hostile files; and `kvmft record --stacks` on this machine.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

# ---- a capture tells the same with a stack behind each event ----

# with_stacks TEXT: the same lines, and a stack behind each event.
with_stacks()
{
	echo "event ftrace kernel_stack 4 s32:size u32:pad u64:caller u64:c1 u64:c2"
	awk '{ print }
		/^[0-9]/ && $2 != "gap" {
			print $1, $2, $3, "ftrace:kernel_stack size=3 caller=0xffffffff81000010 c1=0xffffffff81000110 c2=0x77"
		}' "$1"
}

# made NAME: $tmp/NAME, and $tmp/NAME-stacks.
made()
{
	with_stacks "$golden/$1.txt" >"$tmp/$1-stacks.txt"
	ok "$1: compiled" "$mkcap" --capture "$tmp/$1" "$golden/$1.txt"
	ok "$1: compiled with stacks" "$mkcap" --capture "$tmp/$1-stacks" "$tmp/$1-stacks.txt"
	printf 'ffffffff81000000 T inner\nffffffff81000100 t middle\t[kvm]\nffffffff81000200 t behind\n' \
		>"$tmp/$1-stacks/kallsyms"
}

# same_table NAME OPTION...: report of both.
same_table()
{
	name=$1
	shift
	"$kvmft" report "$@" -i "$tmp/$name" >"$tmp/without" 2>/dev/null
	want=$?
	run "$kvmft" report "$@" -i "$tmp/$name-stacks"
	is "$rc" "$want" "$name $*: status with stacks"
	ok "... and the same table" cmp "$tmp/without" "$out"
}

for f in basic loss split access leaves nested arm64; do
	made "report-$f"
	same_table "report-$f" --per vcpu --percentiles
done
same_table report-split --split
for class in mmio ioport msr page-fault inject; do
	same_table report-access --event $class
done
made latency-host
made latency-guest
for what in irq sched io timer; do
	"$kvmft" latency $what --worst 0 "$tmp/latency-host" "$tmp/latency-guest" >"$tmp/without" 2>/dev/null
	want=$?
	run "$kvmft" latency $what --worst 0 "$tmp/latency-host-stacks" "$tmp/latency-guest-stacks"
	is "$rc" "$want" "latency $what: status with stacks"
	ok "... and the same table" cmp "$tmp/without" "$out"
done
"$kvmft" verify "$tmp/latency-host" "$tmp/latency-guest" >"$tmp/without" 2>/dev/null
want=$?
run "$kvmft" verify "$tmp/latency-host-stacks" "$tmp/latency-guest"
is "$rc" "$want" "verify: status with stacks of the host"
ok "... and the same proof" cmp "$tmp/without" "$out"

# ---- names, and whose stack it is ----

cat >"$tmp/s.txt" <<'END'
event ftrace kernel_stack 4 s32:size u32:pad u64:caller u64:c1 u64:c2
0 1000 101 kvm_entry vcpu_id=0
0 2000 101 kvm_exit exit_reason=12 isa=1 vcpu_id=0
0 2000 101 ftrace:kernel_stack size=3 caller=0xffffffff81000010 c1=0xffffffff81000110 c2=0x77
0 3000 101 kvm_entry vcpu_id=0
0 4000 101 kvm_exit exit_reason=12 isa=1 vcpu_id=0
0 4000 101 ftrace:kernel_stack size=3 caller=0xffffffff81000020 c1=0xffffffff81000110 c2=0x77
0 4100 101 kvm_entry vcpu_id=0
0 5000 101 kvm_exit exit_reason=30 isa=1 vcpu_id=0
0 5000 101 ftrace:kernel_stack size=1 caller=0xffffffff81000010
0 5100 101 kvm_pio rw=1 port=0x80 size=1 count=1 val=0
0 5100 101 ftrace:kernel_stack size=2147483647 caller=0xffffffff81000110 c1=0x9 c2=0xffffffff81000010
0 gap 3
0 6000 101 ftrace:kernel_stack size=1 caller=0x5
0 6100 101 kvm_entry vcpu_id=0
END
ok "stacks: compiled" "$mkcap" --capture "$tmp/s" "$tmp/s.txt"
printf 'ffffffff81000000 T inner\nffffffff81000100 t middle\t[kvm]\nffffffff81000200 t behind\n' >"$tmp/s/kallsyms"
run "$kvmft" merge "$tmp/s"
out_has 'ftrace:kernel_stack: inner <- middle \[kvm\] <- 0x77$' "functions, of modules too, and what has no name"
out_has 'ftrace:kernel_stack: middle \[kvm\] <- 0x9 <- inner$' "a stack that says it is longer than it is"
run "$kvmft" report -i "$tmp/s" --by stack
status_is 3 "by stack: events were lost"
out_has '^kvm:kvm_exit HLT +2 +50\.00%$' "... two exits on one stack are one row"
out_has '^kvm:kvm_exit IO_INSTRUCTION +1 +25\.00%$' "... an exit for another reason is another"
out_has '^kvm:kvm_pio +1 +25\.00%$' "... and so is another event"
out_has '^    middle \[kvm\]$' "... with the functions below it"
out_has '^1 stacks whose event is missing: left out$' "... a stack behind a gap is of no event"
run "$kvmft" report -i "$tmp/s" --by stack --event ioport --format csv
is "$(sed 1d "$out")" 'kvm:kvm_pio,,1,100.00,"middle [kvm] <- 0x9 <- inner"' "... of a class, as CSV"
run "$kvmft" report -i "$tmp/s" --by stack --top 1 --format json
out_has '"rows":\[{"event":"kvm:kvm_exit","reason":"HLT","samples":2,"samples_pct":50.00,"stack":\["inner","middle \[kvm\]","0x77"\]}\]' \
	"... as JSON"
run "$kvmft" report -i "$tmp/s" --by stack --vcpu 0
status_is 2 "... has no vCPUs"
err_has 'merge --format folded' "... and says what has"
run "$kvmft" report -i "$tmp/report-basic" --by stack
status_is 4 "by stack, without stacks"
err_has 'no stacks were recorded in .*: kvmft record --stacks EVENT' "... says how they are recorded"
"$kvmft" export -q -i "$tmp/s" --to perfetto >"$tmp/s.pf"
if command -v protoc >/dev/null; then
	protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$tmp/s.pf" | sed -n 's/^ *1: "\(.*\)"$/\1/p' | sort >"$tmp/pf"
	"$kvmft" merge -q "$tmp/s" | sed -n 's/.* ftrace:kernel_stack: //p' | sort >"$tmp/want"
	ok "Perfetto has each stack, by names" diff "$tmp/want" "$tmp/pf"
	ok "... and there are some" test -s "$tmp/want"
else
	skip "Perfetto" "no protoc"
fi
# On a terminal it is cut as all tables are.
TERM=xterm python3 "$top/tests/cli/terminal.py" 30 24 "" env NO_COLOR=1 KVMFT_PAGER=cat "$kvmft" report --by stack -i "$tmp/s" >"$tmp/narrow"
is "$(grep -v '^kvmft' "$tmp/narrow" | tr -d '\r' | awk 'length > 30' | wc -l | tr -d ' ')" 0 "by stack, on a narrow terminal"
ok "... is cut there" grep -q '>.*$' "$tmp/narrow"
run "$kvmft" merge -q --format json "$tmp/s"
out_has '"event":"ftrace:kernel_stack","fields":{"stack":\["inner","middle \[kvm\]","0x77"\]}' "JSON has an array"
run "$kvmft" merge -q --format folded "$tmp/s"
cat >"$tmp/want" <<'END'
<...>;0x5 1
<...>;0x77;middle [kvm];inner 2
<...>;inner 1
<...>;inner;0x9;middle [kvm] 1
END
ok "folded: outermost first, sorted" diff "$tmp/want" "$out"
cp "$out" "$tmp/folded"
run "$kvmft" export -q -i "$tmp/s" --to folded
ok "... export has the same" cmp "$tmp/folded" "$out"
run "$kvmft" merge -q --format folded -e kvm_pio "$tmp/s"
is "$(cat "$out")" "<...>;inner;0x9;middle [kvm] 1" "... --event chooses events, whose stacks come along"
run "$kvmft" merge -C 0 -e 'kvm_exit/exit_reason == 30/' "$tmp/s"
is "$(grep -c 'kvm_exit\|: inner$' "$out")" 2 "... and so with --context"
err_has '^kvmft: 1 matches' "... which counts the event"
run "$kvmft" merge --format folded "$tmp/report-basic"
status_is 4 "folded, without stacks"
err_has 'no stacks were recorded: kvmft record --stacks EVENT' "... says how they are recorded"

# ---- trace.dat ----

run "$kvmft" export -q -i "$tmp/s" -o "$tmp/s.dat" --force
status_is 3 "export: events were lost"
run "$kvmft" merge -q "$tmp/s.dat"
out_has 'ftrace:kernel_stack: inner <- middle \[kvm\] <- 0x77$' "... has the names"

# ---- hostile kallsyms ----

printf 'ffffffff81000000 T in\033[2J;ner\nffffffff81000100 t \303\050\t[\007]\nffffffff8100' >"$tmp/s/kallsyms"
run "$kvmft" merge -q "$tmp/s"
is "$(LC_ALL=C tr -d '\n\040-\176' <"$out" | wc -c | tr -d ' ')" 0 "names are printable, whatever the file has"
run "$kvmft" merge -q --format folded "$tmp/s"
out_has '^<\.\.\.>;0x77;[^;]*;in\?\[2J:ner 2$' "... and no name is two frames"
head -c 100000 /dev/urandom >"$tmp/s/kallsyms"
run "$kvmft" merge -q "$tmp/s"
out_has 'ftrace:kernel_stack: 0xffffffff81000010 <- ' "no kallsyms at all: addresses"

# ---- recording ----

# Of programs, by frame pointers: a sleep in main's callee, in a program whose addresses are fixed.
need_tracefs "record --stacks user"
cat >"$tmp/usersleep.c" <<'END'
#include <unistd.h>
__attribute__((noinline)) int nap(int n) { usleep(20000); return n; }
int main(void) { int s = 0; for (int i = 0; i < 5; i++) s += nap(i); return s != 10; }
END
"${CC:-cc}" -O1 -fno-omit-frame-pointer -fno-pie -no-pie -o "$tmp/usersleep" "$tmp/usersleep.c"
run timeout 300 "$kvmft" record --as host -o "$tmp/user" -e none -e 'sched:sched_switch/prev_comm == "usersleep"/' \
	--stacks user -- "$tmp/usersleep"
status_is 0 "record --stacks user"
nothing_left "user stacks"
run "$kvmft" merge -q -e sched_switch,user_stack "$tmp/user"
is "$(grep -c 'usersleep.* sched:sched_switch' "$out")" "$(grep -c ' ftrace:user_stack: ' "$out")" "each event has the program's stack"
main=$(nm "$tmp/usersleep" | sed -n 's/^0*\([0-9a-f]*\) T main$/\1/p')
ok "... which goes up to main" test "$(grep -c "user_stack: .* => 0x${main%??}" "$out")" -ge 5
need_recording "record --stacks"
rec()
{
	run timeout 300 "$kvmft" record --as host --force -o "$tmp/rec" "$@" -- "$tinyvm" --iterations 100
}

rec -e 'kvm:*' --stacks 'kvm_pio,kvm_userspace_exit/reason == 2/'
status_is 0 "record --stacks"
nothing_left "stacks"
tid=$(vcpu_tid)
events=$(told_events)
is "$(stat -c %a "$tmp/rec/kallsyms")" 600 "symbols are their owner's"
is "$(($(wc -l <"$tmp/rec/kallsyms") < 200))" 1 "... and few"
run "$kvmft" merge -q "$tmp/rec"
is "$(wc -l <"$out" | tr -d ' ') $(sum_stats "$tmp/rec" read)" "$events $events" "stacks are counted and stored as events"
grep "tinyvm-$tid " "$out" | grep -A 1 'kvm:kvm_pio:' | grep -c 'kernel_stack: .*kvm_arch_vcpu_ioctl_run.* <- kvm_vcpu_ioctl' >"$tmp/n"
is "$(cat "$tmp/n")" 100 "each port write has its stack behind it, by names"
is "$(grep "tinyvm-$tid " "$out" | grep -A 1 'reason KVM_EXIT_IO' | grep -c kernel_stack)" 100 "a filter lets those through that it fits"
is "$(grep "tinyvm-$tid " "$out" | grep -A 1 'reason KVM_EXIT_MMIO' | grep -c kernel_stack)" 0 "... and no others"
is "$(grep ' ftrace:kernel_stack: ' "$out" | grep -cE '(^| )0x')" 0 "every function has a name"
rec -e 'kvm:kvm_pio/port == 1/' --stacks kvm_pio
tid=$(vcpu_tid)
run "$kvmft" merge -q "$tmp/rec"
is "$(grep -c "tinyvm-$tid .*kernel_stack" "$out")" 0 "an event that its filter keeps out has no stack"
rec -e none --stacks kvm_pio
tid=$(vcpu_tid)
run "$kvmft" merge -q "$tmp/rec"
grep "tinyvm-$tid " "$out" >"$tmp/own" # there may be other VMs
is "$(grep -c 'kvm:kvm_pio:' "$tmp/own") $(grep -c kernel_stack "$tmp/own")" "100 100" "an event of --stacks alone is recorded"
run "$kvmft" record --as host -o "$tmp/no" --stacks kvm:kvm_nosuch -d 100ms
status_is 4 "unknown event"
run "$kvmft" record --as host -o "$tmp/no" --stacks 'kvm_pio/nosuch == 1/' -d 100ms
status_is 1 "a filter that the kernel refuses"
err_has "kvm:kvm_pio: the kernel refuses trigger 'stacktrace if \(nosuch == 1\)'" "... is reported"
nothing_left "refused"

# Killed: addresses, and kvmft reset takes the triggers with the instance.
start_recording "$tmp/killed" --stacks kvm_pio
sleep 1.5
kill -KILL "$recorder" "$vm"
wait "$recorder" "$vm" 2>/dev/null
recorder=
vm=
run "$kvmft" reset
nothing_left "killed"
run "$kvmft" merge -q "$tmp/killed"
status_is 3 "what a killed recorder left can be read"
is "$([ -e "$tmp/killed/kallsyms" ] && echo there)" "" "... it wrote no symbols"
out_has 'ftrace:kernel_stack: 0xffffffff[0-9a-f]* <- 0xffffffff' "... stacks are addresses"
run "$kvmft" check --host
out_has '^stacktrace +ok +trigger stacktrace' "check reports it"
is "$(tracefs_state)" "$state_before" "the rest of tracefs is as it was"
finish
