# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

for cpu in $(seq 0 $((RIG_VCPUS - 1))); do
	taskset -c $cpu "$(dirname "$KVMFT")/tests/tools/ticker" 4000 &
	tickers="${tickers:-} $!"
done
flag_set "$RIG_NAME-steady"
flag_wait "$RIG_NAME-slack" 600
# Longer than what a halt may last on a busy machine, see host.sh.
slack=80000000
[ "$RIG_CPU" != intel ] || slack=8000000
for pid in $tickers; do
	echo $slack >"/proc/$pid/timerslack_ns"
done
flag_set "$RIG_NAME-slack-done"
sleep 600
finish
