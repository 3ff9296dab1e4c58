#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Mutates valid files along the lines of their formats, and gives them to the commands that read them:
#
#   mutate.pl --dir SEEDS --san KVMFT --plain KVMFT --runs N --seed N [--keep DIR]
#
# SEEDS is what tests/cli/mutate.t makes. Text: lines and words are doubled, dropped and swapped, numbers become
# extreme. Others: numbers of 1 to 8 bytes become extreme, pieces are doubled, dropped, swapped and cut. In a capture
# directory also whole files: gone, empty, called otherwise, FIFOs, links.
#
# Each run is to end with 0..4 and one line of error at most: under ASan and UBSan without a report and within 10 s of
# CPU time (the solver's whole search takes 1 s, and 4.5 s there); in the plain build within 256 MiB of address space,
# without a word about memory; and with 32 MiB of output. What does not is printed, and the mutated file kept in --keep.

use strict;
use warnings;
no warnings 'portable';
use Getopt::Long;
use POSIX qw(mkfifo WNOHANG);
use Time::HiRes qw(time);

my ($dir, $san, $plain, $runs, $seed, $keep);
GetOptions('dir=s' => \$dir, 'san=s' => \$san, 'plain=s' => \$plain, 'runs=i' => \$runs, 'seed=i' => \$seed,
	'keep=s' => \$keep) or exit 2;
srand($seed);

use constant { CPU_S => 10, WALL_S => 60, AS_KB => 256 << 10, OUT_BLOCKS => 32 << 11 };

sub pick { return $_[int(rand(@_))] }

# ---- a text ----

my @numbers = qw(0 1 -1 2 255 65535 65536 2147483647 2147483648 -2147483648 4294967295 4294967296 1e9
	9223372036854775807 -9223372036854775808 18446744073709551615 18446744073709551616
	0xffffffffffffffff 99999999999999999999999999999999);
my @words = ('', '=', '%00', '%', "\0", "\xff\xfe", "\xe2\x80\xae", 'x' x 5000, '../../etc/passwd', '-', ',', "\t");

