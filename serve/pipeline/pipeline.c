/* SPDX-License-Identifier: Apache-2.0
 * pipeline.c - queries of ensembles; see pipeline.h. */
#include "serve/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/list_step.h"
#include "serve/protocol/fault.h"

static int64_t now(const struct ms_pipeline *p) {
    return moire_now(p->whole->runtime);
}

/* --- tensors; all under the pipeline's lock --- */
/* One use less of what the step has answered.  In a pipeline that has failed all stay to its end: somebody
 * may be about to cancel them. */
static void use(struct ms_part *part) {
    if (--part->needed || !part->ended || part->pipeline->error.code) return;
    ms_query_close(part->query);
    free(part->query);
    part->query = NULL;
}

static void set_value(struct ms_pipeline *p, int tensor, const moire_tensor *t) {
    p->value[tensor].tensor = *t;
    for (int i = 0; i < p->ensemble->n_steps; i++)
        for (int k = 0; k < p->ensemble->step[i].n_in; k++)
            p->part[i].missing -= p->ensemble->step[i].in[k].tensor == tensor;
}

/* A step is done with its inputs. */
static void drop_inputs(struct ms_pipeline *p, const struct ms_step *s) {
    for (int k = 0; k < s->n_in; k++) {
        const int from = p->ensemble->tensor[s->in[k].tensor].producer;
        if (from >= 0) use(&p->part[from]);
    }
}

static void take_outputs(struct ms_pipeline *p, struct ms_part *part, const struct ms_step *s) {
    for (int k = 0; k < s->n_out; k++)
        set_value(p, s->out[k].tensor, &part->query->output[k].tensor);
    part->needed++; /* so that a step whose answer nobody needs is freed here */
    part->ended = true;
    use(part);
}

/* --- ends before the end --- */
void ms_pipeline_fail(struct ms_pipeline *p, int code, const char *message) {
    struct ms_query *running[MS_STEPS];
    int n = 0;
    pthread_mutex_lock(&p->lock);
    if (!p->error.code) {
        ms_fail(&p->error, code, "%s", message);
        for (int i = 0; i < p->ensemble->n_steps; i++)
            if (p->part[i].begun && !p->part[i].ended) running[n++] = p->part[i].query;
    }
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < n; i++)
        ms_query_cancel(running[i]);
}

bool ms_pipeline_has_failed(struct ms_pipeline *p) {
    pthread_mutex_lock(&p->lock);
    const bool failed = p->error.code != MOIRE_OK;
    pthread_mutex_unlock(&p->lock);
    return failed;
}

bool ms_pipeline_hold(struct ms_pipeline *p) {
    pthread_mutex_lock(&p->lock);
    const bool lives = p->active > 0;
    p->active += lives;
    pthread_mutex_unlock(&p->lock);
    return lives;
}

void ms_pipeline_cancel(struct ms_pipeline *p) {
    ms_gate_doom(p, MOIRE_ECANCELLED);
}

/* --- steps --- */
/* What follows a step is expected to take so long, at the least. */
static int64_t rest_after(const struct ms_ensemble *e, int step) {
    int64_t rest[MS_STEPS] = {0};
    for (int i = e->n_steps - 1; i >= 0; i--) {
        const int at = e->order[i];
        const int64_t whole = rest[at] + atomic_load(&e->step[at].expected_ns);
        if (at == step) return rest[at];
        for (int k = 0; k < e->step[at].n_in; k++) {
            const int from = e->tensor[e->step[at].in[k].tensor].producer;
            if (from >= 0 && rest[from] < whole) rest[from] = whole;
        }
    }
    return 0;
}

static void step_ended(void *user);

