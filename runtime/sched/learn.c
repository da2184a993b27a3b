/* SPDX-License-Identifier: Apache-2.0
 * learn.c - what blocks that ended say about the time of those to come.
 *
 * A tenant's residual is the product of two: its own, which says how its layers differ from their profile
 * and moves slowly, and the machine's pace (machine_pace.h), which is everybody's and moves fast.  Its own is
 * learned beside the pace, so that a slow second of the machine does not count against whoever ran in it.
 *
 * Only the product is observed: with every own four times as large and the pace a quarter it is the same, and
 * as one is a mean and the other leaves outliers out, they would part for ever.  So beside another pace than
 * 1 tenants learn how they differ from each other (a slow machine does not slow all alike), while what all
 * their own values have moved by since the pace was 1, `common`, is drawn back to nothing: that is the
 * pace's. */
#include "runtime/sched/core_impl.h"

static const double GAIN = 0.05, LEAST = 0.5, MOST = 4;
/* Beside another pace than 1 all own values together go one part in 1 + HOLD of the way they would go. */
static const double HOLD = 4;

static bool follows_pace(const struct mo_sched *s) {
    return !s->view.gpus && !s->policy->no_pace;
}

/* All predictions from here on are at the machine's present pace. */
static void apply_pace(struct mo_sched *s) {
    s->view.pace = s->pace.value;
    for (int i = 0; i < s->view.n_tenants; i++)
        s->tenant_views[i].residual = s->tenants[i].own * s->pace.value;
    if (s->pace.value > s->stats.pace_max) s->stats.pace_max = s->pace.value;
}

void mo_sched_forget_pace(struct mo_sched *s, int64_t now) {
    if (s->pace.value != 1 && mo_pace_forget(&s->pace, now)) apply_pace(s);
}

/* Of a block as it was begun: its layers at the pace that is noted here. */
static void learn_own(struct mo_sched *s, int tenant, bool alone, int64_t base, int64_t took) {
    struct mo_sched_tenant *t = &s->tenants[tenant];
    double ratio = (double)took / (double)base;
    mo_sched_note_slowdown(s, tenant, alone, ratio < MOST ? ratio : MOST, base);
    ratio /= s->pace.value;
    if (ratio > 2 * t->own) ratio = 2 * t->own; /* one stall does not poison the estimate */
    /* long blocks tell more */
    double gain = GAIN * (base < 1000000 ? (double)base / 1e6 : 1);
    t->own += gain * (ratio - t->own);
    if (s->pace.value == 1) t->usual = t->own;
    s->common += gain * (t->own - t->usual - s->common);
    if (s->pace.value != 1) t->own -= HOLD * gain * s->common;
    t->own = t->own < LEAST ? LEAST : t->own < MOST ? t->own : MOST;
    s->tenant_views[tenant].residual = t->own * s->pace.value;
}

void mo_sched_learn(struct mo_sched *s, const struct mo_view_run *run, int lead, int tenant, int64_t took,
                    int64_t now) {
    int64_t base = s->units->solo(s, tenant, lead, run->n_cores, run->begin, run->end, run->batch);
    int64_t due = run->late_since ? run->late_since : run->predicted_end;
    /* what was resized was no profile's: its prediction says what the machine should have done */
    double expected =
        run->resized ? (double)(due - run->start) / run->pace : (double)base * s->tenants[tenant].own;
    if (follows_pace(s) && expected > 0 && mo_pace_note(&s->pace, run->n_cores, (double)took, expected, now))
        apply_pace(s);
    if (!run->resized && base > 0) learn_own(s, tenant, run->alone, base, took);
}
