/* SPDX-License-Identifier: Apache-2.0
 * along_axis.c - operators that compare, sum up or choose along an axis, a thread an element of the output.
 */
#include <string.h>
#include "runtime/gpu/lower/lower.h"

void mo_lower_arg(struct mo_lower *l) {
    const bool least = !strcmp(l->node->op_type, "ArgMin"),
               last = mo_attr_int(l->node, "select_last_index", 0) != 0;
    struct mo_gpu_view x = mo_lower_in(l, 0), y = {.rank = -1}, kept;
    int64_t d[MO_VIEW_RANK];
    struct mo_each e;
    if (!l->rc) y = mo_lower_out(l, 0, NULL);
    if (l->rc) return;
    const int axis = mo_lower_axis(l, 0, x.rank);
    memcpy(d, x.d, sizeof d);
    d[axis] = 1;
    mo_gpu_reshape(&y, x.rank, d, &kept);
    mo_each_init(l, &e, &kept);
    mo_each_arg(&e, &x, false);
    e.out = mo_each_arg(&e, &kept, true);
    mo_each_text(&e,
                 "    int best = 0;\n    $0 top = @0{%d:0};\n"
                 "    for (int j = 1; j < %lld; j++) {\n"
                 "    const $0 v = @0{%d:j};\n"
                 "    if (v %c%s top) {\n        best = j;\n        top = v;\n    }\n    }\n",
                 axis, (long long)x.d[axis], axis, least ? '<' : '>', last ? "=" : "");
    e.flops = mo_gpu_count(&x);
    mo_each_close(l, &e, "best");
}

void mo_lower_cumsum(struct mo_lower *l) {
    const struct mo_tensor *at = l->graph->tensors[l->node->in[1]];
    const char *self = mo_attr_int(l->node, "exclusive", 0) ? "" : "=";
    const bool reverse = mo_attr_int(l->node, "reverse", 0) != 0;
    struct mo_each e;
    if (!at->data) mo_lower_fail(l, MOIRE_EUNSUPPORTED, "input 1 must be constant on a GPU");
    if (!mo_each_open(l, &e, 1, 0)) return;
    const struct mo_gpu_view *x = &e.arg[0];
    struct mo_value axes = mo_tensor_value(at);
    int axis = (int)mo_load_int(&axes, 0);
    if (axis < 0) axis += x->rank;
    mo_each_text(&e, "    $0 s = 0;\n");
    if (reverse)
        mo_each_text(&e, "    for (int j = %lld; j >%s o%d; j--) s += @0{%d:j};\n", (long long)x->d[axis] - 1,
                     self, axis, axis);
    else
        mo_each_text(&e, "    for (int j = 0; j <%s o%d; j++) s += @0{%d:j};\n", self, axis, axis);
    e.flops = mo_gpu_count(x) * x->d[axis] / 2;
    mo_each_close(l, &e, "s");
}

/* An index out of range, an error on cores, is taken as the nearest that exists: a kernel cannot fail, and
 * reads nothing beyond its operands. */
void mo_lower_gather_elements(struct mo_lower *l) {
    struct mo_each e;
    if (!mo_each_open(l, &e, 2, 1)) return;
    const int axis = mo_lower_axis(l, 0, e.arg[0].rank);
    const long long n = e.arg[0].d[axis];
    mo_each_text(&e,
                 "    long long j = @1;\n    if (j < 0) j += %lld;\n"
                 "    const $0 v = @0{%d:j < 0 ? 0 : j >= %lld ? %lld : j};\n",
                 n, axis, n, n - 1);
    mo_each_close(l, &e, "v");
}
