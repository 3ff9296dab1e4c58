# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

for cpu in $(seq 0 $((RIG_VCPUS - 1))); do
	taskset -c $cpu "$(dirname "$KVMFT")/tests/tools/ticker" 4000 &
	tickers="${tickers:-} $!"
done
flag_set "$RIG_NAME-steady"
flag_wait "$RIG_NAME-slack" 600
for pid in $tickers; do
	echo 8000000 >"/proc/$pid/timerslack_ns"
done
flag_set "$RIG_NAME-slack-done"
sleep 600
finish
