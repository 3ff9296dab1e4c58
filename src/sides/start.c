/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * start.c: which guests are to be recorded, how they are reached, and what is recorded there; the
 * directory of a session, and the processes of its sides.
 */
#include "sides.h"

#include "kvmft/kernel.h"

#define QGA "qga:"

/* One word, unquoted in place; *p is after it then. -EINVAL: an unclosed quote. */
static int next_word(char **p, char **word)
{
	char *from = *p, *to = *p, quote = '\0';

	*word = to;
	for (; *from && (quote || !strchr(" \t\n", *from)); from++) {
		if (*from == quote)
			quote = '\0';
		else if (!quote && (*from == '\'' || *from == '"'))
			quote = *from;
		else if (*from == '\\' && quote != '\'' && from[1])
			*to++ = *++from;
		else
			*to++ = *from;
	}
	*p = *from ? from + 1 : from;
	*to = '\0';
	return quote ? -EINVAL : 0;
}

int side_split(const char *text, const char *what, struct remote_words *w, struct kvmft_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *p = copy, *word;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && *(p += strspn(p, " \t\n"))) {
		ret = next_word(&p, &word);
		if (ret)
			return err_usage(err, "%s: a quote is not closed in '%s'", what, text);
		ret = remote_words_add(w, word);
	}
	return ret ? err_set(err, -ret, "out of memory") : 0;
}

/* ---- --guest ---- */

static bool is_for_guest(const char *text, const char *guest)
{
	size_t len = strcspn(guest, "=");

	return !strncmp(guest, text, len) && text[len] == ':';
}

static int parse_one(const char *text, struct side_spec *s, struct kvmft_err *err)
{
	const char *eq = strchr(text, '=');
	char *how;
	int ret;

	s->name = strndup(text, eq ? (size_t)(eq - text) : strlen(text));
	if (!s->name)
		return err_set(err, ENOMEM, "out of memory");
	/* A name is a label, a file, and maybe a VM of this host. */
	if (!*s->name || *s->name == '.' || strlen(s->name) > 63)
		return err_usage(err,
				 "--guest: a guest's name has 1 to 63 characters, the first of "
				 "them no dot");
	for (const char *p = s->name; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("/=:%\\'\"", *p))
			return err_usage(err,
					 "--guest '%s': the name becomes a directory: letters, "
					 "digits, - _ . only",
					 s->name);
	if (!strcmp(s->name, SIDES_HOST) || !strcmp(s->name, "session"))
		return err_usage(err, "--guest %s: that name is reserved", s->name);
	if (!eq) {
		struct sbuf ssh = { 0 };

		sbuf_addf(&ssh, "ssh root@%s", s->name);
		how = sbuf_take(&ssh);
	} else {
		how = strdup(eq + 1);
	}
	s->text = how;
	if (!how)
		return err_set(err, ENOMEM, "out of memory");
	if (!strcmp(how, "qga") || !strcmp(how, QGA))
		return err_usage(err, "--guest %s: the agent's socket goes after qga:, or virsh "
				 "qemu-agent-command DOMAIN", text);
	if (!strncmp(how, QGA, strlen(QGA))) {
		s->agent = how + strlen(QGA);
		/* A path has no blanks here: virsh qemu-agent-command DOMAIN. */
		return strpbrk(s->agent, " \t") ? side_split(s->agent, "--guest", &s->command, err)
						: 0;
	}
	ret = side_split(how, "--guest", &s->command, err);
	if (ret || s->command.n)
		return ret;
	return err_usage(err, "--guest %s: after = goes the command that reaches the guest, such "
			 "as 'ssh root@%s'", text, s->name);
}

int side_specs(const struct sides_config *s, struct side_spec **spec, size_t *n,
	       struct kvmft_err *err)
{
	int ret = 0;

