#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# processes.t on hosts with Linux 6.12, where kvm_exit comes before the probe.

RIG_OPTIONS="--kernel 6.12" exec sh "$(dirname "$0")/processes.t"
