#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency` says of a guest that was delayed in known ways for known times.

. "$(dirname "$0")/tap.sh"

rig latency --timeout 300

# between NAME VALUE LOW HIGH
between()
{
	ok "$1 ($2 in $3..$4)" test "$2" -ge "$3" -a "$2" -le "$4"
}

# us TABLE NAME STAGE COLUMN: of the CSV of the last run, in whole us; rows whose name matches are summed up.
us()
{
	sed 's/,\("[^",]*\),\([^"]*",\)/,\1;\2/' "$out" | awk -F , -v table="$1" -v name="$2" -v stage="$3" -v column="$4" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i }
		$1 == table && $4 == stage && $3 ~ name { v += $c }
		END { printf "%d\n", v }'
}

# head TABLE: name of its first row
head_of()
{
	awk -F , -v table="$1" '$1 == table { gsub(/"/, "", $3); sub(/-[0-9]*$/, "", $3); print $3; exit }' "$out"
}

# worst NAME [LINE]: sum in us of the worst cases of the last run in text whose first line matches, and one of all
worst()
{
	awk -v name="$1" -v line="${2:-.}" '/^[0-9]+\. / {
			v = $0 ~ name ? $2 : 0; unit = $3; sub(/:/, "", unit)
			v *= unit == "s" ? 1000000 : unit == "ms" ? 1000 : unit == "us" ? 1 : 0
		}
		$0 ~ line { sum += v; v = 0 }
		END { printf "%d\n", sum }' "$out"
}
worst_count() { grep -E '^[0-9]+\. ' "$out" | grep -cE "$1"; }

ms=$(fact ms)
half=$((ms / 2))ms

# ---- a VMM that is stopped, a thief on the victim's CPU ----

robbed()
{
	run "$kvmft" latency "$@" --all -q "$rig/host1" "$rig/guest1"
}
stop=$(fact stop_sum_us)
thief=$(fact thief_sum_us)
robbed sched --than "$half" --worst 1000 --context 0
status_is 0 "sched"
# Under emulation a vCPU that may run again takes a few ms to start. What began with another task was not planted.
lost=$(worst ': victim-')
others=$((lost - $(worst ': victim-' ' prev_comm=CPU .* (prev_state=T|.*next_comm=thief) ')))
between "the victim lost what was taken in slices of $ms ms, in us" "$lost" \
	$(((stop + thief) * 95 / 100)) $(((stop + thief) * 115 / 100 + others))
# It takes less than a slice while it is still a shell, or a program that starts.
between "the thief ran instead, for its time, in us" "$(worst ': thief-')" $((thief * 95 / 100)) $((thief * 110 / 100))
robbed sched --format csv
status_is 0 "sched as CSV"
grep -E '(victim|thief|nobody).*,total,' "$out" | sed 's/^/# /'
is "$(head_of sched)" victim "the victim heads the table of those that were hit"
is "$(head_of stealer)" thief "the thief heads the table of those that ran instead"
robbed all --format json --worst 0
status_is 0 "all, robbed"
sums "the parts are the whole"

# The same seen from the slow moments: the VMM was stopped, the thief ran. A busy machine has longer ones.
run "$kvmft" blame -q --than "$half" --top 1000 "$rig/host1" "$rig/guest1"
status_is 0 "blame, robbed"
sed 's/^/# /' "$out" | head -n 12
out_has '^ .* thief-[0-9]' "... the thief is named as a cause"

# ---- a slow disk, a VMM whose thread has no CPU, a guest with interrupts off ----

delayed()
{
	run "$kvmft" latency "$@" --all -q "$rig/host2" "$rig/guest2"
}
delayed io,irq --format csv --qemu "$rig/qemu.trace"
status_is 0 "io, irq as CSV, with what QEMU logged"
grep -E '^io|virtio1|local_timer' "$out" | sed 's/^/# /'
write=$(fact write_us)
host=$(us io write host avg_us)
between "a throttled write takes its time on the host, in us" "$host" $((write * 7 / 10)) $((write * 14 / 10))
guest=$(($(us io write submit avg_us) + $(us io write deliver avg_us) + $(us io write complete avg_us)))
between "... and not in the guest" "$guest" 0 $((host * 3 / 10))
between "... nor does it wait for the VMM" "$(us io write vmm-wait avg_us)" 0 $((host * 3 / 10))
between "... it is QEMU's block layer that takes it, in us" "$(us io write block avg_us)" $((write * 7 / 10)) \
	$((write * 14 / 10))
