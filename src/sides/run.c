/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run.c: sides begin, record together, and end; the file that says what belongs together.
 *
 * The host starts first and ends last: what a guest shows is only of use between the entries and
 * exits of its vCPUs. COMMANDs run when all record. Losing one guest is no reason to lose the
 * others.
 */
#include "sides.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kvmft/vm.h"

#define PUSH_TELL_NS (5 * SIDES_SECOND)
#define PUSH_STEPS   3u /* copying as a whole may take that many times --guest-timeout */

/* Why a side did not begin. */
static int not_begun(struct sides *x, struct side *s)
{
	int status = WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 0;

	if (!s->spec) {
		*x->err = s->err;
		return s->ret ?: err_set(x->err, EIO, "the host's recording ended too soon");
	}
	s->untold = false;
	if (!s->transport && status == 127)
		return err_lack(x->err, ENOENT,
				"%s: there is no kvmft, or no such command (%s): --push brings a "
				"static one",
				s->name, s->last);
	if (s->late)
		return err_set(x->err, ETIMEDOUT,
			       "%s: does not record: %s, and then nothing came from there%s%s; "
			       "--guest-timeout allows more time",
			       s->name,
			       s->spec->agent ? "its agent was asked to run kvmft"
					      : "its command was started",
			       s->last[0] ? "; last was said: " : "", s->last);
	err_set(x->err, EIO, "%s: does not record: %s", s->name,
		s->last[0] ? s->last : s->err.text);
	/* If its command passes the exit status on. */
	if (!s->transport && status == KVMFT_LACKING)
		x->err->code = KVMFT_LACKING;
	return -EIO;
}

static int wait_live(struct sides *x, size_t n)
{
	int ret = 0;

	while (!ret && !x->why) {
		bool all = true;

		for (size_t i = 0; i < n && !ret; i++) {
			struct side *s = &x->side[i];

			all &= s->live || s->state == SIDE_ENDED;
			if (s->state != SIDE_ENDED || s->failed)
				continue;
			/* Its last words, and its exit status, may still be on their way. */
			if (s->words >= 0 || s->transport > 0) {
				all = false;
				continue;
			}
			ret = not_begun(x, s);
			if (!s->spec || x->c->temp)
				continue;
			/* What the host recorded meanwhile is kept, but for trace --guest. */
			x->note("%s", x->err->text);
			*x->err = (struct kvmft_err){ .text = "" };
			s->failed = true;
			s->exit_code = KVMFT_INCOMPLETE;
			ret = 0;
		}
		if (all || ret)
			break;
		ret = sides_wait_once(x);
	}
	if (!ret && x->why)
		ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
	return ret;
}

/* The file session says which captures belong together. It grows by whole lines, as meta does. */
int sides_put(struct sides *x, struct sbuf *line)
{
	int ret;

	sbuf_addc(line, '\n');
	ret = line->error ?: full_write(x->file, line->s, line->len, NULL);
	sbuf_free(line);
	return ret;
}

static size_t guests_left(const struct sides *x)
{
	size_t n = 0;

	for (size_t i = 1; i < x->n; i++)
		n += x->side[i].state != SIDE_ENDED;
	return n;
}

static const char *why_now(struct sides *x)
{
	if (x->side[0].state == SIDE_ENDED)
		return "host";
	if (x->command_done)
		return "command";
	if (x->c->reader && !x->reader)
		return "reader";
	if (x->host->duration.set && util_now_ns() - x->live_ns >= x->host->duration.v)
		return "duration";
	if (guests_left(x) || !x->nspec)
		return NULL;
	if (x->c->command)
		return "command";
	if (!x->told_alone && !x->argv[0] && !x->host->duration.set) {
		x->told_alone = true;
		x->note("no guest is left; the host is still being recorded, Ctrl-C ends it");
	}
	return NULL;
}

static int record_together(struct sides *x)
{
	struct sbuf line = { 0 };
	int ret;

	x->all_live = true;
	x->live_ns = util_now_ns();
	meta_begin(&line, "start");
	meta_u64(&line, "sides", x->n);
	if (sides_put(x, &line))
		x->note("cannot write %ssession", x->shown);
	if (x->nspec && !guests_left(x)) {
		x->why = "no guest";
		return 0;
	}
	for (size_t i = x->n; i-- > 0;)
		side_order(&x->side[i], "start\n");
	ret = x->c->reader ? side_self(x->c->reader, x->dir, x->err) : 0;
	x->reader = MAX(ret, 0);
	ret = MIN(ret, 0);
	while (!ret && !x->why && !(x->why = why_now(x)))
		ret = sides_wait_once(x);
	return ret;
}

