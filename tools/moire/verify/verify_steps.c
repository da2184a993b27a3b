/* SPDX-License-Identifier: Apache-2.0
 * verify_steps.c - see verify_steps.h. */
#include "tools/moire/verify/verify_steps.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/plan/versions.h"
#include "runtime/ops/trial.h"
#include "tools/moire/verify/verify_values.h"
#include "tools/moire/verify/verify_whole.h"

enum { GUARD = 4096, SCRATCH_GUARD = 64, MOST_OUTPUTS = MO_KERNEL_OUT };
static const int64_t LIMIT_NS = INT64_C(1800000000000);

/* As of the search and of `moire check-model --layers`: of the largest value of the output.  Where an output
 * is small because large terms cancel or an activation cuts them off, of a share of what the terms can be;
 * kernels that mix a tile before they sum round to what is largest in the tile. */
static const double TOLERANCE = 1e-4, TERMS = 0.01, TERMS_MIXED = 0.1;

double mo_verify_gain(const struct mo_graph *graph, const struct mo_node *node) {
    const struct mo_tensor *w = mo_node_in(graph, node, 1);
    const struct mo_tensor *y = node->n_out && node->out[0] >= 0 ? graph->tensors[node->out[0]] : NULL;
    if (!w || !y || !w->data || w->dtype != MOIRE_F32 || y->shape.rank < 2) return 0;
    bool conv = !strcmp(node->op_type, "Conv");
    int64_t n = mo_shape_count(&w->shape), channels = y->shape.d[conv ? 1 : y->shape.rank - 1];
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs((double)((const float *)w->data)[i]);
    return channels > 0 ? sum / (double)channels : 0;
}

double mo_verify_terms(const struct mo_step_verifier *v, const struct mo_instance *instance, int k) {
    const struct mo_plan *plan = v->built_in;
    const struct mo_node *node = plan->steps[k].node;
    struct mo_spread x = mo_spread_of(plan, instance, node->in[0]);
    double terms = v->gain[k] * mo_spread_look(&x).largest;
    if (node->fuse.gated) {
        struct mo_spread gate = mo_spread_of(plan, instance, node->in[MO_GATE_IN]);
        terms *= mo_spread_look(&gate).largest;
    }
    bool mixes = v->compiled->steps[k].mixes || plan->steps[k].mixes;
    return (mixes ? TERMS_MIXED : TERMS) * terms;
}

/* Two runs side by side. */
struct pair {
    const struct mo_step_verifier *v;
    const struct mo_plan *compiled, *built_in;
    struct mo_instance *c, *b;
    char *c_block, *b_block; /* guard, arena, guard; equal between two steps */
    size_t block_bytes;
    char *scratch; /* of any step of either plan, and a guard */
    size_t scratch_bytes;
    uint64_t random;
};

/* What the copy tells. */
struct report {
    int at; /* step in work; n_steps: all were run */
    int version;
    int rc;
    struct mo_step_findings whole; /* without steps */
    moire_error err;
    struct mo_step_finding step[];
};

/* --- memory --- */

static int open_pair(const struct mo_step_verifier *v, struct pair *p, moire_error *err) {
    const struct mo_env *env = v->compiled->env;
    *p = (struct pair){.v = v, .compiled = v->compiled, .built_in = v->built_in, .random = v->seed};
    int64_t a = v->compiled->scratch_bytes, b = v->built_in->scratch_bytes;
    p->scratch_bytes = (size_t)(a > b ? a : b) + SCRATCH_GUARD;
    p->block_bytes = 2 * GUARD + mo_instance_arena_bytes(v->compiled);
    p->block_bytes = (p->block_bytes + 63) / 64 * 64;
    p->scratch = mo_alloc_scratch(env, p->scratch_bytes);
    p->c_block = mo_alloc_scratch(env, p->block_bytes);
    p->b_block = mo_alloc_scratch(env, p->block_bytes);
    if (!p->scratch || !p->c_block || !p->b_block)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory: two queries need %zu bytes", 2 * p->block_bytes);
    int rc = mo_instance_create_bare(v->compiled, &p->c, err);
    if (!rc) rc = mo_instance_create_bare(v->built_in, &p->b, err);
    if (rc) return rc;
    mo_instance_bind(p->c, p->c_block + GUARD);
    mo_instance_bind(p->b, p->b_block + GUARD);
    return MOIRE_OK;
}

