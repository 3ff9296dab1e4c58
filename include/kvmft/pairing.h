/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairing.h: what merge, verify and latency share: opening one host capture with its guests,
 * finding out which guest is which VM, and reporting how well they align.
 */
#pragma once

#include "kvmft/ksyms.h"
#include "kvmft/proof.h"
#include "kvmft/timeline.h"

/*
 * Which VM of a host a guest's capture belongs to, and the TSC offset by which its stamps
 * have to be moved, if neither was recorded. The guest's events can only have happened while its
 * vCPUs were in the guest: with the right VM and offset all of them did, with a wrong one many did
 * not.
 */

struct matcher {
	struct hostmap *map;
	size_t guests;	   /* the number of guest captures */
	bool solve;	   /* offsets are searched for even if they are known */
	const struct tsc_map *scale; /* ratio and fraction bits, given by hand; NULL: as recorded */
	const char *naming;	     /* how a VM is named, for messages; NULL: "GUEST=SEL" */
	bool growing;	   /* recorded offsets are not put to the test */
	bool undecided_ok; /* a VM without a reliable offset is no error */
	struct runs *runs; /* collected when needed */
};

enum match_by {
	MATCH_BY_UUID,	/* or by the id that trace-cmd gives a recording */
	MATCH_BY_USER,	/* named */
	MATCH_ONLY_VM,	/* there is no other */
	MATCH_BY_EVENTS, /* the only one whose windows contain all of its events */
};
extern const char *const match_by_names[];

/* Zero-initialised; freed with match_free(). */
struct match {
	size_t vm;
	enum match_by by;
	bool solved;	      /* sol has to be forced */
	struct solution sol;  /* tried: the events were searched */
	uint64_t checked, outside; /* MATCH_BY_EVENTS: with this VM */
	/* Events that contradict what was recorded, of those compared; not 0: it is not used. */
	uint64_t against, against_of;
	uint64_t others, others_outside; /* ... and of the best of all other VMs */
};

/*
 * Finds the VM that the capture belongs to; sel: what the user says, or NULL. known: its offsets
 * need not be found, since they were given by hand. 0, or -errno with err: -ENOENT and -ENOTUNIQ
 * list selectors; -EDOM (exit code 4): no offset is reliable.
 */
int match_guest(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		const char *sel, bool known, struct match *out, struct kvmft_err *err) __must_check;
void match_free(struct match *r);
void matcher_free(struct matcher *m);

/* What the user says about the clock of all guests. */
struct pairing_clock {
	struct opt_u64 tsc_offset;
	const char *tsc_ratio;
	bool solve;
};

struct pairing_capture {
	struct capture *cap;
	struct fmt *fmt;
};

struct pairing_guest {
	struct pairing_capture c;
	struct tsc_map scale; /* ratio: of its stamps to the host's, which have another unit */
	size_t vm;	    /* index into the host map */
	bool of_session;
	struct match match; /* why it is that VM, and its offsets if they are from the events */
	/* With a forced map: what the host recorded, by vCPU, each until its next one. */
	struct pairing_recorded {
		uint32_t vcpu;
		bool sure;     /* has a map, and nothing casts doubt on it */
		uint64_t from; /* host TSC */
		struct tsc_map map;
	} * recorded;
	size_t nrecorded, recorded_cap;
};

struct pairing {
	struct pairing_capture host;
	struct pairing_guest *guest;
	size_t nguest;
	size_t failed; /* the guest at which pairing_prepare() failed, from 1; 0 = none */
	size_t twin;   /* likewise: one before it, that says that it is the same */
	struct pairing_gone { /* what is wrong with guests of a session that are left out */
		char **v;
		size_t n, cap;
	} gone;
	struct hostmap *map;
	struct matcher matcher;
	struct tsc_map forced; /* given by hand, for all guests */
	bool has_forced;
	struct pairing_host {
		struct pairing_capture c;
		struct hostmap *map;
		struct migrate *link;
	} * later; /* hosts that the VM moved to, in that order */
	size_t nlater;
	struct timeline *t;
	uint64_t begin; /* host TSC: when the host began, or a guest with a forced map before it */
	bool alone;	/* host is the only capture, and may be a guest's: see tl_new_alone() */
};

