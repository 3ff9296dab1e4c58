/* SPDX-License-Identifier: GPL-2.0-or-later */
/* database.h: what the files that write an SQLite database share. */
#ifndef OUTPUT_DATABASE_H
#define OUTPUT_DATABASE_H

#include "evinfo.h"
#include "kvmft/database.h"
#include "kvmft/sqlite.h"

#define DB_TYPES_MAX 480 /* SQLite takes 500 parts of a view; others go to other_events */

enum db_table {
	DB_INFO,
	DB_NOTES,
	DB_SOURCES,
	DB_VMS,
	DB_VCPUS,
	DB_CPUS,
	DB_LOSSES,
	DB_EPOCHS,
	DB_ALIGNMENT,
	DB_WINDOWS,
	DB_EXITS,
	DB_CHAINS,
	DB_CHAIN_TYPES,
	DB_STAGES,
	DB_SPIKES,
	DB_PARTS,
	DB_OTHER,
	DB_TABLES
};

/* The first columns of each event. */
#define PLACE                                                                           \
	"id INTEGER PRIMARY KEY, ts INTEGER, source INTEGER, cpu INTEGER, vm INTEGER, " \
	"vcpu INTEGER, tid INTEGER, task TEXT"
#define PLACES "id, ts, source, cpu, vm, vcpu, tid, task"

struct event_table; /* the table of a type of event, of all sources */
struct event_plan;  /* a type of event of one source: where its fields go */

struct db {
	struct sq *sq;
	const struct timeline *t;
	struct out_clock clock;
	uint64_t khz;
	struct sq_table *table[DB_TABLES];
	struct evinfos infos;
	struct event_table **type;
	size_t ntype, type_cap;
	struct u64map by_type; /* tl_type() → index into plan */
	struct event_plan *plan;
	size_t plan_cap;
	uint64_t last_type;
	const struct event_plan *last;
	int64_t id;	      /* of the last event */
	struct u64map by_cpu; /* source << 32 | CPU → index into cpu */
	struct cpu_count {
		size_t source;
		uint32_t cpu;
		uint64_t stored, gaps;
	} * cpu;
	size_t cpu_cap;
	const struct lat *lat;
	uint64_t from, to;
	size_t left_out; /* columns */
};

/* Is it the name of a table that every database has? */
bool db_own_table(const char *name);

/* The values put so far as the next row of t. 0 or a negative errno, as all below. */
int db_add(struct db *d, enum db_table t);

/* A moment in the clock of all stamps; vm is its VM's number, or -1. */
void db_put_stamp(struct db *d, uint64_t host, int64_t vm, int64_t vcpu);

/* Cycles of the host as a length of time: ns, or as they are where tsc_khz is not known. */
void db_put_cycles(struct db *d, uint64_t cycles);

/* The database's number of a VM of the host map; -1 stays -1. */
int64_t db_vm_of(const struct db *d, int64_t vm);

/* Both columns, each NULL if negative. */
void db_put_vcpu(struct db *d, int64_t vm, int64_t vcpu);

/* The columns that all events have. */
void db_put_place(struct db *d, const struct tl_item *i);

/* An event as a row of its type's table, which is made with the first one. */
int db_put_event(struct db *d, const struct tl_item *i);


/* The views over the tables of all types. */
int db_views(struct db *d);

/* Rows in the tables of all types. */
uint64_t db_event_rows(const struct db *d);

/* The tables' descriptions; the tables themselves belong to sq_free(). */
void db_types_free(struct db *d);

#endif
