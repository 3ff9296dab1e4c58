# SPDX-License-Identifier: GPL-2.0-or-later
#
# foreign_found.pl FACTS MERGED VM [VM]: what `kvmft merge --format json` found out about a pair, compared with what KVM had:
# threads, PID, and TSC offsets of each vCPU, first those of one VM in FACTS, last those of the other. Each offset
# is right to within what kvmft says of it; where it says nothing, exactly. Exits 1 after what is wrong.

use strict;
use warnings;

my ($facts_file, $merged, @vms) = @ARGV;
my (%fact, %source, %epochs);
my $bad = 0;

sub check
{
	my ($right, $text) = @_;
	print $right ? "right: " : "WRONG: ", "$text\n";
	$bad = 1 unless $right;
}

open my $in, '<', $facts_file or die "$facts_file: $!\n";
while (<$in>) {
	$fact{$1} = $2 if /^(\w+)=(.*)$/;
}
open $in, '<', $merged or die "$merged: $!\n";
while (<$in>) {
	if (/^\{"kind":"timeline"/) {
		my ($guest) = /\{("side":"guest".*?)\}/ or die "no guest in $_";
		$source{$1} = $2 while $guest =~ /"(\w+)":(?|"([^"]*)"|([^",]+))/g;
		($source{khz_min}, $source{khz_max}) = ($1, $2) if /"tsc_khz_min":(\d+),"tsc_khz_max":(\d+)/;
	} elsif (/^\{"kind":"epoch",.*"vcpu":(\d+),.*"tsc_offset":(-?\d+)/) {
		my ($vcpu, $offset) = ($1, $2);
		my $list = $epochs{$vcpu} //= [];
		push @$list, $offset if !@$list || $list->[-1] != $offset;
	}
}

my @vcpus = sort grep { defined } map { /^$vms[0]_vcpu(\d+)_tid$/ ? $1 : undef } keys %fact;
my $bound = $source{uncertain_cycles} // 0;
my $tids = join ',', sort { $a <=> $b } map { $fact{"$vms[0]_vcpu${_}_tid"} } @vcpus;

check(@vcpus == 2, "the facts have 2 vCPUs");
check($bound < 100_000, "uncertain by $bound cycles");
check("tids:$tids" eq $source{threads}, "$source{threads}; they are $tids") if $source{threads};
check($1 == $fact{"$vms[0]_pid"}, "$source{name}; it is " . $fact{"$vms[0]_pid"}) if $source{name} =~ /^pid:(\d+)/;
for my $vcpu (@vcpus) {
	my @true = map { $fact{"${_}_vcpu${vcpu}_offset"} } @vms;
	my @found = @{$epochs{$vcpu} // []};
	@true = ($true[0]) if @true > 1 && $true[0] == $true[1];
	my $right = @true == @found;
	$right &&= abs($true[$_] - $found[$_]) <= $bound for 0 .. $#true;
	check($right, "vCPU $vcpu: TSC offset @found, to within $bound cycles; it is @true");
}
# The rate of CLOCK_MONOTONIC, by the test's own readings, if there are any.
if ($source{khz_max} && ($fact{clocks_end} // '') =~ /mono=(\d+):(\d+)/) {
	my @end = ($1, $2);
	my @begin = $fact{clocks_begin} =~ /mono=(\d+):(\d+)/;
	my $khz = ($end[0] - $begin[0]) * 1e6 / ($end[1] - $begin[1]);
	check($khz >= $source{khz_min} - 1 && $khz <= $source{khz_max} + 1,
		sprintf("%d to %d kHz; it is %.1f", $source{khz_min}, $source{khz_max}, $khz));
}
exit $bad;
