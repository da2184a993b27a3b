/* SPDX-License-Identifier: Apache-2.0
 * restless.c - decisions by lot; see restless.h. */
#include "tests/unit/resize/restless.h"

#include "runtime/base/numbers.h"

enum { SEED = 17 };

struct state {
    uint64_t rng;
};

static uint64_t draw(struct state *s, uint64_t n) {
    return mo_splitmix(&s->rng) % n;
}

static void init(void *self, const struct mo_view *view) {
    (void)view;
    ((struct state *)self)->rng = SEED;
}

/* A running block goes on with a part of its own cores and of the idle ones. */
static void resize(struct state *s, const struct mo_view *view, struct mo_cores *idle,
                   struct mo_decisions *out) {
    int lead = view->running[draw(s, (uint64_t)view->n_running)];
    const struct mo_view_run *run = &view->runs[lead];
    struct mo_cores to = {0};
    for (int c = 0; c < view->n_cores; c++) {
        bool own = mo_cores_has(&run->cores, c) && !mo_cores_has(&run->leaving, c);
        if (!(own && (c == lead || draw(s, 3))) && !(mo_cores_has(idle, c) && !draw(s, 2))) continue;
        mo_cores_add(&to, c);
        mo_cores_remove(idle, c);
    }
    mo_decide_resize(out, run->query, to, view->n_cores);
}

static void run(struct state *s, const struct mo_view *view, int tenant, struct mo_cores *idle,
                struct mo_decisions *out) {
    const struct mo_view_tenant *t = &view->tenants[tenant];
    int query = t->n_paused ? t->paused[0] : t->n_waiting && t->free_instances ? t->waiting[0] : -1;
    int most = mo_cores_count(idle);
    if (query < 0 || !most || !draw(s, 4)) return;
    int n = 1 + (int)draw(s, (uint64_t)most), next = view->queries[query].next_layer;
    int end = next + 1 + (int)draw(s, (uint64_t)(t->profile->n_layers - next));
    mo_decide_run(out, query, end, mo_cores_take(idle, n, -1));
}

static void dispatch(void *self, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct state *s = self;
    struct mo_cores idle = view->idle;
    (void)event;
    if (view->resizes && view->n_running && draw(s, 4)) resize(s, view, &idle, out);
    for (int i = 0; i < view->n_tenants; i++)
        run(s, view, i, &idle, out);
    /* soon, by the scale of its blocks */
    mo_decide_timer(out, view->now + 1 + (int64_t)draw(s, (uint64_t)view->block_ns));
}

const struct mo_policy restless = {.name = "restless",
                                   .description = "",
                                   .state_bytes = sizeof(struct state),
                                   .init = init,
                                   .dispatch = dispatch};
