/* SPDX-License-Identifier: GPL-2.0-or-later */
/* report_table.c: tables from the cells of those vCPUs that a filter lets through. */
#include "report_priv.h"
#include "kvmft/ksyms.h"

/*
 * Samples by key, in memory that is bounded for all keys together.
 *
 * Addresses of a hostile, or just a large, guest may be any number of keys. When the budget is used
 * up, the samples of further keys go to one cell, so that sums stay right.
 */

#define MAP_SLOT  48 /* bytes that a key costs in struct u64map, at its mean load */
#define HEAP_HEAD 16 /* ... and what an allocation costs on top */
#define LIST_MAX  24 /* cells of a vCPU found without a map: usually all that it has */

static struct cell *cell_by_key(const struct cells *c, uint64_t key)
{
	struct cell *cell = c->first;
	uint64_t at;

	if (c->n > LIST_MAX)
		return u64map_get(&c->by_key, key, &at) ? (struct cell *)(uintptr_t)at : NULL;
	while (cell && cell->key != key)
		cell = cell->next;
	return cell;
}

static struct cell *report_cell_new(struct cells *c, struct cell_budget *b, uint64_t key,
				    bool others)
{
	size_t parts = b->part ? REPORT_PARTS * sizeof(uint64_t) : 0;
	size_t size = sizeof(struct cell) + parts + (b->hist ? sizeof(struct loghist_rows) : 0);
	size_t mapped = c->n < LIST_MAX ? 0 : c->n == LIST_MAX ? LIST_MAX + 1 : 1;
	size_t cost = size + HEAP_HEAD + mapped * MAP_SLOT, kept = b->limit / 16;
	struct cell *cell;

	if (!others && (b->used + cost > b->limit || (b->used + cost > b->limit - kept &&
						      c->used + cost > kept / b->vcpus)))
		return NULL;
	cell = xcalloc(1, size);
	b->used += cost;
	c->used += cost;
	cell->key = key;
	cell->min = UINT64_MAX;
	if (b->part)
		cell->part = (uint64_t *)(cell + 1);
	if (b->hist)
		cell->hist = (struct loghist_rows *)((char *)(cell + 1) + parts);
	/* Into the list; once there are too many for that, all of them go into the map. */
	for (struct cell *i = c->n == LIST_MAX ? c->first : NULL; i; i = i->next)
		xu64map_put(&c->by_key, i->key, (uint64_t)(uintptr_t)i);
	if (c->n >= LIST_MAX)
		xu64map_put(&c->by_key, cell->key, (uint64_t)(uintptr_t)cell);
	cell->next = c->first;
	c->first = cell;
	c->n++;
	return cell;
}

struct cell *cell_slow(struct cells *c, struct cell_budget *b, uint64_t key)
{
	struct cell *cell = cell_by_key(c, key);

	if (!cell)
		cell = report_cell_new(c, b, key, false);
	if (cell) {
		c->cache[cell_slot(key)] = cell;
		return cell;
	}
	b->crowded++;
	cell = cell_by_key(c, CELL_OTHERS);
	return cell ?: report_cell_new(c, b, CELL_OTHERS, true);
}

void cell_time_hist(struct cell *c, struct cell_budget *b, uint64_t ticks)
{
	size_t i = loghist_index(ticks), more = sizeof(*c->hist->row);
	uint32_t *count;

	more = c->hist->at[i / LOGHIST_STEPS] ? 0 : more;
	if (more && b->hist_used + more > b->hist_limit) {
		b->no_hist++;
		return;
	}
	b->hist_used += more;
	count = loghist_bucket(c->hist, i);
	if (*count != UINT32_MAX)
		++*count;
	else
		b->no_hist++;
}

void cells_free(struct cells *c)
{
	struct cell *cell, *next;

	if (!c)
		return;
	for (cell = c->first; cell; cell = next) {
		next = cell->next;
		if (cell->hist)
			free(cell->hist->row);
		free(cell);
	}
	u64map_free(&c->by_key);
	free(c);
}

/*
 * A report in pieces: what was counted in each stretch of time.
 *
 * The walk stops between two stretches and calls opts.cut, which takes from the cells what is in
 * them. So the hot loop is not affected.
 */

