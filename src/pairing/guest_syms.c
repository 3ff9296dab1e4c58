/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest_syms.c: which guest the symbols of each option and capture belong to. */
#include "kvmft/pairing.h"
#include "kvmft/timeline.h"

#include <strings.h>

/* ---- the symbols of one guest from files, or from a capture that it made ---- */

static int of_capture(struct ksyms *k, const char *path, struct kvmft_err *err)
{
	struct capture *cap = NULL;
	int ret = capture_open_dir(path, &cap, err);

	if (ret)
		return ret;
	if (!capture_symbols(cap, k))
		ret = cap->ndamage ? err_set(err, ENODATA, "%s: %s", path,
					     cap->damage[cap->ndamage - 1].text)
				   : err_lack(err, ENODATA, "%s was recorded without --symbols",
					      path);
	capture_close(cap);
	return ret;
}

int guest_syms_read(struct ksyms *k, const struct ksyms_files *f, struct kvmft_err *err)
{
	_cleanup_(ksyms_free) struct ksyms known = { 0 };
	struct ksyms_files files = *f;
	int ret;
	struct stat st;

	if (!(f->kallsyms && !stat(f->kallsyms, &st) && S_ISDIR(st.st_mode)))
		return ksyms_read(k, f, err);
	if (!f->vmlinux && !f->modules)
		return of_capture(k, f->kallsyms, err);
	if (!f->vmlinux)
		return err_usage(err, "--guest-modules: %s is a capture, which has them",
				 f->kallsyms);
	ret = of_capture(&known, f->kallsyms, err);
	files.kallsyms = NULL;
	files.known = &known;
	return ret ?: ksyms_read(k, &files, err);
}

/* What was given for one VM. */
struct given {
	size_t vm;
	struct ksyms_files f;
};

struct load {
	const struct guest_syms_opts *o;
	struct hostmap *m;
	struct given *v;
	size_t n, cap;
	struct kvmft_err *err;
};

const char *guest_syms_option(const struct guest_syms_opts *o)
{
	return o->kallsyms.n  ? "guest-kallsyms"
	       : o->vmlinux.n ? "guest-vmlinux"
	       : o->kaslr.n   ? "guest-kaslr"
	       : o->modules.n ? "guest-modules"
			      : NULL;
}

/*
 * The entry of the VM that text names, which is left with the rest: "SEL=" is the part before the
 * last = that is before any slash.
 */
static struct given *given_of(struct load *l, const char **text, const char *option)
{
	const char *slash = strchr(*text, '/');
	const char *eq = memrchr(*text, '=', slash ? (size_t)(slash - *text) : strlen(*text));
	size_t n = eq ? (size_t)(eq - *text) + 1 : 0;
	_cleanup_free_ char *sel = n ? xstrndup(*text, n - 1) : NULL;
	_cleanup_(sbuf_free) struct sbuf all = { 0 };
	ssize_t vm = n ? hostmap_find_vm(l->m, sel, l->err) : -1;
	struct given new = { 0 };

	for (size_t i = 0; i < l->m->nvm && !n; i++) {
		if (l->m->vm[i].of != i || l->m->vm[i].empty)
			continue;
		if (vm >= 0) {
			hostmap_list(l->m, &all);
			(void)err_usage(l->err, "option --%s: whose? Name the VM, SEL=FILE: %s",
					option, all.s ?: "");
			return NULL;
		}
		vm = (ssize_t)i;
	}
	if (vm < 0 && !n)
		(void)err_set(l->err, ENOENT, "option --%s: no VM is known", option);
	if (vm < 0)
		return NULL;
	new.vm = l->m->vm[vm].of;
	*text += n;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].vm == new.vm)
			return &l->v[i];
	xarray_add(&l->v, &l->n, &l->cap, &new, sizeof(new));
	return &l->v[l->n - 1];
}

