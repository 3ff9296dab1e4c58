# SPDX-License-Identifier: GPL-2.0-or-later
#
# Reads a Perfetto trace as protoc shows it, and says in one line per fact what a viewer would find:
# tracks, slices, instants, arrows, counters, and what is wrong.
#
#   protoc --decode=Trace -I tests/data perfetto.proto <TRACE | perl perfetto.pl
use strict;
use warnings;

my (%p, %note, @args, @path, %track, %open, %last, %flow, %name, %event, %field, %count, %value, %notes, @bad);

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
		$count{arrows}++;
		$count{"arrows from a vCPU to a guest's CPU"}++
			if $flow{$id} && $flow{$id}[1] =~ /vCPU/ && $track{$on} =~ /^guest .*CPU/;
	}
}

sub packet_done {
	if (defined(my $id = $p{'track.uuid'})) {
		my $parent = $p{'track.parent'};
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
	$count{"clock readings"}++ if defined $p{'clock_snapshot.primary'};
}

while (<STDIN>) {
	if (/^\s*(\w+) \{/) {
		push @bad, "unknown field $1" if $1 =~ /^\d/;
		push @path, $1;
		%p = @args = () if @path == 1;
		%note = () if $1 eq 'note' || $1 eq 'event';
	} elsif (/^\s*\}/) {
		my $at = join '.', @path;
		$event{$note{iid}} = $note{name} if $at eq 'packet.interned.event';
		$field{$note{iid}} = $note{name} if $at eq 'packet.interned.note';
		push @args, {%note} if $at eq 'packet.event.note';
		packet_done() if @path == 1;
		pop @path;
	} elsif (/^\s*(\w+): (.*)$/) {
		my ($k, $v) = ($1, $2);
		push @bad, "unknown field $k" if $k =~ /^\d/;
		$v =~ s/^"(.*)"$/$1/;
		$note{$k} = $v;
		$p{join('.', @path[1 .. $#path], $k)} = $v;
	}
}
push @bad, "cut" if @path;
print "slices of $_: $name{$_}\n" for sort keys %name;
print "$_: $count{$_}\n" for sort keys %count;
print "argument $_: $notes{$_}\n" for sort keys %notes;
print "counter $_: $value{$_}\n" for sort keys %value;
my %seen;
print "bad: $_\n" for grep { !$seen{$_}++ } @bad;
print "bad in all: ", scalar(@bad), "\n";
