/* SPDX-License-Identifier: Apache-2.0
 * neighbour.c - walkers beside the measuring core; see neighbour.h. */
#include "tools/moire/neighbour.h"

#include "runtime/device/topology.h"

enum { MAX_WALKERS = 64 };

int mo_neighbour_open(const struct mo_env *env, struct mo_neighbour *out, moire_error *err) {
    struct mo_topology *t;
    int cpu[MAX_WALKERS], n = 0, highest = 0;
    *out = (struct mo_neighbour){.stress = NULL};
    int rc = mo_topology_create(env, NULL, 0, "", &t, err);
    if (rc) return rc;
    for (int i = 1; i < t->n_cores; i++)
        if (t->cpu[i] > t->cpu[highest]) highest = i; /* where codegen/search/measure.c pins itself */
    for (int i = 0; i < t->n_cores && n < MAX_WALKERS; i++)
        if (i != highest) cpu[n++] = t->cpu[i];
    struct mo_stress_config config = {.env = env,
                                      .kind = MO_STRESS_L3,
                                      .cpu = cpu,
                                      .n = n,
                                      .l2_bytes = t->l2_bytes,
                                      .l3_bytes = t->l3_bytes};
    out->spared = t->cpu[highest];
    mo_topology_destroy(t);
    return mo_stress_create(&config, &out->stress, err);
}

void mo_neighbour_close(struct mo_neighbour *neighbour) {
    mo_stress_destroy(neighbour->stress);
    neighbour->stress = NULL;
}
