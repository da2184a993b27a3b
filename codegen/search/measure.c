/* SPDX-License-Identifier: Apache-2.0
 * measure.c - interleaved timing.
 *
 * A machine has slow phases (a neighbour, a clock that steps down) that last longer than one kernel run.  So
 * every round times all contenders one after the other, the reference first and last, and a round in which
 * the reference is more than 5 % off its best is thrown away; what is left is compared by minima.  Processor
 * time is taken, not wall time: on a busy machine the time spent waiting for the core does not count. */
#include "codegen/search/measure.h"

#include <math.h>

enum {
    MIN_ROUNDS = 8,
    MAX_ROUNDS = 16,
    GOOD_ROUNDS = 4,
    FIRST_ROUNDS = 2,
    FINAL_ROUNDS = 5,
    SLICE_NS = 3000000,
    CPUS_TRIED = 64,
    PARTS_TIMED = 5,
    PIECE_NS = 100000
};
static const double FINAL = 1.05, EQUAL = 1.03; /* times the best */

struct round {
    double ns[MO_CONTENDERS];   /* INFINITY: left out */
    double reference;           /* the worse of the reference's two runs */
    double half[MO_CONTENDERS]; /* the longer half; INFINITY: not measured */
    double part[MO_CONTENDERS]; /* the longest part */
};

struct session {
    struct mo_harness *h;
    struct mo_measure *m;
    struct round round[MAX_ROUNDS];
    int rounds;
};

/* Best time of one run within a slice of time; short kernels are timed in batches. */
static double time_slice(struct mo_harness *h, const struct mo_runnable *r, int64_t slice) {
    const struct mo_sys *sys = h->env->sys;
    int64_t begin = sys->thread_time(sys->self), end = begin, batch = 1;
    double best = INFINITY;
    do {
        int64_t start = end;
        for (int64_t i = 0; i < batch; i++)
            mo_harness_run(h, r, 1);
        end = sys->thread_time(sys->self);
        double each = (double)(end - start) / (double)batch;
        if (each < best) best = each;
        if (end - start < 20000 && batch < 1 << 20) batch *= 2;
    } while (end - begin < slice);
    return best > 1 ? best : 1;
}

/* Time of the longest part when `cores` split the units, each part timed alone.  It tells what a split costs:
 * units of unequal work, or work that several parts must do.  What cores do to each other's memory it does
 * not. */
static double time_parts(struct mo_harness *h, const struct mo_runnable *r, double once_ns, int cores) {
    const struct mo_sys *sys = h->env->sys;
    int timed = cores < PARTS_TIMED ? cores : PARTS_TIMED;
    int64_t repeat = 1 + (int64_t)(SLICE_NS / once_ns * cores / timed);
    double longest = 0;
    for (int k = 0; k < timed; k++) {
        int part = k * (cores - 1) / (timed - 1);
        int64_t first = r->units * part / cores, end = r->units * (part + 1) / cores;
        int64_t begin = sys->thread_time(sys->self);
        for (int64_t i = 0; i < repeat && first < end; i++) {
            struct mo_kargs args = mo_harness_args(h, r);
            r->run(&args, first, end, h->scratch);
        }
        longest = fmax(longest, (double)(sys->thread_time(sys->self) - begin) / (double)repeat);
    }
    return longest;
}

/* Time of one run in pieces, the private cache overwritten before each. */
static double run_under_pressure(const struct session *s, const struct mo_runnable *r, int64_t pieces) {
    const struct mo_sys *sys = s->h->env->sys;
    struct mo_kargs args = mo_harness_args(s->h, r);
    int64_t spent = 0;
    for (int64_t i = 0; i < pieces; i++) {
        mo_stress_evict(s->m->stress, s->m->level);
        int64_t begin = sys->thread_time(sys->self);
        r->run(&args, r->units * i / pieces, r->units * (i + 1) / pieces, s->h->scratch);
        spent += sys->thread_time(sys->self) - begin;
    }
    return (double)spent;
}

static double time_under_pressure(const struct session *s, const struct mo_runnable *r, int64_t slice) {
    double once = run_under_pressure(s, r, 1), best = INFINITY, spent = 0;
    int64_t pieces = (int64_t)(once / PIECE_NS) + 1;
    if (pieces > r->units) pieces = r->units;
    do {
        double each = run_under_pressure(s, r, pieces);
        if (each < best) best = each;
        spent += each;
    } while (spent < (double)slice);
    return best > 1 ? best : 1;
}

static double time_one(const struct session *s, const struct mo_runnable *r, int64_t slice) {
    bool under_pressure = s->m->stress && s->m->level > 0;
    return under_pressure ? time_under_pressure(s, r, slice) : time_slice(s->h, r, slice);
}

static bool interrupted(const struct mo_measure *m) {
    return m->interrupted && atomic_load(m->interrupted);
}

static bool over(const struct session *s) {
    return interrupted(s->m) || (s->m->ends && mo_now(s->h->env) >= s->m->ends);
}

static double best_of(const struct session *s, int i) {
    double best = INFINITY;
    for (int k = 0; k < s->rounds; k++)
        best = fmin(best, s->round[k].ns[i]);
    return best;
}

