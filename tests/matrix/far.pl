# SPDX-License-Identifier: GPL-2.0-or-later
#
# Moves the data of all CPUs of a trace.dat (version 6, little endian) 4 GiB towards its end; what is before them then
# is a hole.
#
#   perl far.pl FILE
use strict;
use warnings;

my $far = 1 << 32;
open my $file, '+<:raw', $ARGV[0] or die "$ARGV[0]: $!\n";
my $data = do { local $/; <$file> };
my $at = index($data, "flyrecord\0");
die "$ARGV[0]: no flyrecord\n" if $at < 0;
my $n = 0;
# The list of places and lengths ends where the data begin, or with a place outside the file.
for ($at += 10; $at + 16 <= length $data; $at += 16, $n++) {
	my ($place, $size) = unpack 'Q<2', substr($data, $at, 16);
	last if !$size || $place + $size > length $data;
	seek $file, $place + $far, 0 or die "$!\n";
	print $file substr($data, $place, $size) or die "$!\n";
	seek $file, $place, 0 or die "$!\n";
	print $file "\0" x $size or die "$!\n";
	seek $file, $at, 0 or die "$!\n";
	print $file pack('Q<', $place + $far) or die "$!\n";
}
die "$ARGV[0]: no CPUs\n" if !$n;
