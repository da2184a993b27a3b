/* SPDX-License-Identifier: Apache-2.0
 * admission.c - whether a model takes one more query; see admission.h. */
#include "serve/query/admission.h"

#include <inttypes.h>
#include "serve/protocol/fault.h"
#include "serve/query/infer_query.h"

/* Queries of a level that wait, where nothing else is said. */
enum { MS_WAITING = 1024 };
/* Longer timeouts are none. */
static const int64_t LONGEST_US = INT64_C(1) << 50;
/* The client, too, has a deadline: one part of so many is left for the answer's way. */
enum { WAY_BACK = 16 };

static void set_level(struct ms_query *q) {
    const struct ms_settings *s = &q->model->settings;
    const int64_t asked = q->request.priority;
    q->level = !s->levels ? 0 : asked <= 0 ? s->level : asked < s->levels ? asked : s->levels;
}

static void set_deadlines(struct ms_query *q) {
    const struct ms_settings *s = &q->model->settings;
    const struct ms_queue_policy *p = &s->policy[q->level];
    const int64_t own = p->timeout_is_fixed ? 0 : q->request.timeout_us;
    const int64_t timeout = own ? own : p->timeout_us;
    q->expires_ns = q->target_ns = MS_NEVER;
    if (s->qos_ns) q->target_ns = q->begun_ns + s->qos_ns;
    if (q->is_step) { /* the whole expires, not its steps */
        if (q->due_ns) q->target_ns = q->due_ns;
        return;
    }
    if (timeout > 0 && timeout < LONGEST_US) q->target_ns = q->begun_ns + timeout * 1000;
    if (timeout > 0 && timeout < LONGEST_US && !p->delays) q->expires_ns = q->target_ns;
    /* A client's patience is no target: it counts where it ends before the target does.  Else the client
     * cancels when it has none left. */
    if (q->patience_us && q->target_ns != MS_NEVER && q->patience_us < (q->target_ns - q->begun_ns) / 1000)
        q->expires_ns = q->target_ns = q->begun_ns + q->patience_us * 1000;
}

/* What joins and quotas count by. */
static void measure(struct ms_query *q) {
    q->rows = q->model->n_inputs && q->ordered[0].rank > 0 ? q->ordered[0].shape[0] : 1;
    for (int i = 0; i < q->model->n_inputs; i++) {
        q->held_bytes += (int64_t)q->ordered[i].bytes;
        if (q->ordered[i].rank < 1 || q->ordered[i].shape[0] != q->rows) q->rows = 1;
    }
}

/* Under the lock, as all that follows. */
static int check_quotas(struct ms_query *q) {
    const struct ms_model *m = q->model;
    const struct ms_settings *s = &m->settings;
    const int cores = ms_model_cores(m);
    const struct {
        int64_t most, has;
        const char *name;
    } bounds[] = {
        {(s->policy[q->level].most ? s->policy[q->level].most : MS_WAITING) + cores,
         m->held.level[q->level] + 1, "max_queue_size"},
        {s->quota.waiting ? s->quota.waiting + cores : 0, m->held.queries + 1, "max_queue"},
        {s->quota.in_flight, m->held.queries + 1, "max_in_flight"},
        {s->quota.bytes, m->held.bytes + q->held_bytes, "max_memory"},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].most && bounds[i].has > bounds[i].most)
            return ms_fail(&q->error, MOIRE_EBUSY, "model '%.100s' is full (%s): try later", m->found.name,
                           bounds[i].name);
    return MOIRE_OK;
}

/* Whether its answer is there in time, with those before it at one a core, and even on all cores: by what its
 * own model holds, and by how much longer than that its queries took of late.  With none before it there is
 * nothing to wait for: it is refused only if it cannot be in time, so that what was learned in bad times is
 * tried again. */
static int check_time(struct ms_query *q, int64_t one_ns, int64_t least_ns) {
    const struct ms_model *m = q->model;
    if (!m->settings.is_predicted || q->target_ns == MS_NEVER || !one_ns) return MOIRE_OK;
    const int64_t ahead = m->held.queries / ms_model_cores(m) * one_ns;
    const int64_t left = q->target_ns - q->begun_ns;
    const double factor = m->held.queries ? ms_foresight_factor(&m->held.foresight) : 1;
    q->predicted_ns = ahead + least_ns;
    const int64_t takes = (int64_t)((double)q->predicted_ns * factor);
    if (takes <= left - left / WAY_BACK) return MOIRE_OK;
    return ms_fail(&q->error, MOIRE_ESHED,
                   "model '%.100s': the answer would take %" PRId64 " ms, its deadline is in %" PRId64 " ms",
                   m->found.name, takes / 1000000, left / 1000000);
}

int ms_admission_take(struct ms_query *q) {
    struct ms_model *m = q->model;
    struct ms_repository *r = m->repository;
    int64_t one_ns = 0, least_ns = 0;
    set_level(q);
    set_deadlines(q);
    measure(q);
    if (m->settings.is_predicted) ms_batch_predict(m, q->shapes, &one_ns, &least_ns);
    pthread_mutex_lock(&r->lock);
    int rc = check_quotas(q);
    if (!rc) rc = check_time(q, one_ns, least_ns);
    if (!rc) {
        m->held.queries++;
        m->held.level[q->level]++;
        m->held.bytes += q->held_bytes;
        q->is_admitted = true;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* A query that the runtime gave up would have been late. */
static void learn(struct ms_query *q, int64_t ended_ns) {
    const int code = q->error.code;
    const int64_t took = ended_ns - q->begun_ns, left = q->target_ns - q->begun_ns;
    if (code == MOIRE_OK)
        ms_foresight_learn(&q->model->held.foresight, q->predicted_ns, took);
    else if (code == MOIRE_ESHED || code == MOIRE_EEXPIRED)
        ms_foresight_learn(&q->model->held.foresight, q->predicted_ns, took > left ? took : left);
}

void ms_admission_leave(struct ms_query *q, int64_t ended_ns) {
    struct ms_held *h = &q->model->held;
    if (!q->is_admitted) return;
    q->is_admitted = false;
    h->queries--;
    h->level[q->level]--;
    h->bytes -= q->held_bytes;
    learn(q, ended_ns);
}
