# SPDX-License-Identifier: GPL-2.0-or-later
#
# Do several witnesses of QEMU's events tell the same? Reads a merged time line (text, ns) on stdin.
#
#   perl same.pl BOUND-NS... <LINES
#
# The witnesses, in the order in which QEMU itself calls them for each event: file of simple (qemu#1),
# trace marker (host, qemu:), log (qemu#2), syslog (qemu#3, then qemu#4), SDT marker (host, sdt_qemu:).
# BOUND: how far each may be off, as kvmft states it. They must tell the same events in the same order,
# with the same arguments (those of SDT markers have no names), and at times that fit: no witness before
# those before it, and none after the first one of the next event. qemu#4 is the exception to the last:
# its stamps are when the daemon got the message.
use strict;
use warnings;

my @name = ('simple', 'marker', 'log', 'syslog', 'syslog, us', 'sdt');
my @bound = @ARGV;
die "usage: same.pl BOUND-NS x 6\n" if @bound != @name;
my @seen = map { [] } @name;

while (my $line = <STDIN>) {
	my ($side, $rest) = $line =~ /^(\S+)\s+(.*)$/ or next;
	my ($s, $ns, $sub, $event, $args) = $rest =~ /\s(-?\d+)\.(\d{9})\??\s+(sdt_qemu|qemu):(\w+): ?(.*)$/ or next;
	my $w = $sub eq 'sdt_qemu' ? 5 : $side eq 'host' ? 1 : { 'qemu#1' => 0, 'qemu#2' => 2, 'qemu#3' => 3,
		'qemu#4' => 4 }->{$side};
	die "whose is this? $line" if !defined $w;
	die "without a place: $line" if $rest =~ /\d\?\s/;
	if ($w == 5) { # "(ADDRESS) NAME=VALUE ..."
		$args =~ s/^\([0-9a-f]+\) ?//;
		$args =~ s/\S+?=//g;
	}
	push @{$seen[$w]}, { t => $s * 1000000000 + $ns, event => $event, args => $args };
}

# The values of a line of QEMU's, for SDT markers.
sub values_of {
	return join ' ', map { /^(?:0x[0-9a-f]+|-?\d+)$/ ? $_ : () } split / /, shift;
}

my $n = @{$seen[0]};
my $bad = 0;
sub bad { print "$_[0]\n" if $bad++ < 10 }
for my $w (0 .. $#name) {
	my $got = @{$seen[$w]};
	bad("$name[$w]: $got events, simple has $n") if $got != $n;
}
exit 1 if $bad;
for my $i (0 .. $n - 1) {
	my $first = $seen[0][$i];
	for my $w (1 .. $#name) {
		my $e = $seen[$w][$i];
		my $want = $w == 5 ? values_of($first->{args}) : $first->{args};
		bad("$name[$w], event $i: $e->{event} $e->{args}, simple: $first->{event} $want")
			if $e->{event} ne $first->{event} || $e->{args} ne $want;
		for my $b (grep { $_ != 4 } 0 .. $w - 1) {
			my $early = $seen[$b][$i]{t} - $bound[$b] - $e->{t} - $bound[$w];
			bad("$name[$w], event $i: $early ns before $name[$b]") if $early > 0;
		}
		next if $i + 1 == $n;
		my $late = $e->{t} - $bound[$w] - $seen[0][$i + 1]{t} - $bound[0];
		bad("$name[$w], event $i: $late ns after the next event") if $late > 0 && $w != 4;
	}
}
for my $w (1 .. $#name) {
	my @d = sort { $a <=> $b } map { $seen[$w][$_]{t} - $seen[0][$_]{t} } 0 .. $n - 1;
	printf "%-10s after simple: %.1f us median, %.1f to %.1f; stated bound %.1f us\n", $name[$w],
		$d[$n / 2] / 1000, $d[0] / 1000, $d[-1] / 1000, $bound[$w] / 1000 if $n;
}
print "$n events, six witnesses\n";
exit($bad || $n < 200);
