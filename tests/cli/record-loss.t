#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# No event without account: numbered events in the recorder's own ring (tests/tools/seqrun.c), with both
# sizes of sub-buffers; recorders that are stopped, doubled and killed. Before and
# after each run all control files of tracefs are compared. CHECK_ALL=1 makes the runs many.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record-loss
# The plain build: what is measured here is the recorder's speed too.
kvmft=${KVMFT_PLAIN:-$kvmft}
if [ "${CHECK_ALL:-0}" = 1 ]; then
	runs=250 kills=200 pairs=50 seconds=60
else
	runs=8 kills=10 pairs=2 seconds=2
fi
seed=${KVMFT_SEED:-$(date +%s)}
echo "# seed $seed: KVMFT_SEED=$seed repeats this"

# numbered NAME OPTION...: passes when no run failed; says how much was lost.
numbered()
{
	name=$1
	shift
	mkdir -p "$tmp/seq"
	if timeout 3000 "$KVMFT_TOOLS/seqrun" --kvmft "$kvmft" --dir "$tmp/seq" --tracefs "$tracefs" \
		--seed "$seed" "$@" >"$tmp/seq.log" 2>&1; then
		result 0 "$name"
	else
		result 1 "$name"
	fi
	sed 's/^/# /' "$tmp/seq.log" | tail -n 5
	rm -rf "$tmp/seq"
	seed=$((seed + 10000))
}

some_lost()
{
	ok "... and some runs lost events" test "$(sed -n 's/.* \([0-9]*\) with loss.*/\1/p' "$tmp/seq.log")" -gt 0
}

numbered "full ring refuses, 4K sub-buffers" --runs $runs --pause -- -b 256K
some_lost
numbered "full ring refuses, 64K sub-buffers" --runs $runs --pause -- -b 1M
numbered "two recorders at once" --runs $pairs --two --pause -- -b 256K
numbered "killed at any moment" --runs $kills --kill -- -b 1M
# How many are lost is up to what else the machine does: tests/bench/record compares. Here each is accounted for.
numbered "highest rate of one CPU for $seconds s, default ring" --seconds $seconds -- --rotate 64M --keep 2
ok "... of many events" grep -qE '^1 runs, 0 failed, [01] with loss: [1-9][0-9]{2,} ' "$tmp/seq.log"
nothing_left_soon "after all"
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
