# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compares events, from JSON lines of kvmft merge, with those that a trace processor has of the same
# captures ("machine","event",ts, as CSV): per machine and event as many, stamps within 1 ns.
#
#   perl perfetto.pl MERGE.json EVENTS.csv
use strict;
use warnings;

my (%want, %got, $base, $first);
open my $j, '<', $ARGV[0] or die "$ARGV[0]: $!";
while (<$j>) {
	next unless /"kind":"event"/;
	my ($side) = /"side":"(\w+)"/;
	my ($vm) = /"vm":"([^"]*)"/;
	my ($event) = /"event":"[^:"]*:([^"]*)"/;
	my ($t) = /"t":(-?\d+)/;
	push @{$want{($side eq 'guest' ? $vm : 'host') . " $event"}}, $t;
	$base = $t if $side eq 'host' && (!defined $base || $t < $base);
}
open my $c, '<', $ARGV[1] or die "$ARGV[1]: $!";
while (<$c>) {
	next unless /^"([^"]*)","([^"]*)",(-?\d+)$/;
	push @{$got{"$1 $2"}}, $3;
	$first = $3 if $1 eq 'host' && (!defined $first || $3 < $first);
}
my ($events, $bad, $worst) = (0, 0, 0);
for my $k (keys %{{%want, %got}}) {
	my @w = sort { $a <=> $b } @{$want{$k} // []};
	my @g = sort { $a <=> $b } @{$got{$k} // []};
	if (@w != @g) {
		print "$k: merge has ", scalar @w, ", trace processor ", scalar @g, "\n";
		$bad++;
		next;
	}
	for my $i (0 .. $#w) {
		my $d = abs(($w[$i] - $base) - ($g[$i] - $first));
		$worst = $d if $d > $worst;
	}
	$events += @w;
}
print "$events events of ", scalar keys %got, " kinds, off by $worst ns at most\n";
exit !($events && !$bad && $worst <= 1);
