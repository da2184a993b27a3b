/* SPDX-License-Identifier: Apache-2.0
 * other_cpus.h - what a store holds for processors other than this one, and taking it out: nothing here can
 * use it, and where a home folder is shared somebody else may. */
#ifndef MO_OTHER_CPUS_H
#define MO_OTHER_CPUS_H
#include "codegen/search/upkeep.h"

struct mo_other_cpu {
    char folder[MO_CPU_FOLDER], name[MO_CPU_FOLDER]; /* of the store; as people read it */
    int files, kernels, models;                      /* models: ONNX files that are compiled for it */
    int64_t bytes;
    int64_t modified; /* the newest file, ns since 1970; 0: there is none */
};

/* Fills out[MO_STORE_CPUS], newest first.  How many there are. */
int mo_other_cpus(const struct mo_env *env, const char *store, struct mo_other_cpu *out);
/* Takes everything of that processor out that the store knows, and its folders when nothing else is in them.
 * MOIRE_EBUSY: a compilation works on it.  *files and *bytes: what went. */
int mo_other_cpu_remove(const struct mo_env *env, const char *store, const struct mo_other_cpu *cpu,
                        int *files, int64_t *bytes, moire_error *err);
#endif
