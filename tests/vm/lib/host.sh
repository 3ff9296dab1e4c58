# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Functions for host.sh, which runs in the emulated KVM host (L1): start guests, wait for
# them, find them in the kernel. Started with `. "$VM_LIB/host.sh"`.
#
# A guest is known by its name; its qemu's files are in /run/vm/NAME (pid, qmp.sock,
# monitor.sock, disk.raw), its console in $RESULTS/console-NAME.log.

. "$VM_LIB/common.sh"

GUEST_RUN=/run/vm

guest_usage_die()
{
	die "guest_start: $*"
}

# A stable UUID for a name, so that a scenario may know it beforehand.
guest_uuid()
{
	if [ -r "$GUEST_RUN/$1/uuid" ]; then
		cat "$GUEST_RUN/$1/uuid"
	else
		echo "$1" | md5sum |
			sed 's/^\(.\{8\}\)\(...\).\(...\).\(...\)\(.\{12\}\).*/\1-\20-4\3-8\4-\5/'
	fi
}

# Of scenarios together (RIG_TOGETHER is the folder of their results), a guest goes on to the next one, whatever options it
# was started with: meanwhile it is known here.
GUEST_STAYED=/run/vm-stayed

# GUEST_WRAP: a command that runs the next guests' QEMU, such as a recorder with its options; the
# guest's PID is then the command's. GUEST_QEMU: the QEMU.
GUEST_WRAP=
GUEST_QEMU=$RIG_GUEST_QEMU

# guest_start NAME [--vcpus N] [--mem MB] [--uuid U] [--script FILE] [--cmdline "ARGS"]
#	[--env NAME=VALUE]... [--qemu-args "ARGS"]
# Starts a guest in the background.
guest_start()
{
	gs_name=$1
	shift
	case $gs_name in
	'' | host | *[!A-Za-z0-9_-]*) guest_usage_die "bad guest name '$gs_name'" ;;
	esac
	gs_vcpus=$RIG_VCPUS
	gs_mem=$RIG_GUEST_MEM
	gs_script=guest.sh
	gs_cmdline=
	gs_args=
	gs_dir=$GUEST_RUN/$gs_name
	[ ! -e "$gs_dir" ] || guest_usage_die "a guest '$gs_name' was started already"
	gs_stayed=
	if guest_running "$gs_name" "$GUEST_STAYED"; then
		gs_stayed=1
		mkdir -p "$GUEST_RUN"
		mv "$GUEST_STAYED/$gs_name" "$gs_dir"
	fi
	mkdir -p "$gs_dir"
	gs_uuid=$(guest_uuid "$gs_name")
	: >"$RESULTS/.rig/$gs_name.env"
	while [ $# -gt 0 ]; do
		[ $# -gt 1 ] || guest_usage_die "$1 needs a value"
		case $1 in
		--vcpus)	gs_vcpus=$2 ;;
		--mem)		gs_mem=$2 ;;
		--uuid)		gs_uuid=$2 ;;
		--script)	gs_script=$2 ;;
		--cmdline)	gs_cmdline=$2 ;;
		--env)		guest_env "$gs_name" "$2" ;;
		--qemu-args)	gs_args=$2 ;;
		*)		guest_usage_die "unknown option $1" ;;
		esac
		shift 2
	done
	[ -r "$SCENARIO_DIR/$gs_script" ] || guest_usage_die "no $SCENARIO_DIR/$gs_script"
	guest_env "$gs_name" "GUEST_SCRIPT=$gs_script"
	if [ -n "${RIG_TOGETHER:-}" ]; then
		flag_set "$gs_name-begin"
		(
			RESULTS=$RIG_TOGETHER
			guest_env "$gs_name" GUEST_SCRIPT=guest.sh
			guest_env "$gs_name" "TOGETHER=$TOGETHER"
		)
	fi
	[ -z "$gs_stayed" ] || return 0
	echo "$gs_uuid" >"$gs_dir/uuid"
	truncate -s 64M "$gs_dir/disk.raw"
	guest_qemu
}

# Adds an assignment to the environment of guest $1.
guest_env()
{
	printf "export %s='%s'\n" "${2%%=*}" "$(printf %s "${2#*=}" | sed "s/'/'\\\\''/g")" \
		>>"$RESULTS/.rig/$1.env"
}

# The second half of guest_start: its gs_ variables are the parameters.
guest_qemu()
{
	if [ -d /.root ]; then
		gs_args="-virtfs local,path=/.root,mount_tag=root,readonly=on,security_model=none $gs_args"
		gs_cmdline="rig.root=1 $gs_cmdline"
	fi
	# shellcheck disable=SC2086 # --qemu-args is a list
	setsid $GUEST_WRAP $GUEST_QEMU -name "$gs_name,debug-threads=on" -uuid "$gs_uuid" \
		-machine "$RIG_GUEST_MACHINE,accel=kvm" -cpu "$RIG_GUEST_CPU" -smp "$gs_vcpus" -m "$gs_mem" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "/.outer$RIG_GUEST_KERNEL/$RIG_IMAGE" -initrd "/.outer$RIG_GUEST_INITRAMFS" \
		-append "$RIG_CMDLINE noxsave rig.role=guest rig.name=$gs_name \
rig.results=${RIG_TOGETHER:-$RESULTS} rig.modules=$RIG_GUEST_KERNEL/lib/modules $RIG_GUEST_CMDLINE $gs_cmdline" \
		-serial "file:${RIG_TOGETHER:-$RESULTS}/console-$gs_name.log" \
		-virtfs "local,path=/.outer,mount_tag=outer,readonly=on,\
security_model=none,multidevs=remap" \
		-virtfs "local,path=${RIG_TOGETHER:-$RESULTS},mount_tag=results,security_model=none" \
		-drive "file=$gs_dir/disk.raw,if=virtio,format=raw,cache=writethrough" \
		-qmp "unix:$gs_dir/qmp.sock,server=on,wait=off" \
		-monitor "unix:$gs_dir/monitor.sock,server=on,wait=off" \
		$gs_args </dev/null >"$RESULTS/qemu-$gs_name.log" 2>&1 &
	echo $! >"$gs_dir/pid"
}

guest_pid()
{
	cat "$GUEST_RUN/$1/pid"
}

# A zombie is not running: inside $(...) nobody reaps it. Polled: no process is started.
# guest_running NAME [DIR]
guest_running()
{
	read -r gr_pid 2>/dev/null <"${2:-$GUEST_RUN}/$1/pid" &&
		read -r gr_stat 2>/dev/null <"/proc/$gr_pid/stat" || return 1
	case $gr_stat in
	*") Z "*) return 1 ;;
	esac
}

