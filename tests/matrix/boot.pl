# SPDX-License-Identifier: GPL-2.0-or-later
#
# A disk to boot: it reads N sectors of itself, one at a time, through the BIOS, and resets the machine.
#
#   perl boot.pl N >DISK        (then: truncate -s 16M DISK, which gives it a geometry)
use strict;
use warnings;

my $n = shift // 64;
my $code = pack('C*',
	0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0,		# xor ax, ax; mov ds, ax; mov es, ax
	0xbd, $n & 255, $n >> 8,			# mov bp, N
	0xb4, 0x42, 0xb2, 0x80, 0xbe, 0x40, 0x7c,	# again: mov ah, 42h; mov dl, 80h; mov si, 7c40h
	0xcd, 0x13,					# int 13h: read by the packet at si
	0xff, 0x06, 0x48, 0x7c,				# inc word [7c48h]: its sector
	0x4d, 0x75, 0xf0,				# dec bp; jnz again
	0xb0, 0xfe, 0xe6, 0x64,				# mov al, feh; out 64h, al: reset
	0xf4, 0xeb, 0xfd);				# hlt; jmp to it
binmode STDOUT;
$code .= "\0" x (0x40 - length $code);
# The packet: its size, sectors, where to (0:8000h), from which sector on.
$code .= pack('CCvvvVV', 16, 0, 1, 0x8000, 0, 1, 0);
print $code, "\0" x (510 - length $code), "\x55\xaa";