static void stop(struct side *s)
{
	if (s->state == SIDE_ENDED)
		return;
	if (side_order(s, "stop\n"))
		util_close_fd(&s->to); /* the end of its orders says the same */
	s->state = s->teller ? SIDE_STOPPING : SIDE_ENDED;
	s->stalled = false;
	s->begun = s->since = util_now_ns();
}

/* The exit status of what reaches into a guest still says how the recorder there ended. */
static bool commands_left(const struct sides *x)
{
	for (size_t i = 1; i < x->n; i++)
		if (x->side[i].transport > 0)
			return true;
	return false;
}

static int sides_end_all(struct sides *x)
{
	int ret = 0;

	for (size_t i = 1; i < x->n; i++)
		stop(&x->side[i]);
	while (!ret && (guests_left(x) || commands_left(x)))
		ret = sides_wait_once(x);
	stop(&x->side[0]);
	while (!ret && (x->side[0].state != SIDE_ENDED || x->snapshots.pid))
		ret = sides_wait_once(x);
	/* The reader ends where the host's capture does; a recorder that failed wrote no end. */
	if (x->reader > 0 && x->side[0].ret)
		kill(x->reader, SIGTERM);
	while (!ret && x->reader > 0)
		ret = sides_wait_once(x);
	return ret;
}

/* ---- results ---- */

static int sides_result(struct sides *x)
{
	_cleanup_(sbuf_free) struct sbuf path = { 0 }, word = { 0 };
	const struct side *host = &x->side[0];
	int worst = KVMFT_OK;
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		struct side *s = &x->side[i];
		struct sbuf line = { 0 };

		n += !s->failed;
		/* How the recorder in the guest ended counts, if its command passes that on. */
		if (s->spec && !s->exit_code && WIFEXITED(s->status) &&
		    WEXITSTATUS(s->status) == KVMFT_INCOMPLETE)
			s->exit_code = KVMFT_INCOMPLETE;
		worst = MAX(worst, s->exit_code == KVMFT_FAILED ? KVMFT_INCOMPLETE : s->exit_code);
		if (x->file < 0)
			continue;
		meta_begin(&line, "end");
		meta_str(&line, "side", s->name);
		meta_str(&line, "reason",
			 s->news.reason[0] ? s->news.reason
			 : s->spec	   ? "died"
					   : "control");
		meta_u64(&line, "status", (uint64_t)s->exit_code);
		if (sides_put(x, &line))
			x->note("cannot write %ssession", x->shown);
	}
	if (x->c->reader && WIFEXITED(x->reader_status))
		worst = MAX(worst, WEXITSTATUS(x->reader_status));
	if (x->c->reader && WIFSIGNALED(x->reader_status)) {
		if (!x->reader_killed)
			x->note("the process that shows the events was killed by signal %d",
				WTERMSIG(x->reader_status));
		worst = MAX(worst, KVMFT_INCOMPLETE);
	}
	if (x->blame_killed)
		worst = MAX(worst, KVMFT_INCOMPLETE);
	if (host->ret) {
		*x->err = host->err;
		return host->ret;
	}
	sbuf_add_mem(&path, x->shown, MAX(strlen(x->shown), (size_t)1) - 1);
	sbuf_add_word(&word, path.s ?: "");
	if (x->snapshots.words.n && !x->snapshots.ever)
		x->note("--blame: no trigger came, and no snapshot was asked for; for the last "
			"second: kvmft blame --last 1s %s",
			word.s ?: "");
	if (!x->host->quiet)
		x->note("%s: %zu side%s (%s): kvmft merge %s", path.s ?: "", n, n > 1 ? "s" : "",
			x->why ?: "error", word.s ?: "");
	return worst;
}

/* A guest may be silent, or answer without end: then the process that copies is told to give up. */
static int push_late(struct sides *x, const struct side *s, uint64_t since, bool *told)
{
	uint64_t limit = x->c->timeout.set ? x->c->timeout.v : SIDE_BEGIN_NS;
	uint64_t took = util_now_ns() - since;
	char time[32];

	if (took > PUSH_TELL_NS && !*told && !x->host->quiet) {
		x->note("%s: a program is being copied there; Ctrl-C gives that up", s->name);
		*told = true;
	}
	if (!limit || took / PUSH_STEPS < limit)
		return 0;
	return err_set(x->err, ETIMEDOUT,
		       "%s: no program could be copied there within %s; --guest-timeout allows "
		       "more time",
		       s->name, str_ns(time, sizeof(time), took));
}

/* All at once: each has its own line. */
static int push_all(struct sides *x)
{
	const uint64_t begin = util_now_ns();
	bool told = false;
	int ret = 0;

	for (size_t i = 1; i < x->n && !ret; i++)
		ret = side_push_start(x->c, &x->side[i], x->err);
	for (size_t i = 1; i < x->n && !ret;) {
		struct side *s = &x->side[i];
		struct pollfd p[] = { { .fd = s->push.from, .events = POLLIN },
				      { .fd = x->sigfd, .events = POLLIN } };

		if (poll(p, 2, 1000) < 0)
			continue;
		if (p[1].revents)
			sides_take_signals(x);
		if (x->why)
			ret = err_set(x->err, EINTR, "ended by a signal before all sides recorded");
		else if (p[0].revents)
			ret = side_push_take(s, x->err);
		else
			ret = push_late(x, s, begin, &told);
		i += p[0].revents != 0;
	}
	return ret;
}

