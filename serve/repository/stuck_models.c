/* SPDX-License-Identifier: Apache-2.0
 * stuck_models.c - models whose workers do not come back; see stuck_models.h. */
#include "serve/repository/stuck_models.h"

#include <stdio.h>

static const char NO_CORE[] =
    "no core is left to serve: each is in a block or a callback that does not come back";

void ms_stuck_look(const struct ms_repository *r, struct ms_stuck *out) {
    int left = 1;
    out->n = 0;
    if (moire_stuck(r->options.runtime, out->row, MS_STUCK_ROWS, &out->n, &left, NULL)) out->n = 0;
    if (out->n > MS_STUCK_ROWS) out->n = MS_STUCK_ROWS;
    out->all = left <= 0;
}

/* The lock is held. */
static bool has_tenant(const struct ms_model *m, uint64_t id) {
    bool has = false;
    for (const struct ms_binding *b = m->bindings; b && !has; b = b->next)
        has = moire_tenant_id(b->tenant) == id;
    for (int i = 0; m->ensemble && i < m->ensemble->n_steps && !has; i++) {
        const struct ms_model *member = m->ensemble->step[i].member;
        has = member && has_tenant(member, id); /* MS_NESTED deep at most */
    }
    return has;
}

static void describe(const moire_stuck_row *row, char why[MS_STUCK_WHY]) {
    if (row->kind == MOIRE_STUCK_BLOCK)
        snprintf(why, MS_STUCK_WHY,
                 "stuck: layers %d to %d have been on core %d for %.1f s longer than they take",
                 row->first_layer, row->end_layer - 1, row->unit, (double)row->overdue_ns / 1e9);
    else if (row->kind == MOIRE_STUCK_CALLBACK)
        snprintf(why, MS_STUCK_WHY, "stuck: a callback has not returned for %.1f s",
                 (double)row->overdue_ns / 1e9);
    else
        snprintf(why, MS_STUCK_WHY, "stuck: the device that it runs on is lost");
}

bool ms_stuck_is(const struct ms_stuck *stuck, struct ms_model *m, char why[MS_STUCK_WHY]) {
    const moire_stuck_row *found = NULL;
    why[0] = 0;
    if (!stuck->n) return false;
    pthread_mutex_lock(&m->repository->lock);
    for (int i = 0; i < stuck->n && !found; i++)
        if (has_tenant(m, stuck->row[i].tenant)) found = &stuck->row[i];
    pthread_mutex_unlock(&m->repository->lock);
    if (found) describe(found, why);
    return found != NULL;
}

static bool is_all(const struct ms_stuck *stuck, char why[MS_STUCK_WHY]) {
    snprintf(why, MS_STUCK_WHY, "%s", stuck->all ? NO_CORE : "");
    return stuck->all;
}

bool ms_stuck_server(const struct ms_repository *r, char why[MS_STUCK_WHY]) {
    struct ms_stuck stuck;
    ms_stuck_look(r, &stuck);
    return is_all(&stuck, why);
}

bool ms_stuck_model(struct ms_model *m, char why[MS_STUCK_WHY]) {
    struct ms_stuck stuck;
    ms_stuck_look(m->repository, &stuck);
    return ms_stuck_is(&stuck, m, why) || is_all(&stuck, why);
}
