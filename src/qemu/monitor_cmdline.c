/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * monitor_cmdline.c: the monitors that a QEMU command line asks for. Pure text.
 *
 *   -qmp DEV | -qmp-pretty DEV         QMP
 *   -monitor DEV                       HMP
 *   -mon [chardev=]ID[,mode=control]   QMP with mode=control, else HMP
 *   -serial mon:DEV and the like       HMP that shares its place with a console
 *
 * DEV is unix:PATH[,server[=on]][,wait=off], chardev:ID, or a place that nobody else can connect
 * to. -chardev socket,id=ID,path=PATH|fd=N[,abstract=on][,server=on] is what an ID stands for.
 */
#include "kvmft/vm_proc.h"
#include "monitor_internal.h"

#define PATH_MOST 4096

/* A socket as options describe it: -chardev socket,... and unix:... use the same words. */
struct dev {
	struct vm_span kind, id, path, fd;
	bool server, abstract, tcp;
};

static bool is_on(struct vm_span v)
{
	return vm_span_is(v, "on") || vm_span_is(v, "yes") || vm_span_is(v, "true") ||
	       vm_span_is(v, "y");
}

/* "server", "server=on": a switch that is only named is on; "noserver", "server=off" is off. */
static void take_bool(struct vm_span item, const char *key, bool *to)
{
	struct vm_span v;

	if (vm_span_is(item, key))
		*to = true;
	else if (vm_item_value(item, key, &v))
		*to = is_on(v);
	else if (item.n > 2 && !memcmp(item.p, "no", 2) &&
		 vm_span_is((struct vm_span){ item.p + 2, item.n - 2 }, key))
		*to = false;
}

static void take_item(struct dev *d, struct vm_span item)
{
	struct vm_span v;

	vm_item_value(item, "backend", &d->kind);
	vm_item_value(item, "id", &d->id);
	vm_item_value(item, "path", &d->path);
	vm_item_value(item, "fd", &d->fd);
	if (vm_item_value(item, "host", &v) || vm_item_value(item, "port", &v))
		d->tcp = true;
	take_bool(item, "server", &d->server);
	take_bool(item, "abstract", &d->abstract);
}

static struct dev parse_chardev(struct vm_span list)
{
	struct dev d = { .server = false };
	struct vm_span item;

	for (bool first = true; vm_list_next(&list, &item); first = false) {
		if (first && !memchr(item.p, '=', item.n))
			d.kind = item;
		else
			take_item(&d, item);
	}
	return d;
}

/* "unix:/run/x,server=on": as the options of a chardev. */
static struct dev parse_dev(struct vm_span list)
{
	static const char unix_[] = "unix:";
	struct dev d = { .kind = list };
	struct vm_span item;
	size_t n = strlen(unix_);

	if (list.n < n || memcmp(list.p, unix_, n))
		return d;
	d.kind = (struct vm_span){ "socket", 6 };
	list.p += n;
	list.n -= n;
	for (bool first = true; vm_list_next(&list, &item); first = false) {
		if (first && !vm_item_value(item, "path", &d.path))
			d.path = item;
		else if (!first)
			take_item(&d, item);
	}
	return d;
}

/* The last -chardev with this id; false when there is none. */
static bool find_chardev(struct vm_span args, struct vm_span id, struct dev *d)
{
	struct vm_span arg, value;
	bool found = false;

	while (vm_args_next(&args, &arg)) {
		if (!vm_span_is(arg, "-chardev") && !vm_span_is(arg, "--chardev"))
			continue;
		if (!vm_args_next(&args, &value))
			break;
		struct dev one = parse_chardev(value);

		if (id.n && one.id.n == id.n && !memcmp(one.id.p, id.p, id.n)) {
			*d = one;
			found = true;
		}
	}
	return found;
}

static int span_fd(struct vm_span s)
{
	char text[16];
	uint64_t v;

	if (!s.n || s.n >= sizeof(text))
		return -1;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return parse_u64(text, &v) || v > INT32_MAX ? -1 : (int)v;
}

/* Why nobody else can connect, or NULL. */
static const char *why_not(const struct dev *d, bool found)
{
	if (!found)
		return "it is on a chardev that the command line does not have";
	if (d->tcp || (d->kind.n >= 4 && !memcmp(d->kind.p, "tcp:", 4)) ||
	    (d->kind.n >= 7 && !memcmp(d->kind.p, "telnet:", 7)))
		return "it is on TCP, and kvmft connects only to unix sockets";
	if (!vm_span_is(d->kind, "socket") || (!d->path.n && !d->fd.n))
		return "it is not a socket that others can connect to";
	if (!d->path.n)
		return NULL;
	return d->server ? NULL : "QEMU is the client there (no server=on): it connects out instead of listening";
}

