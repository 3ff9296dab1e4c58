#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# The examples of the manual are run: every line with a prompt in man/*.
#
# What only calculates must print what the page shows. What reads captures is run on small ones that are made here,
# and must succeed. What needs a machine to record ("host#", "guest#", "#") is run for a short time, with a small VM
# in place of the page's, when CHECK_ALL=1; make check makes sure that its options exist. An example that
# cannot be run here is in not_run() with the reason; none is skipped silently.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

if ! command -v mandoc >/dev/null; then
	skip "examples of the manual" "mandoc is not installed"
	finish
fi

# Each example in a folder of its own: page, prompt, cmd, and want, the lines that follow it.
extract()
{
	mkdir "$tmp/ex"
	for page in "$top"/man/*.[157]; do
		# Monospaced bold is struck over: col takes it away.
		mandoc -T ascii -O width=400 "$page" | col -bx | awk -v dir="$tmp/ex" -v page="$(basename "$page")" '
			function trim(s) { sub(/^ */, "", s); return s }
			/^ *(host|guest)?[#$] +[a-z]/ && !/^ *# (virtio|lost|kernel)/ {
				line = trim($0)
				while (line ~ /(\\|\|)$/ && (getline more) > 0) {
					sub(/\\$/, "", line)
					line = line " " trim(more)
				}
				prompt = line
				sub(/ .*/, "", prompt)
				sub(/^[^ ]* +/, "", line)
				at = sprintf("%s/%s.%03d", dir, page, ++n)
				printf "%s\n%s\n%s\n", page, prompt, line >at
				close(at)
				want = at ".want"
				printf "" >want
				next
			}
			/^ *$/ { want = "" }
			want { print trim($0) >want }'
	done
}