static int sides_begin(struct sides *x)
{
	int ret;

	(void)signal(SIGPIPE, SIG_IGN);
	/* From here on signals come through a descriptor. */
	x->sigfd = signal_fd_open(SIGCHLD);
	if (x->sigfd < 0)
		return err_why(x->err, x->sigfd, "cannot wait for signals");
	x->side = calloc(1 + x->nspec, sizeof(*x->side));
	if (!x->side)
		return err_set(x->err, ENOMEM, "out of memory");
	x->n = 1 + x->nspec;
	for (size_t i = 0; i < x->n; i++) {
		x->side[i].spec = i ? &x->spec[i - 1] : NULL;
		x->side[i].name = i ? x->spec[i - 1].name : SIDES_HOST;
		x->side[i].to = x->side[i].from = x->side[i].words = -1;
		x->side[i].push.to = x->side[i].push.from = -1;
	}
	ret = x->c->push ? push_all(x) : 0;
	ret = ret ?: sides_make_dir(x);
	ret = ret ?: sides_start_host(x);
	ret = ret ?: wait_live(x, 1);
	for (size_t i = 1; i < x->n && !ret; i++)
		ret = sides_start_guest(x, &x->side[i]);
	return ret ?: wait_live(x, x->n);
}

static void sides_undo(struct sides *x)
{
	if (x->reader > 0) {
		kill(x->reader, SIGKILL);
		while (waitpid(x->reader, &x->reader_status, 0) < 0 && errno == EINTR)
			;
	}
	for (size_t i = 0; i < x->n; i++)
		util_close_fd(&x->side[i].push.to); /* all give up at once */
	for (size_t i = x->n; i-- > 0;) {
		struct side *s = &x->side[i];

		side_close(s);
		side_push_end(s, false, x->note);
		capw_name_drop(&s->place);
		capw_close(s->w);
	}
	if (x->snapshots.pid && !kill(x->snapshots.pid, SIGKILL))
		(void)waitpid(x->snapshots.pid, NULL, 0);
	remote_words_free(&x->snapshots.words);
	util_close_fd(&x->file);
	vm_list_free(x->vms);
	for (size_t i = 0; x->spec && i < x->nspec; i++) {
		free(x->spec[i].name);
		free(x->spec[i].text);
		remote_words_free(&x->spec[i].command);
	}
	free(x->spec);
	free(x->side);
	free(x->base);
	free(x->shown);
	util_close_fd(&x->dir);
	util_close_fd(&x->parent);
	util_close_fd(&x->sigfd);
}

int sides_record(const struct sides_config *c, struct record_config *host, char **argv,
		 note_fn *note, struct kvmft_err *err)
{
	struct sides x = {
		.c = c,
		.host = host,
		.argv = argv,
		.note = note,
		.err = err,
		.parent = -1,
		.dir = -1,
		.file = -1,
		.sigfd = -1,
	};
	_cleanup_(sbuf_free) struct sbuf left = { 0 };
	unsigned int swept;
	char temp[128];
	int ret;

	if (host->output_dir || host->force)
		return err_usage(err,
				 "%s does not go with --guest: a session is a new directory, "
				 "named by -o",
				 host->output_dir ? "--output-dir" : "--force");
	if (c->push_file && !c->push)
		return err_usage(err, "--push-file goes with --push");
	ret = side_specs(c, &x.spec, &x.nspec, err);
	if (!ret && c->after_snapshot)
		ret = side_split(c->after_snapshot, "--blame-options", &x.snapshots.words, err);
	if (ret) {
		sides_undo(&x);
		return ret;
	}
	x.umask = umask(077);
	swept = sides_temp_sweep(false, &left);
	if (swept)
		note("removed %u session(s) in memory that a killed kvmft had left", swept);
	if (c->temp)
		ret = sides_temp_name(temp, sizeof(temp), err);
	host->output = c->temp ? temp : host->output;
	ret = ret ?: sides_begin(&x);
	if (ret) {
		struct kvmft_err first = *err;

		if (x.n)
			(void)!sides_end_all(&x);
		sides_remove_dir(&x);
		*err = first;
	} else {
		ret = record_together(&x);
		ret = ret ?: sides_end_all(&x);
		ret = ret ?: sides_result(&x);
		if (c->temp)
			sides_remove_dir(&x);
	}
	sides_undo(&x);
	return ret;
}