	*n = 0;
	*spec = NULL;
	/* Options begin like this; otherwise it is a command, with a name that nobody has. */
	for (size_t i = 0; i < s->options.n; i++) {
		const char *text = s->options.v[i];
		const char *first = text + strspn(text, " \t\n'\"");
		bool known = *first == '-' || !*first;

		for (size_t k = 0; k < s->guests.n && !known; k++)
			known = is_for_guest(text, s->guests.v[k]);
		if (!known)
			return err_usage(err, "--guest-options '%s': options, or the NAME of a --guest, a "
					 "colon and options", text);
	}
	if (s->guests.n > SIDES_MAX_GUESTS)
		return err_usage(err, "--guest: at most %d guests at once", SIDES_MAX_GUESTS);
	*spec = calloc(s->guests.n + 1, sizeof(**spec));
	if (!*spec)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < s->guests.n && !ret; i++) {
		ret = parse_one(s->guests.v[i], &(*spec)[(*n)++], err);
		for (size_t k = 0; k < i && !ret; k++)
			if (!strcmp((*spec)[k].name, (*spec)[i].name))
				ret = err_usage(err, "--guest %s is given twice", (*spec)[i].name);
	}
	return ret;
}

/* ---- what is recorded there ---- */

/* The words of record in that guest. */
static int guest_words(const struct sides_config *s, const struct side_spec *spec,
		       struct remote_words *w, struct kvmft_err *err)
{
	int ret = s->flight ? remote_words_add(w, "--flight-recorder") : 0;
	char before[32];

	snprintf(before, sizeof(before), "--before=%lluns", (unsigned long long)s->before.v);
	ret = ret || !s->before.set ? ret : remote_words_add(w, before);
	if (ret)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < s->options.n && !ret; i++) {
		const char *text = s->options.v[i];

		/* Options after "NAME:" are for that guest. */
		for (size_t k = 0; k < s->guests.n; k++)
			if (is_for_guest(s->options.v[i], s->guests.v[k]))
				text = is_for_guest(s->options.v[i], spec->name)
					       ? strchr(s->options.v[i], ':') + 1
					       : NULL;
		ret = text ? side_split(text, "--guest-options", w, err) : 0;
	}
	if (ret || !s->command)
		return ret;
	ret = remote_words_add(w, "--");
	return ret ? err_set(err, ENOMEM, "out of memory")
		   : side_split(s->command, "--guest-command", w, err);
}

/* Sessions not to be kept, in memory, named by their owner: a killed kvmft's are found. */

/* The first one that exists; the second may offer little memory, the last is a disk. */
static const char *const places[] = { "/dev/shm", "/run", "/tmp" };

static int sides_open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int sides_temp_name(char *path, size_t size, struct kvmft_err *err)
{
	struct kowner me;
	char name[64];
	int ret = kowner_self(&me);

	ret = ret ?: kowner_format(&me, '.', name, sizeof(name));
	if (ret)
		return err_why(err, ret, "cannot make a name for what is recorded");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (access(places[i], W_OK | X_OK))
			continue;
		snprintf(path, size, "%s/%s", places[i], name);
		return 0;
	}
	return err_lack(err, ENOENT, "none of /dev/shm, /run and /tmp is there to keep events in");
}

/* A session, or what is left of one: captures, and the file that says what they are. */
static int remove_session(int at, const char *name)
{
	_cleanup_close_ int fd = sides_open_dir(at, name);
	_cleanup_close_ int again = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	struct dirent *e;

	if (!d)
		return -errno;
	again = -1;
	while ((e = readdir(d))) {
		struct capw_name n = { .dir = fd };

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    strlen(e->d_name) >= sizeof(n.temp))
			continue;
		strcpy(n.temp, e->d_name);
		if (unlinkat(fd, e->d_name, 0))
			capw_name_drop(&n);
	}
	closedir(d);
	return unlinkat(at, name, AT_REMOVEDIR) ? -errno : 0;
}

void sides_temp_remove(const char *path)
{
	(void)!remove_session(AT_FDCWD, path);
}

unsigned int sides_temp_sweep(bool dry_run, struct sbuf *text)
{
	unsigned int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int fd = sides_open_dir(AT_FDCWD, places[i]);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *e;

		while (d && (e = readdir(d))) {
			struct kowner o;
			struct stat st;
			int ret;

			/* Does it belong to a process of this user that is gone? */
			if (kowner_parse(e->d_name, '.', &o) || kowner_alive(&o) ||
			    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
			    !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
				continue;
			ret = dry_run ? 0 : remove_session(fd, e->d_name);
			sbuf_addf(text, "session %s/%s%s%s\n", places[i], e->d_name,
				  ret ? ": left, as something in it is no capture: " : "",
				  ret ? strerror(-ret) : "");
			n += !ret;
		}
		if (d)
			closedir(d);
		else
			util_close_fd(&fd);
	}
	return n;
}

