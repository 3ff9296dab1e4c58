# SPDX-License-Identifier: GPL-2.0-or-later
#
# foreign_inside.pl HOST GUEST TID=OFFSET[,OFFSET]...: without kvmft, from what `trace-cmd report --raw-ts` prints
# of two files: is each event of the guest's CPU n, its stamp minus an OFFSET of the n-th TID, between a
# kvm_entry and the next kvm_exit of that thread? Prints "inside outside unknown"; unknown is what lies outside
# of the host's recording, where that lost events, or on the far side of an offset's change.

use strict;
use warnings;

my $line = qr/^\s*.*-(\d+)\s+\[(\d+)\]\s*(\d+):\s+(\w+):/;
my ($host, $guest, @vcpus) = @ARGV;
my (@windows, @lost, %vcpu_of, %last, %dropped, @offsets);

for my $vcpu (0 .. $#vcpus) {
	my ($tid, $list) = split /=/, $vcpus[$vcpu];
	$vcpu_of{$tid} = $vcpu;
	$offsets[$vcpu] = [split /,/, $list];
	$windows[$vcpu] = [];
	$lost[$vcpu] = [];
}

open my $in, '<', $host or die "$host: $!\n";
while (<$in>) {
	$dropped{$1} = 1 if /CPU:(\d+) \[.*EVENTS DROPPED\]/;
	next unless /$line/;
	# Lost events may be any vCPU's: of none is anything known from its entry before the loss to its next one.
	if (delete $dropped{$2}) {
		my $from = $last{$2} // 0;
		for my $vcpu (0 .. $#lost) {
			my ($entry) = grep { $_->[0] <= $from } reverse @{$windows[$vcpu]};
			push @{$lost[$vcpu]}, [$entry ? $entry->[0] : 0, undef];
		}
	}
	$last{$2} = $3;
	next unless defined $vcpu_of{$1};
	my ($list, $ts, $event) = ($windows[$vcpu_of{$1}], $3, $4);
	if ($event eq 'kvm_entry') {
		$_->[1] //= $ts for @{$lost[$vcpu_of{$1}]};
		push @$list, [$ts, undef];
	} elsif ($event eq 'kvm_exit' && @$list && !defined $list->[-1][1]) {
		$list->[-1][1] = $ts;
	}
}
@$_ = grep { defined $_->[1] } @$_ for @windows;

# 1 inside, 0 outside, undef before the first or after the last window.
sub inside
{
	my ($vcpu, $ts) = @_;
	my $list = $windows[$vcpu];
	return undef if !@$list || $ts < $list->[0][0] || $ts > $list->[-1][1];
	return undef if grep { $ts >= $_->[0] && (!defined $_->[1] || $ts <= $_->[1]) } @{$lost[$vcpu]};
	my ($low, $high) = (0, $#$list);
	while ($low < $high) {
		my $middle = int(($low + $high + 1) / 2);
		if ($list->[$middle][0] <= $ts) { $low = $middle } else { $high = $middle - 1 }
	}
	return $ts <= $list->[$low][1] ? 1 : 0;
}

my %count = (1 => 0, 0 => 0, unknown => 0);
open $in, '<', $guest or die "$guest: $!\n";
while (<$in>) {
	next unless /$line/ && defined $offsets[$2];
	my ($cpu, $ts) = ($2, $3);
	my @seen = map { inside($cpu, $ts - $_) } @{$offsets[$cpu]};
	my $verdict = (grep { $_ } @seen) ? 1 : (grep { !defined } @seen) ? 'unknown' : 0;
	$count{$verdict}++;
}
print "$count{1} $count{0} $count{unknown}\n";
