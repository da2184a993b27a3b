/* SPDX-License-Identifier: Apache-2.0
 * test_gpulet_cut.c - batches that are cut at layer boundaries, on random machines, tenants, plans and loads
 * in virtual time: every decision is watched, nothing is lost, and the checker accepts the history. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/policy/gpulet.h"
#include "tests/unit/lets/lets_bed.h"

static const int64_t MS = 1000000, SECOND = 1000000000;
enum { LAYERS = 24, INSTANCES = 512, CASES = 24, MOST_OVERTAKERS = 4 };

/* --- a policy around the policy: looks at its decisions ------------------------------------------------- */
struct watched {
    struct mo_gpulet_state inner; /* first: init and plan are the inner policy's own */
    int overtaken[MO_PLAN_TENANTS];
};

struct seen {
    int blocks, cuts, resumed, overtakes, most, queued, guests;
    bool good;
};
static struct seen seen;
static const struct mo_policy *inner;

static const struct mo_planned_let *let_of(const struct mo_view *view, const struct mo_cores *cores) {
    int lead = mo_cores_next(cores, -1);
    for (int i = 0; view->lets && i < view->lets->n_lets; i++) {
        const struct mo_planned_let *let = &view->lets->lets[i];
        if (view->gpus->first[let->gpu] + let->first == lead) return let;
    }
    return NULL;
}

static bool expect(bool is, const char *what) {
    if (!is) print_error("%s\n", what);
    return is;
}

/* Does a tenant of higher priority than all of the let's own have another let of its GPU? */
static bool guests_may_come(const struct mo_view *view, const struct mo_planned_let *let) {
    int own = INT_MIN, others = INT_MIN;
    for (int i = 0; i < view->lets->n_lets; i++)
        for (int e = 0; view->lets->lets[i].gpu == let->gpu && e < view->lets->lets[i].n_entries; e++) {
            int priority = view->tenants[view->lets->lets[i].entries[e].tenant].priority;
            int *most = &view->lets->lets[i] == let ? &own : &others;
            if (priority > *most) *most = priority;
        }
    return view->gpus->kinds[0].shared_weights && others > own;
}

static bool is_own(const struct mo_planned_let *let, int tenant) {
    for (int e = 0; e < let->n_entries; e++)
        if (let->entries[e].tenant == tenant) return true;
    return false;
}

/* A batch of another let's tenant goes before one that is cut only where it has the higher priority. */
static bool good_guest(const struct mo_view *view, const struct mo_planned_let *let, int tenant, int paused) {
    if (is_own(let, tenant)) return true;
    seen.guests++;
    return expect(view->tenants[tenant].priority > view->tenants[paused].priority &&
                      guests_may_come(view, let),
                  "a guest goes before its betters");
}

/* It is cut for somebody's sake, and into pieces of a millisecond or of one layer. */
static bool good_cut(const struct mo_view *view, const struct mo_decision *d, int tenant,
                     const struct mo_planned_let *let) {
    const struct mo_view_query *q = &view->queries[d->query];
    bool critical = guests_may_come(view, let);
    for (int e = 0; e < let->n_entries; e++) {
        const struct mo_view_tenant *t = &view->tenants[let->entries[e].tenant];
        critical |= let->entries[e].tenant != tenant && t->open && t->qos_ns && !t->best_effort;
    }
    int lead = mo_cores_next(&d->cores, -1);
    int64_t solo = mo_view_let_time(view, tenant, lead, let->units, q->next_layer, d->end, d->batch);
    return expect(critical, "cut, and nobody gains") &&
           expect(d->end == q->next_layer + 1 || solo <= MS, "a block of several layers is too long");
}

/* It is queued where nothing that comes meanwhile should go before it, and not long before its turn. */
static bool good_behind(const struct mo_view *view, const struct mo_decision *d, int lead,
                        const struct mo_planned_let *let) {
    const struct mo_view_tenant *t = &view->tenants[view->queries[d->query].tenant];
    bool alike = true;
    seen.queued++;
    for (int e = 0; e < let->n_entries; e++)
        alike &= view->tenants[let->entries[e].tenant].priority == t->priority;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *p = &view->tenants[i];
        alike &= !p->n_paused || p->paused_gpu != let->gpu || view->queries[p->paused[0]].last_core != lead;
    }
    return expect(alike, "queued where another may be more urgent") &&
           expect(d->end == t->profile->n_layers && !view->queries[d->query].next_layer,
                  "a part is queued") &&
           expect(view->runs[lead].predicted_end - view->now <= view->gpus->ahead_ns, "queued too soon");
}

