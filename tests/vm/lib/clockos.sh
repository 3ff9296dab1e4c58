#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# clockos.sh DIR: builds clockos and noclock.so, a guest of QEMU's and what makes a VMM forget its clock, into DIR.

src=$(dirname "$(realpath "$0")")/..
cc -m32 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static -Wl,-Ttext=0x200000,--build-id=none \
	-o "$1/clockos" "$src/clockos.c" &&
	cc -shared -fPIC -O1 -o "$1/noclock.so" "$src/noclock.c"
