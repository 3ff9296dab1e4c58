/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pb.h: the wire format of protocol buffers onto an sbuf, as far as a writer needs it: a message is
 * a sequence of fields, a field its number and kind and then a varint, 8 bytes, or a length and
 * bytes. Nothing is built in memory, and an sbuf that ran out of memory takes no more.
 */
#ifndef KVMFT_PB_H
#define KVMFT_PB_H

#include "kvmft/util.h"

/* Field numbers are 1 to 2^29 - 1. */
void pb_varint(struct sbuf *b, uint64_t v); /* without a field: at most 10 bytes */
void pb_u64(struct sbuf *b, uint32_t field, uint64_t v); /* also uint32, bool, enum */
void pb_s64(struct sbuf *b, uint32_t field, int64_t v);	 /* int64, int32: not zigzag */
void pb_fixed64(struct sbuf *b, uint32_t field, uint64_t v);
void pb_bytes(struct sbuf *b, uint32_t field, const void *p, size_t n);
/* A string; bytes that are no UTF-8 become '?', which parsers would refuse. */
void pb_str(struct sbuf *b, uint32_t field, const char *text);
void pb_str_mem(struct sbuf *b, uint32_t field, const void *p, size_t n);
/*
 * A message within: fields up to pb_end(), which gets what pb_begin() returned. Its length has four
 * bytes, whatever it is: at most 2^28 - 1, else the sbuf gets an error.
 */
size_t pb_begin(struct sbuf *b, uint32_t field);
void pb_end(struct sbuf *b, size_t mark);

#endif