/* What must be known about the host's vCPUs; with guests it is always everything. */
enum pairing_need {
	PAIRING_LINES,	/* nothing: its events are only shown */
	PAIRING_VCPUS,	/* which vCPU an event's thread runs */
	PAIRING_CLOCKS, /* and what its clock was */
};

struct pairing_opts {
	const struct pairing_clock *clock; /* given by hand; NULL: what the captures say */
	const char *naming;		   /* see struct matcher */
	const struct opt_u64 *khz; /* --tsc-khz; NULL, or not set: what the captures say */
	bool undecided_ok; /* guests may stay without a sure offset: the caller reports that */
	bool guest_alone;  /* the only capture may be a guest's; with clocks, as a VM of its own */
	bool growing; /* captures are still written: recorded offsets are not put to the test */
	bool related; /* the host needs another clock than its own: for other traces, or output */
	enum pairing_need need;
};

/*
 * Opens everything: guests are the operands GUEST[=SEL]. The time line is not started, so that it
 * can be given a window first: tl_start() is up to the caller. What is not needed is left out if it
 * would cost a walk over the whole capture. A guest that is unusable is an error if somebody named
 * it, or if it is the only one; of a session up to 16 are left out, which pairing_summary() tells.
 */
int pairing_prepare(struct pairing *p, const char *host, char **guests, size_t n,
		    const struct pairing_opts *o, struct kvmft_err *err) __must_check;
/* Notes what was concluded because nothing recorded it. */
void pairing_tell_assumed(const struct pairing *p, note_fn *note);
/* The same for one guest. */
void pairing_tell_match(const struct hostmap *map, const struct capture *guest,
			const struct match *m, note_fn *note);
/*
 * Hosts that the guests' VM, of which there must be only one, moved to: after pairing_prepare().
 * Without guests it is the VM that sel names, or with "" the only one; NULL: guests are required.
 */
int pairing_add_hosts(struct pairing *p, const struct str_list *hosts, const char *sel,
		      struct kvmft_err *err) __must_check;
/* One capture, host or guest, in any trace clock. */
int pairing_open_alone(struct pairing *p, const char *path, struct kvmft_err *err);
void pairing_close(struct pairing *p);
/* GUEST[=SEL]: *path to be freed; *sel within text, NULL: none. */
void pairing_split(const char *text, char **path, const char **sel);

/* --tsc-offset and --tsc-ratio; *given: whether there was any. */
int pairing_parse_map(const struct opt_u64 *offset, const char *ratio, struct tsc_map *map,
		      bool *given, struct kvmft_err *err);

/*
 * After the walk: a note for each source, with its losses and damage; quiet: only for those that
 * are incomplete. Returns whether all were complete.
 */
bool pairing_summary(const struct pairing *p, bool quiet, note_fn *note);
/*
 * After the walk: 0, or -ENODATA with err: no event of any guest has a place in the host's time.
 * Of one guest beside others, pairing_summary() tells it.
 */
int pairing_placed(const struct timeline *t, struct kvmft_err *err) __must_check;

/* "+59094 cycles (+24.165 us)", one of them if the other is unknown or means nothing. */
void pairing_add_cycles(struct sbuf *b, int64_t cycles, const struct capture *host);
/* The same without signs. */
void pairing_add_magnitude(struct sbuf *b, uint64_t cycles, const struct capture *host);
/* ", TSC ratio R/F", if it is scaled. */
void pairing_add_ratio(struct sbuf *b, const struct tsc_map *m);
/* What relates a guest's clock to the host's: "TSC offset", or "clock offset in ns". */
const char *pairing_offset_name(const struct capture *host);

/* One line: how well the VM's guest events lie in their windows, in cycles and us. */
void pairing_alignment_text(const struct hostmap *map, const struct windows *w, int64_t vm,
			    struct sbuf *out);

