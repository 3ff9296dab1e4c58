# SPDX-License-Identifier: GPL-2.0-or-later
#
# Reads a Perfetto trace as printed by protoc, and prints what a viewer would find, a line per fact:
# machines with their events, tracks, slices, instants, arrows, counters, and whatever is wrong.
#
#   protoc --decode=Trace -I tests/data perfetto.proto <TRACE | perl perfetto.pl
use strict;
use warnings;

my (%p, %note, @args, @path, %track, %open, %last, %flow, %name, %event, %field, %count, %value, %notes, @bad);
my (%state, %clock, %iid);
my (%machine, %synced, %sched, %events, %described, %used, %lost, @bundle, %list, %one, %first);

sub event_done {
	my ($type, $on, $ts) = @p{qw(event.type event.track timestamp)};

	push @bad, "event on no track" unless defined $track{$on};
	push @bad, "time goes back on $track{$on}" if $ts < ($last{$on} // 0);
	$last{$on} = $ts;
	my $what = $p{'event.name'} // $event{$p{'event.name_iid'} // 0};
	push @bad, "event without a name" if ($type == 1 || $type == 3) && !defined $what;
	if ($type == 1) {
		$open{$on}++;
		$count{slices}++;
		$name{"$track{$on}: $what"}++;
	} elsif ($type == 2) {
		push @bad, "end without begin" if --$open{$on} < 0;
	} elsif ($type == 3) {
		$count{instants}++;
	} else {
		$value{$track{$on}} = $p{'event.value'};
	}
	if (my $id = $p{'event.flow'}) {
		$flow{$id} //= [$ts, $track{$on}];
	}
	if (my $id = $p{'event.flow_end'}) {
		push @bad, "arrow from nowhere" unless $flow{$id};
		push @bad, "arrow back in time" if $flow{$id} && $flow{$id}[0] > $ts;
		print "arrow of ", $ts - $flow{$id}[0], " ns to $track{$on}\n" if $flow{$id};
		$count{arrows}++;
		$count{"arrows from a vCPU to a guest's CPU"}++
			if $flow{$id} && $flow{$id}[1] =~ /vCPU/ && $track{$on} =~ /^guest .*CPU/;
	}
}

sub bundle_done {
	my $m = $p{machine_id} // 0;
	my $cpu = $p{'bundle.cpu'};

	push @bad, "bundle without CPU" unless defined $cpu;
	push @bad, "machine $m has no name yet" unless defined $machine{$m};
	push @bad, "clock of machine $m is not known yet" if $m && !$synced{$m};
	$lost{"$machine{$m} CPU $cpu"}++ if $p{'bundle.lost_events'};
	for my $e (@bundle) {
		my ($ts, $what) = @$e;
		push @bad, "events of $m go back in time" if $ts < ($sched{"$m/$cpu"} // 0);
		$sched{"$m/$cpu"} = $ts;
		$first{$m} = $ts if $ts < ($first{$m} // $ts + 1);
		$used{"$m/$what"}++ if $what =~ /^\d/;
		$events{$m}{$what}++;
	}
}

# Names and defaults belong to a sequence, and hold from the packet that begins its state.
sub sequence_state {
	my $s = $p{sequence_id} // 0;
	my $flags = $p{sequence_flags} // 0;

	push @bad, "state of no sequence" if $flags && !$s;
	%iid = map { $_ => $iid{$_} } grep { !/^$s / } keys %iid if $flags & 1;
	$state{$s}++ if $flags & 1;
	push @bad, "sequence $s has no state yet" if $flags & 2 && !$state{$s};
	$clock{$s} = $p{'defaults.clock'} if defined $p{'defaults.clock'};
	return unless defined $p{'event.type'};
	push @bad, "event without a time" unless defined $p{timestamp};
	push @bad, "no clock of sequence $s is told" unless $clock{$s};
	push @bad, "a name of a state that is not asked for"
		if !($flags & 2) && (defined $p{'event.name_iid'} || grep { defined $_->{iid} } @args);
}

sub name_done {
	my ($kind, $n) = @_;
	my $key = ($p{sequence_id} // 1) . " $kind $n->{iid}";

	push @bad, "$kind $n->{iid} has two names" if defined $iid{$key} && $iid{$key} ne $n->{name};
	$iid{$key} = $n->{name};
}

sub packet_done {
	my $m = $p{machine_id} // 0;

	sequence_state();
	$machine{$m} = $p{'system_info.machine_name'} if defined $p{'system_info.machine_name'};
	$synced{$m}++ if defined $p{'clock_sync.pair.client.clock.time'} && defined $p{'clock_sync.pair.host.clock.time'};
	if (defined(my $id = $p{'track.uuid'})) {
		my $parent = $p{'track.parent'};
		push @bad, "track of machine $m" if $m;
		push @bad, "track $id twice" if defined $track{$id};
		push @bad, "track without its parent" if defined $parent && !defined $track{$parent};
		$track{$id} = (defined $parent ? "$track{$parent} / " : '') . $p{'track.name'};
		print "track $track{$id}\n";
	}
	event_done() if defined $p{'event.type'};
	for my $arg (@args) { # names may stand behind: protoc sorts by number
		my $n = $arg->{name} // $field{$arg->{iid}};
		push @bad, "argument without a name" unless defined $n;
		$notes{$n}++ if defined $n;
	}
	$described{"$m/$_->{id}"} = $_->{name} for @{$list{described} // []};
	bundle_done() if @bundle || %list;
	$count{"clock readings"}++ if defined $p{'clock_snapshot.primary'};
}

while (<STDIN>) {
	if (/^\s*(\w+) \{/) {
		my $k = $1;
		push @bad, "unknown field $k" if $k =~ /^\d/ && (join('.', @path) ne 'packet.bundle.event' || $k < 65536);
		push @path, $k;
		%p = @args = @bundle = %list = () if @path == 1;
		%note = () if $k =~ /^(note|event|field|attribute)$/;
		my $at = join '.', @path;
		%one = () if $at eq 'packet.bundle.event' || $at eq 'packet.bundle.described';
		if (@path == 4 && $at =~ /^packet\.bundle\.event\./) {
			push @bad, "two messages in one event" if defined $one{what};
			$one{what} = $k;
		}
	} elsif (/^\s*\}/) {
		my $at = join '.', @path;
		if ($at =~ /^packet\.interned\.(event|note)$/) {
			name_done($1, \%note);
			($1 eq 'event' ? \%event : \%field)->{$note{iid}} = $note{name};
		}
		push @args, {%note} if $at eq 'packet.event.note';
		print "attribute $note{key}: ", $note{number} // $note{text}, "\n" if $at eq 'packet.attributes.attribute';
		if ($at eq 'packet.bundle.event') {
			push @bad, "event without $_" for grep { !defined $one{$_} } qw(timestamp pid what);
			push @bundle, [$one{timestamp}, $one{generic} // $one{what}];
		}
		if ($at eq 'packet.bundle.described') {
			push @bad, "described event without a name" unless defined $one{name};
			push @{$list{described}}, {id => $one{field_id}, name => $one{name}};
		}
		packet_done() if @path == 1;
		pop @path;
	} elsif (/^\s*(\w+): (.*)$/) {
		my ($k, $v) = ($1, $2);
		my $at = join '.', @path;
		push @bad, "unknown field $k in $at" if $k =~ /^\d/ && $at !~ /^packet\.bundle\.event\.\d/;
		$v =~ s/^"(.*)"$/$1/;
		$note{$k} = $v;
		$p{join('.', @path[1 .. $#path], $k)} = $v;
		$one{$k} = $v if $at eq 'packet.bundle.event' || $at eq 'packet.bundle.described';
		$one{name} = $v if $at eq 'packet.bundle.described.event' && $k eq 'name';
		$one{generic} = $v if $at eq 'packet.bundle.event.generic' && $k eq 'event_name';
	}
}
push @bad, "cut" if @path;
for my $u (keys %used) {
	push @bad, "event $u is not described" unless defined $described{$u};
}
for my $m (sort keys %events) {
	print "machine $m: ", $machine{$m} // '', "\n";
	my %n;
	$n{/^\d/ ? $described{"$m/$_"} // $_ : $_} += $events{$m}{$_} for keys %{$events{$m}};
	print "events of ", $machine{$m} // $m, ": $_ $n{$_}\n" for sort keys %n;
	print "begin of ", $machine{$m} // $m, ": $first{$m}\n" if defined $first{$m};
}
print "lost before events of $_: $lost{$_}\n" for sort keys %lost;
print "slices of $_: $name{$_}\n" for sort keys %name;
print "$_: $count{$_}\n" for sort keys %count;
print "argument $_: $notes{$_}\n" for sort keys %notes;
print "counter $_: $value{$_}\n" for sort keys %value;
my %seen;
print "bad: $_\n" for grep { !$seen{$_}++ } @bad;
print "bad in all: ", scalar(@bad), "\n";