uint64_t report_ticks(const struct report *r, uint64_t ns)
{
	u128 t = (u128)ns * r->div / r->mul;

	return t > UINT64_MAX ? UINT64_MAX : MAX((uint64_t)t, (uint64_t)1);
}

void report_span(const struct report *r, struct report_span *s)
{
	uint64_t end = r->last;

	*s = (struct report_span){ .begin = r->begin, .from = r->from, .to = r->to };
	if (cap_in_tsc(r->cap) && r->cap->stop_tsc)
		end = MAX(end, r->cap->stop_tsc);
	end = MIN(end, r->to);
	s->length = end > r->begin ? report_time(r, end - r->begin) : 0;
}

static int report_take_cell(struct report *r, struct cell *c, report_piece_fn *fn, void *ctx,
			    u128 *part)
{
	struct report_piece p = {
		.key = c->key, .samples = c->timed + c->untimed, .timed = c->timed,
		.time = report_time(r, c->sum), .cell = c,
	};
	u128 rest = c->sum;
	int ret;

	if (!p.samples)
		return 0;
	for (int i = PART_KERNEL + 1; c->part && i < REPORT_PARTS; i++) {
		part[i] += c->part[i];
		p.part[i] = report_time(r, c->part[i]);
		rest -= MIN(rest, c->part[i]);
	}
	part[PART_KERNEL] += rest;
	p.part[PART_KERNEL] = report_time(r, rest);
	ret = fn(ctx, r, &p);
	c->timed = c->untimed = c->max = 0;
	c->sum = c->squares = 0;
	c->min = UINT64_MAX;
	if (c->hist && c->hist->n)
		memset(c->hist->row, 0, c->hist->n * sizeof(*c->hist->row));
	if (c->part)
		memset(c->part, 0, REPORT_PARTS * sizeof(*c->part));
	return ret;
}

int report_take(struct report *r, const struct report_filter *f, report_piece_fn *fn, void *ctx,
		struct report_sums *s)
{
	u128 guest = 0, part[REPORT_PARTS] = { 0 };
	int ret = 0;

	for (size_t i = 0; i < r->nvcpu && !ret; i++) {
		struct rvcpu *v = r->vcpu[i];
		struct cell *c = report_matches(r, f, i) ? v->cells->first : NULL;

		for (; c && !ret; c = c->next)
			ret = report_take_cell(r, c, fn, ctx, part);
		guest += report_matches(r, f, i) ? v->guest : 0;
		v->guest = 0;
	}
	s->guest_time = report_time(r, guest);
	for (int i = 0; i < REPORT_PARTS; i++)
		s->part_time[i] = report_time(r, part[i]);
	return ret;
}

static uint64_t by_rip_reason(const struct by_rip *b, uint64_t key);

bool report_key_halts(const struct report *r, uint64_t key)
{
	const struct exit_why why =
		class_vmexit_why(r->rips ? by_rip_reason(r->rips, key) : key);

	return r->opts.cls == &class_vmexit && key != CELL_OTHERS && exit_is_halt(why);
}

void report_piece_times(const struct report *r, const struct report_piece *p,
			void (*fn)(void *ctx, uint64_t time, uint32_t n), void *ctx)
{
	const struct loghist_rows *h = p->cell->hist;

	for (unsigned int o = 0; h && o < ARRAY_SIZE(h->at); o++)
		for (unsigned int i = 0; h->at[o] && i < LOGHIST_STEPS; i++) {
			uint32_t n = h->row[h->at[o] - 1][i];
			uint64_t lo, hi;

			if (!n)
				continue;
			loghist_bounds(o * LOGHIST_STEPS + i, &lo, &hi);
			fn(ctx, report_time(r, (u128)lo + (hi - lo) / 2), n);
		}
}

const char *const report_keys[] = {
	[KEY_SAMPLE] = "sample",
	[KEY_TIME] = "time",
	[KEY_MAX] = "max_t",
	[KEY_MIN] = "min_t",
	[KEY_MEAN] = "mean_t",
	[KEY_NAME] = "ev_name",
	[KEY_SAMPLES_PCT] = "percent_sample",
	[KEY_TIME_PCT] = "percent_time",
	[KEY_CPU] = "cpu",
	NULL,
};

