/* SPDX-License-Identifier: Apache-2.0
 * tune.c - one layer's compiled candidates: try (probation.c), measure, publish the best.
 *
 * A candidate that disagrees with the oracle never reaches the store, whatever its speed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/search_impl.h"
#include "codegen/search/measure.h"
#include "variants/conv_geometry.h"

void mo_candidate_reject(const struct mo_search *s, struct candidate *c, const char *verdict) {
    c->state = CANDIDATE_REJECTED;
    snprintf(c->verdict, sizeof c->verdict, "%s", verdict);
    mo_candidate_release(s, c, true);
}

/* Counts a rejection in the result and logs it, once. */
static void report(struct mo_search *s, struct search_job *job, struct candidate *c) {
    char knobs[MO_STORE_KNOBS];
    if (c->state != CANDIDATE_REJECTED || c->reported) return;
    c->reported = true;
    mo_candidate_knobs(c, knobs);
    job->result.rejected++;
    if (!job->result.trouble[0])
        snprintf(job->result.trouble, sizeof job->result.trouble, "%s %.60s: %.110s", c->family->name, knobs,
                 c->err.message);
    mo_log(s->env, MOIRE_LOG_WARN, "%s: %s %s: %s: %s", job->result.signature, c->family->name, knobs,
           c->verdict, c->err.message);
}

struct mo_runnable mo_variant_runnable(const struct mo_variant *v) {
    return (struct mo_runnable){v->run,  NULL, v->units, v->scratch_bytes, (enum mo_packing)v->packing,
                                v->mixes};
}

/* The generic kernel passes the same examination and becomes the golden reference of the others. */
static void examine_generic(struct mo_search *s, struct search_job *job, struct mo_harness *h) {
    if (!h->step.run) return;
    struct mo_runnable r = mo_harness_generic(h);
    moire_error why = {0};
    if (mo_verify(h, &r, &why) && !mo_harness_keep_golden(h, &why)) return;
    mo_log(s->env, MOIRE_LOG_ERROR, "%s: the generic kernel '%s' fails its check: %s", job->result.signature,
           h->step.kernel ? h->step.kernel : "?", why.message);
}

/* Who takes part in a measurement, by contender; -1 = does not. */
struct comparison {
    struct mo_measure m;
    struct candidate *who[MO_CONTENDERS];
    int generic, earlier;
};

static void enter(struct comparison *l, const struct mo_harness *h, struct mo_runnable r) {
    int64_t bytes = mo_pack_bytes(r.packing, h->graph, h->node);
    l->m.bytes[l->m.n] = bytes > 0 ? bytes : 0;
    l->m.contender[l->m.n++] = r;
}

/* The generic kernel, what an earlier run stored, the best of earlier turns and the new good ones. */
static void add_versions(const struct search_job *job, struct mo_harness *h, struct comparison *l) {
    struct mo_measure *m = &l->m;
    l->generic = l->earlier = -1;
    if (h->step.run) {
        l->generic = m->n;
        enter(l, h, mo_harness_generic(h));
    }
    if (job->stored && !mo_harness_pack(h, job->earlier.packing, NULL)) {
        l->earlier = m->n;
        enter(l, h, mo_variant_runnable(&job->earlier));
    }
    for (int i = 0; i < job->next && m->n < MO_CONTENDERS; i++) {
        struct candidate *c = &job->candidate[i];
        if (c->state != CANDIDATE_GOOD || !c->code || mo_harness_pack(h, c->variant.packing, NULL)) continue;
        l->who[m->n] = c;
        enter(l, h, mo_variant_runnable(&c->variant));
    }
}