static int syms_take(struct load *l, const struct str_list *list, const char *option, size_t member)
{
	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->v[i], **slot;
		struct given *g = given_of(l, &text, option);

		if (!g)
			return l->err->code ? -EINVAL : -ENOENT;
		slot = (const char **)((char *)&g->f + member);
		if (*slot)
			return err_usage(l->err, "option --%s: given twice for the same "
			                         "VM", option);
		*slot = text;
	}
	return 0;
}

static int take_kaslr(struct load *l)
{
	const struct str_list *list = &l->o->kaslr;

	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->v[i];
		struct given *g = given_of(l, &text, "guest-kaslr");

		if (!g)
			return l->err->code ? -EINVAL : -ENOENT;
		if (parse_bits64(text, &g->f.slide.v))
			return err_usage(l->err, "option --guest-kaslr: '%s' is not a "
			                         "number", text);
		g->f.slide.set = true;
		if (!l->o->vmlinux.n)
			return err_usage(l->err, "option --guest-kaslr goes with --guest-vmlinux");
	}
	return 0;
}

/* Takes what is in k over. */
static void syms_attach(struct guest_syms *g, struct hostmap *m, size_t vm, struct ksyms *k)
{
	struct ksyms *own = xmalloc(sizeof(*own));

	xarray_add(&g->k, &g->n, &g->cap, &own, sizeof(own));
	*own = *k;
	*k = (struct ksyms){ 0 };
	m->vm[vm].syms = own;
}

static int guest_syms_load(struct guest_syms *g, const struct guest_syms_opts *o, struct hostmap *m,
			   const struct guest_syms_of *guest, size_t n, note_fn *note,
			   struct kvmft_err *err)
{
	struct load l = { .o = o, .m = m, .err = err };
	size_t nested = 0;
	int ret;

	ret = syms_take(&l, &l.o->kallsyms, "guest-kallsyms",
			offsetof(struct ksyms_files, kallsyms));
	ret = ret
		      ?: syms_take(&l, &l.o->vmlinux, "guest-vmlinux",
				   offsetof(struct ksyms_files, vmlinux));
	ret = ret
		      ?: syms_take(&l, &l.o->modules, "guest-modules",
				   offsetof(struct ksyms_files, modules));
	ret = ret ?: take_kaslr(&l);

	for (size_t i = 0; i < l.n && !ret; i++) {
		_cleanup_(ksyms_free) struct ksyms known = { 0 }, k = { 0 };
		struct given *v = &l.v[i];

		/* What a capture of that VM has of its kernel: all functions, or some. */
		for (size_t c = 0; v->f.vmlinux && !v->f.kallsyms && c < n && !known.n; c++) {
			struct capture *cap = guest[c].cap;

			if (l.m->vm[guest[c].vm].of != v->vm)
				continue;
			(void)!capture_symbols(cap, &known);
			if (!known.n && cap->kallsyms)
				xdone(ksyms_parse(&known, cap->kallsyms, cap->kallsyms_len));
		}
		v->f.known = known.n ? &known : v->f.known;
		ret = guest_syms_read(&k, &v->f, l.err);
		if (!ret)
			syms_attach(g, l.m, v->vm, &k);
	}
	for (size_t i = 0; i < n && !ret; i++) {
		size_t vm = l.m->vm[guest[i].vm].of;
		_cleanup_(ksyms_free) struct ksyms k = { 0 };

		if (!l.m->vm[vm].syms && capture_symbols(guest[i].cap, &k))
			syms_attach(g, l.m, vm, &k);
	}
	free(l.v);
	if (!ret)
		ret = err_why(err, guest_rip_drop_nested(m, &nested), "cannot read %s", m->cap->path);
	if (nested && note)
		note("%zu VM%s guests of %s own: addresses may be theirs, and get no names", nested,
		     nested > 1 ? "s run" : " runs", nested > 1 ? "their" : "its");
	return ret;
}

