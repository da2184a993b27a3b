/* SPDX-License-Identifier: Apache-2.0
 * layer_versions.c - from the good candidates of a layer to its versions: sampled points, the choice along
 * their front (codegen/tune/front.h), times under pressure, and the file that lists them all. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/search_impl.h"
#include "codegen/search/measure.h"
#include "codegen/tune/front.h"

_Static_assert((int)MO_STORE_LEVELS == (int)MO_STRESS_LEVELS, "a time a level");
_Static_assert((int)MO_FRONT_POINTS <= (int)MO_CONTENDERS, "all may be measured");

static const double SLACK = 2; /* share of a layer over its best time when the model has no target */

/* Candidates are told by family and knobs. */
static struct candidate *candidate_of(const struct search_job *job, const struct mo_store_point *p) {
    char knobs[MO_STORE_KNOBS];
    for (int i = 0; i < job->next; i++) {
        struct candidate *c = &job->candidate[i];
        mo_candidate_knobs(c, knobs);
        if (c->state == CANDIDATE_GOOD && !strcmp(c->family->name, p->family) && !strcmp(knobs, p->knobs))
            return c;
    }
    return NULL;
}

/* Those whose code or object is at hand; *kept: 1 + the place of the best. */
static void sample(const struct search_job *job, struct mo_store_front *f, int *kept) {
    for (int i = 0; i < job->next && f->n < MO_FRONT_POINTS; i++) {
        const struct candidate *c = &job->candidate[i];
        if (c->state != CANDIDATE_GOOD || (!c->code && !c->key[0])) continue;
        if (!(c->min_ns > 0) || !isfinite(c->min_ns)) continue;
        if (c == job->best) *kept = 1 + f->n;
        const struct mo_variant *v = &c->variant;
        struct mo_store_point *p = &f->point[f->n++];
        *p = (struct mo_store_point){.packing = v->packing,
                                     .units = v->units,
                                     .parallelism_milli = v->parallelism_milli,
                                     .block_bytes = v->block_bytes,
                                     .l3_bytes = v->l3_bytes,
                                     .part_ns = c->part_ns,
                                     .ns = {c->min_ns}};
        snprintf(p->family, sizeof p->family, "%s", c->family->name);
        mo_candidate_knobs(c, p->knobs);
    }
}

/* The layer's share of its model's target goes by operation count. */
static double share(const struct mo_search *s, const struct search_job *job) {
    double all = 0;
    if (s->options.qos_ns <= 0) return SLACK * job->result.min_ns;
    for (int i = 0; i < s->n; i++)
        all += (double)s->jobs[i]->layer.flops * s->jobs[i]->result.uses;
    return all > 0 ? s->options.qos_ns * (double)job->layer.flops / all : 0;
}

/* Measures the chosen ones together at one level. */
static int measure_level(struct mo_search *s, const struct search_job *job, struct mo_harness *h, int level,
                         bool *cut, moire_error *err) {
    struct mo_measure m = {
        .interrupted = s->options.interrupted, .ends = s->ends, .stress = s->options.stress, .level = level};
    struct mo_store_point *who[MO_CONTENDERS] = {NULL};
    int n = 0;
    for (int i = 0; i < job->front->n && n < MO_CONTENDERS; i++) {
        struct mo_store_point *p = &job->front->point[i];
        struct candidate *c = p->state == MO_POINT_VERSION ? candidate_of(job, p) : NULL;
        if (!c) continue;
        who[n] = p;
        m.contender[n++] = mo_variant_runnable(&c->variant);
    }
    m.n = n;
    int rc = n ? mo_measure_run(h, &m, err) : MOIRE_OK;
    *cut = n && m.cut;
    for (int i = 0; !rc && !*cut && i < n; i++) {
        double *ns = &who[i]->ns[level]; /* of a second measurement the shorter time counts */
        *ns = *ns > 0 ? fmin(*ns, m.min_ns[i]) : m.min_ns[i];
    }
    return rc;
}

/* From the level `first` on; *cut: the budget ended before the last. */
static int measure_from(struct mo_search *s, const struct search_job *job, struct mo_harness *h, int first,
                        bool *cut, moire_error *err) {
    int rc = MOIRE_OK;
    *cut = false;
    for (int level = first; level < MO_STORE_LEVELS && !rc && !*cut; level++)
        rc = measure_level(s, job, h, level, cut, err);
    return rc;
}

static void drop_front(const struct mo_search *s, struct search_job *job) {
    mo_free(s->env, job->front);
    job->front = NULL;
}

/* Times under pressure that no pressure explains. */
static void refuse_front(struct mo_search *s, struct search_job *job, const struct mo_front_odd *odd) {
    const struct mo_store_point *p = &job->front->point[odd->point];
    struct mo_layer_result *r = &job->result;
    snprintf(r->refused, sizeof r->refused,
             "%.20s %.60s takes %.1f us at pressure %d/%d and %.1f us at %d/%d, twice", p->family, p->knobs,
             odd->less_ns * 1e-3, odd->less, MO_STORE_LEVELS - 1, odd->more_ns * 1e-3, odd->more,
             MO_STORE_LEVELS - 1);
    mo_log(s->env, MOIRE_LOG_WARN, "%s: versions refused: %s", r->signature, r->refused);
    drop_front(s, job);
}

static int versions_asked(const struct mo_search *s) {
    return s->options.versions < MO_STORE_VERSIONS ? s->options.versions : MO_STORE_VERSIONS;
}

