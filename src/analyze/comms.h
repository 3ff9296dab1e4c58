/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * comms.h: names of tasks, from what the capture noted and from the events themselves.
 */
#ifndef KVMFT_COMMS_H
#define KVMFT_COMMS_H

#include "kvmft/capture.h"
#include "kvmft/ring.h"

struct tl_comms;

int comms_new(const struct capture *cap, const struct fmt *fmt, struct tl_comms **out) __must_check;
/* Learns from sched events; cheap for all others. 0 or -ENOMEM. */
int comms_feed(struct tl_comms *c, const struct rec *rec) __must_check;
const char *comms_get(const struct tl_comms *c, int32_t tid);
void comms_free(struct tl_comms *c);

#endif
