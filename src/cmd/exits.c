/* SPDX-License-Identifier: GPL-2.0-or-later */
/* exits.c: `kvmft exits`, how often the guests of this machine exit, and why. */
#include "cmds.h"
#include "kvmft/live.h"

/* --engine; as enum exits_engine_choice */
static const char *const engines[] = { "auto", "kernel", "user", NULL };

static const char *const per_names[] = { "thread", "vm", NULL };

static const struct opt exits_options[] = {
	OPTION('p', "pid", OPT_U64, struct exits_config, pid, "PID",
	       "only this process, all its threads together"),
	OPTION('v', "vcpu", OPT_U64, struct exits_config, vcpu, "VCPU",
	       "only this vCPU of -p or --vm"),
	OPTION('a', "alltids", OPT_FLAG, struct exits_config, alltids, NULL,
	       "the threads of -p or --vm one by one"),
	OPTION('T', "tids", OPT_STR, struct exits_config, tids, "TID,TID",
	       "only these threads, one by one; -t TID: only this one"),
	VM_OPTION(struct exits_config, vm),
	OPTION('I', "interval", OPT_DURATION, struct exits_config, interval, "S",
	       "a table every S seconds, of what happened in that time"),
	OPTION('N', "count", OPT_U64, struct exits_config, count, "N", "end after N such tables"),
	OPTION(0, "time", OPT_FLAG, struct exits_config, time, NULL,
	       "add total, average and maximum time from exit to entry"),
	OPTION(0, "latency", OPT_FLAG, struct exits_config, latency, NULL,
	       "add distributions of these times, and of those of halts and wake-ups"),
	OPTION(0, "steal", OPT_FLAG, struct exits_config, steal, NULL,
	       "not exits, but who takes the CPU from each VM: other VMs, tasks, interrupts,\n"
	       "a limit of its cgroup"),
	OPTION(0, "top", OPT_FLAG, struct exits_config, top, NULL,
	       "a table that fills the terminal and is refreshed; q quits"),
	FORMAT_OPTION(struct exits_config, exits_format_names),
	OPTION_CHOICE(0, "per", struct exits_config, per_vm, "WHAT", per_names,
		      "openmetrics, prometheus: of each thread (default) or of each VM, at most 1,000"),
	OPTION('o', "output", OPT_STR, struct exits_config, file, "FILE",
	       "write each table to FILE, which is replaced in one step"),
	OPTION_CHOICE(0, "engine", struct exits_config, engine, "ENGINE", engines,
		      "what counts: the kernel (hist triggers), or kvmft from recorded events\n"
		      "(default: the kernel where it can); says which"),
	/* Of the kernel's map, a cell per thread and reason: for tests of a full one. */
	{ .name = "map-size",
	  .type = OPT_U64,
	  .offset = offsetof(struct exits_config, map_size),
	  .arg = "CELLS",
	  .help = "128 to 131072",
	  .flags = OPT_HIDDEN },
	/* kvmexit's -t, and its long form of -v */
	{ .name = "tid",
	  .short_name = 't',
	  .type = OPT_STR,
	  .offset = offsetof(struct exits_config, tids),
	  .arg = "TID",
	  .help = "-T",
	  .flags = OPT_HIDDEN },
	{ .name = "v",
	  .type = OPT_U64,
	  .offset = offsetof(struct exits_config, vcpu),
	  .arg = "VCPU",
	  .help = "-v",
	  .flags = OPT_HIDDEN },
	OPT_END,
};