static int begin_front(struct mo_search *s, struct search_job *job, struct mo_front_rule *rule,
                       moire_error *err) {
    struct mo_store_front *f = job->front ? job->front : mo_alloc(s->env, sizeof *f);
    if (!f) return mo_fail(err, MOIRE_ENOMEM, "out of memory choosing versions");
    job->front = f;
    *rule = (struct mo_front_rule){.cores = s->options.cores > 0 ? s->options.cores : 1};
    *f = (struct mo_store_front){.abi = MO_KERNEL_ABI,
                                 .generator = MO_GENERATOR_VERSION,
                                 .isa = job->layer.problem.isa,
                                 .cores = rule->cores};
    snprintf(f->signature, sizeof f->signature, "%s", job->result.signature);
    sample(job, f, &rule->kept);
    return MOIRE_OK;
}

int mo_job_widen(struct mo_search *s, struct search_job *job, moire_error *err) {
    struct mo_front_rule rule;
    int rc = s->options.cores > 2 && job->best ? begin_front(s, job, &rule, err) : MOIRE_OK;
    if (rc || !job->front) return rc;
    rule.versions = job->front->versions = 2;
    if (mo_front_widen(job->front, &rule)) return MOIRE_OK;
    drop_front(s, job);
    return MOIRE_OK;
}

int mo_job_measure_levels(struct mo_search *s, struct search_job *job, struct mo_harness *h,
                          moire_error *err) {
    struct mo_front_rule rule;
    int rc = begin_front(s, job, &rule, err);
    if (rc) return rc;
    struct mo_store_front *f = job->front;
    rule.share_ns = share(s, job);
    rule.versions = f->versions = versions_asked(s);
    mo_front_select(f, &rule);
    bool cut;
    struct mo_front_odd odd;
    rc = measure_from(s, job, h, 1, &cut, err);
    if (!rc && !cut && mo_front_is_odd(f, &odd)) rc = measure_from(s, job, h, 0, &cut, err);
    if (rc) return rc;
    if (cut) {
        snprintf(job->result.refused, sizeof job->result.refused,
                 "the budget ended while they were measured");
        drop_front(s, job);
    }
    if (!cut && mo_front_is_odd(f, &odd))
        refuse_front(s, job, &odd);
    else if (!cut && !s->options.keep_covered)
        mo_front_prune(f);
    return MOIRE_OK;
}

void mo_job_keep_stored(struct search_job *job) {
    struct mo_layer_result *r = &job->result;
    const struct mo_store_index *x = &job->kept;
    r->state = MO_LAYER_REUSED;
    r->tried = x->tried;
    r->min_ns = x->min_ns;
    r->generic_ns = x->generic_ns;
    r->source_bytes = x->source_bytes;
    memcpy(r->family, x->family, sizeof r->family);
    memcpy(r->knobs, x->knobs, sizeof r->knobs);
    if (job->kept_versions) r->versions = job->kept_versions;
}

/* A built-in kernel that is faster than all serves alone: it has no versions. */
static void withdraw(struct mo_store_front *f) {
    for (int i = 0; i < f->n; i++)
        if (f->point[i].state == MO_POINT_VERSION) f->point[i].state = MO_POINT_SPARE;
}

int mo_job_publish_front(struct mo_search *s, struct search_job *job, moire_error *err) {
    struct mo_store_front *f = job->front;
    int rc = MOIRE_OK;
    if (!job->index.best[0]) withdraw(f);
    for (int i = 0; i < f->n && !rc; i++) {
        struct mo_store_point *p = &f->point[i];
        struct candidate *c = p->state == MO_POINT_VERSION ? candidate_of(job, p) : NULL;
        if (!c) continue;
        rc = mo_candidate_publish(s, job, c, err);
        memcpy(p->key, c->key, sizeof p->key);
    }
    if (!rc) rc = mo_writer_front(s->writer, f, err);
    job->result.versions = mo_front_versions(f);
    for (int i = 0; i < f->n; i++) {
        const struct mo_store_point *p = &f->point[i];
        if (p->state != MO_POINT_VERSION || p->part_ns >= job->result.part_ns) continue;
        job->result.part_ns = p->part_ns;
        job->result.units = p->units;
    }
    return rc;
}

/* Whether so many versions are what this search would choose of the same points.  It would when the number is
 * the same, when nothing on the front had to be left out and what was picked is not too much, and when there
 * is no version but the built-in kernel. */
static bool serves_number(const struct mo_store_front *f, int asked) {
    int picked = 0, spare = 0;
    for (int i = 0; i < f->n; i++) {
        picked += f->point[i].state == MO_POINT_VERSION || f->point[i].state == MO_POINT_COVERED;
        spare += f->point[i].state == MO_POINT_SPARE;
    }
    return f->versions == asked || !mo_front_versions(f) || (!spare && picked <= asked);
}

bool mo_job_has_front(const struct mo_search *s, struct search_job *job) {
    const char *signature = job->result.signature;
    enum mo_isa isa = job->layer.problem.isa;
    struct mo_store_version versions[MO_STORE_VERSIONS];
    struct mo_store_front *f = mo_alloc(s->env, sizeof *f);
    bool has = f && mo_store_read_front(s->store, signature, isa, f);
    int wanted = has ? mo_front_versions(f) : 0;
    for (int i = 0; i < (has ? f->n : 0); i++) { /* one that was only made for more cores knows no pressure */
        has &= f->point[i].state != MO_POINT_VERSION || f->point[i].ns[1] > 0;
        if (s->options.keep_covered) has &= f->point[i].state != MO_POINT_COVERED;
    }
    if (has && !serves_number(f, versions_asked(s))) {
        job->result.other_number = true;
        has = false;
    }
    mo_free(s->env, f);
    if (wanted && mo_store_versions(s->store, signature, isa, versions) != wanted) return false;
    job->kept_versions = wanted;
    if (has) job->result.versions = wanted;
    return has;
}