static bool good_run(struct watched *s, const struct mo_view *view, const struct mo_decision *d) {
    const struct mo_planned_let *let = let_of(view, &d->cores);
    const struct mo_view_query *q = &view->queries[d->query];
    const int tenant = q->tenant, lead = mo_cores_next(&d->cores, -1);
    const struct mo_view_tenant *t = &view->tenants[tenant];
    seen.blocks++;
    if (!expect(let != NULL, "no let begins there")) return false;
    if (!mo_cores_subset(&d->cores, &view->idle)) return good_behind(view, d, lead, let);
    bool cut = d->end < t->profile->n_layers;
    seen.cuts += cut;
    if (cut && !good_cut(view, d, tenant, let)) return false;
    if (cut || q->next_layer) s->overtaken[tenant] = 0;
    if (q->next_layer) {
        seen.resumed++;
        return expect(d->batch == t->n_paused && d->query == t->paused[0] && let->gpu == t->paused_gpu,
                      "a cut batch goes on in part, or elsewhere");
    }
    bool good = true;
    for (int i = 0; i < view->n_tenants; i++) {
        const struct mo_view_tenant *p = &view->tenants[i];
        if (!p->n_paused || view->queries[p->paused[0]].last_core != lead) continue;
        if (view->queries[p->paused[0]].last_cores != let->units || p->paused_gpu != let->gpu) continue;
        good &= expect(i != tenant, "a tenant overtakes its own cut batch");
        good &= good_guest(view, let, tenant, i);
        seen.overtakes++;
        if (++s->overtaken[i] > seen.most) seen.most = s->overtaken[i];
    }
    return good;
}

static void dispatch(void *state, const struct mo_view *view, const struct mo_event *event,
                     struct mo_decisions *out) {
    struct watched *s = state;
    inner->dispatch(&s->inner, view, event, out);
    for (int i = 0; i < out->n; i++)
        if (out->list[i].kind == MO_RUN) seen.good &= good_run(s, view, &out->list[i]);
}

/* --- random runs ---------------------------------------------------------------------------------------- */
struct bed {
    struct lets_bed lets;
    int accepted, answered;
};

static void answer(void *ctx, int tenant, const struct mo_answer *a) {
    (void)tenant, (void)a;
    ((struct bed *)ctx)->answered++;
}

static double uniform(uint64_t *s) {
    return (double)plan_case_next(s) * 0x1p-31;
}