/* ---- the TSC frequency of a capture: as its user says (--tsc-khz), or as found in it ---- */

/* How the user gets it. */
#define RATE_HINT "give it with --tsc-khz: the MHz that `dmesg | grep tsc:` has there, times 1000"
/*
 * From now on the capture has a TSC frequency: as given, or as found in it, which a note says. That
 * nothing gives it is noted as well. 0, -errno.
 */
int rate_of_capture(struct capture *cap, const struct fmt *fmt, const struct opt_u64 *khz,
		    note_fn *note, struct kvmft_err *err) __must_check;
/*
 * The same for the host of p, whose guests may help, too; before traces of QEMU are added. The note
 * of what was found only unless quiet. `then`: what follows if nothing was; NULL: the caller says
 * so.
 */
int rate_of_pairing(struct pairing *p, const struct opt_u64 *khz, bool quiet, const char *then,
		    note_fn *note, struct kvmft_err *err) __must_check;
/* As another capture of the same file has it. */
void rate_like(struct capture *cap, const struct capture *other);
/* Only what was given, if it was. */
void rate_given(struct capture *cap, const struct opt_u64 *khz);

/* What `kvmft verify` found out, and how it reports that. */

struct verify_guest {
	const struct pairing_guest *g;
	const struct tl_source *src;
	struct align a;
	uint64_t first, last; /* host TSC of its first and last placed event; 0 = none */
	bool solved;	      /* by the offset from the events: none recorded, or --solve */
	struct solution sol;  /* tried: the offset was searched for in the data, but not used */
	const struct tsc_map *used; /* then: the first vCPU's map, or NULL */
	enum align_kind verdict;
	struct sbuf reasons; /* for verify_reason() */
};

struct verify {
	const struct pairing *p;
	struct windows *w;
	struct msr_pairs *pairs;
	struct runs *runs; /* collected when needed */
	struct verify_guest *guest;
	uint64_t host_first, host_last; /* host TSC of the host's own events */
	bool complete;
	uint64_t khz;
	unsigned int width; /* of a terminal: sentences are wrapped; 0 = they are not */
	bool color;
	const struct out_clock *clock; /* of slices; NULL: s since the host's first event */
};

/* After the walk: the verdict on each guest, and the reasons for it. 0, or -errno with err. */
int verify_judge(struct verify *v, struct kvmft_err *err) __must_check;
/*
 * The reasons for the verdict and what to do about it: the line after that one; NULL: before the
 * first, which is the verdict, and after the last.
 */
const char *verify_reason(const struct verify_guest *g, const char *after);
/* What the events say about the offsets, whether asked or not. */
const struct solution *verify_solution(const struct verify_guest *g);
void verify_print(const struct verify *v, const char *format, struct sbuf *b); /* cli_formats */

/*
 * Captures that are still being recorded, as one time line that grows.
 *
 * In pass after pass, the captures are opened in their current state, and whatever is due is given
 * out, in time order over all sides. Due is what is no newer than the newest event that any side
 * had shown `delay` earlier: anything older has arrived by then, unless its side is later than
 * that. Nothing waits for such a side: its events are given out when they come, late.
 */

struct follow;

struct follow_config {
	const char *host; /* as pairing_prepare() has them; all borrowed */
	char **guests;
	size_t n;
	const struct pairing_opts *opts;
	uint64_t delay_ns;
	note_fn *note;
	bool (*is_enough)(void); /* no longer waits for the captures' ends */
};

/* What follow_pass() opened. */
struct follow_pass {
	struct pairing *p; /* its time line is to be started; valid until the next pass */
	/* last: everything is due, because the captures have ended, or enough was given out */
	bool first, last;
	bool guest; /* what failed is a guest's capture */
};

void follow_new(const struct follow_config *c, struct follow **out);
/*
 * Waits until something may be due. 0, -ENOMEM, or -errno with err for something that is not a
 * capture.
 */
