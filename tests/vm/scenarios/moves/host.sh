# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest that times each write to its memory, while QEMU's balloon takes that away, and while it moves to another
# QEMU and on to a third one, whose memory comes after it. MOVES chooses: balloon precopy postcopy, away (its state
# goes to a file), or home alone (it comes from MOVES_STATE, on another host). MOVES_RING: written pages are reported
# in dirty rings of that many pages instead of bitmaps. MOVES_BUSY: that many loops compete for the host's CPUs.

. "$VM_LIB/host.sh"

need_kvmft
moves=${MOVES:-balloon precopy postcopy}
uuid=6b766d66-7400-4000-8000-000000746f75
mkdir -p "$GUEST_RUN"
cc -m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -Wl,-Ttext=0x200000,--build-id=none \
	-o /tmp/touchos "$VM_LIB/../touchos.c" || die "cannot build touchos"
echo never >/sys/kernel/mm/transparent_hugepage/enabled

# mover NAME [OPTION]...: a QEMU with that guest, which it waits for with -incoming.
mover()
{
	name=$1
	shift
	mkdir -p "$GUEST_RUN/$name"
	setsid qemu-system-x86_64 -name mover,debug-threads=on -uuid $uuid -machine pc \
		-accel "kvm${MOVES_RING:+,dirty-ring-size=$MOVES_RING}" -cpu host -m 160 \
		-nodefaults -no-user-config -display none -kernel /tmp/touchos \
		-chardev "socket,id=s,path=$GUEST_RUN/$name/serial.sock,server=on,wait=off" -serial chardev:s \
		-device virtio-balloon-pci,disable-modern=on -trace migration_bitmap_clear_dirty -trace runstate_set \
		-monitor "unix:$GUEST_RUN/$name/monitor.sock,server=on,wait=off" "$@" \
		</dev/null >"$RESULTS/qemu-$name.log" 2>&1 &
	echo $! >"$GUEST_RUN/$name/pid"
	wait_until 20 test -S "$GUEST_RUN/$name/monitor.sock" || guest_die "$name" "does not start"
}

# saved NAME SIZE: saves the first SIZE bytes of the guest's log.
saved()
{
	rm -f "/tmp/$1.bin"
	guest_monitor "$1" "pmemsave 0x1000000 $2 \"/tmp/$1.bin\"" >/dev/null
	[ -s "/tmp/$1.bin" ]
}

word()
{
	od -An -tu4 -j "$2" -N 4 "/tmp/$1.bin" | tr -d ' '
}

ready()
{
	saved "$1" 32 && [ "$(word "$1" 0)" = $((0x746f7563)) ]
}

did()
{
	saved "$1" 32 && [ "$(word "$1" 20)" = "$(printf %d "'$2")" ]
}

# tell NAME LETTER: sends a command and waits until it is done.
tell()
{
	perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => shift) or die; syswrite($s, shift);
		select(undef, undef, undef, 0.2)' "$GUEST_RUN/$1/serial.sock" "$2"
	wait_until 60 did "$1" "$2" || guest_die "$1" "does not do $2"
}

# found NAME FILE: the guest's log of that QEMU.
found()
{
	saved "$1" 3300000 || guest_die "$1" "gives no log"
	cp "/tmp/$1.bin" "$RESULTS/$2"
}

migrated()
{
	guest_monitor "$1" "info migrate" >"/tmp/$1.migrate"
	grep -q 'Migration status: completed' "/tmp/$1.migrate"
}

rounds()
{
	guest_monitor "$1" "info migrate" | sed -n 's/.*dirty sync count: \([0-9]*\).*/\1/p' | tr -d '\r'
}

many_rounds()
{
	[ "$(rounds "$1")" -ge 4 ] 2>/dev/null
}

came()
{
	guest_monitor "$1" "info status" | grep -q 'VM status: running'
}

