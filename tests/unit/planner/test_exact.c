/* SPDX-License-Identifier: Apache-2.0
 * test_exact.c - mo_exact_search() against brute force: on machines and for tenants few enough that every
 * plan of its space can be tried, both find a plan or neither does.
 *
 * The brute force shares no arithmetic with the search.  It cuts every GPU in every way, gives every let to
 * every set of tenants, lets nobody take turns twice, and where some do, tries every choice of their batches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "runtime/planner/check.h"
#include "runtime/planner/exact.h"
#include "tests/unit/planner/plan_case.h"

enum { CASES = 1500, TENANTS = 3, BATCH = 6, LETS = 3, TYPES = 4096, SETS = 1 << TENANTS };

/* A way to cut one GPU: who has which let. */
struct cut {
    int n, size[LETS], set[LETS];
    double own[TENANTS];        /* queries/s of the lets that a tenant has to itself */
    double slow[LETS][TENANTS]; /* of each tenant of a let */
    int turns;                  /* set of those that take turns */
};

static struct mo_lets_plan plan; /* too large for a stack */
static struct cut cuts[TYPES];
static int n_cuts;

static double draw(uint64_t *seed, double from, double to) {
    return from + (to - from) * (double)(plan_case_next(seed) % 100000) / 1e5;
}

/* --- a case ------------------------------------------------------------------------------------------- */
static void make_case(struct plan_case *c, uint64_t seed) {
    static const char *const names[TENANTS] = {"a", "b", "c"};
    uint64_t s = seed * 2654435761u + 7;
    *c = (struct plan_case){.env = mo_env_default()};
    struct mo_plan_kind *k = &c->kinds[0];
    *k = (struct mo_plan_kind){
        .name = "gpu",
        .units = 4,
        .max_lets = 1 + (int)(plan_case_next(&s) % LETS),
        .memory_bytes = plan_case_next(&s) % 3 ? INT64_C(1) << 40 : INT64_C(1200) << 20,
        .shared_weights = plan_case_next(&s) % 2,
        .interference = {draw(&s, 0, 0.3), draw(&s, 0, 0.7), draw(&s, 0, 0.3), draw(&s, 0, 0.5), 0.9}};
    mo_plan_sizes(k, 1, 1 + (int)(plan_case_next(&s) % 2));
    c->view = (struct mo_plan_view){.n_tenants = TENANTS - (int)(plan_case_next(&s) % 4 == 0),
                                    .n_kinds = 1,
                                    .n_gpus = 1 + (int)(plan_case_next(&s) % 2),
                                    .max_share = TENANTS - (int)(plan_case_next(&s) % 3),
                                    .burst = plan_case_next(&s) % 2 ? draw(&s, 0, 2) : 0,
                                    .tenants = c->tenants,
                                    .kinds = c->kinds,
                                    .gpu_kind = c->gpu_kind};
    for (int i = 0; i < c->view.n_tenants; i++) {
        double each = draw(&s, 0.2e6, 3e6), fixed = each * draw(&s, 0.5, 4);
        struct mo_share_profile *p =
            plan_case_profile(c, fixed, each, draw(&s, 0.2, 1), draw(&s, 0, 0.6), draw(&s, 0, 0.8));
        mo_share_limit(p, BATCH);
        c->tenants[i] = (struct mo_plan_tenant){
            .name = names[i],
            .target_ns = (int64_t)((double)mo_share_latency(p, 1, MO_SHARE_WHOLE) * draw(&s, 2, 14)),
            .profile = {p}};
        double most = mo_share_rate(p, MO_SHARE_WHOLE, 1, c->tenants[i].target_ns / 2);
        if (!(most > 0)) most = 10; /* its target is out of reach */
        c->tenants[i].rate = most * draw(&s, 0.05, 1.1) * c->view.n_gpus / c->view.n_tenants;
    }
    c->scratch_bytes = mo_plan_scratch_bytes(c->view.n_tenants, 1, c->view.n_gpus);
    c->scratch = mo_alloc(&c->env, c->scratch_bytes);
    assert_non_null(c->scratch);
}

/* --- brute force -------------------------------------------------------------------------------------- */
static double alone_ns(const struct plan_case *c, int tenant, int batch, int size) {
    const struct mo_plan_kind *k = &c->kinds[0];
    return (double)mo_share_latency(c->tenants[tenant].profile[0], batch,
                                    k->sizes[size] * MO_SHARE_WHOLE / k->units);
}

/* Mean of the arrivals of which a batch holds the mean and `burst` standard deviations. */
static bool holds(const struct plan_case *c, int batch, double mean) {
    return mean + c->view.burst * sqrt(mean) <= batch + 1e-6;
}

/* Most use of a tenant on a size of let over the batches that its target allows; self: that which suffers
 * most. */
