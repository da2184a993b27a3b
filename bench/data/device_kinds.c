/* SPDX-License-Identifier: Apache-2.0
 * device_kinds.c - see device_kinds.h. */
#include "bench/data/device_kinds.h"

enum { CORES_A_GROUP = 16 };

static int group_of(const struct mo_bench_machine *machine) {
    return machine->sim.n_cores < CORES_A_GROUP ? machine->sim.n_cores : CORES_A_GROUP;
}

void mo_bench_kinds(const struct mo_bench_machine *machine, struct mo_plan_kind *kinds, int *n_kinds,
                    int *kind, int *n_gpus) {
    int cores = machine->sim.n_cores, group = group_of(machine), n = 0;
    for (int k = 0; k < machine->n_gpus; k++) {
        kinds[k] = machine->gpus[k].kind;
        for (int i = 0; i < machine->gpus[k].count && n < MO_PLAN_GPUS; i++)
            kind[n++] = k;
    }
    *n_kinds = machine->n_gpus;
    if (cores && *n_kinds < MO_PLAN_KINDS) {
        struct mo_plan_kind *k = &kinds[*n_kinds];
        *k = (struct mo_plan_kind){.name = "cores",
                                   .units = group,
                                   .max_lets = group,
                                   .memory_bytes = INT64_MAX / 4,
                                   .shared_weights = true};
        mo_plan_sizes(k, 1, 1);
        for (int i = 0; i + group <= cores && n < MO_PLAN_GPUS; i += group)
            kind[n++] = *n_kinds;
        ++*n_kinds;
    }
    *n_gpus = n;
}

/* The profile of cores as one of shares. */
static int of_cores(const struct mo_env *env, const struct mo_profile *p, int units,
                    struct mo_share_profile **out, moire_error *err) {
    int one = 1, share[CORES_A_GROUP];
    for (int c = 1; c <= units; c++)
        share[c - 1] = mo_share_of_units(c, units);
    *out = mo_share_create(env, 1, &one, units, share);
    if (!*out) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    for (int c = 1; c <= units; c++) {
        struct mo_share_cell cell = {mo_profile_time(p, c, 0, p->n_layers), {-1, -1, -1}};
        mo_share_record(*out, 0, c - 1, &cell);
    }
    int code = mo_share_finish(*out, err);
    if (code) {
        mo_share_destroy(*out);
        *out = NULL;
    }
    return code;
}

int mo_bench_kind_profile(const struct mo_env *env, const struct mo_bench_machine *machine,
                          const struct mo_plan_kind *kinds, int kind, const char *model,
                          struct mo_share_profile **out, moire_error *err) {
    struct mo_share_table table;
    struct mo_profile *cores;
    int code;
    *out = NULL;
    if (kind < machine->n_gpus) {
        code = mo_bench_machine_shares(env, machine, kind, model, &table, err);
        if (!code) {
            *out = table.profile;
            table.profile = NULL; /* the caller's now */
            mo_share_table_free(&table);
        }
    } else {
        code = mo_bench_machine_profile(env, machine, model, &cores, err);
        if (!code) {
            code = of_cores(env, cores, kinds[kind].units, out, err);
            mo_profile_destroy(cores);
        }
    }
    return code == MOIRE_EINVAL ? MOIRE_OK : code; /* no such file */
}