static struct bed *lay(const struct mo_policy *policy, uint64_t *seed) {
    struct bed *b = calloc(1, sizeof *b);
    const int n_gpus = 1 + (int)(plan_case_next(seed) % 2);
    const bool shared = plan_case_next(seed) % 2, ahead = plan_case_next(seed) % 3;
    int64_t ns[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        ns[i] = 1000 + (int64_t)(plan_case_next(seed) % 20000);
    lets_bed_lay(&b->lets, n_gpus, ns, LAYERS);
    b->lets.gpus.kinds[0].shared_weights = shared;
    b->lets.gpus.prepare_ns[0] = 10 * MS;
    b->lets.gpus.ahead_ns = ahead ? 200000 : 0;
    lets_bed_start(&b->lets,
                   (struct mo_sim_config){.policy = policy,
                                          .machine = {.noise = 0.05, .block_ns = 40000},
                                          .max_queries = 4096,
                                          .max_tenants = 8,
                                          .seed = *seed,
                                          .answer = answer,
                                          .ctx = b},
                   1 << 20);
    return b;
}

/* Targets from tight to loose, priorities, tenants without a target. */
static void open_tenants(struct bed *b, uint64_t *seed, double *rate) {
    for (int i = 0; i < b->lets.c.view.n_tenants; i++) {
        bool background = plan_case_next(seed) % 4 == 0;
        double target = (double)b->lets.c.tenants[i].target_ns * (1 + 3 * uniform(seed));
        rate[i] = 20 + 130 * uniform(seed);
        struct mo_sched_tenant_config t = {.qos_ns = background && i % 2 ? 0 : (int64_t)target,
                                           .best_effort = background,
                                           .shed_late = plan_case_next(seed) % 2,
                                           .priority = (int)(plan_case_next(seed) % 2),
                                           .queue = INSTANCES,
                                           .instances = INSTANCES,
                                           .profile = b->lets.profile,
                                           .share = b->lets.c.tenants[i].profile,
                                           .declared = rate[i]};
        int index;
        assert_int_equal(mo_sim_open(b->lets.sim, &t, &index, NULL), MOIRE_OK);
    }
}

/* Poisson arrivals, one in fifty cancelled at some moment. */
static void load(struct bed *b, const double *rate, double factor, int64_t until, uint64_t *seed) {
    uint64_t handle[64] = {0};
    double all = 0, at = (double)mo_sim_now(b->lets.sim);
    for (int i = 0; i < b->lets.c.view.n_tenants; i++)
        all += rate[i] * factor;
    while ((at -= log(1 - uniform(seed)) / all * 1e9) < (double)until) {
        mo_sim_advance(b->lets.sim, (int64_t)at);
        double pick = uniform(seed) * all;
        int tenant = 0;
        while (tenant < b->lets.c.view.n_tenants - 1 && (pick -= rate[tenant] * factor) > 0)
            tenant++;
        b->accepted +=
            mo_sim_submit(b->lets.sim, tenant, b, &handle[plan_case_next(seed) % 64], NULL) == MOIRE_OK;
        if (plan_case_next(seed) % 50 == 0) mo_sim_cancel(b->lets.sim, handle[plan_case_next(seed) % 64]);
    }
    mo_sim_advance(b->lets.sim, until);
}

/* Whoever has no let may wait for ever, but what has begun must have ended. */
static void finish(struct bed *b) {
    mo_sim_drain(b->lets.sim);
    const struct mo_view *view = mo_sched_view(mo_sim_sched(b->lets.sim));
    for (int i = 0; i < view->n_tenants; i++)
        assert_true(!view->tenants[i].n_paused && view->tenants[i].paused_gpu < 0);
    mo_sched_abort(mo_sim_sched(b->lets.sim), MOIRE_ESHUTDOWN, mo_sim_now(b->lets.sim));
    mo_sim_cancel(b->lets.sim, 0); /* delivers what the abort decided */
    assert_int_equal(b->answered, b->accepted);
    assert_int_equal(mo_sim_broken(b->lets.sim), 0);
    assert_int_equal(mo_sched_stats(mo_sim_sched(b->lets.sim))->refused, 0);
    lets_bed_strike(&b->lets, b->accepted);
    free(b);
}

static void run_case(const char *name, uint64_t seed) {
    inner = mo_policy_find(name);
    struct mo_policy policy = *inner;
    policy.dispatch = dispatch;
    policy.state_bytes = sizeof(struct watched);
    policy.plan_period_ns = SECOND / 2;
    double rate[MO_PLAN_TENANTS] = {0};
    uint64_t s = seed * 7919 + 13;
    struct bed *b = lay(&policy, &s);
    open_tenants(b, &s, rate);
    for (int i = 1; i <= 4; i++) /* rates change, and plans with them */
        load(b, rate, 0.3 + uniform(&s), i * SECOND, &s);
    finish(b);
    if (!seen.good) fail_msg("%s, seed %d", name, (int)seed);
}

static void cuts_keep_their_promises(void **state) {
    (void)state;
    static const char *const names[] = {"moire-gpu-cut", "sbp-cut"};
    seen = (struct seen){.good = true};
    for (int i = 0; i < CASES; i++)
        run_case(names[i % 2], (uint64_t)i);
    print_message("%d blocks, %d cut, %d went on, %d overtaken, %d at most, %d queued, %d guests\n",
                  seen.blocks, seen.cuts, seen.resumed, seen.overtakes, seen.most, seen.queued, seen.guests);
    assert_true(seen.cuts > 1000 && seen.resumed > seen.cuts - seen.cuts / 10 && seen.overtakes > 100);
    assert_true(seen.guests > 20);
    assert_true(seen.most <= MOST_OVERTAKERS);
}

/* The same server without the knob never does. */
static void the_others_cut_nothing(void **state) {
    (void)state;
    seen = (struct seen){.good = true};
    run_case("moire-gpu", 1);
    run_case("sbp", 2);
    print_message("%d blocks, %d queued\n", seen.blocks, seen.queued);
    assert_true(seen.blocks > 100 && seen.queued > 20);
    assert_int_equal(seen.cuts, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_keep_their_promises),
        cmocka_unit_test(the_others_cut_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
