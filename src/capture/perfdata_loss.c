/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfdata_loss.c: samples that were lost without a later event to report it.
 *
 * When a ring was full, the next event that finds room is preceded by a record of what was lost. At
 * its end, perf writes the kernel's counters as well (from 6.1 on): what these have in excess of
 * the records was lost at the end.
 */
#include "perfdata.h"

#define AHEAD (64u << 10)

/*
 * nr, nr x { id, number of the event, CPU, thread }: adds the counts of ids to those of their CPUs.
 */
static int add_by_cpu(struct pd_record *r, const struct u64map *count, struct u64map *by_cpu)
{
	uint64_t n, id, cpu, lost, *sum;

	if (cur_u64(&r->body, &n))
		return 0;
	while (n-- && !cur_u64(&r->body, &id) && !cur_skip(&r->body, 8) &&
	       !cur_u64(&r->body, &cpu) && !cur_skip(&r->body, 8)) {
		if (cpu >= CAPTURE_MAX_CPUS || !u64map_get(count, id, &lost))
			continue;
		sum = u64map_at(by_cpu, cpu);
		if (!sum)
			return -ENOMEM;
		*sum += MIN(lost, UINT64_MAX - *sum);
	}
	return 0;
}

static int all_by_cpu(struct perfdata *p, const struct u64map *count, uint64_t at, uint64_t end,
		      struct u64map *by_cpu)
{
	struct pd_record r;
	int ret;

	while ((ret = pd_record(p, at, end, AHEAD, &r)) > 0) {
		ret = r.type == PD_ID_INDEX ? add_by_cpu(&r, count, by_cpu) : 0;
		if (ret)
			return ret;
		at += r.len;
	}
	return ret == -EBADMSG ? 0 : ret;
}

/* After the last event of the CPU. */
static int add_loss(struct perfdata *p, const struct pd_stream *s, uint64_t count)
{
	struct capture *c = p->c;
	const struct cap_loss l = { .cpu = s->cpu, .count = count, .from = s->last, .to = s->last,
				    .first = s->nblock, .last = s->nblock };

	return array_add(&c->loss, &c->nloss, &c->loss_cap, &l, sizeof(l));
}

static struct pd_stream *stream_of(struct perfdata *p, uint32_t cpu)
{
	struct pd_stream *s;

	for (size_t i = 0; i < p->nstream; i++)
		if (p->stream[i].cpu == cpu)
			return &p->stream[i];
	s = array_grow(&p->stream, p->nstream, &p->stream_cap,
		       sizeof(*s)); /* it lost all that it had */
	if (!s)
		return NULL;
	s->cpu = cpu;
	p->nstream++;
	return s;
}

static uint64_t total(const struct u64map *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			sum += MIN(m->slot[i].val, UINT64_MAX - sum);
	return sum;
}

int pd_losses(struct perfdata *p, const struct u64map *count, uint64_t begin, uint64_t end,
	      uint64_t *nowhere)
{
	uint64_t told = 0, all = total(count), placed = 0;
	struct u64map by_cpu = { 0 };
	int ret;

	*nowhere = 0;
	for (size_t i = 0; i < p->nstream; i++)
		told += MIN(p->stream[i].lost, UINT64_MAX - told);
	if (all <= told)
		return 0;
	ret = all_by_cpu(p, count, begin, end, &by_cpu);
	for (size_t i = 0; i < by_cpu.cap && !ret; i++) {
		struct pd_stream *s;

		if (!by_cpu.slot[i].used)
			continue;
		s = stream_of(p, (uint32_t)by_cpu.slot[i].key);
		if (!s)
			ret = -ENOMEM;
		else if (by_cpu.slot[i].val > s->lost) {
			ret = add_loss(p, s, by_cpu.slot[i].val - s->lost);
			placed += MIN(by_cpu.slot[i].val - s->lost, UINT64_MAX - placed);
		}
	}
	*nowhere = all - told > placed ? all - told - placed : 0;
	u64map_free(&by_cpu);
	return ret;
}