int guest_syms_of_pairing(struct guest_syms *g, const struct guest_syms_opts *o, struct pairing *p,
			  note_fn *note, struct kvmft_err *err)
{
	g->of = xcalloc(p->nguest + 1, sizeof(*g->of));
	for (; g->nof < p->nguest; g->nof++) {
		struct capture *c = p->guest[g->nof].c.cap;

		g->of[g->nof] = (struct guest_syms_of){ p->guest[g->nof].vm, c, c->ndamage };
	}
	return guest_syms_load(g, o, p->map, g->of, g->nof, note, err);
}

/* Which VM a capture belongs to: as named, by its UUID, or because there is no other. */
static ssize_t syms_whose(struct hostmap *m, const struct capture *c, const char *sel,
			  note_fn *note, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf all = { 0 };
	size_t n = 0, others = 0;
	ssize_t vm = -1;

	if (sel)
		return hostmap_find_vm(m, sel, err);
	for (size_t i = 0; i < m->nvm; i++) {
		const struct cap_vm *cap = m->vm[i].cap;

		if (m->vm[i].of != i || m->vm[i].empty)
			continue;
		if (cap && cap->uuid && c->uuid && !strcasecmp(cap->uuid, c->uuid))
			return (ssize_t)i;
		if (cap && cap->uuid && c->uuid) {
			others++;
			continue;
		}
		vm = (ssize_t)i;
		n++;
	}
	if (n == 1) {
		note("%s: its functions are taken for those of %s, %s", c->path,
			 m->vm[vm].label, others ? "whose UUID is not known" : "the only VM there");
		return vm;
	}
	hostmap_list(m, &all);
	if (others && !n)
		return err_usage(err,
				 "guest %s has a UUID that no VM of the host capture has; name "
				 "one: %s=SEL. VMs there: %s",
				 c->path, c->path, all.s ?: "");
	return err_usage(err, "%s: of which VM? Say GUEST=SEL: %s", c->path, all.s ?: "");
}

int guest_syms_of_operands(struct guest_syms *g, const struct guest_syms_opts *o, struct hostmap *m,
			   char **operand, size_t n, note_fn *note, struct kvmft_err *err)
{
	int ret = 0;

	g->of = xcalloc(n + 1, sizeof(*g->of));
	g->owned = true;
	for (size_t i = 0; i < n && !ret; i++) {
		struct guest_syms_of *of = &g->of[g->nof++];
		_cleanup_free_ char *path = NULL;
		const char *sel;
		ssize_t vm;

		pairing_split(operand[i], &path, &sel);
		ret = capture_open(path, &of->cap, err);
		if (!ret) {
			of->damage = of->cap->ndamage;
			vm = syms_whose(m, of->cap, sel, note, err);
			of->vm = (size_t)vm;
			ret = (int)MIN(vm, (ssize_t)0);
		}
		if (!ret || n < 2 || *operand[i] != *SESSION_MARK)
			continue;
		note("%s; the other guests are shown without this one", err->text);
		*err = (struct kvmft_err){ .text = "" };
		capture_close(of->cap);
		*of = (struct guest_syms_of){ 0 };
		g->nof--;
		g->without = true;
		ret = 0;
	}
	return ret ?: guest_syms_load(g, o, m, g->of, g->nof, note, err);
}

bool guest_syms_whole(struct guest_syms *g, note_fn *note)
{
	bool whole = !g->without;

	for (size_t i = 0; i < g->nof; i++) {
		const struct capture *c = g->of[i].cap;

		for (size_t *k = &g->of[i].damage; c && *k < c->ndamage; ++*k) {
			if (note)
				note("%s: %s", c->path, c->damage[*k].text);
			whole = false;
		}
	}
	return whole;
}

void guest_syms_free(struct guest_syms *g)
{
	for (size_t i = 0; i < g->n; i++) {
		ksyms_free(g->k[i]);
		free(g->k[i]);
	}
	free(g->k);
	for (size_t i = 0; g->owned && i < g->nof; i++)
		capture_close(g->of[i].cap);
	free(g->of);
	*g = (struct guest_syms){ 0 };
}