const unsigned int report_percentiles[REPORT_PERCENTILES] = { 50, 90, 99 };

/* ---- evidence of parts ---- */

const char *const report_part_names[REPORT_PARTS] = {
	[PART_KERNEL] = "kernel",
	[PART_USER] = "user",
	[PART_POLL] = "poll",
	[PART_BLOCKED] = "blocked",
	[PART_RUNNABLE] = "runnable",
	[PART_PREEMPTED] = "preempted",
};

/* What is not another part is the kernel's; in a halt, which is not in the VMM, or it polled. */
static const struct evidence_rule *part_rule(const struct report *r, uint64_t key,
					     enum report_part p)
{
	const char *halt = p == PART_KERNEL ? "halted" : p == PART_BLOCKED ? "asleep" : NULL;

	return evidence_rule("split",
			     halt && report_key_halts(r, key) ? halt : report_part_names[p]);
}

uint32_t report_lacks(const struct report *r, uint64_t key, enum report_part p)
{
	return part_rule(r, key, p)->needs & ~r->recorded;
}

uint32_t report_needs(const struct report *r)
{
	uint32_t lacks = 0;

	for (int p = 0; r->opts.split && p < REPORT_PARTS; p++)
		lacks |= report_lacks(r, CELL_OTHERS, (enum report_part)p);
	return lacks;
}

uint32_t report_row_lacks(const struct report *r, const struct report_table *t,
			  const struct report_row *row, enum report_part p)
{
	return row ? report_lacks(r, row->key, p) : t->lacks[p];
}

uint64_t report_row_unknown(const struct report *r, const struct report_table *t,
			    const struct report_row *row, char *buf, size_t size)
{
	uint64_t left = row ? row->total_time : t->total_time;
	const struct evidence_rule *rule = NULL;
	uint32_t lacks = 0;

	for (int p = REPORT_PARTS; p-- > 0;) {
		uint32_t of = report_row_lacks(r, t, row, (enum report_part)p);

		if (!of)
			left -= MIN(left, (row ? row->part_time : t->part_time)[p]);
		lacks = of ?: lacks;
		rule = of ? part_rule(r, row ? row->key : CELL_OTHERS, (enum report_part)p) : rule;
	}
	*buf = '\0';
	if (rule == evidence_rule("split", "halted") && lacks & EVID_SWITCH)
		lacks = 0;
	else if (rule == evidence_rule("split", "halted"))
		rule = evidence_rule("split", "kernel");
	if (rule)
		evidence_candidates(rule, lacks, buf, size);
	return left;
}

/* ---- whose ---- */

size_t report_vcpus(const struct report *r)
{
	return r->nvcpu;
}

void report_vcpu(const struct report *r, size_t i, struct report_vcpu *v)
{
	const struct rvcpu *vc = r->vcpu[i];

	*v = (struct report_vcpu){
		.tid = vc->tid, .vcpu = vc->vcpu, .vm = vc->vm, .samples = vc->sampled
	};
}

int64_t report_vm_named(const struct report *r)
{
	return r->vm_named;
}

bool report_matches(const struct report *r, const struct report_filter *f, size_t vcpu)
{
	struct report_vcpu v;
	uint64_t tgid = 0;

	report_vcpu(r, vcpu, &v);
	if (f->unknown_vm ? v.vm >= 0 : f->vm >= 0 && v.vm != f->vm)
		return false;
	if ((f->vcpu >= 0 && v.vcpu != f->vcpu) || (f->tid && v.tid != f->tid))
		return false;
	if (!f->pid)
		return true;
	if (!u64map_get(&r->map->tgid_of, (uint32_t)v.tid, &tgid) && v.vm >= 0)
		tgid = (uint32_t)r->map->vm[v.vm].pid;
	for (size_t i = 0; i < f->npid; i++)
		if (f->pid[i] == v.tid || f->pid[i] == (int32_t)tgid)
			return true;
	return false;
}

/* ---- rows ---- */