static struct ms_query *make_query(struct ms_pipeline *p, int at) {
    const struct ms_step *s = &p->ensemble->step[at];
    struct ms_query *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    q->model = p->member[at];
    q->done = step_ended;
    q->user = &p->part[at];
    q->is_step = true;
    q->is_list = s->is_list;
    q->own_priority = p->own_priority;
    q->priority = p->priority;
    if (p->deadline_ns) {
        const int64_t due = p->deadline_ns - rest_after(p->ensemble, at);
        q->due_ns = due > 0 ? due : 1;
    }
    for (int k = 0; k < s->n_in; k++)
        q->request.input[q->request.n_inputs++] =
            (struct ms_input){.name = s->in[k].port, .tensor = p->value[s->in[k].tensor].tensor};
    for (int k = 0; k < s->n_out; k++)
        q->request.output[q->request.n_outputs++] =
            (struct ms_wanted){.name = s->out[k].port, .binary = true};
    return q;
}

/* A step that can begin and has not, made ready for that; NULL: none.  Under the lock. */
static struct ms_query *next_step(struct ms_pipeline *p) {
    for (int i = 0; i < p->ensemble->n_steps && !p->error.code; i++) {
        const int at = p->ensemble->order[i];
        struct ms_part *part = &p->part[at];
        if (part->begun || part->missing) continue;
        part->query = make_query(p, at);
        if (!part->query) {
            ms_fail(&p->error, MOIRE_ENOMEM,
                    "no memory for a step of the ensemble"); /* others end by themselves */
            return NULL;
        }
        p->member[at] = NULL;
        part->begun = true;
        p->active++;
        return part->query;
    }
    return NULL;
}

static void begin_steps(struct ms_pipeline *p) {
    for (;;) {
        pthread_mutex_lock(&p->lock);
        struct ms_query *q = next_step(p);
        pthread_mutex_unlock(&p->lock);
        if (!q) return;
        if (q->is_list)
            ms_items_start(q);
        else
            ms_query_start(q);
    }
}

/* The time that a step takes is the mean of its last ones, each new one an eighth. */
static void learn(struct ms_step *s, int64_t ns) {
    const int64_t before = atomic_load(&s->expected_ns);
    atomic_store(&s->expected_ns, before ? before + (ns - before) / 8 : ns);
}

static void note_times(struct ms_pipeline *p, const struct ms_query *q) {
    const int64_t started = q->begun_ns + q->queue_ns;
    if (!p->started_ns || started < p->started_ns) p->started_ns = started;
    p->compute_ns += q->compute_ns;
}

static void step_ended(void *user) {
    struct ms_part *part = user;
    struct ms_pipeline *p = part->pipeline;
    const int at = (int)(part - p->part);
    struct ms_step *s = &p->ensemble->step[at];
    const struct ms_query *q = part->query;
    moire_error why = {0};
    if (q->error.code)
        ms_fail(&why, q->error.code, "ensemble '%.100s', step %d: %.300s", p->whole->model->found.name, at,
                q->error.message);
    pthread_mutex_lock(&p->lock);
    if (why.code) {
        part->ended = true;
    } else {
        learn(s, q->compute_ns);
        note_times(p, q);
        take_outputs(p, part, s);
    }
    drop_inputs(p, s);
    pthread_mutex_unlock(&p->lock);
    if (why.code) ms_pipeline_fail(p, why.code, why.message);
    ms_pipeline_advance(p);
}

/* --- the whole --- */
static void answer(struct ms_pipeline *p) {
    const struct ms_ensemble *e = p->ensemble;
    struct ms_query *q = p->whole;
    moire_tensor output[MS_PORTS];
    if (!p->error.code && p->expires && now(p) > p->deadline_ns)
        ms_fail(&p->error, MOIRE_EEXPIRED, "the deadline of the ensemble has passed");
    for (int i = 0; i < e->n_outputs && !p->error.code; i++)
        output[i] = p->value[e->of_output[i]].tensor;
    q->queue_ns = p->started_ns ? p->started_ns - q->begun_ns : 0;
    q->compute_ns = p->compute_ns;
    q->in_time = !p->deadline_ns || now(p) <= p->deadline_ns;
    for (int i = 0; i < e->n_steps; i++)
        if (p->member[i]) ms_repository_give(p->member[i]);
    memset(p->member, 0, sizeof p->member);
    if (p->error.code) q->error = p->error;
    ms_query_settle(q, p->error.code ? NULL : output); /* the whole, and p with it, may be gone now */
}

