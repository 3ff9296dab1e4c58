# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a syslog daemon does with QEMU's messages: takes them from a socket and writes lines to files.
#
#   perl syslogd.pl SOCKET OLD NEW
#
# OLD gets the traditional form with the stamp of the sender, in seconds; NEW the form of RFC 5424's
# stamps, with that of this daemon in microseconds. Ends with SIGTERM, after what waits.
use strict;
use warnings;
use IO::Handle;
use IO::Socket::UNIX;
use POSIX qw(strftime);
use Time::HiRes qw(gettimeofday);

my ($path, $old, $new) = @ARGV;
my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $path) or die "$path: $!";
my $done;
open my $o, '>', $old or die "$old: $!";
open my $n, '>', $new or die "$new: $!";
$_->autoflush(1) for $o, $n;
$SIG{TERM} = sub { $done = 1; $socket->blocking(0) };
while (1) {
	my $got = $socket->recv(my $message, 65536);
	last if !defined $got && $done;
	next if !defined $got;
	my ($s, $us) = gettimeofday();
	$message =~ s/^<\d+>(\w{3} [ \d]\d \d\d:\d\d:\d\d) // or next;
	my $stamp = $1;
	$message =~ s/[\n\0]+$//;
	print $o "$stamp host $message\n";
	printf $n "%s.%06d+00:00 host %s\n", strftime('%Y-%m-%dT%H:%M:%S', gmtime $s), $us, $message;
}