int follow_pass(struct follow *f, struct follow_pass *pass, struct kvmft_err *err) __must_check;
/* A guest that is left out. */
struct follow_gone {
	bool opened;	 /* it was a capture, and is gone */
	bool first;	 /* it was the first guest, whose clock --clock may name */
	uint64_t events; /* events of it that were given out */
};

/*
 * A pass failed because of a guest: the next ones go on without it, and its events not yet given
 * out are lost. False: it failed for another reason, or because of the only guest in the first
 * pass.
 */
bool follow_leave_out(struct follow *f, struct follow_gone *gone);
/* Whether something newer was given out in an earlier pass; counted for follow_tell(). */
bool follow_late(struct follow *f, const struct tl_item *item);
/* What came late, by side. */
void follow_tell(const struct follow *f);
void follow_free(struct follow *f); /* NULL is fine */

/* ---- the way from one clock to another, for `kvmft convert` ---- */

/* The options as parsed; texts are borrowed. */
struct convert_params {
	const char *input, *guest, *vm;
	bool solve;
	struct opt_u64 vcpu, tsc_offset, sched_offset, tsc_khz;
	const char *tsc_ratio, *pvclock, *kernel_sched;
	struct str_list mono_raw;
};

struct convert_way {
	const struct convert_params *p;
	enum clock_id from, to;
	struct clock_chain clock;
	char vm[64]; /* label of the VM, "" when it has none */
	struct capture *host, *guest;
	struct fmt *fmt, *guest_fmt;
	struct hostmap *map;
	struct match match; /* the guest's VM */
	struct cap_pieces sample[2]; /* of from and to: what their links borrow */
};

/*
 * For a way of which p, from and to are set, and that does not move: opens the captures that p
 * names and fills its clock with everything known that is of use; then with what the options say,
 * which takes precedence. 0 or -errno with err; convert_close() in any case. Unknown parameters are
 * no failure: clock_route_find() says what is missing.
 */
int convert_captures(struct convert_way *c, struct kvmft_err *err) __must_check;
int convert_given(struct convert_way *c, struct kvmft_err *err) __must_check;
void convert_close(struct convert_way *c);

/*
 * Names for the addresses of guests' kernels, by options and by the guests' captures.
 */

struct guest_syms_opts {
	struct str_list kallsyms, vmlinux, kaslr, modules;
};

/* A guest's capture, and its VM. */
struct guest_syms_of {
	size_t vm;
	struct capture *cap;
	size_t damage; /* how much of it has been reported */
};

struct guest_syms {
	struct ksyms **k;
	size_t n, cap;
	struct guest_syms_of *of;
	size_t nof;
	bool owned; /* of operands: it closes them */
	bool without; /* ... but for one of a session that cannot be read */
};

/* The name of one that was given; NULL: none was. */
const char *guest_syms_option(const struct guest_syms_opts *o);
/*
 * Sets hostmap_vm.syms of the VMs with symbols, for captures that were paired; they live as long
 * as g. What the user gives takes precedence over captures. VMs with guests of their own are
 * noted, unless note is NULL.
 */
int guest_syms_of_pairing(struct guest_syms *g, const struct guest_syms_opts *o, struct pairing *p,
			  note_fn *note, struct kvmft_err *err) __must_check;
/* The same of a host's capture without guests, and operands GUEST[=SEL]. */
int guest_syms_of_operands(struct guest_syms *g, const struct guest_syms_opts *o,
			   struct hostmap *m, char **operand, size_t n, note_fn *note,
			   struct kvmft_err *err) __must_check;
/*
 * Damage of the guests' captures that was found since they were opened, or since the last call;
 * true if there is none. It is reported to note, unless that is NULL.
 */
bool guest_syms_whole(struct guest_syms *g, note_fn *note);
/* ksyms_read(), where kallsyms may be a capture. */
int guest_syms_read(struct ksyms *k, const struct ksyms_files *f,
		    struct kvmft_err *err) __must_check;
void guest_syms_free(struct guest_syms *g);
