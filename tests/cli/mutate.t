#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Thousands of files that are almost right: tests/fuzz/mutate.pl says what is done to them, and what must hold.
# make check tries a few, make check-all 10,000, from a seed that is printed (MUTATE_SEED).

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
plain=${KVMFT_PLAIN:-$kvmft}
golden=$top/tests/golden
runs=60
[ "${CHECK_ALL:-0}" != 1 ] || runs=10000
runs=${MUTATE_RUNS:-$runs}
seed=${MUTATE_SEED:-$(date +%s)}
# ASan must return NULL: the reader reports what it cannot allocate, as the plain build does.
ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99}:detect_leaks=0:allocator_may_return_null=1
export ASAN_OPTIONS

mkdir "$tmp/seeds" && cd "$tmp/seeds" || exit 1
seeds()
{
	for side in host guest; do
		"$tools/mkcap" --capture $side "$golden/latency-$side.txt" || return
	done
	{
		cat "$golden/latency-host.txt"
		echo "event kvmft guest_cr3 19020 u64:cr3 u64:rip u64:rsp u8:cpl u64:code u64:modes u64:fs"
		awk 'BEGIN { for (i = 0; i < 40; i++) { t = 100000 + i * 100; print 0, t, "101 kvm_exit exit_reason=" (i % 3 ? "0x60" : "0x78") " isa=2"
			print 0, t + 5, "101 kvmft:guest_cr3 cr3=" 4096 * (i % 4) " rip=1 rsp=" 16384 * (i % 5) " cpl=" i % 2 * 3 " code=0x60 modes=1 fs=" (i % 8 ? "0x7f" (i < 20 || i % 3) "000000000" : 0)
			print 0, t + 50, "101 kvm_entry vcpu_id=0 rip=" (i ? 4198400 : 65520) } }'
	} >spaces.text
	"$tools/mkcap" --capture spaces spaces.text && "$plain" merge -q spaces >text &&
		"$tools/mkcap" --capture access "$golden/report-access.txt" &&
		"$tools/genpair" --host pair-host --guest pair-guest --vcpus 2 --ms 2 &&
		"$tools/gen" --trace-dat v6.dat --events 200 --cpus 2 --subbuf 1K || return
	dat_v7 v6.dat v7.dat none || rm -f v7.dat
	dat_v7 v6.dat zstd.dat zstd || rm -f zstd.dat
	cp "$golden/foreign/zlib/guest.dat" zlib.dat
	"$tools/perfdata" v6.dat perf.data kvm_entry kvm_exit kvm_pio &&
		"$tools/genqemu" --simple 4 qemu.simple "$golden/qemu-simple.txt" || return
	cp "$golden/qemu-log.log" qemu.log
	sed 's/^/Nov 23 10:00:00 host qemu-system-x86_64[100]: /' "$golden/qemu-log.log" >qemu.syslog
	printf '[10:00:00.000001000] (+?.?????????) host qemu:%s: { cpu_id = 0 }, { pid = 1 }, { n = 1 }\n' a b >qemu.ust
	cp "$golden/qemu-events.txt" trace-events
	printf 'kvmft-symbols 3\n+m ffffffffc0000000 2000\nffffffff81000000 t a\nffffffff81000100 t ab\nffffffff81000200 - -\nffffffffc0000000 t f [m]\n.\n' >guest/symbols
	printf 'ffffffff81000000 T a\nffffffff81000100 t ab\nffffffff81000200 T _etext\nffffffffc0000000 t f\t[m]\n' >kallsyms
	printf 'm 8192 1 - Live 0xffffffffc0000000 (E)\nn 4096 0 - Live 0xffffffffc0002000\n' >modules
	"$tools/gensdt" "$golden/sdt.txt" program
}
ok "the files that are changed" seeds
jobs=$(nproc)
pids=
i=0
while [ $i -lt "$jobs" ]; do
	mkdir "$tmp/$i"
	cp -R "$tmp/seeds" "$tmp/$i/"
	perl "$top/tests/fuzz/mutate.pl" --dir "$tmp/$i" --san "$kvmft" --plain "$plain" \
		--runs $((runs / jobs)) --seed $((seed + i)) ${MUTATE_KEEP:+--keep "$MUTATE_KEEP"} >"$tmp/$i.log" 2>&1 &
	pids="$pids $!"
	i=$((i + 1))
done
i=0
for pid in $pids; do
	wait "$pid"
	is "$?" 0 "$((runs / jobs)) mutations of seed $((seed + i))"
	sed 's/^[^#]/# &/' "$tmp/$i.log"
	i=$((i + 1))
done
finish
