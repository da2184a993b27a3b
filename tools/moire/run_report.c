/* SPDX-License-Identifier: Apache-2.0
 * run_report.c - what `moire run` prints: outputs, times, the profile by layer; as text or JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tools/moire/run.h"
#include "tools/moire/slow_show.h"

struct summary {
    double low, high, mean;
    bool numbers; /* a type the three are known for */
};

static double element(const moire_tensor *t, size_t i, bool *known) {
    *known = true;
    switch (t->dtype) {
    case MOIRE_F32:
        return ((const float *)t->data)[i];
    case MOIRE_F64:
        return ((const double *)t->data)[i];
    case MOIRE_I64:
        return (double)((const int64_t *)t->data)[i];
    case MOIRE_I32:
        return ((const int32_t *)t->data)[i];
    case MOIRE_U8:
    case MOIRE_BOOL:
        return ((const uint8_t *)t->data)[i];
    default:
        *known = false;
        return 0;
    }
}

static struct summary summarize(const moire_tensor *t) {
    struct summary s = {.low = INFINITY, .high = -INFINITY, .numbers = true};
    size_t size = mo_dtype_bytes(t->dtype), n = size ? t->bytes / size : 0;
    for (size_t i = 0; i < n && s.numbers; i++) {
        double v = element(t, i, &s.numbers);
        if (v < s.low || isnan(v)) s.low = v;
        if (v > s.high || isnan(v)) s.high = v;
        s.mean += v / (double)n;
    }
    if (!n) s.numbers = false;
    return s;
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

/* The kind of most of the work: what a reader calls the run. */
static const char *kind_of(const struct mo_plan *plan) {
    int64_t special = 0, all = 0;
    for (int k = 0; k < plan->n_steps; k++) {
        all += plan->steps[k].flops;
        if (!strcmp(plan->steps[k].kind, "specialised")) special += plan->steps[k].flops;
    }
    return special * 2 > all ? "specialised" : "generic";
}

/* A name from the model without control characters. */
static const char *clean(const char *name, char *out, size_t n) {
    size_t i = 0;
    for (; name[i] && i + 1 < n; i++)
        out[i] = (unsigned char)name[i] < 32 || name[i] == 127 ? '?' : name[i];
    out[i] = 0;
    return out;
}

static void print_text(const struct mo_run_options *o, const struct mo_plan *plan,
                       struct mo_instance *instance, const struct mo_timing *times,
                       const struct mo_ceiling *ceiling) {
    char shape[128], name[256];
    if (o->n_inputs < plan->graph->n_inputs) printf("inputs generated from seed %lld\n", (long long)o->seed);
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        moire_tensor t;
        if (mo_instance_output(instance, i, &t)) continue;
        struct summary s = summarize(&t);
        struct mo_shape dims = {.rank = t.rank};
        memcpy(dims.d, t.shape, sizeof dims.d);
        printf("%s %s %s", clean(plan->graph->tensors[plan->graph->outputs[i]]->name, name, sizeof name),
               mo_dtype_name(t.dtype), mo_shape_text(&dims, shape, sizeof shape));
        if (s.numbers) printf("  min %.6g  max %.6g  mean %.6g", s.low, s.high, s.mean);
        printf("\n");
    }
    printf("%d layers, activations %.2f MiB (lower bound %.2f), ", plan->n_steps,
           (double)plan->arena_bytes / 1048576, (double)plan->arena_lower / 1048576);
    if (o->mapped_bytes)
        printf("compiled model %.2f MiB\n", (double)o->mapped_bytes / 1048576);
    else
        printf("packed weights %.2f MiB\n", (double)plan->weight_bytes / 1048576);
    printf("%d run%s: min %.3f ms, median %.3f ms (%s, %d thread%s)\n", times->n, times->n == 1 ? "" : "s",
           ms(times->run_ns[0]), ms(times->run_ns[times->n / 2]), kind_of(plan), o->threads,
           o->threads == 1 ? "" : "s");
    if (!ceiling) return;
    json_t *layers = mo_profile_json(plan, times, ceiling), *json = mo_ceiling_json(ceiling);
    mo_profile_print(layers, json);
    json_decref(layers);
    json_decref(json);
}

static json_t *outputs_json(const struct mo_plan *plan, struct mo_instance *instance) {
    json_t *outputs = json_array();
    for (int i = 0; i < plan->graph->n_outputs; i++) {
        moire_tensor t;
        if (mo_instance_output(instance, i, &t)) continue;
        struct summary s = summarize(&t);
        json_t *shape = json_array(), *row = json_object();
        for (int d = 0; d < t.rank; d++)
            json_array_append_new(shape, json_integer(t.shape[d]));
        json_object_set_new(row, "name", json_string(plan->graph->tensors[plan->graph->outputs[i]]->name));
        json_object_set_new(row, "type", json_string(mo_dtype_name(t.dtype)));
        json_object_set_new(row, "shape", shape);
        if (s.numbers && isfinite(s.low) && isfinite(s.high)) {
            json_object_set_new(row, "min", json_real(s.low));
            json_object_set_new(row, "max", json_real(s.high));
            json_object_set_new(row, "mean", json_real(s.mean));
        }
        json_array_append_new(outputs, row);
    }
    return outputs;
}

static void print_json(const struct mo_run_options *o, const struct mo_plan *plan,
                       struct mo_instance *instance, const struct mo_timing *times,
                       const struct mo_ceiling *ceiling, const struct mo_slow *slow) {
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o}", "model", o->file, "system",
        "moire", "kind", kind_of(plan), "precision", mo_precision_used(plan->graph), "threads", o->threads,
        "runs", times->n, "min_ms", ms(times->run_ns[0]), "median_ms", ms(times->run_ns[times->n / 2]),
        "seed", (json_int_t)o->seed, "arena_bytes", (json_int_t)plan->arena_bytes, "arena_lower_bytes",
        (json_int_t)plan->arena_lower, "weight_bytes", (json_int_t)plan->weight_bytes, "mapped_bytes",
        (json_int_t)o->mapped_bytes, "outputs", outputs_json(plan, instance));
    if (result) json_object_set_new(result, "slow", mo_slow_json(slow));
    if (result && ceiling) {
        json_object_set_new(result, "ceilings", mo_ceiling_json(ceiling));
        json_object_set_new(result, "layers", mo_profile_json(plan, times, ceiling));
    }
    if (result) json_dumpf(result, stdout, JSON_INDENT(1));
    printf("\n");
    json_decref(result);
}

void mo_run_report(const struct mo_run_options *o, const struct mo_plan *plan, struct mo_instance *instance,
                   const struct mo_timing *times, const struct mo_ceiling *ceiling,
                   const struct mo_slow *slow) {
    if (o->json)
        print_json(o, plan, instance, times, ceiling, slow);
    else
        print_text(o, plan, instance, times, ceiling);
    fflush(stdout);
    mo_slow_warn("run", o->file, slow);
}
