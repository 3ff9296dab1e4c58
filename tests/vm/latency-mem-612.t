#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-mem.t with Linux 6.12, whose KVM traces changes of page tables by other events.

RIG_OPTIONS="--kernel 6.12" exec sh "$(dirname "$0")/latency-mem.t"
