/* SPDX-License-Identifier: Apache-2.0
 * neighbour.h - the neighbour under which versions are measured: walkers on all allowed cores but the one
 * that measurements run on. */
#ifndef MO_NEIGHBOUR_H
#define MO_NEIGHBOUR_H
#include "codegen/tune/stress.h"

struct mo_neighbour {
    struct mo_stress *stress;
    int spared; /* OS number of the core for what is measured */
};
int mo_neighbour_open(const struct mo_env *env, struct mo_neighbour *out, moire_error *err);
void mo_neighbour_close(struct mo_neighbour *neighbour);
#endif