static void close_pair(struct pair *p) {
    const struct mo_env *env = p->compiled->env;
    mo_instance_destroy(p->c);
    mo_instance_destroy(p->b);
    mo_free(env, p->scratch);
    mo_free(env, p->c_block);
    mo_free(env, p->b_block);
}

/* Contents that somebody left behind, and random inputs. */
static void fill_arenas(struct pair *p) {
    moire_tensor all = {.dtype = MOIRE_F32, .data = p->b_block, .bytes = p->block_bytes};
    mo_trial_random(&all, &p->random);
    const struct mo_graph *g = p->built_in->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        struct mo_spread s = mo_spread_of(p->built_in, p->b, g->inputs[i]);
        if (p->built_in->offset[g->inputs[i]] >= 0) mo_spread_fill(&s, &p->random);
    }
    memcpy(p->c_block, p->b_block, p->block_bytes);
}

/* --- one compiled step --- */

static int by_place(const void *a, const void *b) {
    const struct mo_spread *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The images of the outputs of a step, in order of their places; *n = 0 when out of memory. */
static struct mo_spread *images_of(const struct pair *p, const struct mo_spread *out, int n_out, int64_t *n) {
    int64_t all = 0;
    for (int i = 0; i < n_out; i++)
        all += out[i].images;
    struct mo_spread *list = mo_alloc(p->compiled->env, ((size_t)all + 1) * sizeof *list);
    *n = 0;
    for (int i = 0; list && i < n_out; i++)
        for (int64_t image = 0; image < out[i].images; image++) {
            list[*n] = out[i];
            list[(*n)++].at = out[i].at + image * out[i].stride;
        }
    if (list) qsort(list, (size_t)*n, sizeof *list, by_place);
    return list;
}

/* The first byte beside the outputs, sorted images, that the compiled step changed; -1: none. */
static int64_t stray(const struct pair *p, const struct mo_spread *image, int64_t n) {
    size_t at = 0;
    for (int64_t i = 0; i <= n; i++) {
        size_t end = i < n ? (size_t)(image[i].at - p->c_block) : p->block_bytes;
        if (end > at && memcmp(p->c_block + at, p->b_block + at, end - at)) return (int64_t)at;
        if (i < n && end + (size_t)image[i].bytes > at) at = end + (size_t)image[i].bytes;
    }
    return -1;
}

static void run_compiled(struct pair *p, int k, int64_t units) {
    const int64_t cut = units - units / 3;
    mo_instance_run_units(p->c, k, cut, units, p->scratch);
    mo_instance_run_units(p->c, k, 0, cut, p->scratch);
}

/* One compiled step in work. */
struct work {
    int k, version, n_out;
    double terms;
    struct mo_spread want[MOST_OUTPUTS], got[MOST_OUTPUTS];
    struct mo_step_finding *f;
};

static void say(struct mo_step_finding *f, int version, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct mo_step_finding *f, int version, const char *format, ...) {
    va_list ap;
    if (f->state == MO_STEP_WRONG) return; /* the first fault */
    va_start(ap, format);
    vsnprintf(f->why, sizeof f->why, format, ap);
    va_end(ap);
    f->state = MO_STEP_WRONG;
    f->version = version;
}

static void judge(const struct work *w, int output) {
    struct mo_spread_gap gap = mo_spread_compare(&w->want[output], &w->got[output]);
    double scale = fmax(mo_spread_look(&w->want[output]).largest, w->terms);
    double error = scale > 0 ? gap.largest / scale : gap.largest > 0 ? INFINITY : 0;
    if (error >= w->f->error) {
        w->f->error = error;
        w->f->version = w->version;
    }
    if (gap.wrong)
        say(w->f, w->version, "leaves %lld values unwritten or not finite, the first in image %lld",
            (long long)gap.wrong, (long long)gap.wrong_image);
    if (gap.lanes) say(w->f, w->version, "leaves lanes behind the last channel unwritten or not finite");
    if (error > TOLERANCE)
        say(w->f, w->version, "differs by %.2g of the range in image %lld", error, (long long)gap.image);
}

/* One version, after the built-in kernel has run on the other arena. */
static int verify_version(struct pair *p, const struct work *w, moire_error *err) {
    const struct mo_step *step = &p->compiled->steps[w->k];
    const struct mo_version *v = step->n_versions > 1 ? &step->version[w->version] : NULL;
    const size_t scratch = (size_t)(v ? v->scratch_bytes : step->scratch_bytes);
    int64_t n = 0;
    mo_instance_pick(p->c, w->k, w->version);
    for (int i = 0; i < w->n_out; i++)
        mo_spread_poison(&w->got[i]);
    memset(p->scratch, 0xff, scratch + SCRATCH_GUARD);
    run_compiled(p, w->k, v ? v->units : step->units);
    for (int i = 0; i < w->n_out; i++)
        judge(w, i);
    for (size_t i = 0; i < SCRATCH_GUARD; i++)
        if ((unsigned char)p->scratch[scratch + i] != 0xff)
            say(w->f, w->version, "writes outside its scratch");
    struct mo_spread *images = images_of(p, w->got, w->n_out, &n);
    if (!images) return mo_fail(err, MOIRE_ENOMEM, "out of memory verifying kernels");
    if (stray(p, images, n) >= 0) {
        size_t said = strlen(w->f->why);
        if (w->f->state == MO_STEP_WRONG)
            snprintf(w->f->why + said, sizeof w->f->why - said, " and writes outside its output");
        say(w->f, w->version, "writes outside its output");
        memcpy(p->c_block, p->b_block, p->block_bytes);
    }
    mo_free(p->compiled->env, images);
    return MOIRE_OK;
}

/* The outputs of a step that have storage in both arenas; -1: one of them shares bytes with an input. */
static int outputs_of(const struct pair *p, const struct mo_node *node, struct mo_spread *b,
                      struct mo_spread *c) {
    int n = 0;
    for (int i = 0; i < node->n_out && n < MOST_OUTPUTS; i++) {
        if (node->out[i] < 0 || p->built_in->offset[node->out[i]] < 0) continue;
        b[n] = mo_spread_of(p->built_in, p->b, node->out[i]);
        c[n] = mo_spread_of(p->compiled, p->c, node->out[i]);
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0 || p->built_in->offset[node->in[k]] < 0) continue;
            struct mo_spread in = mo_spread_of(p->built_in, p->b, node->in[k]);
            if (mo_spread_overlaps(&b[n], &in)) return -1;
        }
        n++;
    }
    return n;
}

