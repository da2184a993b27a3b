/* SPDX-License-Identifier: Apache-2.0
 * candidates.c - from a layer to candidate objects: points of the families, emitted C, compilers in parallel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/family/wide.h"
#include "codegen/search/search_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

enum {
    DEFAULT_POINTS = 12,
    OTHER_POINTS = 6,
    WIDE_POINTS = 4,
    BEFORE_WIDE = 2,
    FAMILY_SHARE = 3,
    MAX_JOBS = 64,
    STEM_CAP = 4300
};
static const double OTHER_COST = 3;                     /* most, over the best: slower ones are no version */
static const int64_t COMPILE_NS = INT64_C(60000000000); /* one candidate, on a busy machine */

/* Points that are listed for many cores only come last. */
static int by_cost(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->point.wide != y->point.wide) return x->point.wide ? 1 : -1;
    if (x->point.cost_ns != y->point.cost_ns) return x->point.cost_ns < y->point.cost_ns ? -1 : 1;
    return 0;
}

/* The best of a list sorted by cost, at most cap, moved to its front in their order.  Costs of different
 * algorithms compare badly: every family keeps at least cap / FAMILY_SHARE of its best. */
static int choose(struct candidate *list, int n, int cap) {
    int share = cap / FAMILY_SHARE + 1, over = n - cap, kept = n;
    for (int i = n; i-- > 0 && over > 0;) {
        int better = 0;
        for (int k = 0; k < i; k++)
            better += list[k].family == list[i].family;
        if (better < share) continue;
        struct candidate out = list[i];
        memmove(list + i, list + i + 1, (size_t)(n - 1 - i) * sizeof *list);
        list[n - 1] = out; /* behind the others, for widen() */
        kept--;
        over--;
    }
    return kept < cap ? kept : cap;
}

static void move_to(struct candidate *list, int to, int from) {
    struct candidate taken = list[from];
    memmove(list + to + 1, list + to, (size_t)(from - to) * sizeof *list);
    list[to] = taken;
}

static double price(const struct mo_point *point, int cores) {
    return mo_wide_price(point->part_ns, point->units, cores);
}

/* Whether a point splits better among so many cores than those of its packing that are among the first n, of
 * which none has a unit for each. */
static bool widens(const struct candidate *list, int n, const struct mo_point *point, int cores) {
    bool there = false;
    for (int i = 0; i < n; i++) {
        const struct mo_point *have = &list[i].point;
        if (have->packing != point->packing) continue;
        if (have->units >= cores || price(have, cores) <= price(point, cores)) return false;
        there = true;
    }
    return there;
}

/* Moves up to WIDE_POINTS of list[n, all) behind the first n: of each packing that is among these, but not
 * for so many cores, the point whose part is shortest. */
static int take_wide(struct candidate *list, int n, int all, int cores) {
    for (int more = WIDE_POINTS; more > 0; more--) {
        int best = -1;
        for (int i = n; i < all; i++)
            if (widens(list, n, &list[i].point, cores) &&
                (best < 0 || price(&list[i].point, cores) < price(&list[best].point, cores)))
                best = i;
        if (best < 0) break;
        move_to(list, n++, best);
    }
    return n;
}

/* How many knobs differ; another family differs in all. */
static int distance(const struct candidate *a, const struct candidate *b) {
    int n = 0;
    for (int i = 0; i < MO_KNOBS; i++)
        n += a->family != b->family || a->point.knob[i] != b->point.knob[i];
    return n;
}

/* Moves up to `more` of list[n, all) behind the first n: each time the one whose nearest among those taken is
 * farthest, the cheaper of equals.  The cheapest of a list differ little in blocking and order; these do. */
static int widen(struct candidate *list, int n, int all, int more) {
    for (; more > 0 && n < all; more--, n++) {
        int farthest = -1, best = 0;
        for (int i = n; i < all; i++) {
            int nearest = MO_KNOBS + 1;
            for (int k = 0; k < n; k++)
                if (distance(&list[i], &list[k]) < nearest) nearest = distance(&list[i], &list[k]);
            if (nearest <= best || list[i].point.cost_ns > OTHER_COST * list[0].point.cost_ns) continue;
            if (list[i].point.wide) continue;
            best = nearest;
            farthest = i;
        }
        if (farthest < 0) break;
        move_to(list, n, farthest);
    }
    return n;
}

