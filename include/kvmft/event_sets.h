/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * event_sets.h: the default events of `kvmft record`. They may include events of any kernel: what
 * the running one lacks is left out.
 */
#ifndef KVMFT_EVENT_SETS_H
#define KVMFT_EVENT_SETS_H

extern const char *const event_set_host[];  /* NULL-terminated "sys:event" */
extern const char *const event_set_guest[];
extern const char *const event_set_mem[];   /* of a host; "sys:event/FILTER/" are there, too */
extern const char *const event_set_io[];    /* of a host */
extern const char *const event_set_net_host[];
extern const char *const event_set_net_guest[];
extern const char *const event_set_clock[]; /* rare ones that date changes of a guest's clock */

#endif