/* Values that the next layers shall see: those of the built-in kernel, or random ones where these would hide
 * errors or are missing. */
static void pass_on(struct pair *p, const struct mo_node *node, bool failed) {
    for (int i = 0; i < node->n_out; i++) {
        int id = node->out[i];
        if (id < 0 || p->built_in->offset[id] < 0) continue;
        struct mo_spread b = mo_spread_of(p->built_in, p->b, id), c = mo_spread_of(p->compiled, p->c, id);
        if (failed || (b.dtype == MOIRE_F32 && mo_spread_look(&b).degenerate)) mo_spread_fill(&b, &p->random);
        mo_spread_copy(&c, &b);
    }
}

static void verify_step(struct pair *p, int k, struct report *report) {
    const struct mo_step *step = &p->compiled->steps[k];
    struct work w = {.k = k, .f = &report->step[k]};
    if (step->dynamic || !p->built_in->steps[k].units) return; /* a view writes nothing */
    const bool compiled = !strcmp(step->kind, "specialised");
    if (compiled) w.n_out = outputs_of(p, step->node, w.want, w.got);
    int rc = mo_instance_run(p->b, k, k + 1, p->scratch);
    const bool failed = rc != MOIRE_OK;
    if (rc == MOIRE_ENOMEM) report->rc = mo_fail(&report->err, rc, "%s", mo_instance_message(p->b));
    if (failed) mo_instance_reset(p->b);
    if (compiled) w.f->state = failed || w.n_out < 0 ? MO_STEP_SKIPPED : MO_STEP_RIGHT;
    if (w.f->state == MO_STEP_RIGHT) w.terms = mo_verify_terms(p->v, p->b, k);
    const int versions = step->n_versions > 1 ? step->n_versions : 1;
    for (; !report->rc && w.version < versions && w.f->state == MO_STEP_RIGHT; w.version++) {
        report->version = w.version;
        report->rc = verify_version(p, &w, &report->err);
    }
    pass_on(p, step->node, failed);
}