# move FROM PORT: pre-copy until some rounds are over; it seldom ends by itself.
move()
{
	guest_monitor "$1" "migrate_set_parameter max-bandwidth 30m" >/dev/null
	guest_monitor "$1" "migrate_set_parameter downtime-limit 1" >/dev/null
	guest_monitor "$1" "migrate -d tcp:127.0.0.1:$2" >/dev/null
	wait_until 90 many_rounds "$1" || guest_die "$1" "does not migrate: $(guest_monitor "$1" "info migrate")"
}

done_moving()
{
	check "$1: migration completes" wait_until 90 migrated "$1"
	sed 's/^/# /' "/tmp/$1.migrate"
	cp "/tmp/$1.migrate" "$RESULTS/"
}

echo 'p:handle_userfault handle_userfault' >>/sys/kernel/tracing/kprobe_events || note "no kprobes here"
"$KVMFT" record -o /tmp/host -b 24M -e default -e mem 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
if [ "$moves" != home ]; then
	mover first
	wait_until 60 ready first || guest_die first "does not say that it runs"
	fact pid_first "$(guest_pid first)"
fi
loops=
while [ "$(echo "$loops" | wc -w)" -lt "${MOVES_BUSY:-0}" ]; do
	(while :; do :; done) &
	loops="$loops $!"
done
for step in $moves; do
	case $step in
	balloon)
		tell first o
		tell first b
		tell first f
		tell first o
		found first balloon.bin
		;;
	precopy)
		mover second -incoming tcp:127.0.0.1:4444
		fact pid_second "$(guest_pid second)"
		tell first w
		move first 4444
		guest_monitor first "migrate_set_parameter downtime-limit 2000" >/dev/null
		guest_monitor first "migrate_set_parameter max-bandwidth 1g" >/dev/null
		done_moving first
		sleep 1
		tell second p
		found second precopy.bin
		fact offset_first "$(cat /sys/kernel/debug/kvm/"$(guest_pid first)"-*/vcpu0/tsc-offset)"
		fact offset_second "$(cat /sys/kernel/debug/kvm/"$(guest_pid second)"-*/vcpu0/tsc-offset)"
		;;
	postcopy)
		mover third -incoming defer
		fact pid_third "$(guest_pid third)"
		for name in second third; do
			guest_monitor $name "migrate_set_capability postcopy-ram on" >/dev/null
		done
		guest_monitor third "migrate_incoming tcp:127.0.0.1:4445" >/dev/null
		# So slow that pages are needed before they arrive.
		guest_monitor second "migrate_set_parameter max-postcopy-bandwidth 4m" >/dev/null
		tell second w
		move second 4445
		guest_monitor second migrate_start_postcopy >/dev/null
		done_moving second
		sleep 1
		tell third p
		found third postcopy.bin
		fact offset_third "$(cat /sys/kernel/debug/kvm/"$(guest_pid third)"-*/vcpu0/tsc-offset)"
		;;
	away)
		tell first w
		guest_monitor first "migrate_set_parameter max-bandwidth 30m" >/dev/null
		guest_monitor first "migrate_set_parameter downtime-limit 2000" >/dev/null
		guest_monitor first 'migrate -d "exec:cat >/tmp/state"' >/dev/null
		done_moving first
		carry /tmp/state
		fact offset_first "$(cat /sys/kernel/debug/kvm/"$(guest_pid first)"-*/vcpu0/tsc-offset)"
		;;
	home)
		mover home -incoming "exec:cat $MOVES_STATE"
		fact pid_home "$(guest_pid home)"
		wait_until 90 came home || guest_die home "does not come"
		sleep 2
		tell home p
		found home home.bin
		fact offset_home "$(cat /sys/kernel/debug/kvm/"$(guest_pid home)"-*/vcpu0/tsc-offset)"
		;;
	esac
done
# shellcheck disable=SC2086 # a list
[ -z "$loops" ] || kill $loops
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/host.err
for name in first second third home; do
	[ ! -e "$GUEST_RUN/$name" ] || guest_kill "$name"
done
tar -cf "$RESULTS/host.tar" -C /tmp host
finish