/* From one vCPU that f may ask for to the next, of its VM alone if f names one; SIZE_MAX = none. */
size_t report_first(const struct report *r, const struct report_filter *f)
{
	if (f->only)
		return f->only - 1;
	return f->vm >= 0 || f->unknown_vm ? r->first_vcpu[f->vm >= 0 ? (size_t)f->vm : r->map->nvm]
					   : 0;
}

size_t report_next(const struct report *r, const struct report_filter *f, size_t i)
{
	if (f->only)
		return r->nvcpu;
	return f->vm >= 0 || f->unknown_vm ? r->vcpu[i]->next : i + 1;
}

struct build {
	const struct report *r;
	const struct report_filter *f;
	struct report_table *t;
	struct u64map at; /* key → row */
	u128 ticks;	  /* of all rows */
	/* With percentiles, the cells of all rows, by row; those before `taken` are done. */
	struct row_cell {
		uint64_t row;
		const struct cell *c;
	} *cell;
	size_t ncell, cell_cap, taken;
};

COMPARE(by_row_of_cell, struct row_cell, ORDER(x->row, y->row));

/* A row for each key, and no memory for more: there may be tens of thousands. */
static void report_make_rows(struct build *b)
{
	struct report_table *t = b->t;

	for (size_t i = report_first(b->r, b->f); i < b->r->nvcpu; i = report_next(b->r, b->f, i)) {
		const struct rvcpu *v = b->r->vcpu[i];
		const struct cell *c = report_matches(b->r, b->f, i) ? v->cells->first : NULL;

		for (; c; c = c->next) {
			if (!(c->timed + c->untimed) || u64map_get(&b->at, c->key, NULL))
				continue;
			xu64map_put(&b->at, c->key, t->n);
			t->n++;
		}
	}
	t->row = xcalloc(t->n + 1, sizeof(*t->row));
}

static void add_cell(struct build *b, const struct cell *c)
{
	uint64_t samples = c->timed + c->untimed, i;
	struct report_row *row;

	if (!samples || !u64map_get(&b->at, c->key, &i))
		return;
	row = &b->t->row[i];
	if (b->r->opts.percentiles)
		xarray_add(&b->cell, &b->ncell, &b->cell_cap, &(struct row_cell){ i, c },
			   sizeof(*b->cell));
	if (!row->samples)
		row->min = UINT64_MAX;
	row->key = c->key;
	row->samples += samples;
	row->timed += c->timed;
	row->min = MIN(row->min, c->min);
	row->max = MAX(row->max, c->max);
	row->ticks += c->sum;
	row->squares =
		row->squares + c->squares < c->squares ? ~(u128)0 : row->squares + c->squares;
	b->t->samples += samples;
	b->t->timed += c->timed;
	b->ticks += c->sum;
	for (int p = 0; c->part && p < REPORT_PARTS; p++)
		row->part_time[p] += c->part[p]; /* ticks until row_finish() */
}

/* 100 * 100 * part / whole, rounded; whole 0 gives 0. */
static uint32_t row_percent(u128 part, u128 whole)
{
	while (whole > ~(u128)0 / 20000) { /* what is cut off is far below what is shown */
		part >>= 1;
		whole >>= 1;
	}
	return whole ? (uint32_t)((part * 20000 / whole + 1) / 2) : 0;
}

/*
 * Standard error of the mean in percent of the mean: 100 * sqrt(M2 / (n - 1) / n) / mean with M2
 * the sum of squared distances from the mean, as perf has it, 0 for n < 2.
 *
 * With sum = n * q + rest: M2 = squares - n * q^2 - 2 * q * rest - rest^2 / n, in integers up to
 * the last term. Only the ratio is a float; it is not a time that anything is placed by.
 */
static uint32_t relative_error(const struct report_row *row)
{
	u128 q, rest, m2, n = row->timed;
	double ratio, sum = (double)row->ticks;

	if (n < 2 || !row->ticks)
		return 0;
	q = row->ticks / n;
	rest = row->ticks % n;
	m2 = row->squares - n * q * q - 2 * q * rest;
	ratio = ((double)m2 - (double)rest * (double)rest / (double)n) * (double)n /
		(double)(n - 1) / sum / sum;
	if (!(ratio > 0))
		return 0;
	/* (error / mean)^2 is at most 1: one sample has all the time */
	return (uint32_t)((u64_root((uint64_t)(MIN(ratio, 1.0) * 1e18)) + 50000) / 100000);
}

