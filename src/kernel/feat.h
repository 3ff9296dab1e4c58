/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * feat.h: what the two files of feature probes share: feat.c with the table and what tracefs
 * shows, feat_machine.c with what the machine around it permits.
 */
#ifndef KVMFT_KERNEL_FEAT_H
#define KVMFT_KERNEL_FEAT_H

#include "priv.h"

void feat_say(struct kfeat_result *r, enum kfeat_state s, const char *fmt, ...) __printf(3, 4);

typedef void (*feat_probe_fn)(const struct kfeat_env *e, struct kfeat_result *r);

void feat_lockdown(const struct kfeat_env *e, struct kfeat_result *r);
void feat_privilege(const struct kfeat_env *e, struct kfeat_result *r);
void feat_capabilities(const struct kfeat_env *e, struct kfeat_result *r);
void feat_container(const struct kfeat_env *e, struct kfeat_result *r);
void feat_pid_namespace(const struct kfeat_env *e, struct kfeat_result *r);
void feat_memory(const struct kfeat_env *e, struct kfeat_result *r);
void feat_kvm_module(const struct kfeat_env *e, struct kfeat_result *r);
void feat_kvm_vendor(const struct kfeat_env *e, struct kfeat_result *r);
void feat_kvm_device(const struct kfeat_env *e, struct kfeat_result *r);
void feat_msr_module(const struct kfeat_env *e, struct kfeat_result *r);
void feat_landlock(const struct kfeat_env *e, struct kfeat_result *r);
void feat_seccomp(const struct kfeat_env *e, struct kfeat_result *r);

#endif