static struct mo_share_use use_on(const struct plan_case *c, int tenant, int size, bool self) {
    const struct mo_plan_kind *k = &c->kinds[0];
    struct mo_share_use most = {0};
    double worst = -1;
    for (int b = 1; b <= BATCH && 2 * alone_ns(c, tenant, b, size) <= (double)c->tenants[tenant].target_ns;
         b++) {
        struct mo_share_use use =
            mo_share_use_at(c->tenants[tenant].profile[0], b, k->sizes[size] * MO_SHARE_WHOLE / k->units);
        double suffers = k->interference.l2_self * use.l2 + k->interference.dram_self * use.dram;
        if (self && suffers <= worst) continue;
        worst = suffers;
        most = self ? use : (struct mo_share_use){0, fmax(most.l2, use.l2), fmax(most.dram, use.dram)};
    }
    return most;
}

static double slow_on(const struct plan_case *c, const struct cut *cut, int let, int tenant) {
    const struct mo_interference *m = &c->kinds[0].interference;
    struct mo_share_use self = use_on(c, tenant, cut->size[let], true);
    double l2 = 0, dram = 0;
    for (int l = 0; l < cut->n; l++) {
        struct mo_share_use most = {0};
        for (int t = 0; t < c->view.n_tenants && l != let; t++) {
            if (!(cut->set[l] & 1 << t)) continue;
            struct mo_share_use use = use_on(c, t, cut->size[l], false);
            most.l2 = fmax(most.l2, use.l2);
            most.dram = fmax(most.dram, use.dram);
        }
        l2 += most.l2;
        dram += most.dram;
    }
    if (cut->n == 1) return 1;
    return fmax(1, m->l2_self * self.l2 + m->l2_other * fmin(l2, 1) + m->dram_self * self.dram +
                       m->dram_other * fmin(dram, 1) + m->constant);
}

/* Queries/s of a tenant that has a let to itself. */
static double most_of(const struct plan_case *c, int tenant, int size, double slow) {
    double most = 0;
    for (int b = 1; b <= BATCH; b++) {
        double ns = floor(alone_ns(c, tenant, b, size) * slow), root = c->view.burst;
        double mean = pow((sqrt(root * root + 4.0 * b) - root) / 2, 2);
        if (2 * ns <= (double)c->tenants[tenant].target_ns) most = fmax(most, mean * 1e9 / ns);
    }
    return most;
}

static bool memory_fits(const struct plan_case *c, const struct cut *cut) {
    int64_t sum = 0;
    for (int t = 0; t < c->view.n_tenants; t++) {
        int copies = 0;
        for (int l = 0; l < cut->n; l++)
            copies += cut->set[l] >> t & 1;
        if (c->kinds[0].shared_weights && copies > 1) copies = 1;
        sum += copies * c->tenants[t].profile[0]->memory_bytes;
    }
    return sum <= c->kinds[0].memory_bytes;
}

static int members(int set) {
    return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1);
}

/* The cut is whole: what it gives to whom. */
static void keep(const struct plan_case *c, struct cut cut) {
    if (!memory_fits(c, &cut)) return;
    for (int l = 0; l < cut.n; l++) {
        bool shared = members(cut.set[l]) > 1;
        if (shared && (cut.turns & cut.set[l])) return;
        if (shared) cut.turns |= cut.set[l];
        for (int t = 0; t < c->view.n_tenants; t++) {
            cut.slow[l][t] = slow_on(c, &cut, l, t);
            if (!shared && cut.set[l] == 1 << t) cut.own[t] += most_of(c, t, cut.size[l], cut.slow[l][t]);
        }
    }
    assert_true(n_cuts < TYPES);
    cuts[n_cuts++] = cut;
}

/* Every way to cut a GPU, from the uncut one on by one more let, in every size and for every set. */
static void make_cuts(const struct plan_case *c) {
    static struct cut made[TYPES];
    const struct mo_plan_kind *k = &c->kinds[0];
    int n = 1;
    n_cuts = 0;
    made[0] = (struct cut){.n = 0};
    for (int i = 0; i < n; i++) {
        const struct cut *from = &made[i];
        int units = k->units, last = from->n ? from->size[from->n - 1] * SETS + from->set[from->n - 1] : 0;
        keep(c, *from);
        for (int l = 0; l < from->n; l++)
            units -= k->sizes[from->size[l]];
        for (int at = last; from->n < k->max_lets && at < k->n_sizes * SETS;
             at++) { /* lets in rising order */
            int size = at / SETS, set = at % SETS;
            if (k->sizes[size] > units || set == 0 || set >= 1 << c->view.n_tenants) continue;
            if (members(set) > c->view.max_share) continue;
            assert_true(n < TYPES);
            made[n] = *from;
            made[n].size[from->n] = size;
            made[n].set[from->n] = set;
            made[n++].n = from->n + 1;
        }
    }
}

/* Do these batches serve the rates in turns? */
static bool batches_serve(const struct plan_case *c, const struct cut *cut, int let, const int *batch,
                          const double *rate) {
    double time[TENANTS] = {0}, cycle = 0;
    for (int t = 0; t < TENANTS; t++) {
        if (batch[t]) time[t] = floor(alone_ns(c, t, batch[t], cut->size[let]) * cut->slow[let][t]);
        cycle += time[t];
    }
    for (int t = 0; t < TENANTS; t++)
        if (batch[t] && (cycle + time[t] > (double)c->tenants[t].target_ns ||
                         !holds(c, batch[t], rate[t] * cycle * 1e-9)))
            return false;
    return true;
}

