/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clockcheck_out.h: the answer of `kvmft clock`, as text, JSON and metrics. */
#ifndef KVMFT_CLOCKCHECK_OUT_H
#define KVMFT_CLOCKCHECK_OUT_H

#include "kvmft/clockcheck.h"

/* width: of the terminal that a text is for; 0: none. */
void clockcheck_text(const struct clockcheck *c, unsigned int width, struct sbuf *b);
void clockcheck_json(const struct clockcheck *c, unsigned int width, struct sbuf *b);
void clockcheck_metrics(const struct clockcheck *c, unsigned int width, struct sbuf *b);

#endif