/* --- all --- */

static void verify_all(void *ctx, void *shared) {
    struct pair *p = ctx;
    struct report *report = shared;
    bool right = true;
    fill_arenas(p);
    for (; !report->rc && report->at < p->compiled->n_steps; report->at++) {
        verify_step(p, report->at, report);
        right = right && report->step[report->at].state != MO_STEP_WRONG;
    }
    if (right && !report->rc) report->rc = mo_verify_whole(p->v, &report->whole, &report->err);
}

/* What ended the copy, as the fault of the step that it was at. */
static int blame_step(const struct pair *p, struct report *report, int status, moire_error *err) {
    bool slow = status == -ETIMEDOUT, at_step = report->at < p->compiled->n_steps;
    if (status < 0 && !slow)
        return mo_fail(err, MOIRE_EIO, "cannot start a process to verify kernels in: %s", strerror(-status));
    struct mo_step_finding *f = at_step ? &report->step[report->at] : NULL;
    if (!f || f->state != MO_STEP_RIGHT)
        return mo_fail(err, MOIRE_EFAILED, "the verification of compiled kernels %s",
                       slow      ? "takes too long"
                       : at_step ? "crashed in a built-in kernel"
                                 : "crashed in the whole model");
    if (slow)
        say(f, report->version, "never ends");
    else
        say(f, report->version, "crashes (status %d)", status);
    return MOIRE_OK;
}

static int64_t limit_of(const struct mo_step_verifier *v) {
    int64_t left = v->ends ? v->ends - mo_now(v->compiled->env) : LIMIT_NS;
    return left > 0 ? left : 1;
}

int mo_verify_steps(const struct mo_step_verifier *v, struct mo_step_findings *out, moire_error *err) {
    const struct mo_sys *sys = v->compiled->env->sys;
    const int n = v->compiled->n_steps;
    const size_t bytes = sizeof(struct report) + (size_t)n * sizeof(struct mo_step_finding);
    struct pair p;
    if (v->built_in->n_steps != n || v->built_in->arena_bytes != v->compiled->arena_bytes)
        return mo_fail(err, MOIRE_EINTERNAL, "two plans of one graph differ");
    int rc = open_pair(v, &p, err);
    struct report *report = rc ? NULL : sys->share(sys->self, bytes);
    if (!rc && !report) rc = mo_fail(err, MOIRE_ENOMEM, "out of memory verifying kernels");
    if (!rc) {
        int status = sys->fork(sys->self, verify_all, &p, report, limit_of(v));
        bool cut = v->ends && status == -ETIMEDOUT;
        if (status && !cut) rc = blame_step(&p, report, status, err);
        if (!rc && report->rc) rc = mo_fail(err, report->rc, "%s", report->err.message);
        struct mo_step_finding *step = out->step;
        *out = report->whole;
        out->step = step;
        out->cut = cut;
        memcpy(step, report->step, (size_t)n * sizeof *step);
    }
    if (report) sys->unshare(sys->self, report, bytes);
    close_pair(&p);
    return rc;
}