/* Returns: the pipeline that may begin now because this one has ended; NULL: none. */
static struct ms_pipeline *leave(struct ms_pipeline *p) {
    pthread_mutex_lock(&p->lock);
    const bool last = !--p->active;
    pthread_mutex_unlock(&p->lock);
    if (!last) return NULL;
    struct ms_pipeline *next = ms_gate_leave(p);
    answer(p);
    return next;
}

void ms_pipeline_advance(struct ms_pipeline *p) {
    while (p) {
        begin_steps(p);
        p = leave(p);
    }
}

static int take_members(struct ms_pipeline *p, struct ms_model *m, moire_error *err) {
    int rc = MOIRE_OK;
    pthread_mutex_lock(&m->repository->lock);
    if (!p->ensemble->step[0].member) {
        rc = ms_fail(err, MOIRE_EUNLOADED, "ensemble '%.100s' does not serve: %.300s", m->found.name,
                     m->reason);
    } else {
        for (int i = 0; i < p->ensemble->n_steps; i++) {
            p->member[i] = p->ensemble->step[i].member;
            p->member[i]->users++;
        }
    }
    pthread_mutex_unlock(&m->repository->lock);
    return rc;
}

/* What admission has made of the whole's request and configuration. */
static void read_wishes(struct ms_pipeline *p) {
    const struct ms_query *q = p->whole;
    const struct ms_settings *s = &q->model->settings;
    p->deadline_ns = q->target_ns == MS_NEVER ? 0 : q->target_ns;
    p->expires = q->expires_ns != MS_NEVER;
    p->own_priority = q->is_step ? q->own_priority : s->levels || s->priority;
    p->priority = q->is_step ? q->priority : s->priority + (int)(s->level - q->level);
}

static void fill(struct ms_pipeline *p) {
    const struct ms_ensemble *e = p->ensemble;
    for (int i = 0; i < e->n_steps; i++) {
        p->part[i].pipeline = p;
        p->part[i].missing = e->step[i].n_in;
        for (int k = 0; k < e->step[i].n_out; k++)
            p->part[i].needed += e->tensor[e->step[i].out[k].tensor].consumers;
    }
    for (int i = 0; i < e->n_outputs; i++)
        p->part[e->tensor[e->of_output[i]].producer].needed++;
    for (int i = 0; i < e->n_tensors; i++)
        if (e->tensor[i].producer == -1) set_value(p, i, &p->whole->ordered[e->tensor[i].input]);
}

int ms_pipeline_start(struct ms_query *q, moire_error *err) {
    struct ms_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return ms_fail(err, MOIRE_ENOMEM, "no memory for a query of ensemble '%.100s'", q->model->found.name);
    *p = (struct ms_pipeline){
        .whole = q, .ensemble = q->model->ensemble, .gate = q->model->repository->gate, .active = 1};
    pthread_mutex_init(&p->lock, NULL);
    read_wishes(p);
    fill(p);
    atomic_store(&q->pipeline, p);
    if (atomic_load(&q->cancelled)) ms_pipeline_fail(p, MOIRE_ECANCELLED, "cancelled by the client");
    moire_error why = {0};
    const int rc = take_members(p, q->model, &why);
    if (rc) ms_pipeline_fail(p, rc, why.message);
    /* One that has failed enters to end: somebody may hold it to cancel it.  One that waits may have ended
     * already. */
    if (ms_gate_enter(p)) ms_pipeline_advance(p);
    return MOIRE_OK;
}

void ms_pipeline_free(struct ms_pipeline *p) {
    if (!p) return;
    for (int i = 0; i < MS_STEPS; i++)
        if (p->part[i].query) {
            ms_query_close(p->part[i].query);
            free(p->part[i].query);
        }
    pthread_mutex_destroy(&p->lock);
    free(p);
}