/* Shortest of two times, of which 0 means none. */
static double shorter(double a, double b) {
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Takes the times of one measurement.  A whole measurement may fall into a slow phase of the machine, so what
 * counts is a contender's time in those of the generic kernel beside it, and of that the best so far: one
 * unlucky comparison does not unseat a better candidate of an earlier one.  Packed weights have their price;
 * of candidates equal within noise the one that two cores share better is kept. */
static void take_times(struct search_job *job, const struct comparison *l, double byte_ns) {
    struct mo_layer_result *r = &job->result;
    const double unit = l->generic >= 0 ? l->m.min_ns[l->generic] : 1, byte = byte_ns / unit;
    double best = INFINITY, weights = 0, relative[MO_CONTENDERS];
    if (l->earlier >= 0) {
        const struct mo_store_index *x = &job->earlier_index;
        r->min_ns = shorter(x->min_ns, l->m.min_ns[l->earlier]);
        best = l->m.min_ns[l->earlier] / unit;
        if (l->generic >= 0 && x->min_ns > 0 && x->generic_ns > 0)
            best = fmin(best, x->min_ns / x->generic_ns);
        weights = byte * (double)l->m.bytes[l->earlier];
    }
    if (l->generic >= 0) r->generic_ns = shorter(r->generic_ns, unit);
    job->best = NULL;
    for (int i = 0; i < l->m.n; i++) {
        struct candidate *c = l->who[i];
        relative[i] = INFINITY;
        if (!c) continue;
        c->min_ns = shorter(c->min_ns, l->m.min_ns[i]);
        c->relative = shorter(c->relative, l->m.min_ns[i] / unit);
        c->part_ns = shorter(c->part_ns, l->m.part_ns[i]);
        if (c->relative + byte * (double)l->m.bytes[i] < best + weights) relative[i] = c->relative;
    }
    int pick = mo_measure_pick(&l->m, relative, byte);
    if (pick >= 0) {
        job->best = l->who[pick];
        best = job->best->relative;
    }
    if (job->best) {
        r->min_ns = job->best->min_ns;
        r->units = job->best->variant.units;
        r->part_ns = job->best->part_ns;
    }
    job->relative = l->generic >= 0 && isfinite(best) ? best : 0;
}

static void describe(const struct mo_search *s, const struct search_job *job, const struct candidate *c,
                     struct mo_store_entry *e) {
    *e = (struct mo_store_entry){.abi = MO_KERNEL_ABI,
                                 .generator = MO_GENERATOR_VERSION,
                                 .isa = job->layer.problem.isa,
                                 .object_bytes = (int64_t)c->object_bytes,
                                 .source_bytes = (int64_t)c->source_bytes,
                                 .min_ns = c->min_ns,
                                 .generic_ns = job->result.generic_ns,
                                 .gflops = (double)job->layer.flops / c->min_ns};
    snprintf(e->signature, sizeof e->signature, "%s", job->result.signature);
    snprintf(e->family, sizeof e->family, "%s", c->family->name);
    mo_candidate_knobs(c, e->knobs);
    snprintf(e->compiler, sizeof e->compiler, "%s", s->cc.id);
    mo_cc_flags(e->isa, e->flags);
    mo_sha256_hex(c->object, c->object_bytes, e->object);
}

/* The measured ones by time, then the rest; returns how many. */
static int rank(const struct search_job *job, struct mo_ranked *out, int cap) {
    int n = 0;
    for (int i = 0; i < job->next && n < cap; i++) {
        const struct candidate *c = &job->candidate[i];
        if (!c->verdict[0]) continue;
        struct mo_ranked r = {.predicted_ns = c->point.cost_ns, .min_ns = c->min_ns};
        snprintf(r.family, sizeof r.family, "%s", c->family->name);
        mo_candidate_knobs(c, r.knobs);
        snprintf(r.verdict, sizeof r.verdict, "%s", c->verdict);
        int at = n++;
        while (at > 0 && r.min_ns > 0 && (out[at - 1].min_ns <= 0 || out[at - 1].min_ns > r.min_ns)) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = r;
    }
    return n;
}

static void settle_result(struct search_job *job, const struct mo_store_index *x) {
    struct mo_layer_result *r = &job->result;
    r->source_bytes = x->source_bytes;
    memcpy(r->family, x->family, sizeof r->family);
    memcpy(r->knobs, x->knobs, sizeof r->knobs);
    r->state = x->best[0] ? MO_LAYER_COMPILED : r->min_ns > 0 ? MO_LAYER_GENERIC : MO_LAYER_FAILED;
}

int mo_candidate_publish(struct mo_search *s, const struct search_job *job, struct candidate *c,
                         moire_error *err) {
    struct mo_store_entry e;
    if (c->key[0]) return MOIRE_OK;
    describe(s, job, c, &e);
    int rc = mo_writer_add(s->writer, &e, c->object, c->source, c->key, err);
    if (rc) c->key[0] = 0;
    return rc;
}

/* Makes the index name the best: of an earlier run, or a candidate, which is stored unless it is there. */
static int store_best(struct mo_search *s, struct search_job *job, moire_error *err) {
    struct mo_store_index *x = &job->index;
    struct candidate *c = job->best;
    if (!c) {
        *x = job->earlier_index;
        return MOIRE_OK;
    }
    int rc = mo_candidate_publish(s, job, c, err);
    if (rc) return rc;
    memcpy(x->best, c->key, sizeof x->best);
    snprintf(x->family, sizeof x->family, "%s", c->family->name);
    mo_candidate_knobs(c, x->knobs);
    x->source_bytes = (int64_t)c->source_bytes;
    return MOIRE_OK;
}

/* What the best may take longer than a built-in kernel that has fewer units than the layer gets cores, times.
 */
static const double NARROW = 1.1;

static int publish(struct mo_search *s, struct search_job *job, moire_error *err) {
    struct mo_layer_result *r = &job->result;
    struct mo_store_index *x = &job->index;
    bool narrow = job->generic_units < s->options.cores && job->front;
    bool worth = r->min_ns > 0 && job->relative <= (narrow ? NARROW : 1);
    int rc = worth ? store_best(s, job, err) : MOIRE_OK;
    if (rc) return rc;
    if (!worth) x->best[0] = 0;
    if (x->best[0]) x->withdrawn[0] = 0; /* another than the one that was withdrawn */
    x->abi = MO_KERNEL_ABI;
    x->generator = MO_GENERATOR_VERSION;
    x->isa = job->layer.problem.isa;
    snprintf(x->signature, sizeof x->signature, "%s", r->signature);
    x->tried = r->tried;
    x->cores = s->options.cores;
    x->flops = job->layer.flops;
    x->min_ns = r->min_ns;
    x->generic_ns = r->generic_ns;
    struct mo_ranked ranked[MO_CONTENDERS];
    rc = mo_writer_set(s->writer, x, ranked, rank(job, ranked, MO_CONTENDERS), err);
    if (!rc) settle_result(job, x);
    return rc;
}

/* Lets go of everything but the best so far, which the next turn must beat. */
static void clean_up(struct mo_search *s, struct search_job *job) {
    for (int i = 0; i < job->next; i++) {
        struct candidate *c = &job->candidate[i];
        if (c != job->best)
            mo_candidate_release(s, c, true);
        else if (c->key[0]) /* published: the bytes are no longer needed, the code is */
            mo_candidate_release(s, c, false);
    }
}

/* Whether all is known that publishing needs: false when the budget ended before. */
static int try_and_measure(struct mo_search *s, struct search_job *job, struct mo_harness *h, bool *known,
                           moire_error *err) {
    struct comparison l = {
        .m = {.interrupted = s->options.interrupted, .ends = s->ends, .cores = s->options.cores}};
    *known = false;
    if (mo_search_over(s)) return MOIRE_OK;
    examine_generic(s, job, h);
    job->generic_units = h->step.run ? h->step.units : 0;
    int rc = mo_job_examine(s, job, h, err);
    for (int i = 0; i < job->next; i++)
        report(s, job, &job->candidate[i]);
    if (rc || mo_search_over(s)) return rc;
    add_versions(job, h, &l);
    if (l.m.n) rc = mo_measure_run(h, &l.m, err);
    if (rc || l.m.cut) return rc;
    take_times(job, &l, s->options.byte_ns);
    *known = true;
    return mo_search_versions(s) ? mo_job_measure_levels(s, job, h, err) : mo_job_widen(s, job, err);
}

int mo_job_tune(struct mo_search *s, struct search_job *job, moire_error *err) {
    struct mo_harness h;
    bool known;
    int rc = mo_harness_create(s->env, &job->layer, &h, err);
    if (rc) return rc;
    rc = try_and_measure(s, job, &h, &known, err);
    mo_harness_destroy(&h);
    if (rc || !known) return rc;
    if (mo_search_versions(s) && !job->front && job->kept_versions) {
        mo_job_keep_stored(job); /* its new versions are not to be had: those that it has stay */
        return MOIRE_OK;
    }
    job->result.tried = job->next;
    rc = publish(s, job, err);
    if (!rc && job->front) rc = mo_job_publish_front(s, job, err);
    if (!rc) clean_up(s, job); /* otherwise the search ends and lets go of all */
    return rc;
}