/* Is there any choice of batches on that let?  A rate of 0 takes no turn. */
static bool let_serves(const struct plan_case *c, const struct cut *cut, int let, const double *rest) {
    double rate[TENANTS] = {0};
    int most[TENANTS] = {0}, least[TENANTS] = {0}, b[TENANTS];
    for (int t = 0; t < c->view.n_tenants; t++) {
        if (!(cut->set[let] & 1 << t) || !(rest[t] > 0)) continue;
        rate[t] = rest[t];
        least[t] = 1;
        most[t] = BATCH;
    }
    for (b[0] = least[0]; b[0] <= most[0]; b[0]++)
        for (b[1] = least[1]; b[1] <= most[1]; b[1]++)
            for (b[2] = least[2]; b[2] <= most[2]; b[2]++)
                if (batches_serve(c, cut, let, b, rate)) return true;
    return false;
}

/* Do GPUs cut like these serve everybody? */
static bool cuts_serve(const struct plan_case *c, const struct cut *const *cut) {
    const int n_gpus = c->view.n_gpus == 1 ? 1 : 2;
    double rest[TENANTS];
    int turns = 0;
    for (int g = 0; g < n_gpus; g++) {
        if (turns & cut[g]->turns) return false;
        turns |= cut[g]->turns;
    }
    for (int t = 0; t < c->view.n_tenants; t++) {
        rest[t] = c->tenants[t].rate;
        for (int g = 0; g < n_gpus; g++)
            rest[t] -= cut[g]->own[t];
        if (rest[t] > 0 && !(turns & 1 << t)) return false;
    }
    for (int g = 0; g < n_gpus; g++)
        for (int l = 0; l < cut[g]->n; l++)
            if (members(cut[g]->set[l]) > 1 && !let_serves(c, cut[g], l, rest)) return false;
    return true;
}

static bool brute_force(const struct plan_case *c) {
    const struct cut *cut[2] = {&cuts[0], &cuts[0]};
    make_cuts(c);
    for (int i = 0; i < n_cuts; i++)
        for (int j = i; j < (c->view.n_gpus == 2 ? n_cuts : i + 1); j++) {
            cut[0] = &cuts[i];
            cut[1] = &cuts[j];
            if (cuts_serve(c, cut)) return true;
        }
    return false;
}

/* --- the search --------------------------------------------------------------------------------------- */
static bool search(struct plan_case *c, bool *holds_too, moire_error *err) {
    static struct mo_space space;
    static struct mo_exact exact;
    struct mo_placement placement;
    struct mo_plan_scratch scratch = {.base = c->scratch, .bytes = c->scratch_bytes};
    assert_int_equal(mo_space_open(&space, &c->view, &scratch, true, NULL), MOIRE_OK);
    assert_int_equal(mo_placement_open(&placement, &space, &scratch, NULL), MOIRE_OK);
    assert_int_equal(mo_exact_open(&exact, &space, &scratch, NULL), MOIRE_OK);
    bool found = mo_exact_search(&exact, &placement);
    assert_false(exact.cut_short);
    *holds_too = true;
    if (!found) return false;
    plan = (struct mo_lets_plan){.n_tenants = c->view.n_tenants};
    mo_placement_write(&placement, &plan);
    for (int t = 0; t < c->view.n_tenants; t++) {
        plan.tenants[t].rate = c->tenants[t].rate;
        for (int l = 0; l < plan.n_lets; l++)
            for (int e = 0; e < plan.lets[l].n_entries; e++)
                plan.tenants[t].placed +=
                    plan.lets[l].entries[e].tenant == t ? plan.lets[l].entries[e].rate : 0;
        *holds_too = *holds_too && plan.tenants[t].placed > c->tenants[t].rate * (1 - 1e-6);
    }
    *holds_too = *holds_too && mo_plan_check(&c->view, &plan, err) == MOIRE_OK;
    return true;
}

static void the_search_finds_what_brute_force_finds(void **state) {
    (void)state;
    int found = 0, in_turns = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct plan_case c;
        bool holds_too, turns = false;
        moire_error err = {.message = "not all is placed"};
        make_case(&c, seed);
        bool ours = search(&c, &holds_too, &err), theirs = brute_force(&c);
        if (ours != theirs)
            fail_msg("seed %d: the search finds %s plan, brute force %s", (int)seed, ours ? "a" : "no",
                     theirs ? "one" : "none");
        if (!holds_too) fail_msg("seed %d: the plan does not hold: %s", (int)seed, err.message);
        for (int l = 0; ours && l < plan.n_lets; l++)
            turns = turns || plan.lets[l].n_entries > 1;
        found += ours;
        in_turns += turns;
        plan_case_close(&c);
    }
    print_message("seeds 1 to %d: %d have a plan, %d of these take turns\n", CASES, found, in_turns);
    assert_true(found > CASES / 5 && found < CASES * 4 / 5 && in_turns > CASES / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_search_finds_what_brute_force_finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