/* ---- the directory ---- */

int sides_make_dir(struct sides *x)
{
	static const char hello[] = "kvmft-session version=1\n";
	const char *path = x->host->output ?: SIDES_DEFAULT;
	struct sbuf shown = { 0 };
	int ret;

	x->parent = capw_parent_open(path, &x->base, x->err);
	if (x->parent < 0)
		return x->parent;
	if (mkdirat(x->parent, x->base, 0700))
		return errno == EEXIST ? err_set(x->err, EEXIST,
						 "%s exists: choose another name with -o", path)
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
	ret = x->file = file_create(x->dir, "session");
	if (ret >= 0)
		ret = full_write(x->file, hello, strlen(hello), NULL);
	return err_why(x->err, ret, "cannot write the file session");
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
	struct sbuf line = { 0 };

	if (s->spec && x->vms && vm_list_find(x->vms, s->name, &vm, &none))
		vm = NULL;
	s->vm_pid = vm ? vm->pid : 0;
	meta_begin(&line, "side");
	meta_str(&line, "name", s->name);
	meta_str(&line, "dir", s->name);
	meta_str(&line, "role", s->spec ? "guest" : "host");
	if (vm) {
		meta_str(&line, "vm", vm->sel);
		meta_str(&line, "uuid", vm->uuid);
		meta_u64(&line, "pid", vm->pid);
	}
	meta_str(&line, "how", s->spec ? s->spec->text : NULL);
	return err_why(x->err, sides_put(x, &line), "cannot write the file session");
}

/* ---- beginning ---- */

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
	ret = output ? side_pipe(fds, x->err) : err_set(x->err, ENOMEM, "out of memory");
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
	const struct side_spec *spec;
	const char *program;
};

static int run_agent(void *arg)
{
	const struct agent_start *a = arg;

	return side_qga_main(a->spec, a->program);
}

int sides_start_guest(struct sides *x, struct side *s)
{
	const struct record_config *h = x->host;
	const struct stream_limits limits = {
		.max_size = h->max_size.v, .min_free = side_least_free(x->dir, &h->min_free),
		.keep = h->keep.v,
	};
	int in[2], out[2], ret = side_pipe(in, x->err);

	if (ret)
		return ret;
	s->to = in[1];
	ret = side_pipe(out, x->err);
	if (ret) {
		close(in[0]);
		return ret;
	}
	s->since = s->begun = util_now_ns();
	/* Its words first, while nobody else can fill the pipe. */
	ret = orders_never_wait(s, x->err);
	if (!ret) {
		_cleanup_(sbuf_free) struct sbuf text = { 0 };
		struct remote_words w = { .drop = s->push.path[0] };

		ret = guest_words(x->c, s->spec, &w, x->err);
		remote_put(&text, &w);
		remote_words_free(&w);
		if (!ret && (text.error || text.len > REMOTE_MAX || side_order(s, text.s)))
			ret = err_set(x->err, E2BIG, "%s: more options than can be sent to a guest",
				      s->name);
	}
	if (!ret) {
		const char *program = s->push.path[0] ? s->push.path : "kvmft";
		const char *words[] = { program, "record", "--remote", NULL };
		struct agent_start a = { s->spec, program };
		int pid = s->spec->agent ? side_run(run_agent, &a, in[0], out[1], &s->words, x->err)
					 : side_exec(&s->spec->command, words, in[0], out[1],
						     &s->words, x->err);

		ret = MIN(pid, 0);
		s->transport = pid < 0 ? s->transport : pid;
	}
	close(in[0]);
	close(out[1]);
	ret = ret ?: capw_name_init(&s->place, x->dir, x->shown, s->name, CAPW_REFUSE, x->err);
	ret = ret ?: capw_create(&s->place, &s->w, x->err);
	ret = ret
		      ?: side_fork(s, run_store,
				   &(struct start){ .x = x, .store = { s->w, out[0], limits } },
				   x->err);
	close(out[0]);
	return ret ?: put_side(x, s);
}