static int check_target(const struct exits_config *c, struct kvmft_err *err)
{
	const struct {
		const char *name;
		bool given;
		bool whole; /* names a process or VM, within which -v and -a choose */
	} opt[] = {
		{ "-p", c->pid.set, true },	{ "--vm", c->vm != NULL, true },
		{ "-T", c->tids != NULL, false }, { "-v", c->vcpu.set, false },
		{ "-a", c->alltids, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(opt); i++)
		for (size_t k = i + 1; k < ARRAY_SIZE(opt); k++) {
			bool within = opt[i].whole && k >= 3;

			if (opt[i].given && opt[k].given && !within)
				return err_usage(err, "options %s and %s exclude each other",
						 opt[i].name, opt[k].name);
		}
	if ((c->vcpu.set || c->alltids) && !c->pid.set && !c->vm)
		return err_usage(err, "option %s needs -p PID or --vm SEL",
				 c->vcpu.set ? "-v" : "-a");
	if (c->pid.set && (!c->pid.v || c->pid.v > INT32_MAX))
		return err_usage(err, "option -p: %" PRIu64 " is not a process id", c->pid.v);
	if (c->tids && c->tids[strspn(c->tids, "0123456789, ")])
		return err_usage(err, "option -T: '%s' is not a list of thread ids", c->tids);
	return 0;
}

static int exits_cmd(void *opts, int argc, char **argv, struct kvmft_err *err)
{
	struct exits_config *c = opts;
	int ret;

	c->file = outfile_arg(c->file);
	c->remark = cli_remarks(c->quiet);
	c->duration.set = argc > 0;
	c->time |= c->latency;
	if (argc && (parse_duration(argv[0], &c->duration.v) || !c->duration.v))
		return err_usage(err, "'%s' is not a duration such as 10, 250ms or 5m; a VM is "
				      "chosen with --vm, a recording is for kvmft report", argv[0]);
	if (c->steal && (c->time || c->top || c->alltids || c->map_size.set || c->engine >= 0 ||
			 c->per_vm >= 0))
		ret = err_usage(err, "option --steal counts no exits: not with --time, --latency, "
				     "--top, -a, --per, --engine, --map-size");
	else if (c->interval.set && !c->interval.v)
		ret = err_usage(err, "option --interval: must be longer than 0");
	else if (c->count.set && (!c->count.v || !(c->interval.set || c->top)))
		ret = err_usage(err, c->count.v ? "option --count needs --interval S"
						: "option --count: must be at least 1");
	else if (c->top && c->format > EXITS_TEXT)
		ret = err_usage(err, "options --top and --format %s exclude each other",
				exits_format_names[c->format]);
	else if (c->top && c->file)
		ret = err_usage(err, "options --top and -o exclude each other");
	else if (c->per_vm > 0 && c->format != EXITS_OPENMETRICS && c->format != EXITS_PROMETHEUS)
		ret = err_usage(err, "option --per vm: only for --format openmetrics and "
				     "prometheus");
	else if (c->file && exits_file_check(c->file, err))
		ret = -EINVAL;
	else
		ret = check_target(c, err);
	return ret ?: exits_live_run(c, cli_note, err);
}

const struct cmd cmd_exits = {
	.name = "exits",
	.summary = "live: why and how often the guests exit, counted in the kernel",
	.args = "[DURATION]",
	.description =
		"Counts until Ctrl-C, or for DURATION, and prints a table sorted by count: of all VMs, of one\n"
		"process or VM (-p, --vm), its threads (-a) or one vCPU (-v), or of threads (-t, -T).",
	.examples =
		"  kvmft exits 6\n"
		"  kvmft exits -p 1273795 -v 0 4\n"
		"  kvmft exits --vm vm1 --time --interval 1 --count 5\n"
		"  kvmft exits --top\n"
		"  kvmft exits --top --latency\n"
		"  kvmft exits --steal --interval 1\n"
		"  kvmft exits --interval 15 --per vm --format prometheus \\\n"
		"        -o /var/lib/node_exporter/kvm.prom",
	.opts = exits_options,
	.groups = "pid vm alltids interval count time latency steal top format per\n"
		  "less usual: vcpu tids output engine",
	.opts_size = sizeof(struct exits_config),
	.quiet = offsetof(struct exits_config, quiet),
	.run = exits_cmd,
	.max_args = 1,
};
