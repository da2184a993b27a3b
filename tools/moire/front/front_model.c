/* SPDX-License-Identifier: Apache-2.0
 * front_model.c - the front of a whole model: sums and means over its layers, each in the version that the
 * level of pressure asks for. */
#include "runtime/plan/versions.h"
#include "tools/moire/front/front_show.h"

/* The version that the runtime chooses at a pressure; -1: there is none. */
static int chosen(const struct mo_store_front *f, double pressure) {
    struct mo_version version[MO_STORE_VERSIONS] = {0};
    struct mo_step step = {.version = version};
    int at[MO_STORE_VERSIONS];
    for (int i = 0; i < f->n && step.n_versions < MO_STORE_VERSIONS; i++) {
        const struct mo_store_point *p = &f->point[i];
        if (p->state != MO_POINT_VERSION) continue;
        for (int level = 0; level < MO_STORE_LEVELS; level++)
            version[step.n_versions].ns[level] = p->ns[level] > 0 ? p->ns[level] : p->ns[0];
        at[step.n_versions++] = i;
    }
    return step.n_versions ? at[mo_version_choose(&step, pressure, 1)] : -1;
}

struct mo_front_model mo_front_model_of(const struct mo_fronts *all) {
    struct mo_front_model m = {0};
    for (int i = 0; i < all->n; i++) {
        const struct mo_store_front *f = &all->row[i].front;
        int uses = all->row[i].uses, versions = mo_front_versions(f);
        if (!versions || f->point[0].state != MO_POINT_VERSION) continue;
        m.layers += uses;
        m.several += versions > 1 ? uses : 0;
        for (int level = 0; level < MO_STORE_LEVELS; level++) {
            double pressure = (double)level / (MO_STORE_LEVELS - 1);
            int at = chosen(f, pressure);
            const struct mo_store_point *p = &f->point[at];
            double ns = mo_front_time_at(p, pressure) * uses;
            m.chosen_ns[level] += ns;
            m.single_ns[level] += mo_front_time_at(&f->point[0], pressure) * uses;
            m.changed[level] += at ? uses : 0;
            m.parallelism[level] += ns * (double)p->parallelism_milli * 1e-3;
            m.block_bytes[level] += ns * (double)p->block_bytes;
            m.l3_bytes[level] += ns * (double)p->l3_bytes;
        }
    }
    for (int level = 0; level < MO_STORE_LEVELS && m.chosen_ns[0] > 0; level++) {
        m.parallelism[level] /= m.chosen_ns[level];
        m.block_bytes[level] /= m.chosen_ns[level];
        m.l3_bytes[level] /= m.chosen_ns[level];
    }
    return m;
}