int mo_job_points(const struct mo_search *s, struct search_job *job, moire_error *err) {
    const struct mo_emit_family *const *families = s->options.families;
    int cap = s->options.points > 0 ? s->options.points : DEFAULT_POINTS, count = 0;
    while (families[count])
        count++;
    struct mo_point *points = mo_alloc(s->env, MO_MAX_POINTS * sizeof *points);
    job->candidate = mo_alloc(s->env, ((size_t)count * MO_MAX_POINTS + 1) * sizeof *job->candidate);
    if (!points || !job->candidate) {
        mo_free(s->env, points);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory listing candidates");
    }
    for (int f = 0; f < count; f++) {
        if (!families[f]->takes(&job->layer.problem)) continue;
        int n = families[f]->points(&job->layer.problem, points, MO_MAX_POINTS);
        for (int i = 0; i < n && i < MO_MAX_POINTS; i++)
            job->candidate[job->n++] = (struct candidate){.family = families[f], .point = points[i]};
    }
    mo_free(s->env, points);
    qsort(job->candidate, (size_t)job->n, sizeof *job->candidate, by_cost);
    int all = job->n, narrow = all;
    while (narrow > 0 && job->candidate[narrow - 1].point.wide)
        narrow--;
    int kept = choose(job->candidate, narrow, cap);
    job->n = take_wide(job->candidate, kept, all, s->options.cores);
    for (int i = kept; i < job->n && kept > BEFORE_WIDE; i++)
        move_to(job->candidate, BEFORE_WIDE + i - kept, i);
    if (mo_search_versions(s)) job->n = widen(job->candidate, job->n, all, OTHER_POINTS);
    if (mo_search_versions(s) && job->n > MO_FRONT_POINTS) job->n = MO_FRONT_POINTS;
    return MOIRE_OK;
}

void mo_candidate_knobs(const struct candidate *c, char out[MO_STORE_KNOBS]) {
    struct mo_text t = mo_text_in(out, MO_STORE_KNOBS);
    for (int i = 0; i < MO_KNOBS && c->family->knobs[i]; i++)
        mo_text_put(&t, "%s%s=%d", i ? "," : "", c->family->knobs[i], c->point.knob[i]);
}

void mo_candidate_release(const struct mo_search *s, struct candidate *c, bool unload) {
    free(c->source);
    mo_free(s->env, c->object);
    c->source = c->object = NULL;
    if (unload && c->code) s->env->sys->dl_close(s->env->sys->self, c->code);
    if (unload) c->code = NULL;
}

static void stem_of(const struct mo_search *s, const struct candidate *c, char stem[STEM_CAP]) {
    snprintf(stem, STEM_CAP, "%s/c%d", mo_writer_work(s->writer), c->number);
}

static int emit(const struct candidate *c, const struct mo_problem *problem, char **source, size_t *bytes,
                moire_error *err) {
    FILE *out = open_memstream(source, bytes);
    if (!out) return mo_fail(err, MOIRE_ENOMEM, "out of memory emitting C");
    int rc = c->family->emit(problem, &c->point, out, err);
    bool bad = ferror(out);
    bad |= fclose(out) != 0;
    return rc ? rc : bad ? mo_fail(err, MOIRE_ENOMEM, "out of memory emitting C") : MOIRE_OK;
}

/* Reads the object the compiler made; a compiler that says yes and makes none is caught here. */
static int read_object(const struct mo_search *s, const char *path, struct candidate *c) {
    const struct mo_sys *sys = s->env->sys;
    int fd = sys->open(sys->self, path, O_RDONLY | O_NOFOLLOW, 0);
    int64_t size = fd < 0 ? fd : sys->size(sys->self, fd);
    int rc = MOIRE_OK;
    if (size < 1 || size > s->env->limits.variant_bytes)
        rc = mo_fail(&c->err, MOIRE_ECOMPILER, "the compiler made no usable object");
    if (!rc && !(c->object = mo_alloc(s->env, (size_t)size)))
        rc = mo_fail(&c->err, MOIRE_ENOMEM, "out of memory reading an object");
    if (!rc && mo_file_read_exactly(sys, fd, c->object, (size_t)size))
        rc = mo_fail(&c->err, MOIRE_EIO, "cannot read the compiled object");
    c->object_bytes = rc ? 0 : (size_t)size;
    if (fd >= 0) sys->close(sys->self, fd);
    return rc;
}

