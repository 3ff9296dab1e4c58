# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# What VMMs do to the clocks of their guests, planted by clockvm; a small guest of QEMU's that goes back to a snapshot,
# and moves on to other QEMUs; a Linux guest that boots, works, is stopped, reset, and reads a slow clock. Each in a
# recording of its own.

. "$VM_LIB/host.sh"

need_kvmft
small_make clockvm /tmp/clockvm
clocks=/sys/devices/system/clocksource/clocksource0

# recorded NAME COMMAND...: while it runs, as /tmp/NAME, which is carried; or kept there, with no events but $only.
recorded()
{
	r_name=$1
	shift
	# shellcheck disable=SC2086 # a list
	"$KVMFT" record -q --as host ${only:-} -o "/tmp/$r_name" 2>"/tmp/$r_name.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$r_name/meta" || die "$r_name: $(cat "/tmp/$r_name.err")"
	"$@"
	kill -TERM $recorder
	wait $recorder
	check "$r_name: recorded" same "$?" 0
	sed 's/^/# /' "/tmp/$r_name.err"
	[ -n "${only:-}" ] || packed "$r_name" "$r_name"
}

# packed NAME CAPTURE...: goes to NAME.tar
packed()
{
	p_name=$1
	shift
	(cd /tmp && tar -cf "$RESULTS/$p_name.tar" "$@" && rm -rf "$@")
}

# It lives until the recorder has seen it at the end.
plant()
{
	/tmp/clockvm "$@" >/tmp/says &
	clockvm=$!
	check "clockvm $*" wait_until 120 grep -q over /tmp/says
}

# The host's own clocksource is none that KVM can give to guests, for a second.
lost()
{
	/tmp/clockvm none >/tmp/says &
	clockvm=$!
	sleep 2
	was=$(cat $clocks/current_clocksource)
	tr ' ' '\n' <$clocks/available_clocksource | grep -E 'hpet|acpi_pm' | head -n 1 >$clocks/current_clocksource
	sleep 1
	echo "$was" >$clocks/current_clocksource
	sleep 1
}

suspend()
{
	sleep 1
	echo mem >/sys/power/state
	sleep 1
}

# clockos NAME [OPTION]...: a QEMU with that guest, which it waits for with -incoming.
clockos()
{
	name=$1
	shift
	mkdir -p "$GUEST_RUN/$name"
	truncate -s 16M "/tmp/$name.raw"
	setsid env ${preload:+"LD_PRELOAD=$preload"} qemu-system-x86_64 -name "$name,debug-threads=on" -uuid "$(guest_uuid clockos)" -machine pc -accel kvm \
		-cpu "$RIG_GUEST_CPU" -m 32 -nodefaults -no-user-config -display none -kernel /tmp/clockos \
		-drive "id=d,file=/tmp/$name.raw,format=raw,if=virtio,file.locking=off" \
		-monitor "unix:$GUEST_RUN/$name/monitor.sock,server=on,wait=off" "$@" \
		</dev/null >"$RESULTS/qemu-$name.log" 2>&1 &
	echo $! >"$GUEST_RUN/$name/pid"
	wait_until 60 test -S "$GUEST_RUN/$name/monitor.sock" || guest_die "$name" "does not start"
}

# found NAME N: the number of 8 bytes there in what that guest has found.
found()
{
	rm -f "/tmp/$1.bin"
	guest_monitor "$1" "pmemsave 0x1000000 48 \"/tmp/$1.bin\"" >/dev/null
	od -An -tu8 -j $(($2 * 8)) -N 8 "/tmp/$1.bin" | tr -d ' '
}

turns() { [ "$(found "$1" 1)" -gt 100 ] 2>/dev/null; }
runs() { wait_until 60 turns "$1" || guest_die "$1" "does not run: $(guest_monitor "$1" "info status")"; }

started()
{
	clockos "$@"
	runs "$1"
	sleep 1
}

# savevm takes a disk that can hold it.
loaded()
{
	guest_monitor first "snapshot_blkdev d /tmp/first.qcow2 qcow2" >/dev/null
	guest_monitor first "savevm one"
	sleep 2
	guest_monitor first "loadvm one"
	sleep 2
}

migrated() { guest_monitor "$1" "info migrate" | grep -q 'Migration status: completed'; }

