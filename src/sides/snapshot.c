/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * snapshot.c: a command that is run in the session's directory each time all sides have written out
 * their rings.
 */
#include "sides.h"

#include <signal.h>
#include <sys/wait.h>

#define PATIENCE_NS 5000000000ull /* a side whose ring was empty says nothing */

int snapshots_init(struct snapshots *n, const char *command, struct kvmft_err *err)
{
	return command ? side_split(command, "--blame-options", &n->words, err) : 0;
}

void snapshots_asked(struct snapshots *n, struct side *side, size_t nside)
{
	if (!n->words.n)
		return;
	n->ever = true;
	n->asked_ns = n->asked_ns ?: util_now_ns();
	for (size_t i = 0; i < nside; i++)
		side[i].owes = side[i].live && side[i].state < SIDE_STOPPING;
}

int snapshots_tick(struct snapshots *n, const struct side *side, size_t nside, int dir,
		   struct kvmft_err *err)
{
	bool all = true;
	int pid;

	if (!n->asked_ns || n->pid)
		return 0;
	for (size_t i = 0; i < nside; i++)
		all &= !side[i].owes || side[i].state == SIDE_ENDED;
	if (!all && util_now_ns() - n->asked_ns < PATIENCE_NS)
		return 0;
	n->asked_ns = 0;
	pid = side_self(&n->words, dir, err);
	n->pid = MAX(pid, 0);
	return MIN(pid, 0);
}

void snapshots_child(struct snapshots *n)
{
	int status;

	if (n->pid && waitpid(n->pid, &status, WNOHANG) == n->pid)
		n->pid = 0;
}

bool snapshots_kill(const struct snapshots *n)
{
	return n->pid && !kill(n->pid, SIGKILL);
}

void snapshots_free(struct snapshots *n)
{
	if (snapshots_kill(n))
		(void)waitpid(n->pid, NULL, 0);
	remote_words_free(&n->words);
}