static void remove_files(const struct mo_search *s, const char *stem) {
    static const char *const suffixes[] = {".c", ".so", ".log"};
    char path[STEM_CAP + 8];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", stem, suffixes[i]);
        s->env->sys->unlink(s->env->sys->self, path);
    }
}

/* Emits, compiles and reads back one candidate; its outcome is in c->state and c->err. */
static void build(const struct mo_search *s, struct candidate *c, const struct mo_problem *problem) {
    char stem[STEM_CAP], path[STEM_CAP + 8];
    stem_of(s, c, stem);
    snprintf(path, sizeof path, "%s.c", stem);
    const char *verdict = "not emitted";
    int rc = emit(c, problem, &c->source, &c->source_bytes, &c->err);
    if (!rc) {
        verdict = "does not compile";
        rc = mo_trusted_write(s->env, path, c->source, c->source_bytes, &c->err);
    }
    if (!rc) rc = mo_cc_compile(s->env, &s->cc, problem->isa, stem, mo_search_limit(s, COMPILE_NS), &c->err);
    snprintf(path, sizeof path, "%s.so", stem);
    if (!rc) rc = read_object(s, path, c);
    remove_files(s, stem);
    c->state = rc ? CANDIDATE_REJECTED : CANDIDATE_COMPILED;
    if (rc) snprintf(c->verdict, sizeof c->verdict, "%s", verdict);
}

/* A batch that several threads work off. */
struct batch {
    const struct mo_search *s;
    struct candidate *const *candidate;
    struct search_job *const *of;
    int n;
    _Atomic int next;
};

static void *work(void *arg) {
    struct batch *b = arg;
    for (;;) {
        int i = atomic_fetch_add(&b->next, 1);
        if (i >= b->n || mo_search_interrupted(b->s) || mo_search_over(b->s)) return NULL;
        build(b->s, b->candidate[i], &b->of[i]->layer.problem);
    }
}

/* Errors that are no candidate's fault end the search. */
static bool is_systemic(int code) {
    return code == MOIRE_ENOMEM || code == MOIRE_ESTORE || code == MOIRE_EIO;
}

int mo_compile_batch(struct mo_search *s, struct candidate *const *candidate, struct search_job *const *of,
                     int n, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    struct batch b = {.s = s, .candidate = candidate, .of = of, .n = n};
    struct mo_thread thread[MAX_JOBS];
    int threads = s->options.jobs < MAX_JOBS ? s->options.jobs : MAX_JOBS, started = 0;
    for (int i = 0; i < n; i++)
        candidate[i]->number = s->numbers++;
    while (started < threads - 1 && !sys->thread_start(sys->self, &thread[started], work, &b))
        started++;
    work(&b); /* this thread too; alone when no other could be started */
    for (int i = 0; i < started; i++)
        sys->thread_join(sys->self, thread[i]);
    if (mo_search_interrupted(s)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    if (mo_search_over(s)) return MOIRE_OK; /* some were stopped: nothing is known of these */
    for (int i = 0; i < n; i++) {
        const struct candidate *c = candidate[i];
        s->compiled += c->state == CANDIDATE_COMPILED;
        if (c->state != CANDIDATE_REJECTED) continue;
        if (is_systemic(c->err.code)) return mo_fail(err, c->err.code, "%s", c->err.message);
        if (c->err.code == MOIRE_ECOMPILER && !s->refused++) s->compiler_err = c->err;
    }
    if (s->compiled || !s->refused) return MOIRE_OK;
    return mo_fail(err, MOIRE_ECOMPILER, "nothing compiles: %s", s->compiler_err.message);
}
