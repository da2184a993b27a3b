/* SPDX-License-Identifier: Apache-2.0
 * run_rewritten.c - see run_rewritten.h.  Layers compute in float32 also between conversions, so that what is
 * told of a model does not depend on the machine. */
#include "codegen/quantize/run_rewritten.h"
#include "codegen/region_graph.h"

#include <string.h>
#include "runtime/plan/plan.h"

struct mo_qprobe mo_qprobe_of(const struct mo_env *env, uint8_t *bytes, size_t n) {
    return (struct mo_qprobe){.env = env, .bytes = bytes, .n = n};
}

static void drop_plan(struct mo_qprobe *p) {
    mo_instance_destroy(p->instance);
    mo_plan_destroy(p->plan);
    mo_free(p->env, p->scratch);
    mo_free(p->env, p->shapes);
    p->instance = NULL;
    p->plan = NULL;
    p->scratch = NULL;
    p->shapes = NULL;
}

void mo_qprobe_close(struct mo_qprobe *p) {
    drop_plan(p);
    mo_free(p->env, p->bytes);
    p->bytes = NULL;
}

static bool fits(const struct mo_qprobe *p, const struct mo_model_samples *s, int sample) {
    for (int i = 0; p->plan && i < s->n_in; i++) {
        const moire_tensor *t = &s->at[sample].in[i];
        if (t->rank != p->shapes[i].rank ||
            memcmp(t->shape, p->shapes[i].shape, (size_t)t->rank * sizeof *t->shape))
            return false;
    }
    return p->plan;
}

static int make_plan(struct mo_qprobe *p, const struct mo_model_samples *s, int sample, moire_error *err) {
    struct mo_graph *g;
    drop_plan(p);
    p->shapes = mo_alloc(p->env, ((size_t)s->n_in + 1) * sizeof *p->shapes);
    if (!p->shapes) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < s->n_in; i++) {
        const moire_tensor *t = &s->at[sample].in[i];
        p->shapes[i] = (moire_shape){.input = s->name[i], .rank = t->rank};
        memcpy(p->shapes[i].shape, t->shape, sizeof t->shape);
    }
    const struct mo_frontend_options front = {
        .shapes = p->shapes, .n_shapes = s->n_in, .precision = MOIRE_PRECISION_FP32};
    const struct mo_plan_options planning = {.isa = mo_isa_detect(), .shaped = mo_region_graph};
    int rc = mo_frontend_parse(p->env, p->bytes, p->n, NULL, &front, &g, err);
    if (!rc) rc = mo_plan_build(g, &planning, &p->plan, err);
    if (!rc) rc = mo_instance_create(p->plan, &p->instance, err);
    if (!rc) p->scratch = mo_alloc_scratch(p->env, (size_t)p->plan->scratch_bytes + 64);
    return rc || p->scratch ? rc : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

int mo_qprobe_run(struct mo_qprobe *p, const struct mo_model_samples *s, int sample, moire_error *err) {
    int rc = fits(p, s, sample) ? MOIRE_OK : make_plan(p, s, sample, err);
    if (!rc) mo_instance_reset(p->instance);
    for (int i = 0; !rc && i < s->n_in; i++)
        rc = mo_instance_set_input(p->instance, i, &s->at[sample].in[i], err);
    if (!rc && (rc = mo_instance_run(p->instance, 0, p->plan->n_steps, p->scratch)))
        mo_fail(err, rc, "%s", mo_instance_message(p->instance));
    return rc;
}

int mo_qprobe_outputs(const struct mo_qprobe *p) {
    return p->plan ? p->plan->graph->n_outputs : 0;
}

const char *mo_qprobe_output(const struct mo_qprobe *p, int i, moire_tensor *out) {
    if (mo_instance_output(p->instance, i, out)) out->data = NULL;
    return p->plan->graph->tensors[p->plan->graph->outputs[i]]->name;
}
