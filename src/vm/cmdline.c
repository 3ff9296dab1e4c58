/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cmdline.c: name and UUID of a VM from its VMM's command line. Pure, untrusted text.
 *
 * QEMU:   -name NAME | -name guest=NAME,debug-threads=on | -uuid U | -smbios type=1,uuid=U
 *         (option lists separate with ',', a doubled comma is one)
 * others: --name NAME | --name=NAME | --id NAME (firecracker), and --platform uuid=U
 *         (cloud-hypervisor): best effort.
 */
#include "kvmft/vm.h"

/* ---- taking a command line apart: arguments, and the option lists of QEMU ---- */

bool vm_span_is(struct vm_span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

bool vm_list_next(struct vm_span *list, struct vm_span *item)
{
	size_t i = 0;

	if (!list->n)
		return false;
	while (i < list->n) {
		if (list->p[i] != ',')
			i++;
		else if (i + 1 < list->n && list->p[i + 1] == ',')
			i += 2;
		else
			break;
	}
	*item = (struct vm_span){ list->p, i };
	i += i < list->n;
	list->p += i;
	list->n -= i;
	return true;
}

bool vm_item_value(struct vm_span item, const char *key, struct vm_span *value)
{
	size_t n = strlen(key);

	if (item.n <= n || memcmp(item.p, key, n) || item.p[n] != '=')
		return false;
	*value = (struct vm_span){ item.p + n + 1, item.n - n - 1 };
	return true;
}

bool vm_args_next(struct vm_span *args, struct vm_span *arg)
{
	const char *end;

	if (!args->n)
		return false;
	end = memchr(args->p, '\0', args->n);
	*arg = (struct vm_span){ args->p, end ? (size_t)(end - args->p) : args->n };
	args->p += arg->n + !!end;
	args->n -= arg->n + !!end;
	return true;
}

char *vm_span_copy(struct vm_span s, bool commas, size_t most)
{
	size_t n = 0, max = MIN(s.n, most);
	char *out = malloc(max + 1);

	if (!out)
		return NULL;
	for (size_t i = 0; i < s.n && n < max; i++) {
		out[n++] = s.p[i];
		if (commas && s.p[i] == ',' && i + 1 < s.n && s.p[i + 1] == ',')
			i++;
	}
	out[n] = '\0';
	str_printable(out);
	return out;
}

struct parse {
	bool qemu;
	struct vm_span name, uuid, smbios_uuid;
};

struct option {
	const char *text;
	bool with_equal_sign; /* also --opt=VALUE */
	void (*take)(struct parse *ps, struct vm_span value);
};

static void take_name(struct parse *ps, struct vm_span list)
{
	struct vm_span item;

	if (!ps->qemu) {
		ps->name = list;
		return;
	}
	for (bool first = true; vm_list_next(&list, &item); first = false) {
		/* the key of the first item may be left out */
		if (first && !memchr(item.p, '=', item.n) && item.n)
			ps->name = item;
		else
			vm_item_value(item, "guest", &ps->name);
	}
}

static void take_uuid(struct parse *ps, struct vm_span value)
{
	ps->uuid = value;
}

static void take_smbios(struct parse *ps, struct vm_span list)
{
	struct vm_span item, value, uuid = { 0 };
	bool type1 = false;

	while (vm_list_next(&list, &item)) {
		if (vm_item_value(item, "type", &value))
			type1 = vm_span_is(value, "1");
		else
			vm_item_value(item, "uuid", &uuid);
	}
	if (type1 && uuid.n)
		ps->smbios_uuid = uuid;
}

static void take_platform(struct parse *ps, struct vm_span list)
{
	struct vm_span item;

	while (vm_list_next(&list, &item))
		vm_item_value(item, "uuid", &ps->uuid);
}

/* QEMU takes options with one dash or two, and never with '='. */
static const struct option qemu_options[] = {
	{ "name", false, take_name },
	{ "uuid", false, take_uuid },
	{ "smbios", false, take_smbios },
};

static const struct option other_options[] = {
	{ "name", true, take_name },
	{ "id", true, take_name },
	{ "uuid", true, take_uuid },
	{ "platform", true, take_platform },
};

static void parse_args(struct parse *ps, struct vm_span args)
{
	const struct option *opt = ps->qemu ? qemu_options : other_options;
	size_t n_opt = ps->qemu ? ARRAY_SIZE(qemu_options) : ARRAY_SIZE(other_options);
	struct vm_span arg, value;

	while (vm_args_next(&args, &arg)) {
		size_t dashes = 0;

		while (dashes < 2 && dashes < arg.n && arg.p[dashes] == '-')
			dashes++;
		if (!dashes)
			continue;
		arg.p += dashes;
		arg.n -= dashes;
		for (size_t i = 0; i < n_opt; i++) {
			if (opt[i].with_equal_sign && vm_item_value(arg, opt[i].text, &value)) {
				opt[i].take(ps, value);
			} else if (vm_span_is(arg, opt[i].text) && vm_args_next(&args, &value)) {
				opt[i].take(ps, value);
				break;
			}
		}
	}
}

bool vm_uuid_parse(const char *s, size_t len, char *out)
{
	if (len != 36)
		return false;
	for (size_t i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		char c = s[i];

		if (c >= 'A' && c <= 'F')
			c = (char)(c - 'A' + 'a');
		if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		out[i] = c;
	}
	out[36] = '\0';
	return true;
}

int vm_cmdline_parse(const char *args, size_t len, const char *vmm, struct vm_ident *id)
{
	struct parse ps = { .qemu = strstr(vmm, "qemu") || !strcmp(vmm, "kvm") };
	struct vm_span all = { args, len }, argv0;
	char uuid[37];

	*id = (struct vm_ident){ 0 };
	if (vm_args_next(&all, &argv0))
		parse_args(&ps, all);
	if (ps.name.n) {
		id->name = vm_span_copy(ps.name, ps.qemu, VM_MAX_TEXT);
		if (!id->name)
			return -ENOMEM;
	}
	if ((ps.uuid.n && vm_uuid_parse(ps.uuid.p, ps.uuid.n, uuid)) ||
	    (ps.smbios_uuid.n && vm_uuid_parse(ps.smbios_uuid.p, ps.smbios_uuid.n, uuid))) {
		id->uuid = strdup(uuid);
		if (!id->uuid) {
			free(id->name);
			id->name = NULL;
			return -ENOMEM;
		}
	}
	return 0;
}