# not_run COMMAND: prints why, for those that no test runs as they stand.
not_run()
{
	case $1 in
	*STAMP* | *RECORD* | *MULT,SHIFT* | *"..."*) echo "has words to be filled in" ;;
	*/debug/kvm/*) echo "names a VM of another machine" ;;
	kernelshark*) echo "opens a window; tests/cli/export.t has KernelShark's library read such files" ;;
	systemctl*) echo "changes the machine; tests/cli/cron.t runs the unit's command" ;;
	install*) echo "changes the machine" ;;
	find* | cat* | grep* | echo* | less*) echo "not a command of kvmft" ;;
	*"ssh guest"* | *"ssh root@"* | *"ssh collector"*) echo "needs a machine with ssh; tests/cli/sides.t and tests/vm/sides.t have the like" ;;
	*"nc "*) echo "needs a network; tests/cli/stream.t has the like" ;;
	*qemu-system* | "kvmft qemu"* | *"--qemu trace-"*) echo "needs a QEMU; tests/cli/qemu.t and record-qemu.t run such" ;;
	*./prog*) echo "needs a program with markers; tests/cli/sdt.t runs such" ;;
	*"kvmft advise -d"*) echo "records this host; tests/cli/clock-live.t does" ;;
	*"--kvmclock vm1"* | *guest-offset*) echo "needs a kvmclock guest; tests/vm/clocks.t and guestclocks.t have one" ;;
	esac
}

# ---- folders that the examples name ----

uuid=8ab13543-95fc-4a78-9056-d605a03e9033
make_captures()
{
	mkdir "$tmp/run" && cd "$tmp/run" || exit
	{
		echo "0 900 101 kvm_pvclock_update vcpu_id=0 version=2 tsc_timestamp=900 system_time=5 tsc_to_system_mul=2147483648 tsc_shift=1"
		echo "event kvmft guest_cr3 19020 u64:cr3 u64:rip u64:rsp u8:cpl u64:code u64:modes"
		sed "s/ pid=100 fd=12 name=one/ pid=4711 fd=12 name=vm1 uuid=$uuid/
			/^0   2000 101 kvm_exit/a 0 2050 101 kvmft:guest_cr3 cr3=0x100000 rip=0x401000 cpl=3 code=0x60 modes=1" \
			"$golden/latency-host.txt"
		# What examples ask for by name.
		echo "0 18100 101 kvm_msr write=0 ecx=0x11 data=5 exception=0"
		echo "0 18200 101 kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=0 next_tsc_offset=0"
		# What relates the clocks; it is 14:05 in UTC.
		echo "meta time tsc=1 width=2 mono_raw=1 mono=1 boot=1 real=1795269900000000000"
		echo "meta time tsc=200000000000 width=2 mono_raw=200000000000 mono=200000000000 $(
			)boot=200000000000 real=1795270100000000000"
		echo "meta clock name=perf tsc=1 width=2 ns=1"
		echo "meta clock name=perf tsc=20000000000000 width=2 ns=20000000000000"
		echo "meta raw last=0 mult=8388608 shift=23 nsec=0 base=0 clocksource=tsc source=mkcap"
	} >host.txt
	{ cat host.txt; printf "0 18300 101 kvm_exit exit_reason=18 isa=1\n0 18310 101 kvm_hv_hypercall code=2 fast=1\n0 18400 101 kvm_entry vcpu_id=0\n"; } >win.txt
	{
		echo "event ftrace print 5 u64:ip text:buf"
		cat "$golden/latency-guest.txt"
		echo "0 17600 77 msr:read_msr msr=0x11 val=5"
		echo "0 17610 77 ftrace:print buf=begin of 1"
		echo "0 17620 77 ftrace:print buf=end of 1"
		echo "meta machine uname=Linux%206.18.0 arch=x86_64 long=8 endian=little uuid=$uuid"
		echo "meta sched kvm_sched_clock_offset=2210749078"
		echo "meta pvclock cpu=0 version=6 tsc_timestamp=1000 system_time=0 mul=2147483648 shift=1 flags=1"
	} >guest.txt
	"$mkcap" --capture host host.txt && "$mkcap" --capture win win.txt && "$mkcap" --capture guest guest.txt &&
		"$mkcap" --capture kvmft.data "$golden/report-access.txt" &&
		"${mkcap%/*}/perfdata" kvmft.data perf.data kvm_entry kvm_exit kvm_mmio || return
	# Long enough to be compared.
	awk 'BEGIN {
		print "meta vm id=4711-12 pid=4711 fd=12 name=vm1"
		print "meta vcpu vm=4711-12 id=0 tid=101"
		for (t = 1e6; t < 4e8; t += 1e6) {
			printf "0 %d 101 kvm_exit exit_reason=32 isa=1 vcpu_id=0\n", t
			printf "0 %d 101 kvm_msr write=1 ecx=0x6e0 data=5 exception=0\n", t + 100
			printf "0 %d 101 kvm_entry vcpu_id=0\n", t + 2000
		}
	}' >before.txt
	"$mkcap" --capture before before.txt && "$mkcap" --trace-dat before.dat before.txt && cp -R before after &&
		cp before.dat after.dat || return
	# Restored, and one TSC after the other written.
	awk 'BEGIN {
		print "meta vm id=100-12 pid=100 fd=12 name=vm1\nmeta task tid=100 tgid=100 comm=fc_api"
		for (v = 0; v < 2; v++) {
			printf "meta vcpu vm=100-12 id=%d tid=%d offset=-1000 tsc=1\n", v, 101 + v
			printf "%d 3500000 %d kvm_entry vcpu_id=%d rip=0xffffffff81000000\n", v, 101 + v, v
			printf "%d 3600000 %d kvm_exit exit_reason=12 isa=1 guest_rip=0xffffffff81000000 vcpu_id=%d\n", v, 101 + v, v
		}
		print "meta task tid=102 tgid=100 comm=vcpu1"
		print "2 3204118 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-413331"
		print "recorded kvm_pvclock_update kvm_update_master_clock kvm_track_tsc kvm_msr kvm_pio kvm_mmio kvm_fast_mmio"
	}' >skewed.txt
	# A guest that reads the HPET.
	awk 'BEGIN {
		print "meta vm id=100-12 pid=100 fd=12 name=vm1\nmeta vcpu vm=100-12 id=0 tid=101"
		print "recorded sched:sched_switch sched:sched_wakeup power:cpu_idle kvm_userspace_exit kvm_vcpu_wakeup kvm_msr kvm_pio"
		print "recorded kvm_mmio kvm_fast_mmio kvm_page_fault kvm_set_irq kvm_msi_set_irq kvm_apic_ipi"
		print "meta param module=kvm name=halt_poll_ns value=0\nmeta param module=kvm name=nx_huge_pages value=N"
		for (t = 1e6; t < 2e9; t += 1e6) {
			printf "0 %d 101 kvm_entry vcpu_id=0 rip=0xffffffff81000000\n", t
			printf "0 %d 101 kvm_exit exit_reason=48 isa=1 guest_rip=0xffffffff81000000 vcpu_id=0\n", t + 980000
			printf "0 %d 101 kvm_mmio type=1 len=4 gpa=0xfed000f0 val=1\n", t + 981000
		}
	}' >hpet.txt
	"$mkcap" --capture skewed skewed.txt && "$mkcap" --capture hpet hpet.txt || return
	printf 'ffffffff81000000 T startup_64\nffffffff81000100 T delay_tsc\n' >kallsyms
	mkdir vm1
	for copy in local rec guest-vm1 vm1/kvmft-20261121T064500Z; do
		cp -R guest "$copy"
	done
	cp "$golden/qemu-log.log" qemu.log
	cp -R host one && mv one host/kvmft-20261121T064500Z
	kvmft export -q -i host -o pair.dat guest=vm1 && kvmft export -q -i host -o trace.dat &&
		kvmft export -q -i guest -o guest.dat || return
	# Two recordings with events enough to find an offset in.
	mkdir "$tmp/events" && cd "$tmp/events" &&
		"${mkcap%mkcap}genpair" --host host --guest guest --no-debugfs --ms 20 &&
		kvmft export -q -i host -o host.dat && cp host.dat trace.dat && kvmft export -q -i guest -o guest.dat
	cd "$tmp/run" || exit
}

# unknown_options: of all examples, those options that their commands do not have.
unknown_options()
{
	kvmft --list-options | cut -f 1 >"$tmp/commands"
	kvmft --list-options qemu | awk -F '\t' 'NF == 2 { print $1 }' >>"$tmp/commands"
	while read -r name; do
		# shellcheck disable=SC2086 # one word, or two of a group
		kvmft --list-options $name | awk -F '\t' -v name="$name" 'NF > 2 {
			print name " --" $2; if ($3) print name " -" $3 }'
	done <"$tmp/commands" >"$tmp/known"
	cat "$tmp"/ex/*.[0-9][0-9][0-9] | awk -v q="'" '
		FNR == NR { known[$0] = 1; sub(/ -.*/, ""); known[$0] = 1; next }
		{
			gsub(q "[^" q "]*" q, "")
			n = split($0, part, /[|`]|\$\(/)
			for (i = 1; i <= n; i++) {
				if (!sub(/^(.*[ (])?kvmft +/, "", part[i]))
					continue
				sub(/ -- .*/, "", part[i])
				words = split(part[i], word, /[ ="()]+/)
				name = word[1] == "qemu" ? word[1] " " word[2] : word[1]
				if (!(name in known))
					print "there is no command " name
				for (w = 2; w <= words; w++)
					if (word[w] ~ /^(-[a-zA-Z]|--[a-z].*)$/ && !((name " " word[w]) in known))
						print name " has no " word[w]
			}
		}' "$tmp/known" -
}

# Blanks and line ends as one blank.
one_line() { tr -s ' \n' ' ' | sed 's/ $//'; }

# calculates EXAMPLE: the page shows what comes out.
calculates()
{
	sh -c "$cmd" </dev/null >"$out" 2>"$err"
	rc=$?
	is "$(cat "$out" "$err" | one_line)" "$(one_line <"$1.want")" "$name: as in the page"
}

# It succeeds; what it writes is replaced. With the offset that the page gives to verify, the captures here do not meet.
reads()
{
	case $cmd in
	"kvmft merge host.dat"* | "kvmft verify --solve"*)
		run sh -c "cd '$tmp/events' && $(printf '%s' "$cmd" | sed 's/=vm1/=syn/')"
		status_is 0 "$name"
		return
		;;
	*" -o "*) written=$(echo "$cmd" | sed 's/.* -o \([^ ]*\).*/\1/') && rm -f "${written%.*}"*.* ;;
	esac
	run sh -c "$(printf '%s' "$cmd" | sed 's/| less$/| cat/; s/=4711/=vm1/')"
	case $cmd in
	"kvmft verify --tsc-offset"*)
		status_is 4 "$name"
		out_has "outside of the time that the host recorded" "... says that this offset is wrong here"
		;;
	"kvmft clock host")
		status_is 1 "$name"
		out_has ILL "... says that its clocks are ill here"
		;;
	"kvmft latency net"*)
		status_is 4 "$name"
		err_has "record both sides with" "... says that no packets were recorded here"
		;;
	*)
		ok "$name (exit $rc)" test "$rc" = 0 -o "$rc" = 3
		[ "$rc" = 0 ] || [ "$rc" = 3 ] || show_run
		;;
	esac
}

# live: with the VM here in place of the page's, for a short time, in a folder of its own. -N may wait longer than that.
live()
{
	[ "${CHECK_ALL:-0}" = 1 ] || { left=$((left + 1)); return; }
	[ -n "$vm" ] || start_vm
	rm -rf "$tmp/live"
	mkdir -p "$tmp/live/lib" && cd "$tmp/live" || exit
	case $cmd in
	*"--pvclock rec") cp -R "$tmp/run/rec" . ;;
	esac
	ln -s "$tinyvm" vmm
	echo true >work.sh
	set -- "$(printf '%s' "$cmd" | sed "s,/var/lib/[a-z_]*,lib,; s,/tmp/,,g; s,-- vmm,-- ./vmm,
		s/fio job/true/; s/if=.dev.vda/if=\/dev\/zero/; s/-d [0-9]*s/-d 300ms/; s/| less$/| cat/; s/ -v 4/ -v 9/
		s/2390/$vm/; s/2428/$(echo "$tids" | cut -d ' ' -f 1)/; s/2429/$(echo "$tids" | cut -d ' ' -f 2)/
		s/149237-15/$vm-$vm_fd/; s/offset \$offset/offset 5/; s/--min-free 1G//")"
	case $prompt$1 in
	guest*) ;;
	*"kvmft record"*) set -- "$(echo "$1" | sed 's/kvmft record/kvmft record --as host/')" ;;
	esac
	case $cmd in
	*"kvmft check"* | *"kvmft list"*) limit=60 ;;
	*) limit=2 ;;
	esac
	run timeout --preserve-status -s INT -k 20 $limit sh -c "trap : INT; $1"
	case $cmd in
	*"-v 4 1") status_is 1 "$name: the VM has no such vCPU" ;;
	*"check"*) ok "$name (exit $rc)" test "$rc" = 0 -o "$rc" = 4 ;;
	*)
		why=$(sed -n 's/.*\(its KVM raises no kvm_exit\).*/\1/p; s/.*\(this kernel has no hist triggers\).*/\1/p' "$err")
		case $rc$why in
		0 | 3 | 130) ok "$name (exit $rc)" true ;;
		[14]?*) skip "$name" "$why" ;;
		*) status_is 0 "$name" ;;
		esac
		;;
	esac
	cd "$tmp/run" || exit
}

start_vm()
{
	need_recording "the examples that need a VM"
	"$tinyvm" --ms 300000 --vcpus 2 --name vm1 >"$tmp/vm.log" 2>&1 &
	vm=$!
	wait_for_line "$tmp/vm.log"
	vm_fd=$(sed -n 's/^pid .* vm-fd \([0-9]*\) .*/\1/p' "$tmp/vm.log")
	tids=$(sed -n 's/^pid .* tids //p' "$tmp/vm.log")
}

left=0
TZ=UTC
export TZ
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
PATH=$tmp/bin:$PATH
extract
ok "captures for the examples" make_captures

# What is written to meta is described in kvmft-capture(5).
keys()
{
	(cd "$top/src" && grep -rhoE 'meta_(begin|[a-z0-9]+)\([^,]*, "[a-z0-9_]+"' record sides capture |
		sed 's/.*"\(.*\)"/\1/' | sort -u)
}
for key in $(keys); do
	grep -qw -- "$key" "$top/man/kvmft-capture.5" || echo "$key"
done >"$tmp/untold"
[ "$(keys | wc -l)" -gt 100 ] || echo "too few are found" >>"$tmp/untold"
is "$(tr '\n' ' ' <"$tmp/untold")" "" "records and keys of captures are all in kvmft-capture(5)"
is "$(unknown_options)" "" "the commands of all examples have the options that they use"
cd "$tmp/run" || exit
for ex in "$tmp"/ex/*.[0-9][0-9][0-9]; do
	page=$(sed -n 1p "$ex") prompt=$(sed -n 2p "$ex") cmd=$(sed -n '3,$p' "$ex")
	name="$page: $(printf '%s' "$cmd" | tr '\\' /)"
	why=$(not_run "$cmd")
	case $why$prompt$cmd in
	"not a command"*) ;;
	'$kvmft list'* | '$kvmft record'* | '$kvmft qemu'*) live ;;
	'$kvmft clock host') reads ;;
	'$kvmft advise hpet') calculates "$ex" ;;
	'$'*" -i "* | '$kvmft '[!c]*) reads ;;
	'$'*) if [ -s "$ex.want" ]; then calculates "$ex"; else reads; fi ;;
	*'#kvmft '* | *'#eval'*)
		if [ -n "$why" ]; then
			skip "$name" "$why"
		else
			live
		fi
		;;
	*) skip "$name" "$why" ;;
	esac
done
[ "$left" = 0 ] || skip "$left examples that record this machine" "make check-all runs them"
finish
