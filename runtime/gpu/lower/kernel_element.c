/* SPDX-License-Identifier: Apache-2.0
 * kernel_element.c - kernels with one thread for every element of a view, which know its coordinates:
 * operators that are neither pointwise nor a library's, and seldom hot.
 *
 * The body sees the coordinates o0, o1, ... and the operands a0, a1, ...; it reads and writes them at any
 * coordinates (mo_each_text, mo_each_store).  Neighbouring threads have neighbouring elements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

enum { THREADS = 256 };

const char *const mo_each_here[MO_VIEW_RANK] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"};

void mo_each_init(struct mo_lower *l, struct mo_each *e, const struct mo_gpu_view *over) {
    *e = (struct mo_each){.over = *over, .body = {.env = l->env}};
    e->flops = over->rank < 0 ? 0 : mo_gpu_count(over);
}

int mo_each_arg(struct mo_each *e, const struct mo_gpu_view *v, bool written) {
    e->written[e->n] = written;
    e->arg[e->n] = *v;
    return e->n < MO_EACH_ARGS - 1 ? e->n++ : e->n;
}

static void place_text(struct mo_gpu_text *t, const struct mo_each *e, int k, const char *const *at) {
    const struct mo_gpu_view *v = &e->arg[k];
    bool any = false;
    mo_gpu_printf(t, "a%d[", k);
    for (int i = 0; i < v->rank; i++) {
        if (v->d[i] == 1 || !v->stride[i]) continue;
        mo_gpu_printf(t, "%s(long long)(%s) * %lld", any ? " + " : "", at[i], (long long)v->stride[i]);
        any = true;
    }
    mo_gpu_printf(t, any ? "]" : "0]");
}

void mo_each_value(struct mo_each *e, int k, const char *const *at) {
    struct mo_gpu_text place = {.env = e->body.env};
    if (e->arg[k].rank < 0 || !mo_gpu_memory_type(e->arg[k].dtype)) return; /* an error is on its way */
    place_text(&place, e, k, at);
    if (place.failed)
        e->body.failed = true;
    else
        mo_gpu_get(&e->body, e->arg[k].dtype, place.at);
    mo_gpu_text_free(&place);
}

void mo_each_store(struct mo_each *e, int k, const char *const *at, const char *value) {
    if (e->arg[k].rank < 0 || !mo_gpu_memory_type(e->arg[k].dtype)) return;
    mo_gpu_printf(&e->body, "    ");
    place_text(&e->body, e, k, at);
    mo_gpu_printf(&e->body, " = ");
    mo_gpu_put(&e->body, e->arg[k].dtype, value);
    mo_gpu_printf(&e->body, ";\n");
}

/* Splits "i, j + (1), k)..." into coordinates, in place; where it ends.  Commas in brackets do not count. */
static char *split(char *from, const char *at[MO_VIEW_RANK]) {
    int depth = 0, n = 0;
    at[n++] = from;
    for (char *p = from;; p++) {
        if (*p == '(') depth++;
        if (*p == ')' && depth-- == 0) {
            *p = 0;
            return p + 1;
        }
        if (*p != ',' || depth || n == MO_VIEW_RANK) continue;
        *p = 0;
        at[n++] = p + 1;
    }
}

/* The value of operand k at what follows: "(...)", "{axis:name}", or the thread's own coordinates. */
static char *value_text(struct mo_each *e, int k, char *p) {
    const char *at[MO_VIEW_RANK];
    memcpy(at, mo_each_here, sizeof at);
    if (*p == '(') {
        p = split(p + 1, at);
    } else if (*p == '{') {
        char *name, *end = strchr(p, '}');
        const long axis = strtol(p + 1, &name, 10);
        at[axis] = name + 1;
        *end = 0;
        p = end + 1;
    }
    mo_each_value(e, k, at);
    return p;
}

void mo_each_text(struct mo_each *e, const char *format, ...) {
    struct mo_gpu_text text = {.env = e->body.env};
    va_list args;
    va_start(args, format);
    mo_gpu_vprintf(&text, format, args);
    va_end(args);
    e->body.failed |= text.failed;
    for (char *p = text.failed ? NULL : text.at; p && *p;) {
        const size_t plain = strcspn(p, "@$");
        mo_gpu_printf(&e->body, "%.*s", (int)plain, p);
        p += plain;
        if (!*p) break;
        const bool value = *p == '@';
        const int k = (int)strtol(p + 1, &p, 10);
        if (value)
            p = value_text(e, k, p);
        else
            mo_gpu_printf(&e->body, "%s", mo_gpu_value_type(e->arg[k].dtype));
    }
    mo_gpu_text_free(&text);
}

struct mo_gpu_view mo_lower_out_like(struct mo_lower *l, int k, const struct mo_gpu_view *x) {
    int order[MO_VIEW_RANK];
    if (l->rc) return (struct mo_gpu_view){.rank = -1};
    mo_gpu_order_of(x, order);
    return mo_lower_out(l, k, order);
}

void mo_each_close(struct mo_lower *l, struct mo_each *e, const char *value) {
    mo_each_store(e, e->out, mo_each_here, value);
    mo_each_done(l, e);
}

/* Coordinates out of the number of the thread, in the order of memory. */
static void coordinates_text(struct mo_gpu_text *t, const struct mo_gpu_view *over) {
    int order[MO_VIEW_RANK];
    mo_gpu_order_of(over, order);
    for (int k = over->rank - 1; k >= 0; k--) {
        int i = order[k];
        if (over->d[i] == 1)
            mo_gpu_printf(t, "    const int o%d = 0;\n", i);
        else
            mo_gpu_printf(t, "    const int o%d = (int)(t %% %lluu);\n    t /= %lluu;\n", i,
                          (unsigned long long)over->d[i], (unsigned long long)over->d[i]);
        mo_gpu_printf(t, "    (void)o%d;\n", i);
    }
}

static void kernel_text(struct mo_gpu_text *t, const struct mo_each *e, int64_t count) {
    for (int k = 0; k < e->n; k++)
        mo_gpu_printf(t, "%s%s%s *a%d", k ? ", " : "(", e->written[k] ? "" : "const ",
                      mo_gpu_memory_type(e->arg[k].dtype), k);
    mo_gpu_printf(t, ") {\n");
    mo_gpu_printf(t, "    mo_index t = (mo_index)blockIdx.x * %du + threadIdx.x;\n", THREADS);
    mo_gpu_printf(t, "    if (t >= %lluu) return;\n", (unsigned long long)count);
    coordinates_text(t, &e->over);
    mo_gpu_printf(t, "%s}\n", e->body.at);
}

void mo_each_done(struct mo_lower *l, struct mo_each *e) {
    struct mo_gpu_text text = {.env = l->env};
    struct mo_gpu_place args[MO_EACH_ARGS];
    if (e->body.failed) mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    for (int k = 0; k < e->n && !l->rc; k++) {
        if (!mo_gpu_memory_type(e->arg[k].dtype))
            mo_lower_fail(l, MOIRE_EUNSUPPORTED, "type %s is not supported on a GPU",
                          mo_dtype_name(e->arg[k].dtype));
        args[k] = e->arg[k].place;
    }
    if (!l->rc) {
        int64_t count = mo_gpu_count(&e->over);
        kernel_text(&text, e, count);
        const int kernel = mo_lower_kernel(l, &text, (count + THREADS - 1) / THREADS, 1, 1, THREADS);
        mo_lower_launch(l, kernel, args, e->n, e->flops);
    }
    mo_gpu_text_free(&e->body);
}
