/* SPDX-License-Identifier: GPL-2.0-or-later */
/* start.c: the directory of a session, and the processes of its sides. */
#include "run.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- the directory ---- */

int sides_make_dir(struct sides *x)
{
	const char *path = x->host->output ?: SIDES_DEFAULT;
	struct sbuf shown = { 0 };

	x->parent = capw_parent_open(path, &x->base, x->err);
	if (x->parent < 0)
		return x->parent;
	if (mkdirat(x->parent, x->base, 0700))
		return errno == EEXIST
			       ? err_set(x->err, EEXIST, "%s exists: choose another name with -o", path)
			       : err_why(x->err, errno, "cannot make directory %s", path);
	/* A place in memory is not for anyone to look at: sides are called only by their names. */
	if (!x->c->temp)
		sbuf_addf(&shown, "%.*s/", (int)(strlen(path) - (path[strlen(path) - 1] == '/')),
			  path);
	x->shown = sbuf_take(&shown);
	x->dir = openat(x->parent, x->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (x->dir < 0 || !x->shown)
		return err_why(x->err, x->dir < 0 ? errno : ENOMEM, "cannot open %s", path);
	/* The names are looked up here; if this machine hides them, the captures may have them. */
	if (vm_scan(NULL, &x->vms, NULL))
		x->vms = NULL;
	return session_create(x->dir, &x->file, x->err);
}

void sides_remove_dir(struct sides *x)
{
	for (size_t i = 0; x->dir >= 0 && i < x->n; i++) {
		struct capw_name n = { .dir = x->dir };

		capw_name_drop(&x->side[i].place);
		snprintf(n.temp, sizeof(n.temp), "%s", x->side[i].name);
		capw_name_drop(&n);
	}
	if (x->dir >= 0 && !unlinkat(x->dir, "session", 0))
		(void)!unlinkat(x->parent, x->base, AT_REMOVEDIR);
}

/* A guest with the name of a VM of this host is taken to be that one. */
static int put_side(struct sides *x, struct side *s)
{
	struct kvmft_err none;
	const struct vm *vm = NULL;

	if (s->spec && x->vms && vm_list_find(x->vms, s->name, &vm, &none))
		vm = NULL;
	s->vm_pid = vm ? vm->pid : 0;
	return session_put_side(x->file, s, vm, x->err);
}

void sides_put_end(struct sides *x, const struct side *s)
{
	const char *reason = s->news.reason[0] ? s->news.reason : s->spec ? "died" : "control";

	if (x->file >= 0 && session_put_end(x->file, s, reason))
		x->note("cannot write %ssession", x->shown);
}

/* ---- beginning ---- */

static int pair(int fds[2], struct kvmft_err *err)
{
	return pipe2(fds, O_CLOEXEC) < 0 ? err_why(err, errno, "cannot make a pipe") : 0;
}

/* Orders are short: such a pipe, if it is still there, takes each as a whole, or not at all. */
static int orders_never_wait(struct side *s, struct kvmft_err *err)
{
	return s->to >= 0 && fcntl(s->to, F_SETFL, O_NONBLOCK) < 0
			? err_why(err, errno, "cannot use a pipe") : 0;
}

/* In a process of ours: what belongs to another side must not be held open here. */
static void forget_others(struct sides *x)
{
	for (size_t i = 0; i < x->n; i++) {
		util_close_fd(&x->side[i].to);
		util_close_fd(&x->side[i].from);
		util_close_fd(&x->side[i].words);
		util_close_fd(&x->side[i].push.to);
		util_close_fd(&x->side[i].push.from);
	}
	util_close_fd(&x->sigfd);
	util_close_fd(&x->file);
}

struct start {
	struct sides *x;
	struct side_host host;
	struct side_store store;
};

static void run_host(void *arg, int said)
{
	struct start *a = arg;

	forget_others(a->x);
	/* Its messages about its capture name no place that the user has not named. */
	if (a->x->c->temp && fchdir(a->x->dir))
		_exit(KVMFT_FAILED);
	side_host_main(&a->host, said);
}

static void run_store(void *arg, int said)
{
	struct start *a = arg;

	forget_others(a->x);
	side_store_main(&a->store, said);
}

int sides_start_host(struct sides *x)
{
	struct side *s = &x->side[0];
	_cleanup_free_ char *output = NULL;
	struct sbuf path = { 0 };
	int fds[2], ret;

	sbuf_addf(&path, "%s%s", x->shown, s->name);
	output = sbuf_take(&path);
	ret = output ? pair(fds, x->err) : err_set(x->err, ENOMEM, "out of memory");
	if (ret)
		return ret;
	x->host->output = output;
	s->to = fds[1];
	s->since = util_now_ns();
	(void)umask(x->umask);
	ret = side_fork(s, run_host,
			&(struct start){ .x = x, .host = { x->host, x->argv, fds[0], x->note } },
			x->err);
	(void)umask(077);
	close(fds[0]);
	ret = ret ?: orders_never_wait(s, x->err);
	return ret ?: put_side(x, s);
}

struct agent_start {
	struct sides *x;
	const struct side_spec *spec;
	const char *program;
};

/* What ends when its orders end must not hold them open itself. */
static int run_agent(void *arg)
{
	struct agent_start *a = arg;

	forget_others(a->x);
	return side_qga_main(a->spec, a->program);
}

static int start_transport(struct sides *x, struct side *s, int orders, int out)
{
	const char *program = s->push.path[0] ? s->push.path : "kvmft";
	const char *words[] = { program, "record", "--remote", NULL };
	struct agent_start a = { x, s->spec, program };
	int pid = s->spec->agent
			  ? side_run(run_agent, &a, orders, out, &s->words, x->err)
			  : side_exec(&s->spec->command, words, orders, out, &s->words, x->err);

	if (pid < 0)
		return pid;
	s->transport = pid;
	return 0;
}

static int send_words(struct sides *x, struct side *s)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	struct remote_words w = { .drop = s->push.path[0] };
	int ret = side_words(x->c, s->spec, &w, x->err);

	remote_put(&text, &w);
	remote_words_free(&w);
	if (!ret && (text.error || text.len > REMOTE_MAX || side_order(s, text.s)))
		ret = err_set(x->err, E2BIG, "%s: more options than a guest can be told", s->name);
	return ret;
}

static int make_capture(struct sides *x, struct side *s)
{
	int ret = capw_name_init(&s->place, x->dir, x->shown, s->name, CAPW_REFUSE, x->err);

	return ret ?: capw_create(&s->place, &s->w, x->err);
}

int sides_start_guest(struct sides *x, struct side *s)
{
	const struct record_config *h = x->host;
	const struct stream_limits limits = {
		.max_size = h->max_size.v,
		.min_free = side_least_free(x->dir, &h->min_free),
		.keep = h->keep.v,
	};
	int in[2], out[2], ret = pair(in, x->err);

	if (ret)
		return ret;
	s->to = in[1];
	ret = pair(out, x->err);
	if (ret) {
		close(in[0]);
		return ret;
	}
	s->since = s->begun = util_now_ns();
	/* Its words first, while nobody else can fill the pipe. */
	ret = orders_never_wait(s, x->err);
	ret = ret ?: send_words(x, s);
	ret = ret ?: start_transport(x, s, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	ret = ret ?: make_capture(x, s);
	ret = ret ?: side_fork(s, run_store,
			      &(struct start){ .x = x, .store = { s->w, out[0], limits } }, x->err);
	close(out[0]);
	return ret ?: put_side(x, s);
}