parts=$(($(us io write take sum_us) + $(us io write block sum_us) + $(us io write notify sum_us)))
between "... and QEMU's stages are the host's, in us" "$parts" $(($(us io write host sum_us) * 99 / 100)) \
	$(($(us io write host sum_us) + 10))
bully=$(fact vmm_sum_us)
waited=$(($(us io read vmm-wait sum_us) + $(us irq 'virtio' wake sum_us)))
# On a busy machine there are other waits, too; the time that was taken must show before the interrupt is
# accepted.
between "a VMM without a CPU is waited for, in us" "$waited" $((bully * 6 / 10)) $((bully * 3))
between "... before QEMU takes the request, in us" "$(us io read take sum_us)" "$(us io read vmm-wait sum_us)" \
	"$(us io read host sum_us)"
between "... on the host rather than in the delivery, in us" "$(us io read deliver sum_us)" 0 \
	"$(us io read host sum_us)"
delayed io --than "$half" --worst 1000 --context 0
between "reads that took $half or more, and their time on the host" "$(worst_count ' read .*; on the host$')" 5 200

off=$(fact off_longest_us)
off_least=$(($(fact ms) * 1000))
delayed irq --than "$half" --worst 1000 --context 0
between "timers that were late by interrupts off in the guest" \
	"$(worst_count 'local_timer .*; interrupts off in the guest$')" 7 20
# While interrupts are off the vCPU may lose its CPU; that part is not the guest's.
between "... for as long as they were off, in us" "$(sed -n 's/^ .* masked \([0-9]*\)\.*[0-9]* ms .*/\1000/p' "$out" |
	sort -n | tail -n 1)" $((off_least * 7 / 10)) $((off * 12 / 10))
delayed all --format json --worst 0 --qemu "$rig/qemu.trace"
status_is 0 "all, delayed"
sums "the parts are the whole"
for analysis in irq timer sched io; do
	ablated $analysis "$rig/host2" "$rig/guest2"
done
ablated split "$rig/host2"

# ---- what blame says of these delays, of captures that lack events: on AMD, blame.t asks that ----

# as_planted NAME NUMBER: the captures of this number, and on stdin what was planted, for ablation.py
as_planted()
{
	mkdir "$tmp/$1"
	ln -s "$rig/host$2" "$tmp/$1/host"
	ln -s "$rig/guest$2" "$tmp/$1/guest"
	: >"$tmp/$1/spins"
	cat >"$tmp/$1/truth"
}
# Time is counted in instructions there, so nothing but what was planted is late.
if on_intel; then
	# The VMM was stopped before the thief first ran.
	at=$("$kvmft" merge -q --clock boot "$rig/host1" |
		sed -n 's/.* \([0-9]*\.[0-9]*\)  sched:sched_switch: .*next_comm=thief .*/\1/p' | head -n 1)
	as_planted robbed 1 <<-END
		stop stopped 0 $at 25 --vcpu 0 --what stall
		thief host-task $at 100000 25 --vcpu 0 --what stall
	END
	as_planted delayed 2 <<-END
		irqsoff guest-irqs-off 0 100000 25 --vcpu 1 --what hrtimer,timer,irq
		io vmm 0 100000 25 --what io
	END
	ablated blame "$tmp/robbed" "$tmp/delayed"
	# 5 stops, 16 slices of the thief, 10 times without interrupts; of slow I/O this recording says nothing.
	right=$(sed -n 's/^nothing  *right \([0-9]*\) .*/\1/p' "$tmp/ablated")
	ok "blame gives $right of these 31 delays their cause" test "$right" -ge 28
fi
finish