# moved FROM TO: TO is a new QEMU.
moved()
{
	clockos "$2" -incoming "tcp:127.0.0.1:$port"
	guest_monitor "$1" "migrate -d tcp:127.0.0.1:$port" >/dev/null
	wait_until 60 migrated "$1" || guest_die "$1" "does not migrate: $(guest_monitor "$1" "info migrate")"
	sleep 2
	port=$((port + 1))
}

boot()
{
	guest_start vm1 --qemu-args "-cpu $RIG_GUEST_CPU,-tsc-adjust"
	guest_wait_up vm1
	flag_wait vm1-ready
}

stopped()
{
	sleep 1
	guest_monitor vm1 stop >/dev/null
	sleep 3
	guest_monitor vm1 cont >/dev/null
	sleep 1
}

stopped_twice()
{
	stopped
	stopped
}

i=0
for planted in $(echo "${CLOCK_FAULTS:-none,skew:1000,skew:-1000000,skew:1000000000,paused:-412331,both:3000000000,mended:50000,\
guest:200000000,clock:64213000000,clock:-500000000,clock:5000000,stop:2000000000,told:64000000000,late:1000000000,\
plug:867529151,plug:0,twice:700000,khz:300000}" | tr , ' '); do
	i=$((i + 1))
	planted=$(echo "$planted" | tr : ' ')
	# shellcheck disable=SC2086 # a fault and its number
	recorded planted$i plant $planted
	kill "$clockvm"
	fact planted$i "$planted: $(tr '\n' ' ' </tmp/says)"
done

if [ "${CLOCK_LOST:-1}" = 1 ]; then
	recorded lost lost
	kill "$clockvm"
fi

# As if it were suspended, but for what the machine's firmware does then. A root on 9p does not come back if devices
# sleep: on QEMU only all tasks are frozen, vCPUs among them, after KVM was told.
level=freezer
[ "$RIG_CPU" != intel ] || level=core
if echo $level >/sys/power/pm_test; then
	echo 1 >/sys/module/suspend/parameters/pm_test_delay
	fact suspends "${CLOCK_SUSPENDS:=3}"
	for n in $(seq "$CLOCK_SUSPENDS"); do
		plant none
		recorded suspended$n suspend
		kill "$clockvm"
	done
	echo none >/sys/power/pm_test
fi

if [ "${CLOCK_QEMU:-1}" = 1 ]; then
	if [ -x "$VM_LIB/../clockos" ]; then # on the disks of an Intel host
		cp "$VM_LIB/../clockos" "$VM_LIB/../noclock.so" /tmp
	else
		sh "$VM_LIB/clockos.sh" /tmp
	fi || die "cannot build clockos"
	port=4444 preload=
	recorded started started first
	recorded loaded loaded
	fact loaded "$(found first 3) $(found first 4)"
	recorded moved moved first second
	fact moved "$(guest_pid second) $(found second 3) $(found second 4)"
	preload=/tmp/noclock.so
	recorded forgot moved second third
	fact forgot "$(guest_pid third) $(found third 3) $(found third 4)"
	for name in first second third; do
		guest_kill $name
	done
fi

if [ "${CLOCK_LINUX:-1}" = 1 ]; then
	recorded boot boot
	fact healthy "${CLOCK_HEALTHY:=48}"
	# What `kvmft clock` reads: so each takes a few seconds less to begin and to end.
	only=
	for n in entry exit msr pio mmio fast_mmio write_tsc_offset pvclock_update update_master_clock track_tsc; do
		only="$only -e kvm:kvm_$n"
	done
	for n in $(seq "$CLOCK_HEALTHY"); do
		recorded "idle$n" sleep 0.3
	done
	flag_set work
	for n in $(seq "$CLOCK_HEALTHY"); do
		recorded "load$n" sleep 0.3
	done
	flag_set rest
	only=
	# shellcheck disable=SC2046 # a list
	packed healthy $(cd /tmp && ls -d idle*[0-9] load*[0-9])
	recorded stopped stopped
	recorded again stopped_twice
	flag_set slow
	flag_wait vm1-slow
	recorded slow sleep 3
	flag_set fast
	flag_wait vm1-fast
	flag_set write
	recorded written sleep 4
	flag_set "done"
	check "vm1: all well" guest_wait_done vm1
fi
finish