# Were guests started, and has each of them ended?
guests_gone()
{
	for gg_dir in "$GUEST_RUN"/*/; do
		[ -d "$gg_dir" ] || return 1
		gg_name=${gg_dir%/}
		! guest_running "${gg_name##*/}" || return 1
	done
}

# ... or it has done its part, and stays
guest_gone()
{
	! guest_running "$1" || { [ -n "${RIG_TOGETHER:-}" ] && [ -e "$RESULTS/.rig/$1.rc" ]; }
}

# guest_die NAME WHAT: end the scenario with the reason and where to look.
guest_die()
{
	[ ! -s "$RESULTS/qemu-$1.log" ] || sed 's/^/# qemu: /' "$RESULTS/qemu-$1.log"
	tail -n 15 "${RIG_TOGETHER:-$RESULTS}/console-$1.log" 2>/dev/null | sed 's/^/# console: /'
	die "L2 '$1' $2, see its console"
}

guest_up_or_gone()
{
	[ -e "$RESULTS/.rig/$1.up" ] || guest_gone "$1"
}

# guest_wait_up NAME [SECONDS]: until its user space runs; 300 s unless told: a busy machine boots for two minutes.
guest_wait_up()
{
	wait_until "${2:-300}" guest_up_or_gone "$1" ||
		guest_die "$1" "did not reach user space within ${2:-300} s"
	[ -e "$RESULTS/.rig/$1.up" ] || guest_die "$1" "ended before it reached user space"
}

# guest_wait_done NAME [SECONDS]: until its script ended and its qemu is gone; 180 s unless
# told. Returns the status of guest.sh, whose output follows as comments when it failed.
guest_wait_done()
{
	wait_until "${2:-180}" guest_gone "$1" ||
		guest_die "$1" "was not done within ${2:-180} s"
	[ -e "$RESULTS/.rig/$1.rc" ] || guest_die "$1" "ended without a status"
	gwd_status=$(cat "$RESULTS/.rig/$1.rc")
	[ "$gwd_status" = 0 ] || sed 's/^/# guest: /' "$RESULTS/guest-$1.log"
	return "$gwd_status"
}

# End a guest at once, by its own PID.
guest_kill()
{
	kill "$(guest_pid "$1")" 2>/dev/null
	wait_until 10 guest_gone "$1" || kill -9 "$(guest_pid "$1")"
}

# guest_tid NAME VCPU: thread id of a vCPU.
guest_tid()
{
	grep -l "^CPU $2/KVM\$" "/proc/$(guest_pid "$1")"/task/*/comm |
		sed 's|.*/task/\([0-9]*\)/comm|\1|' | grep .
}

# guest_forget NAME: for one that has ended: the name can be used again. Its logs stay.
guest_forget()
{
	for gf_log in console qemu; do
		mv "$RESULTS/$gf_log-$1.log" "$RESULTS/$gf_log-$1-until-$(uptime_cs).log"
	done
	rm -rf "${GUEST_RUN:?}/$1" "$RESULTS/.rig/$1.up" "$RESULTS/.rig/$1.rc"
}

# guest_debugfs NAME: its folder PID-FD in debugfs.
guest_debugfs()
{
	for gd_dir in "/sys/kernel/debug/kvm/$(guest_pid "$1")"-*; do
		[ -d "$gd_dir" ] && echo "$gd_dir" && return 0
	done
	return 1
}

# guest_tsc_offset NAME [VCPU]: cycles, signed.
guest_tsc_offset()
{
	cat "$(guest_debugfs "$1")/vcpu${2:-0}/tsc-offset"
}

# tinyvm_make FILE, memvm_make FILE: the small VMs of tests/vm, which the disks of an Intel host have built.
tinyvm_make() { small_make tinyvm "$1"; }
memvm_make() { small_make memvm "$1"; }
small_make()
{
	if [ -x "$VM_LIB/../$1" ]; then
		cp "$VM_LIB/../$1" "$2"
	else
		cc -O1 -pthread -o "$2" "$VM_LIB/../$1.c"
	fi || die "cannot build $1"
}

# guest_monitor NAME COMMAND...: run a human monitor command and print the answer.
guest_monitor()
{
	gm_sock=$GUEST_RUN/$1/monitor.sock
	shift
	perl -MIO::Socket::UNIX -e '
		my $s = IO::Socket::UNIX->new(Peer => shift) or die "monitor: $!\n";
		sub answer {
			my $text = "";
			while ($text !~ /\(qemu\) $/) {
				sysread($s, $text, 65536, length $text) or last;
			}
			return $text;
		}
		answer();
		syswrite($s, join(" ", @ARGV) . "\n");
		my @lines = split /\r?\n/, answer();
		shift @lines;
		pop @lines if @lines && $lines[-1] =~ /^\(qemu\) $/;
		print "$_\n" for @lines;' "$gm_sock" "$@"
}
