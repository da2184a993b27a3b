/* SPDX-License-Identifier: Apache-2.0
 * layer_profile.c - judges and shows the times of layers; see layer_profile.h.  Text is of our own making:
 * operators in the table's names, shapes and kernels, never a name out of the model. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/kernels/layer_profile.h"
#include "bench/report/report.h"
#include "runtime/ops/op.h"
#include "runtime/plan/describe.h"

static struct mo_shape output_shape(const struct mo_plan *plan, const struct mo_step *step) {
    int id = step->node->n_out ? step->node->out[0] : -1;
    return id >= 0 ? plan->graph->tensors[id]->shape : (struct mo_shape){.rank = -1};
}

void mo_profile_judge(const struct mo_plan *plan, int layer, const struct mo_timing *timing,
                      const struct mo_ceiling *ceiling, struct mo_profile_row *out) {
    const struct mo_step *s = &plan->steps[layer];
    const struct mo_shape shape = output_shape(plan, s);
    const double ns = (double)timing->min_ns[layer];
    double total = 0;
    for (int k = 0; k < timing->n_layers; k++)
        total += (double)timing->min_ns[k];
    *out = (struct mo_profile_row){.min_ms = ns * 1e-6,
                                   .median_ms = (double)timing->median_ns[layer] * 1e-6,
                                   .share = total > 0 ? ns / total : 0,
                                   .threads = mo_step_workers(s, timing->threads)};
    mo_layer_text(plan->graph, s->node, out->text, sizeof out->text);
    mo_shape_text(&shape, out->shape, sizeof out->shape);
    double bound = mo_ceiling_bound(ceiling, (double)s->executed, (double)s->bytes, &out->limit);
    if (!(ns > 0)) return;
    out->gf = (double)s->flops / ns;
    out->executed_gf = (double)s->executed / ns;
    out->gb = (double)s->bytes / ns;
    out->fma_share = ceiling->fma_gf > 0 ? out->executed_gf / ceiling->fma_gf : 0;
    out->bound_share = bound / ns;
}

/* Bytes of the constants of a layer that computes, as the model has them: a plan may have let go of the data.
 */
static double weight_bytes(const struct mo_plan *plan, const struct mo_step *s) {
    double bytes = 0;
    for (int i = 0; s->flops > 0 && s->node && i < s->node->n_in; i++) {
        const struct mo_tensor *t = s->node->in[i] >= 0 ? plan->graph->tensors[s->node->in[i]] : NULL;
        if (t && t->producer < 0 && !t->is_input) bytes += (double)mo_tensor_bytes(t);
    }
    return fmin(bytes, (double)s->bytes);
}

/* Of a plan's weights, the part that no cache can keep. */
static double part_from_memory(const struct mo_plan *plan, const struct mo_ceiling *ceiling) {
    const double kept = (double)ceiling->level[MO_LEVEL_MEMORY - 1].capacity;
    double all = 0;
    for (int k = 0; k < plan->n_steps; k++)
        all += weight_bytes(plan, &plan->steps[k]);
    return all > kept ? 1 - kept / all : 0;
}

struct mo_floor mo_profile_floor(const struct mo_plan *plan, const struct mo_ceiling *ceiling) {
    const double part = part_from_memory(plan, ceiling), rate = ceiling->level[MO_LEVEL_MEMORY].read_gb;
    struct mo_floor floor = {0};
    const char *limit;
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *s = &plan->steps[k];
        const double bytes = (double)s->bytes, fetch = part > 0 ? part * weight_bytes(plan, s) / rate : 0;
        floor.written_ms += 1e-6 * fmax(fetch, mo_ceiling_bound(ceiling, (double)s->flops, bytes, &limit));
        floor.executed_ms +=
            1e-6 * fmax(fetch, mo_ceiling_bound(ceiling, (double)s->executed, bytes, &limit));
    }
    return floor;
}

static bool is_view(const struct mo_step *step) {
    return !strcmp(step->kind, "view");
}

static json_t *row_json(const struct mo_step *s, int layer, const struct mo_profile_row *r) {
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
        "s:s, s:I, s:i}",
        "layer", layer, "operator", s->node->op ? s->node->op->name : "", "text", r->text, "output", r->shape,
        "kernel", s->kernel, "kind", s->kind, "ms", r->min_ms, "min_ms", r->min_ms, "median_ms", r->median_ms,
        "share", r->share, "flops", (json_int_t)s->flops, "executed_flops", (json_int_t)s->executed, "bytes",
        (json_int_t)s->bytes, "gflops", r->gf, "executed_gflops", r->executed_gf, "gb_s", r->gb, "fma_share",
        r->fma_share, "roofline_share", r->bound_share, "limit", r->limit, "units", (json_int_t)s->units,
        "threads", r->threads);
}

json_t *mo_profile_json(const struct mo_plan *plan, const struct mo_timing *timing,
                        const struct mo_ceiling *ceiling) {
    json_t *layers = json_array();
    for (int k = 0; layers && k < plan->n_steps; k++) {
        struct mo_profile_row r;
        mo_profile_judge(plan, k, timing, ceiling, &r);
        if (json_array_append_new(layers, row_json(&plan->steps[k], k, &r))) {
            json_decref(layers);
            return NULL;
        }
    }
    return layers;
}

/* --- trace ---------------------------------------------------------------------------------------------- */
static json_t *span(const struct mo_plan *plan, const struct mo_timing *timing, int worker, int layer,
                    const struct mo_profile_row *r) {
    const struct mo_step *s = &plan->steps[layer];
    const size_t at = (size_t)worker * (size_t)timing->n_layers + (size_t)layer;
    const double begin = (double)timing->begin_ns[at] * 1e-3, end = (double)timing->end_ns[at] * 1e-3;
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:I}}", "ph",
                     "X", "name", r->text, "cat", s->kind, "pid", 1, "tid", worker, "ts", begin, "dur",
                     end - begin, "args", "layer", layer, "output", r->shape, "kernel", s->kernel, "limit",
                     r->limit, "min_ms", r->min_ms, "gflops", r->gf, "roofline_share", r->bound_share,
                     "units", (json_int_t)s->units);
}

int mo_profile_write_trace(const struct mo_env *env, const struct mo_plan *plan,
                           const struct mo_timing *timing, const struct mo_ceiling *ceiling, const char *path,
                           moire_error *err) {
    json_t *events = json_array();
    for (int w = 0; w < timing->threads; w++) {
        char name[32];
        snprintf(name, sizeof name, "worker %d", w);
        json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name",
                                                "thread_name", "pid", 1, "tid", w, "args", "name", name));
    }
    for (int k = 0; k < plan->n_steps; k++) {
        struct mo_profile_row r;
        if (is_view(&plan->steps[k])) continue;
        mo_profile_judge(plan, k, timing, ceiling, &r);
        for (int w = 0; w < timing->threads; w++)
            if (timing->end_ns[(size_t)w * (size_t)timing->n_layers + (size_t)k])
                json_array_append_new(events, span(plan, timing, w, k, &r));
    }
    json_t *trace = json_pack("{s:o, s:s, s:o}", "traceEvents", events, "displayTimeUnit", "ns", "ceilings",
                              mo_ceiling_json(ceiling));
    int code = trace ? mo_bench_write_json(env, trace, path, err)
                     : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    json_decref(trace);
    return code;
}