static bool near_best(const struct session *s, int i, double times) {
    double best = INFINITY;
    for (int k = 0; k < s->m->n; k++)
        best = fmin(best, best_of(s, k));
    return best_of(s, i) <= times * best;
}

/* Whether contender i takes part in the next round: all in the first two, then those near the best, in the
 * final rounds those that noise might have misjudged. */
static bool still_in(const struct session *s, int i) {
    if (i == 0 || s->rounds < FIRST_ROUNDS || s->m->stress) return true;
    return near_best(s, i, s->rounds < FINAL_ROUNDS ? 1.3 : FINAL);
}

/* False: time was up before all had run, and the round does not count. */
static bool run_round(struct session *s) {
    struct round *r = &s->round[s->rounds];
    for (int i = 0; i < s->m->n; i++) {
        if (over(s)) return false;
        r->ns[i] = still_in(s, i) ? time_one(s, &s->m->contender[i], SLICE_NS) : INFINITY;
    }
    for (int i = 0; i < s->m->n; i++) {
        if (over(s)) return false;
        bool final = s->rounds >= FINAL_ROUNDS && !s->m->stress && near_best(s, i, FINAL);
        r->half[i] = final ? time_parts(s->h, &s->m->contender[i], r->ns[i], 2) : INFINITY;
        bool split = s->m->cores > 2 && s->rounds < FIRST_ROUNDS && !s->m->stress;
        r->part[i] = split ? time_parts(s->h, &s->m->contender[i], r->ns[i], s->m->cores) : INFINITY;
    }
    double again = time_one(s, &s->m->contender[0], SLICE_NS / 2);
    r->reference = fmax(r->ns[0], again);
    r->ns[0] = fmin(r->ns[0], again);
    s->rounds++;
    return true;
}

static int good_rounds(const struct session *s) {
    double best = best_of(s, 0);
    int good = 0;
    for (int k = 0; k < s->rounds; k++)
        good += s->round[k].reference <= 1.05 * best;
    return good;
}

/* Minima of the good rounds; of all when a contender ran in no good one. */
static void settle(const struct session *s) {
    double best = best_of(s, 0);
    for (int i = 0; i < s->m->n; i++) {
        double good = INFINITY, all = INFINITY;
        for (int k = 0; k < s->rounds; k++) {
            all = fmin(all, s->round[k].ns[i]);
            if (s->round[k].reference <= 1.05 * best) good = fmin(good, s->round[k].ns[i]);
        }
        s->m->min_ns[i] = isfinite(good) ? good : all;
        double half = INFINITY, part = INFINITY;
        for (int k = 0; k < s->rounds; k++) {
            half = fmin(half, s->round[k].half[i]);
            part = fmin(part, s->round[k].part[i]);
        }
        s->m->half_ns[i] = isfinite(half) ? half : 0;
        s->m->part_ns[i] = isfinite(part) ? part : 0;
    }
}

/* Pins the calling thread to the highest core it may use: interrupts and other work prefer the lowest. */
static void pin_somewhere(const struct mo_env *env) {
    for (int cpu = CPUS_TRIED; cpu-- > 0;)
        if (env->sys->pin(env->sys->self, cpu) >= 0) return;
}

static void *session_main(void *arg) {
    struct session *s = arg;
    pin_somewhere(s->h->env);
    if (s->m->stress) mo_stress_set(s->m->stress, s->m->level);
    int least = s->m->stress ? FINAL_ROUNDS : MIN_ROUNDS;
    while (s->rounds < MAX_ROUNDS && run_round(s))
        if (s->rounds >= least && good_rounds(s) >= GOOD_ROUNDS) break;
    if (s->m->stress) mo_stress_set(s->m->stress, 0);
    s->m->cut = s->rounds < FIRST_ROUNDS;
    if (s->rounds) settle(s);
    return NULL;
}

int mo_measure_run(struct mo_harness *h, struct mo_measure *m, moire_error *err) {
    struct session s = {.h = h, .m = m};
    int64_t scratch = 0;
    for (int i = 0; i < m->n; i++)
        if (m->contender[i].scratch_bytes > scratch) scratch = m->contender[i].scratch_bytes;
    int rc = mo_harness_reserve(h, (size_t)scratch, err);
    if (rc) return rc;
    struct mo_thread thread;
    if (h->env->sys->thread_start(h->env->sys->self, &thread, session_main, &s))
        return mo_fail(err, MOIRE_EIO, "cannot start a thread to measure on");
    h->env->sys->thread_join(h->env->sys->self, thread);
    return interrupted(m) ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted") : MOIRE_OK;
}

int mo_measure_pick(const struct mo_measure *m, const double *time, double byte) {
    double price[MO_CONTENDERS];
    int cheapest = -1;
    for (int i = 0; i < m->n; i++) {
        price[i] = time[i] + byte * (double)m->bytes[i];
        if (isfinite(price[i]) && (cheapest < 0 || price[i] < price[cheapest])) cheapest = i;
    }
    int pick = cheapest;
    for (int i = 0; i < m->n && cheapest >= 0 && m->half_ns[cheapest] > 0; i++) {
        if (m->half_ns[i] <= 0 || price[i] > EQUAL * price[cheapest]) continue;
        if (m->half_ns[i] * EQUAL < m->half_ns[cheapest] && m->half_ns[i] < m->half_ns[pick]) pick = i;
    }
    return pick;
}
