# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

flag_set guest-ready
flag_wait go
taskset -c 0 sh -c 'while :; do :; done' &
busy=$!
"$(dirname "$KVMFT")/tests/tools/ticker" 5000 &
ticker=$!
for i in 1 2; do
	"$KVMFT" record -o "/tmp/guest$i" 2>"/tmp/guest$i.err" &
	recorder=$!
	flag_wait "recorded$i" 200
	kill -TERM "$recorder"
	wait "$recorder"
	check "guest: record $i exits 0" same "$?" 0
	tar -cf "$RESULTS/guest$i.tar" -C /tmp "guest$i"
done
kill "$busy" "$ticker"
finish