static int add_place(struct mon_places *p, enum mon_kind kind, struct vm_span option,
		     struct vm_span value, const struct dev *d, bool found)
{
	struct mon_place *slot = array_grow(&p->v, p->n, &p->cap, sizeof(*slot));
	const char *why = why_not(d, found);
	struct sbuf b = { 0 };

	if (!slot)
		return -ENOMEM;
	p->n++;
	slot->kind = kind;
	slot->fd = span_fd(d->fd);
	slot->abstract = d->abstract;
	sbuf_add_mem(&b, option.p, MIN(option.n, (size_t)32));
	sbuf_addc(&b, ' ');
	sbuf_add_mem(&b, value.p, MIN(value.n, (size_t)200));
	slot->spelling = sbuf_take(&b);
	if (!slot->spelling)
		return -ENOMEM;
	str_printable(slot->spelling);
	if (why) {
		slot->why_not = strdup(why);
		if (!slot->why_not)
			return -ENOMEM;
	}
	if (d->path.n) {
		slot->path = vm_span_copy(d->path, true, PATH_MOST);
		if (!slot->path)
			return -ENOMEM;
	}
	return 0;
}

/* DEV of -qmp and -monitor; "none" asks for nothing. */
static int take_dev(struct mon_places *p, struct vm_span all, enum mon_kind kind,
		    struct vm_span option, struct vm_span value)
{
	static const char chardev[] = "chardev:";
	size_t n = strlen(chardev);
	bool found = true;
	struct dev d;

	if (vm_span_is(value, "none") || vm_span_is(value, "null"))
		return 0;
	if (value.n > n && !memcmp(value.p, chardev, n)) {
		d = (struct dev){ 0 };
		found = find_chardev(all, (struct vm_span){ value.p + n, value.n - n }, &d);
	} else {
		d = parse_dev(value);
	}
	return add_place(p, kind, option, value, &d, found);
}

static int take_mon(struct mon_places *p, struct vm_span all, struct vm_span option,
		    struct vm_span value)
{
	struct vm_span list = value, item, id = { 0 }, mode = { 0 };
	struct dev d = { 0 };

	for (bool first = true; vm_list_next(&list, &item); first = false) {
		if (first && !memchr(item.p, '=', item.n))
			id = item;
		vm_item_value(item, "chardev", &id);
		vm_item_value(item, "mode", &mode);
	}
	return add_place(p, vm_span_is(mode, "control") ? MON_QMP : MON_HMP, option, value, &d,
			 find_chardev(all, id, &d));
}

static int take_option(struct mon_places *p, struct vm_span all, struct vm_span option,
		       struct vm_span value)
{
	struct vm_span name = option;

	name.p++;
	name.n--;
	if (name.n && *name.p == '-') {
		name.p++;
		name.n--;
	}
	if (vm_span_is(name, "qmp") || vm_span_is(name, "qmp-pretty"))
		return take_dev(p, all, MON_QMP, option, value);
	if (vm_span_is(name, "monitor"))
		return take_dev(p, all, MON_HMP, option, value);
	if (vm_span_is(name, "mon"))
		return take_mon(p, all, option, value);
	/* -serial mon:stdio: a console and HMP on one line */
	if (value.n > 4 && !memcmp(value.p, "mon:", 4))
		return add_place(p, MON_HMP, option, value, &(struct dev){ .kind = value }, true);
	return 0;
}

int mon_cmdline_parse(const char *args, size_t len, struct mon_places *p)
{
	struct vm_span all = { args, len }, rest = all, arg, value;
	int ret = 0;

	*p = (struct mon_places){ 0 };
	if (!vm_args_next(&rest, &arg)) /* the program */
		return 0;
	while (!ret && vm_args_next(&rest, &arg)) {
		struct vm_span after = rest;

		if (arg.n < 2 || *arg.p != '-' || !vm_args_next(&after, &value))
			continue;
		ret = take_option(p, all, arg, value);
	}
	if (ret)
		mon_places_free(p);
	return ret;
}

void mon_places_free(struct mon_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].spelling);
		free(p->v[i].path);
		free(p->v[i].why_not);
	}
	free(p->v);
	*p = (struct mon_places){ 0 };
}