static void row_percentiles(struct build *b, struct report_row *row, struct loghist *h)
{
	const size_t at = (size_t)(row - b->t->row);
	uint64_t n = 0;

	loghist_free(h);
	h->n = row->timed;
	h->min = row->min;
	h->max = row->max;
	for (; b->taken < b->ncell && b->cell[b->taken].row == at; b->taken++)
		loghist_rows_add(&h->rows, b->cell[b->taken].c->hist);
	for (size_t i = 0; i < LOGHIST_BUCKETS; i++)
		n += loghist_count(h, i);
	row->counted = n == h->n;
	for (size_t i = 0; row->counted && i < REPORT_PERCENTILES; i++)
		row->percentile_time[i] =
			report_time(b->r, loghist_percentile(h, report_percentiles[i], 100));
}

static void row_finish(struct build *b, struct report_row *row, struct loghist *h)
{
	const struct report *r = b->r;

	if (!row->timed)
		row->min = 0;
	row->total_time = report_time(r, row->ticks);
	row->min_time = report_time(r, row->min);
	row->max_time = report_time(r, row->max);
	row->avg_time = row->timed ? report_time(r, (row->ticks + row->timed / 2) / row->timed) : 0;
	row->samples_pct = row_percent(row->samples, b->t->samples);
	row->time_pct = row_percent(row->ticks, b->ticks);
	row->stderr_pct = relative_error(row);
	if (r->opts.split) {
		uint64_t left = row->total_time;

		/* Parts in ns that add up to the total in ns: the first has the rounding error. */
		for (int p = PART_KERNEL + 1; p < REPORT_PARTS; p++) {
			row->part_time[p] = MIN(report_time(r, row->part_time[p]), left);
			left -= row->part_time[p];
		}
		row->part_time[PART_KERNEL] = left;
	}
	for (int p = 0; p < REPORT_PARTS; p++)
		b->t->part_time[p] += row->part_time[p];
	if (h)
		row_percentiles(b, row, h);
}

/* ---- places in guests ---- */

/*
 * Exits by the guest code in which they happened, and by reason.
 *
 * The key of such a sample is the number of a row: a place and a reason. A place is a function, by
 * its name, so that those of several VMs are counted together; all of user space; or an address
 * without a known symbol.
 */
#define ROWS_MAX (1u << 16)
#define ROWS_VM	 1024u /* of each, whatever others take */

struct place {
	const char *name, *module; /* NULL: an address */
	uint64_t addr;
};

struct rip_row {
	uint32_t place;
	uint64_t reason; /* the class's key */
};

struct by_rip {
	struct hash_key key;
	struct u64map place_of; /* hash of what it is → index */
	struct u64map row_of;	/* hash of place and reason → index */
	struct place *place;
	struct rip_row *row;
	size_t nplace, place_cap, nrow, row_cap;
	struct u64map rows_of; /* VM + 1 → how many rows were made for it */
	bool least;	       /* that of the exit looked at has fewer than ROWS_VM */
	/* the last one: exits come in runs */
	const struct ksym *last;
	uint32_t last_place;
};

struct by_rip *by_rip_new(void)
{
	struct by_rip *b = xcalloc(1, sizeof(*b));

	hash_key_init(&b->key);
	return b;
}

void by_rip_free(struct by_rip *b)
{
	if (!b)
		return;
	u64map_free(&b->place_of);
	u64map_free(&b->row_of);
	u64map_free(&b->rows_of);
	free(b->place);
	free(b->row);
	free(b);
}

/* UINT32_MAX: there are too many. */
static uint32_t rip_place_add(struct by_rip *b, uint64_t hash, const struct place *p)
{
	uint64_t at;

	if (u64map_get(&b->place_of, hash, &at))
		return (uint32_t)at;
	if (b->nplace >= ROWS_MAX && !b->least)
		return UINT32_MAX;
	xarray_add(&b->place, &b->nplace, &b->place_cap, p, sizeof(*p));
	xu64map_put(&b->place_of, hash, b->nplace - 1);
	return (uint32_t)b->nplace - 1;
}

