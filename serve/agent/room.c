/* SPDX-License-Identifier: Apache-2.0
 * room.c - how much room a model has; see room.h. */
#include "serve/agent/room.h"

#include <string.h>
#include "serve/repository/stuck_models.h"

static const int64_t NO_TARGET = 1000000000;

int ms_room_percent(int64_t backlog_ns, int64_t target_ns) {
    const double target = (double)(target_ns > 0 ? target_ns : NO_TARGET);
    const double left = 100 * (1 - (double)backlog_ns / target);
    return left < 1 ? 1 : left > 100 ? 100 : (int)left;
}

/* Under the lock.  Queries of an ensemble are its members' too. */
static int64_t backlog(const struct ms_repository *r) {
    double ns = 0;
    for (int i = 0; i < r->n; i++) {
        const struct ms_model *m = r->model[i];
        const struct ms_times *t = m->tally ? &m->tally->compute : NULL;
        if (t && t->count && !m->ensemble)
            ns += (double)m->tally->pending * (double)t->sum_ns / (double)t->count;
    }
    return (int64_t)(ns / r->cores);
}

/* Under the lock. */
static int64_t tightest(const struct ms_repository *r) {
    int64_t least = 0;
    for (int i = 0; i < r->n; i++) {
        const int64_t ns = r->model[i]->settings.qos_ns;
        if (ns > 0 && (!least || ns < least)) least = ns;
    }
    return least;
}

static void say_percent(struct ms_repository *r, const struct ms_model *m, char out[MS_ROOM_TEXT]) {
    pthread_mutex_lock(&r->lock);
    const int percent = ms_room_percent(backlog(r), m ? m->settings.qos_ns : tightest(r));
    pthread_mutex_unlock(&r->lock);
    snprintf(out, MS_ROOM_TEXT, "up ready %d%%\n", percent);
}

static void say_model(struct ms_repository *r, const char *name, char out[MS_ROOM_TEXT]) {
    struct ms_model *m;
    moire_error err = {0};
    char why[MS_STUCK_WHY];
    if (ms_repository_take(r, name, NULL, &m, &err)) {
        snprintf(out, MS_ROOM_TEXT, "down #no such model\n");
        return;
    }
    ms_stuck_model(m, why);
    if (ms_model_state(m) != MS_READY || *why)
        snprintf(out, MS_ROOM_TEXT, "down #%s\n", *why ? "stuck" : "not ready");
    else
        say_percent(r, m, out);
    ms_repository_give(m);
}

void ms_room_say(struct ms_repository *r, const char *name, char out[MS_ROOM_TEXT]) {
    if (ms_repository_leaves(r))
        snprintf(out, MS_ROOM_TEXT, "drain\n");
    else if (*name)
        say_model(r, name, out);
    else if (!ms_repository_is_ready(r))
        snprintf(out, MS_ROOM_TEXT, "down #not ready\n");
    else
        say_percent(r, NULL, out);
}
