/* SPDX-License-Identifier: Apache-2.0
 * proxy_measure.c - counters beside a neighbour whose level is known; see proxy_fit.h. */
#include "bench/fit/proxy_fit.h"

enum { SETTLE_NS = 4000000, WINDOW_NS = 20000000 };

/* One window under one level; the victim's rate goes to the cell of the slowdown. */
static int measure_row(const struct mo_proxy_measure *m, void *opened, int level, struct mo_sample *row,
                       moire_error *err) {
    int code = MOIRE_OK;
    mo_stress_set(m->stress, level);
    mo_stress_victim(m->stress, SETTLE_NS);
    if (opened) code = m->source->sample(opened, &row->cell[MO_SAMPLE_FIRST], err);
    row->cell[MO_SAMPLE_PRESSURE] = (double)level / (MO_STRESS_LEVELS - 1);
    row->cell[MO_SAMPLE_SLOWDOWN] = mo_stress_victim(m->stress, WINDOW_NS);
    if (!code && opened) code = m->source->sample(opened, &row->cell[MO_SAMPLE_FIRST], err);
    return code;
}

int mo_proxy_measure(const struct mo_proxy_measure *m, struct mo_samples *out, moire_error *err) {
    struct mo_source_config c = {.env = out->env, .cpu = m->cpu, .n_cpus = m->n_cpus};
    void *opened = NULL;
    int code = m->source->open ? m->source->open(&c, &opened, err) : MOIRE_OK;
    if (code) return code;
    double solo = 0;
    out->source = m->source;
    mo_stress_victim(m->stress, WINDOW_NS); /* its buffer is in the cache from here on */
    for (int i = 0; !code && i < m->rounds * MO_STRESS_LEVELS; i++) {
        struct mo_sample row = {{0}};
        int level = i % MO_STRESS_LEVELS;
        code = measure_row(m, opened, level, &row, err);
        if (!level && row.cell[MO_SAMPLE_SLOWDOWN] > solo) solo = row.cell[MO_SAMPLE_SLOWDOWN];
        if (!code) code = mo_samples_add(out, &row, err);
    }
    mo_stress_set(m->stress, 0);
    for (int i = 0; i < out->n; i++)
        out->row[i].cell[MO_SAMPLE_SLOWDOWN] = solo / out->row[i].cell[MO_SAMPLE_SLOWDOWN];
    if (opened) m->source->close(opened);
    return code;
}