static uint32_t place_named(struct by_rip *b, const char *name, const char *module)
{
	uint64_t hash = hash_bytes(&b->key, name, strlen(name));

	hash = hash * 31 + hash_bytes(&b->key, module, strlen(module));
	return rip_place_add(b, hash, &(struct place){ .name = name, .module = module });
}

static uint32_t rip_place_of(struct by_rip *b, const struct ksyms *k, uint64_t rip)
{
	const struct ksym *s = k ? ksyms_find(k, rip) : NULL;

	if (!s && k && ksyms_is_user(rip))
		return place_named(b, "user", "");
	if (!s)
		return rip_place_add(b, hash_bytes(&b->key, &rip, sizeof(rip)),
				     &(struct place){ .addr = rip });
	if (s != b->last) {
		b->last_place = place_named(b, s->name, s->module);
		b->last = s;
	}
	return b->last_place;
}

uint64_t by_rip_key(struct by_rip *b, int64_t vm, const struct ksyms *k, uint64_t rip,
		    uint64_t reason)
{
	uint64_t *rows = xu64map_at(&b->rows_of, (uint64_t)(vm + 1)), both[2] = { 0, reason };
	struct rip_row row = { .reason = reason };
	uint64_t hash, at;

	b->least = *rows < ROWS_VM;
	both[0] = row.place = rip_place_of(b, k, rip);
	hash = hash_bytes(&b->key, both, sizeof(both));
	if (row.place == UINT32_MAX)
		return CELL_OTHERS;
	if (u64map_get(&b->row_of, hash, &at))
		return at;
	if (b->nrow >= ROWS_MAX && !b->least)
		return CELL_OTHERS;
	++*rows;
	xarray_add(&b->row, &b->nrow, &b->row_cap, &row, sizeof(row));
	xu64map_put(&b->row_of, hash, b->nrow - 1);
	return b->nrow - 1;
}

/* What the class said about more than the row: see MARK_MORE. */
#define MORE (1ull << 63)

/* The class's key. */
static uint64_t by_rip_reason(const struct by_rip *b, uint64_t key)
{
	uint64_t row = key & ~MORE;

	return row < b->nrow ? b->row[row].reason | (key & MORE) : 0;
}

static void by_rip_place(const struct by_rip *b, uint64_t key, struct report_place *p)
{
	uint64_t row = key & ~MORE;
	const struct place *of = row < b->nrow ? &b->place[b->row[row].place] : NULL;

	*p = (struct report_place){ 0 };
	if (!of || key == CELL_OTHERS)
		return;
	p->function = of->name;
	p->module = of->module && *of->module ? of->module : NULL;
	p->has_addr = !of->name;
	p->addr = of->addr;
}

/* ---- order ---- */

void report_key_name(const struct report *r, uint64_t key, char name[REPORT_NAME])
{
	if (key == CELL_OTHERS)
		snprintf(name, REPORT_NAME, "(others)");
	else
		r->opts.cls->describe(&r->names, r->rips ? by_rip_reason(r->rips, key) : key, name,
				      REPORT_NAME);
}

void report_row_place(const struct report *r, const struct report_row *row,
		      struct report_place *p)
{
	by_rip_place(r->rips, row->key, p);
}

struct named {
	char name[REPORT_NAME];
	struct report_row *row;
};

COMPARE(by_name, struct named, strcmp(x->name, y->name) ?: ORDER(x->row->key, y->row->key));

/* Of equal ones, perf kvm shows first what is in the first bucket of its hash. */
#define PERF_BUCKETS 4096u

COMPARE(by_order, struct report_row,
	ORDER(y->order, x->order) ?: ORDER(x->key % PERF_BUCKETS, y->key % PERF_BUCKETS)
		?: ORDER(x->key, y->key));

