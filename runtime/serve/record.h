/* SPDX-License-Identifier: Apache-2.0
 * record.h - the parts that write what a trace has before its events; inside runtime/serve. */
#ifndef MO_SERVE_RECORD_H
#define MO_SERVE_RECORD_H
#include <stdio.h>
#include "runtime/serve/runtime.h"

/* A name to the end of its line. */
void mo_record_name(FILE *f, const char *name);
/* "# tenant" and "# profile" lines. */
void mo_record_tenant(FILE *f, int index, const char *name, const struct mo_sched_tenant_config *config);
/* record_gpus.c: the GPUs; a tenant on them with its profiles (config->share, by kind of n_kinds); and
 * policy, GPUs and all tenants of a runtime that has some. */
void mo_record_machine(FILE *f, const struct mo_gpus *gpus);
void mo_record_gpu_tenant(FILE *f, int index, const char *name, const struct mo_sched_tenant_config *config,
                          int n_kinds);
void mo_record_gpus(FILE *f, const moire_runtime *runtime);
#endif
