/* SPDX-License-Identifier: GPL-2.0-or-later */
/* small.c: of recording.c in a build with SMALL=1, which reads no captures. */
#include "room.h"

#include "kvmft/json.h"

int stuck_recording_open(struct stuck *s)
{
	return err_lack(s->err, ENOSYS,
			"this small kvmft reads no recordings: use a whole one, on any machine");
}

void stuck_recording_free(struct stuck_recording *r __unused_arg)
{
}

bool stuck_recording_note(const struct stuck *s __unused_arg)
{
	return false;
}

void stuck_recording_needs(const struct stuck *s __unused_arg, struct json *j)
{
	json_put_array(j, "needs");
	json_array_end(j);
}