static unsigned __int128 order(const struct report *r, const struct report_row *row,
			       enum report_key key)
{
	/* perf's key of that name compares the mean. */
	if (key == KEY_TIME && r->opts.semantics == REPORT_PERF)
		key = KEY_MEAN;
	switch (key) {
	case KEY_SAMPLE:
	case KEY_SAMPLES_PCT: return row->samples;
	case KEY_TIME:
	case KEY_TIME_PCT: return row->ticks;
	case KEY_MAX: return row->max;
	case KEY_MIN: return row->min;
	case KEY_CPU: /* of a halt only what is known not to be asleep */
		if (report_key_halts(r, row->key) &&
		    (!r->opts.split || report_lacks(r, row->key, PART_KERNEL)))
			return (u128)row->part_time[PART_USER] + row->part_time[PART_POLL];
		return row->total_time - row->part_time[PART_BLOCKED] -
		       row->part_time[PART_RUNNABLE] - row->part_time[PART_PREEMPTED];
	case KEY_MEAN: return row->timed ? (row->ticks << 20) / row->timed : 0;
	default: return ~(unsigned __int128)row->rank; /* KEY_NAME */
	}
}

void report_table(struct report *r, const struct report_filter *f, enum report_key key,
		 struct report_table *t)
{
	struct build b = { .r = r, .f = f, .t = t };
	struct loghist *h = NULL;
	struct u64map ids = { 0 }; /* of a VM's vCPUs, each of which several threads may have run */
	uint64_t id;
	u128 guest = 0;

	memset(t, 0, sizeof(*t));
	if (!r->first_vcpu) {
		size_t nvm = r->map->nvm + 1;

		/* The vCPUs of each VM, in a list: n tables of n VMs take n steps, not n^2. */
		r->first_vcpu = xmalloc(nvm * sizeof(*r->first_vcpu));
		memset(r->first_vcpu, 0xff, nvm * sizeof(*r->first_vcpu));
		for (size_t i = r->nvcpu; i-- > 0;) {
			int64_t vm = r->vcpu[i]->vm;
			size_t *first = &r->first_vcpu[vm < 0 ? r->map->nvm : (size_t)vm];

			r->vcpu[i]->next = *first;
			*first = i;
		}
	}
	if (r->opts.percentiles)
		h = xcalloc(1, sizeof(*h));
	report_make_rows(&b);
	for (size_t i = report_first(r, f); i < r->nvcpu; i = report_next(r, f, i)) {
		const struct rvcpu *v = r->vcpu[i];

		if (!report_matches(r, f, i))
			continue;
		for (const struct cell *c = v->cells->first; c; c = c->next)
			add_cell(&b, c);
		guest += v->guest;
		t->windows += v->windows;
		id = (uint64_t)v->vm << 32 | (uint32_t)v->vcpu;
		t->vcpus += v->sampled && (v->vm < 0 || v->vcpu < 0 || !(*xu64map_at(&ids, id))++);
	}
	u64map_free(&ids);
	u64map_free(&b.at);
	if (key == KEY_NAME) {
		_cleanup_free_ struct named *v = xcalloc(t->n + 1, sizeof(*v));

		/* Names are only needed for their order, and are long: rows keep the rank. */
		for (size_t i = 0; i < t->n; i++) {
			v[i].row = &t->row[i];
			report_key_name(r, v[i].row->key, v[i].name);
		}
		qsort(v, t->n, sizeof(*v), by_name);
		for (size_t i = 0; i < t->n; i++)
			v[i].row->rank = i;
	}
	array_sort(b.cell, b.ncell, by_row_of_cell);
	for (size_t i = 0; i < t->n; i++)
		row_finish(&b, &t->row[i], h);
	free(b.cell);
	for (size_t i = 0; i < t->n; i++) {
		t->row[i].order = order(r, &t->row[i], key);
		for (int p = 0; r->opts.split && p < REPORT_PARTS; p++)
			t->lacks[p] |= report_lacks(r, t->row[i].key, (enum report_part)p);
	}
	t->total_time = report_time(r, b.ticks);
	t->guest_time = report_time(r, guest);
	if (t->n)
		qsort(t->row, t->n, sizeof(*t->row), by_order);
	loghist_free(h);
	free(h);
}

void report_table_free(struct report_table *t)
{
	free(t->row);
	memset(t, 0, sizeof(*t));
}
