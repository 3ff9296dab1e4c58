# SPDX-License-Identifier: GPL-2.0-or-later
#
# How many bytes of a Perfetto trace are ftrace events, each with its head, by its wire format alone. Says what is not
# well-formed.
#
#   perl perfetto_size.pl TRACE
use strict;
use warnings;
use bytes;

my (%n, %size);
open my $f, '<:raw', $ARGV[0] or die "$ARGV[0]: $!";
local $/;
my $trace = <$f>;

sub varint {
	my ($b, $at) = @_;
	my ($v, $shift) = (0, 0);

	while (1) {
		die "cut at $$at\n" if $$at >= length($$b) || $shift > 63;
		my $c = ord(substr($$b, $$at++, 1));
		$v |= ($c & 127) << $shift;
		return $v if $c < 128;
		$shift += 7;
	}
}

# Calls $each for every field that has contents: its number, its size with the head, and the contents.
sub fields {
	my ($b, $each) = @_;

	for (my $at = 0; $at < length($b);) {
		my $from = $at;
		my $tag = varint(\$b, \$at);
		my $wire = $tag & 7;

		if ($wire == 2) {
			my $n = varint(\$b, \$at);
			die "too long at $from\n" if $n > length($b) - $at;
			$each->($tag >> 3, $at + $n - $from, substr($b, $at, $n));
			$at += $n;
		} elsif ($wire == 0) {
			varint(\$b, \$at);
		} elsif ($wire == 1 || $wire == 5) {
			$at += $wire == 1 ? 8 : 4;
		} else {
			die "type $wire at $from\n";
		}
	}
}

fields($trace, sub {
	die "no packet\n" if $_[0] != 1;
	fields($_[2], sub {
		return if $_[0] != 1; # the bundle
		fields($_[2], sub {
			my ($field, $n) = @_;
			if ($field == 2) {
				$n{events}++;
				$size{events} += $n;
			}
		});
	});
});
printf "%s: %d, %.1f bytes each\n", $_, $n{$_}, $size{$_} / $n{$_} for sort keys %n;