sub text_line
{
	my ($lines) = @_;
	my $i = int(rand(@$lines));
	my $how = int(rand(9));

	if ($how == 0) {
		splice(@$lines, $i, 1);
	} elsif ($how == 1) {
		splice(@$lines, $i, 0, ($lines->[$i]) x pick(1, 2, 300));
	} elsif ($how == 2) {
		my $j = int(rand(@$lines));
		@$lines[$i, $j] = @$lines[$j, $i];
	} elsif ($how == 3) {
		$lines->[$i] = substr($lines->[$i], 0, int(rand(length($lines->[$i]) + 1)));
	} elsif ($how <= 6) { # a number of the line
		my @at;
		push @at, [$-[0], $+[0]] while $lines->[$i] =~ /-?\b(0x[0-9a-f]+|[0-9]+)\b/g;
		if (@at) {
			my $at = pick(@at);
			substr($lines->[$i], $at->[0], $at->[1] - $at->[0]) = pick(@numbers);
		}
	} else { # a word
		my @part = split(/([ =:,;\t])/, $lines->[$i]);
		my @other = split(/[ =:,;\t]/, pick(@$lines));
		$part[int(rand(@part))] = pick(@words, @other) if @part;
		$lines->[$i] = join('', map { $_ // '' } @part);
	}
}

sub mutate_text
{
	my @lines = split(/(?<=\n)/, $_[0]);

	for (1 .. pick(1, 1, 1, 2, 5)) {
		text_line(\@lines) if @lines;
	}
	return join('', @lines);
}

# ---- anything else ----

sub extreme
{
	my ($size) = @_;
	my $v = pick(0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x7fffffffffffffff, 0xffffffffffffffff, int(rand(1 << 16)));
	my $le = substr(pack('Q<', $v), 0, $size);

	return rand() < 0.8 ? $le : scalar reverse($le);
}

sub mutate_bytes
{
	my ($s) = @_;

	for (1 .. pick(1, 1, 1, 2, 4, 16)) {
		my $n = length($s);
		last if $n < 16;
		# What is at the beginning says most.
		my $at = int(rand() < 0.4 ? rand($n < 4096 ? $n : 4096) : rand($n));
		my $len = 1 << int(rand(13));
		my $how = int(rand(10));
		$at &= ~7 if rand() < 0.5;
		$len = $n - $at if $at + $len > $n;
		if ($how <= 4) {
			my $size = pick(1, 2, 4, 8);
			substr($s, $at, $size) = extreme($size) if $at + $size <= $n;
		} elsif ($how == 5) {
			substr($s, $at, 1) = chr(ord(substr($s, $at, 1)) ^ (1 << int(rand(8))));
		} elsif ($how == 6) {
			substr($s, $at, $len) = '';
		} elsif ($how == 7) {
			substr($s, $at, 0) = substr($s, int(rand($n - $len + 1)), $len);
		} elsif ($how == 8) {
			substr($s, $at, $len) = substr($s, int(rand($n - $len + 1)), $len);
		} else {
			$s = substr($s, 0, $at);
		}
	}
	return $s;
}

# ---- files ----

sub slurp
{
	open(my $f, '<:raw', $_[0]) or die "$_[0]: $!";
	local $/;
	return <$f> // '';
}

sub spew
{
	unlink $_[0];
	open(my $f, '>:raw', $_[0]) or die "$_[0]: $!";
	print $f $_[1];
	close($f) or die "$_[0]: $!";
}

sub mutated
{
	my ($s) = @_;

	return $s =~ /[^\t\n -~]/ || rand() < 0.1 ? mutate_bytes($s) : mutate_text($s);
}

sub mutate_tree
{
	my ($tree) = @_;
	my @files = split(/\n/, `find '$tree' -type f`);
	my $file = pick(@files);
	my $how = int(rand(20));

	# Half of all goes to what describes the rest.
	$file = "$tree/meta" if rand() < 0.4 && -f "$tree/meta";
	if ($how == 0) {
		unlink $file;
	} elsif ($how == 1) {
		spew($file, '');
	} elsif ($how == 2) {
		unlink $file;
		mkfifo($file, 0600);
	} elsif ($how == 3) {
		unlink $file;
		symlink(pick('/etc/passwd', '.', '/dev/zero', 'meta'), $file);
	} elsif ($how == 4) {
		(my $to = $file) =~ s/[0-9]+$/pick(@numbers)/e;
		rename($file, $to);
	} elsif ($how == 5) {
		(my $to = "$tree/seg000000") =~ s/[0-9]+$/pick('000001', '999999', '4294967295', '1')/e;
		rename("$tree/seg000000", $to);
	} else {
		spew($file, mutated(slurp($file)));
	}
}

# ---- runs ----

sub run
{
	my ($limits, @cmd) = @_;
	my ($cu, $cs) = (times)[2, 3];
	my $begin = time;
	my $pid = fork() // die "fork: $!";

	if (!$pid) {
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>', "$dir/run/out");
		open(STDERR, '>', "$dir/run/err");
		exec('sh', '-c', "$limits; exec \"\$@\"", 'sh', @cmd) or POSIX::_exit(127);
	}
	while (waitpid($pid, WNOHANG) != $pid) {
		Time::HiRes::sleep(0.002);
		kill('KILL', $pid) if time - $begin > WALL_S;
	}
	my $status = $?;
	my ($cu2, $cs2) = (times)[2, 3];
	my $err = slurp("$dir/run/err");
	my @failed = grep { /^kvmft [a-z-]+( [a-z-]+)?: / } split(/\n/, $err);
	my $why;

	$why = 'signal ' . ($status & 127) if $status & 127;
	$why //= 'exit ' . ($status >> 8) if ($status >> 8) > 4;
	$why //= 'several errors' if @failed > 1;
	# Of verify, 1 also says that the captures are not aligned.
	$why //= 'no error' if ($status >> 8) == 1 && !@failed && $cmd[1] ne 'verify';
	$why //= 'lines that are no messages' if grep { !/^(kvmft|usage:)/ } split(/\n/, $err);
	return ($status, $cu2 - $cu + $cs2 - $cs, $why, $err);
}

# %s: the mutated one; HOST, GUEST: sound ones.
my $S = "$dir/seeds";
my @qemu = ('merge', '-q', "$S/host", "$S/guest=one");
my %kinds = (
	host => ['tree', [qw(merge -q %s)], ['merge', '-q', '%s', "$S/guest=one"], [qw(report --tsc-khz 1000000 -i %s)],
		['latency', 'all', '%s', "$S/guest=one"], ['blame', '-C', 2, '%s', "$S/guest=one"], ['verify', '%s', "$S/guest=one"],
		[qw(report -i %s --split --percentiles --per vcpu --format json)],
		[qw(report -i %s --split --format openmetrics)], [qw(latency all --format openmetrics %s)],
		['export', '--force', '-i', '%s', '-o', "$dir/run/made", '--to', 'sqlite', "$S/guest=one"],
		['merge', '-q', '--format', 'perfetto', '%s', "$S/guest=one"],
		['convert', '--from', 'host-tsc', '--to', 'kvmclock', '-i', '%s', '5000'],
		[qw(boot %s)], [qw(report --waits -i %s)], [qw(merge -q --format folded --of exit-time %s)], [qw(advise %s)],
		[qw(clock --format json %s)], ['stuck', '-i', '%s', "$S/guest=one"], ['diff', '%s', "$S/host"],
		['report', '--waits', '--by', 'process', '%s', "$S/guest=one"],
		['export', '--force', '-i', '%s', '-o', "$dir/run/made"]],
	guest => ['tree', ['merge', '-q', "$S/host", '%s=one'], ['merge', '--format', 'html', "$S/host", '%s=one'],
		['latency', 'all', '--format', 'json', "$S/host", '%s=one'],
		['report', '--by', 'rip', '-i', "$S/host", '%s=one'],
		['export', '--force', '-i', "$S/host", '-o', "$dir/run/made", '--to', 'sqlite', '%s=one'],
		['export', '--force', '-i', "$S/host", '-o', "$dir/run/made", '--to', 'perfetto', '%s=one'],
		['report', '--by', 'task', "$S/host", '%s=one'], ['report', '--by', 'process', "$S/spaces", '%s=one'],
		['blame', '--format', 'json', "$S/host", '%s=one'], ['verify', "$S/host", '%s=one']],
	spaces => ['tree', [qw(report --by process %s)], ['report', '--by', 'process', '%s', "$S/guest=one"],
		['report', '--waits', '--by', 'process', '%s'], ['boot', '%s', "$S/host"]],
	text => ['file', [qw(merge -q %s)], [qw(report -i %s)], [qw(boot %s)], [qw(latency all %s)], [qw(blame %s)],
		[qw(advise %s)], [qw(clock %s)], [qw(diff %s %s)], ['export', '--force', '-i', '%s', '-o', "$dir/run/made"]],
	'pair-host' => ['tree', ['merge', '-q', '%s', "$S/pair-guest"], ['verify', '--solve', '%s', "$S/pair-guest"],
		['convert', '--from', 'host-tsc', '--to', 'guest-tsc', '-i', '%s', '5000']],
	'pair-guest' => ['tree', ['merge', '-q', "$S/pair-host", '%s'], ['verify', "$S/pair-host", '%s'],
		['merge', '--clock', 'guest-tsc', "$S/pair-host", '%s']],
	access => ['tree', [qw(report -i %s --event mmio)], [qw(report -i %s --event ioport --percentiles)],
		[qw(report -i %s --event page-fault)]],
);
$kinds{$_} = ['file', [qw(merge -q %s)], [qw(report --tsc-khz 1000000 -i %s)], [qw(latency all %s)],
	['export', '--force', '-i', '%s', '-o', "$dir/run/made"], ['verify', '%s', "$S/guest"]]
	for qw(v6.dat v7.dat zstd.dat zlib.dat perf.data);
for my $f (qw(simple log syslog ust)) {
	$kinds{"qemu.$f"} = ['file', [@qemu, '--qemu', "%s:$f"], ['merge', '-q', '--qemu', "$S/trace-events:events",
		'--qemu', "%s:$f", "$S/host"]];
}
$kinds{'trace-events'} = ['file', [qw(qemu list-formats %s)], [@qemu, '--qemu', "$S/qemu.log:log", '--qemu', '%s:events'],
	[@qemu, '--qemu', "$S/qemu.simple:simple", '--qemu', '%s:events']];
for my $f (qw(kallsyms modules)) {
	$kinds{$f} = ['file', ['report', '--by', 'rip', '-i', "$S/host", "--guest-$f", '%s'],
		['merge', '-q', "--guest-$f", '%s', "$S/host", "$S/guest=one"], ['blame', "--guest-$f", '%s', "$S/host", "$S/guest=one"]];
}
$kinds{program} = ['file', [qw(qemu sdt %s)], [qw(qemu sdt --format json %s)]];

my @names = grep { -e "$S/$_" } sort keys %kinds;
my (%exits, %per, $slow, $bad);
$slow = $bad = 0;
mkdir "$dir/run";
for my $n (1 .. $runs) {
	my $name = $names[$n % @names];
	my ($type, @cmds) = @{$kinds{$name}};
	my $file = "$dir/run/$name";

	system('rm', '-rf', $file, "$dir/run/made");
	if ($type eq 'tree') {
		system('cp', '-R', "$S/$name", $file);
		mutate_tree($file);
	} else {
		spew($file, mutated(slurp("$S/$name")));
	}
	my $cmd = pick(@cmds);
	my @args = map { (my $a = $_) =~ s/%s/$file/; $a } @$cmd;
	my ($status, $cpu, $why, $err) = run('ulimit -t 30; ulimit -f ' . OUT_BLOCKS, $san, @args);
	$exits{$status >> 8}++;
	$per{$name}++;
	$slow = $cpu if $cpu > $slow;
	$why //= sprintf('%.1f s', $cpu) if $cpu > CPU_S;
	if (!$why) {
		unlink "$dir/run/made";
		my $st;
		($st, $cpu, $why, $err) = run('ulimit -v ' . AS_KB . '; ulimit -f ' . OUT_BLOCKS, $plain, @args);
		$why //= 'memory' if $err =~ /out of memory|annot allocate/;
		$why //= "exit " . ($st >> 8) . " in the plain build, else " . ($status >> 8) if $st != $status;
		$why = "plain: $why" if $why;
	}
	next if !$why;
	$bad++;
	if ($keep) {
		mkdir $keep;
		system('rm', '-rf', "$keep/$seed-$n-$name");
		system('cp', '-R', $file, "$keep/$seed-$n-$name");
	}
	print "# run $n of seed $seed, $name: $why: kvmft @args\n";
	print "#   $_\n" for (split(/\n/, $err))[0 .. ($err =~ tr/\n// > 5 ? 5 : ($err =~ tr/\n//) - 1)];
}
printf("%d runs, %d bad; exits %s; slowest %.2f s of CPU\n", $runs, $bad,
	join(', ', map { "$_: $exits{$_}" } sort keys %exits), $slow);
exit($bad ? 1 : 0);
