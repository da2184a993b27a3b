/* SPDX-License-Identifier: Apache-2.0
 * loss.c - NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: log-probabilities, a kernel that takes the
 * label's, and the reduction.
 *
 * A label that names no class, an error on cores, is taken as the nearest that does: a kernel cannot fail. */
#include <string.h>
#include "runtime/gpu/lower/lower.h"

/* Classes last. */
static struct mo_gpu_view classes_last(const struct mo_gpu_view *v) {
    int perm[MO_VIEW_RANK];
    for (int i = 0; i < v->rank; i++)
        perm[i] = i == 0 ? 0 : i + 1 < v->rank ? i + 1 : 1;
    return mo_gpu_permute(v, perm);
}

/* The log-probabilities of the scores: where output 1 lies when it is asked for. */
static struct mo_gpu_view log_probabilities(struct mo_lower *l, const struct mo_gpu_view *x) {
    const bool wanted = l->node->n_out > 1 && l->node->out[1] >= 0;
    struct mo_gpu_view y = wanted ? mo_lower_out(l, 1, NULL) : mo_lower_new(l, x->dtype, x->rank, x->d, NULL);
    if (l->rc) return y;
    const struct mo_row row = {.kind = MO_ROW_LOG_SOFTMAX,
                               .axis = x->rank - 1,
                               .x = classes_last(x),
                               .out = classes_last(&y),
                               .factor = 1};
    mo_lower_row(l, &row);
    return y;
}

/* loss and weight of every position; without `weight` only the loss. */
static void take(struct mo_lower *l, const struct mo_gpu_view *scores, const struct mo_gpu_view *loss,
                 const struct mo_gpu_view *weight) {
    const struct mo_attr *ignore = mo_attr_find(l->node, "ignore_index");
    struct mo_gpu_view label = mo_lower_in(l, 1), of_class = {.rank = -1};
    const char *at[MO_VIEW_RANK] = {"o0", "label"};
    struct mo_each e;
    if (mo_lower_has(l, 2)) of_class = mo_lower_in(l, 2);
    if (l->rc) return;
    for (int i = 2; i < scores->rank; i++)
        at[i] = mo_each_here[i - 1];
    mo_each_init(l, &e, loss);
    mo_each_arg(&e, scores, false);
    mo_each_arg(&e, &label, false);
    const int out = mo_each_arg(&e, loss, true);
    mo_each_text(&e, "    long long label = @1;\n");
    if (ignore)
        mo_each_text(&e, "    const int counts = label != %lldll;\n", (long long)ignore->i);
    else
        mo_each_text(&e, "    const int counts = 1;\n");
    mo_each_text(&e, "    label = label < 0 ? 0 : label >= %lld ? %lld : label;\n", (long long)scores->d[1],
                 (long long)scores->d[1] - 1);
    if (of_class.rank >= 0)
        mo_each_text(&e, "    const float w = !counts ? 0 : @%d(label);\n",
                     mo_each_arg(&e, &of_class, false));
    else
        mo_each_text(&e, "    const float w = counts;\n");
    mo_each_text(&e, "    const float r = !counts ? 0 : -w * ");
    mo_each_value(&e, 0, at);
    mo_each_text(&e, ";\n");
    mo_each_store(&e, out, mo_each_here, "r");
    if (weight) mo_each_store(&e, mo_each_arg(&e, weight, true), mo_each_here, "w");
    mo_each_done(l, &e);
}

/* The sum of all elements, of the same rank. */
static void sum_of(struct mo_lower *l, const struct mo_gpu_view *x, const struct mo_gpu_view *out) {
    const bool axes[MO_VIEW_RANK] = {true, true, true, true, true, true, true, true};
    mo_lower_reduce(l, "ReduceSum", x, axes, out);
}

static void divide(struct mo_lower *l, const struct mo_gpu_view *a, const struct mo_gpu_view *b,
                   const struct mo_gpu_view *y) {
    struct mo_elementwise p;
    mo_elementwise_init(l, &p, *y);
    mo_elementwise_in(&p, a);
    mo_elementwise_in(&p, b);
    mo_gpu_printf(&p.body, "    r = x0 / x1;\n");
    mo_elementwise_done(l, &p);
}

void mo_lower_loss(struct mo_lower *l) {
    static const int64_t ones[MO_VIEW_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    const char *reduction = mo_attr_string(l->node, "reduction", "mean");
    const bool mean = !strcmp(reduction, "mean");
    struct mo_gpu_view x = mo_lower_in(l, 0), y = {.rank = -1}, one, loss, weight, sum, weights;
    if (!l->rc && *l->node->op_type == 'S') x = log_probabilities(l, &x);
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    if (!strcmp(reduction, "none")) {
        take(l, &x, &y, NULL);
        return;
    }
    const struct mo_gpu_view positions = classes_last(&x);
    const int rank = x.rank - 1;
    loss = mo_lower_new(l, MOIRE_F32, rank, positions.d, NULL);
    if (l->rc || !mo_gpu_reshape(&y, rank, ones, &one)) return;
    if (!mean) {
        take(l, &x, &loss, NULL);
        sum_of(l, &loss, &one);
        return;
    }
    weight = mo_lower_new(l, MOIRE_F32, rank, positions.d, NULL);
    sum = mo_lower_new(l, MOIRE_F32, rank, ones, NULL);
    weights = mo_lower_new(l, MOIRE_F32, rank, ones, NULL);
    if (l->rc) return;
    take(l, &x, &loss, &weight);
    sum_of(l, &loss, &sum);
    sum_of(l, &weight, &weights);
    divide(l, &sum, &weights, &one);
}
