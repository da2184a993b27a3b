/* SPDX-License-Identifier: Apache-2.0
 * precision_choice.c - see precision_choice.h. */
#include "codegen/precision_choice.h"

#include <math.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/base/text.h"
#include "runtime/ops/util.h"

/* What a choice must gain: less is within what two measurements of the same differ by. */
static const double GAIN = 1.03;

static struct mo_value view(const moire_tensor *t) {
    struct mo_value v = {.dtype = t->dtype, .shape = {.rank = t->rank}, .data = t->data};
    memcpy(v.shape.d, t->shape, sizeof v.shape.d);
    return v;
}

static void add_floats(struct mo_output_gap *gap, const struct mo_value *a, const struct mo_value *b,
                       int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double want = mo_load(a, i), got = mo_load(b, i);
        if (isfinite(want)) {
            gap->low = fmin(gap->low, want);
            gap->high = fmax(gap->high, want);
        }
        if (isfinite(want) && isfinite(got))
            gap->largest = fmax(gap->largest, fabs(want - got));
        else if (isnan(want) != isnan(got) || (!isnan(want) && want != got))
            gap->apart = true;
    }
}

void mo_output_gap_add(struct mo_output_gap *gap, const moire_tensor *want, const moire_tensor *got) {
    const struct mo_value a = view(want), b = view(got);
    if (!gap->begun)
        *gap = (struct mo_output_gap){
            .begun = true, .floats = mo_type_in(a.dtype, MO_FLOATS), .low = INFINITY, .high = -INFINITY};
    if (a.dtype != b.dtype || !mo_shape_equal(&a.shape, &b.shape) || !mo_type_in(a.dtype, MO_ANY)) {
        gap->apart = true;
        return;
    }
    const int64_t n = mo_shape_count(&a.shape);
    if (gap->floats) add_floats(gap, &a, &b, n);
    for (int64_t i = 0; !gap->floats && i < n; i++)
        gap->n_unequal += mo_load_int(&a, i) != mo_load_int(&b, i);
    gap->n += n;
}

double mo_output_gap_of(const struct mo_output_gap *gap) {
    if (!gap->begun || gap->apart) return INFINITY;
    if (!gap->floats) return gap->n ? (double)gap->n_unequal / (double)gap->n : 0;
    return gap->high > gap->low ? gap->largest / (gap->high - gap->low) : INFINITY;
}

static double speed(const struct mo_precision_trial *t) {
    return t->ns > 0 ? t->fp32_ns / t->ns : 0;
}

static bool is_within(const struct mo_precision_trial *t, double tolerance) {
    return t->exempt || t->difference <= tolerance;
}

int mo_precision_choose(const struct mo_precision_trial *trial, int n, double tolerance) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (speed(&trial[i]) < GAIN || !is_within(&trial[i], tolerance)) continue;
        if (best < 0 || speed(&trial[i]) > speed(&trial[best])) best = i;
    }
    return best;
}

/* Without a tolerance auto is float32, on a matrix unit where there is one. */
static const char *name_of(const struct mo_precision_trial *t) {
    return t->precision == MOIRE_PRECISION_AUTO ? "fp32 (matrix unit)" : mo_precision_name(t->precision);
}

static void say_trial(struct mo_text *t, const struct mo_precision_trial *trial, const char *verb,
                      double tolerance) {
    mo_text_put(t, "%s%s %.2f times as fast as fp32", name_of(trial), verb, speed(trial));
    if (trial->exempt) return;
    if (!isfinite(trial->difference))
        mo_text_put(t, ", outputs cannot be compared with fp32's");
    else
        mo_text_put(t, ", differs by %.2g %% of the range (allowed %.2g %%)", trial->difference * 100,
                    tolerance * 100);
}

void mo_precision_say(const struct mo_precision_trial *trial, int n, double tolerance, char *out,
                      size_t room) {
    struct mo_text t = mo_text_in(out, room);
    const int best = mo_precision_choose(trial, n, tolerance);
    if (best >= 0) {
        say_trial(&t, &trial[best], ",", tolerance);
        return;
    }
    mo_text_put(&t, "fp32");
    for (int i = 0; i < n; i++) {
        mo_text_put(&t, "%s", i ? "; " : ": ");
        say_trial(&t, &trial[i], " is", tolerance);
    }
}
