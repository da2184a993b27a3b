/* SPDX-License-Identifier: Apache-2.0
 * footprint.c - memory of a model; see footprint.h.  A mapping is known by an address in it: where the
 * compiled model begins, and the functions of its kernels. */
#define _GNU_SOURCE
#include "bench/load/footprint.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/plan/versions.h"

static const double MIB = 1 << 20;

/* Whether a line "from-to mode ..." is the head of a mapping, and whether it holds one of the addresses. */
static bool read_head(const char *line, const void *const *at, int n, bool *holds) {
    char *end;
    uintptr_t from = strtoull(line, &end, 16), to;
    if (end == line || *end != '-') return false;
    to = strtoull(end + 1, &end, 16);
    *holds = false;
    for (int i = 0; i < n && !*holds; i++)
        *holds = (uintptr_t)at[i] >= from && (uintptr_t)at[i] < to;
    return true;
}

double mo_resident_of(FILE *smaps, const void *const *at, int n) {
    char line[4400];
    bool holds = false;
    double kib = 0;
    while (fgets(line, sizeof line, smaps))
        if (!read_head(line, at, n, &holds) && holds && !strncmp(line, "Rss:", 4))
            kib += strtod(line + 4, NULL);
    return kib / 1024;
}

static double resident_now(const void *const *at, int n) {
    FILE *smaps = fopen("/proc/self/smaps", "re");
    double mib = smaps ? mo_resident_of(smaps, at, n) : 0;
    if (smaps) fclose(smaps);
    return mib;
}

/* The functions of compiled kernels of all versions, [n]; NULL: out of memory. */
static const void **functions(const struct mo_env *env, const struct mo_plan *plan, int *n) {
    size_t room = 1;
    for (int k = 0; k < plan->n_steps; k++)
        room += 1 + (size_t)plan->steps[k].n_versions;
    const void **list = mo_alloc(env, room * sizeof *list);
    *n = 0;
    for (int k = 0; list && k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        if (strcmp(step->kind, "specialised") != 0) continue;
        memcpy(&list[(*n)++], &step->run, sizeof step->run);
        for (int i = 1; i < step->n_versions; i++)
            memcpy(&list[(*n)++], &step->version[i].run, sizeof step->run);
    }
    return list;
}

json_t *mo_bench_footprint(const moire_tenant *t) {
    const struct mo_tenant_parts parts = mo_tenant_parts(t);
    const struct mo_trusted_file *image = parts.image;
    const struct mo_env *env = parts.plan->env;
    const void *at = image ? image->bytes : NULL;
    int n;
    const void **code = functions(env, parts.plan, &n);
    if (!code) return NULL;
    double weights = image ? (double)image->n : (double)parts.plan->weight_bytes;
    json_t *row =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:i}", "weights_mib", weights / MIB, "weights_resident_mib",
                  image && image->mapped ? resident_now(&at, 1) : -1.0, "code_resident_mib",
                  resident_now(code, n), "activations_mib", (double)parts.plan->arena_bytes / MIB,
                  "inputs_mib", (double)parts.request_bytes / MIB, "queries", parts.n_instances);
    mo_free(env, code);
    return row;
}
