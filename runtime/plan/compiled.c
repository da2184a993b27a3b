/* SPDX-License-Identifier: Apache-2.0
 * compiled.c - names of compiled models, and opening them; see compiled.h. */
#define _GNU_SOURCE
#include "runtime/plan/compiled.h"
#include "runtime/base/file.h"
#include "runtime/plan/versions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_CAP = 4400, PART = 1 << 20 };

static void add_text(struct mo_sha256 *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_text(struct mo_sha256 *h, const char *format, ...) {
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    mo_sha256_add(h, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* Which of two bindings comes first, whatever their order on a command line: by input, then as given. */
static bool is_before(const struct mo_compiled_request *r, int a, int b) {
    const int order = strcmp(r->shapes[a].input, r->shapes[b].input);
    return order ? order < 0 : a < b;
}

static void add_shapes(struct mo_sha256 *h, const struct mo_compiled_request *r) {
    int last = -1;
    for (int n = 0; n < r->n_shapes; n++) {
        int next = -1;
        for (int i = 0; i < r->n_shapes; i++)
            if ((last < 0 || is_before(r, last, i)) && (next < 0 || is_before(r, i, next))) next = i;
        const moire_shape *shape = &r->shapes[last = next];
        mo_sha256_add(h, shape->input, strlen(shape->input) + 1);
        for (int k = 0; k < shape->rank; k++)
            add_text(h, ",%lld", (long long)shape->shape[k]);
        add_text(h, "\n");
    }
}

/* The version of everything that shapes a compiled model, and what it was asked for. */
static void add_request(struct mo_sha256 *h, const struct mo_compiled_request *r) {
    static const char *const precisions[] = {"", " fp32", " int8", " bf16", " fp16"};
    add_text(h, "moire model %d.%d %s\nabi %d\ngenerator %d\nisa %s%s%s\n", MO_STORE_FORMAT, MO_IMAGE_FORMAT,
             MOIRE_VERSION_STRING, MO_KERNEL_ABI, MO_GENERATOR_VERSION, mo_isa_name(r->isa),
             r->exact ? " exact" : "", precisions[r->precision]);
    add_shapes(h, r);
}

static int open_regular(const struct mo_env *env, const char *path, struct mo_stat *st, int *fd,
                        moire_error *err) {
    const struct mo_sys *sys = env->sys;
    *fd = sys->open(sys->self, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (*fd < 0) return mo_file_cannot(path, *fd, err);
    int rc = sys->stat(sys->self, *fd, st);
    if (!rc && !st->is_file) rc = -EINVAL;
    if (!rc) return MOIRE_OK;
    sys->close(sys->self, *fd);
    return mo_file_cannot(path, rc, err);
}

static int add_state(const struct mo_env *env, struct mo_sha256 *h, const char *path, moire_error *err) {
    struct mo_stat st;
    int fd;
    int rc = open_regular(env, path, &st, &fd, err);
    if (rc) return rc;
    env->sys->close(env->sys->self, fd);
    add_text(h, "file %llx %llx %lld %lld %lld\n", (unsigned long long)st.device,
             (unsigned long long)st.inode, (long long)st.size, (long long)st.modified, (long long)st.changed);
    return MOIRE_OK;
}

static int add_contents(const struct mo_env *env, struct mo_sha256 *h, const char *path, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    struct mo_stat st;
    int fd;
    int rc = open_regular(env, path, &st, &fd, err);
    if (rc) return rc;
    char *part = mo_alloc(env, PART);
    ssize_t got = 0;
    if (!part) rc = mo_fail(err, MOIRE_ENOMEM, "out of memory reading '%.300s'", path);
    while (!rc && (got = sys->read(sys->self, fd, part, PART)) > 0)
        mo_sha256_add(h, part, (size_t)got);
    if (!rc && got < 0) rc = mo_file_cannot(path, (int)got, err);
    mo_free(env, part);
    sys->close(sys->self, fd);
    return rc;
}

int mo_compiled_stamp(const struct mo_env *env, const struct mo_compiled_request *request,
                      char name[MO_SHA256_HEX], moire_error *err) {
    struct mo_sha256 h;
    mo_sha256_init(&h);
    add_request(&h, request);
    int rc = add_state(env, &h, request->path, err);
    mo_sha256_end_hex(&h, name);
    return rc;
}

/* Calls add for every file that holds data of the model, in order. */
static int add_outside(const struct mo_env *env, struct mo_sha256 *h, const char *path,
                       const struct mo_graph *graph,
                       int (*add)(const struct mo_env *, struct mo_sha256 *, const char *, moire_error *),
                       moire_error *err) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0, rc = MOIRE_OK;
    char file[PATH_CAP];
    for (int i = 0; !rc && i < graph->n_outside; i++) {
        if (snprintf(file, sizeof file, "%.*s%s", folder, path, graph->outside[i]) >= (int)sizeof file)
            return mo_fail(err, MOIRE_EIO, "the path of external data is too long");
        rc = add(env, h, file, err);
    }
    return rc;
}

int mo_compiled_outside(const struct mo_env *env, const char *path, const struct mo_graph *graph,
                        char digest[MO_SHA256_HEX], moire_error *err) {
    struct mo_sha256 h;
    digest[0] = 0;
    if (!graph->n_outside) return MOIRE_OK;
    mo_sha256_init(&h);
    int rc = add_outside(env, &h, path, graph, add_state, err);
    mo_sha256_end_hex(&h, digest);
    return rc;
}

static void add_kernels(struct mo_sha256 *h, const struct mo_plan *plan) {
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        add_text(h, "\n%s %d", step->kernel, (int)step->packing);
        for (int i = 1; i < step->n_versions; i++)
            add_text(h, "\n+%s %d", step->version[i].kernel, (int)step->version[i].packing);
    }
}

int mo_compiled_key(const struct mo_plan *plan, const struct mo_compiled_request *request,
                    char key[MO_SHA256_HEX], moire_error *err) {
    struct mo_sha256 h;
    mo_sha256_init(&h);
    add_request(&h, request);
    int rc = add_contents(plan->env, &h, request->path, err);
    if (!rc) rc = add_outside(plan->env, &h, request->path, plan->graph, add_contents, err);
    add_kernels(&h, plan);
    mo_sha256_end_hex(&h, key);
    return rc;
}

int mo_compiled_state(const struct mo_plan *plan, const struct mo_compiled_request *request,
                      char digest[MO_SHA256_HEX], moire_error *err) {
    struct mo_sha256 h;
    mo_sha256_init(&h);
    add_request(&h, request);
    int rc = add_state(plan->env, &h, request->path, err);
    if (!rc) rc = add_outside(plan->env, &h, request->path, plan->graph, add_state, err);
    add_kernels(&h, plan);
    mo_sha256_end_hex(&h, digest);
    return rc;
}

static int read_stamp(const struct mo_store *store, const struct mo_env *env, const char *name,
                      struct mo_store_stamp *stamp, moire_error *err) {
    struct mo_trusted_file file;
    int rc = mo_store_open_file(store, name, MO_STAMP_SUFFIX, env->limits.variant_json_bytes, &file, err);
    *stamp = (struct mo_store_stamp){0};
    if (rc || !file.bytes) return rc;
    rc = mo_store_parse_stamp(file.bytes, file.n, stamp, err);
    mo_trusted_close(env, &file);
    return rc;
}

int mo_compiled_read_stamp(const struct mo_store *store, const struct mo_env *env,
                           const struct mo_compiled_request *request, struct mo_store_stamp *out,
                           moire_error *err) {
    char name[MO_SHA256_HEX];
    *out = (struct mo_store_stamp){0};
    if (!store) return MOIRE_OK;
    int rc = mo_compiled_stamp(env, request, name, err);
    return rc ? rc : read_stamp(store, env, name, out, err);
}

static int open_model(const struct mo_store *store, const struct mo_env *env,
                      const struct mo_compiled_request *request, const struct mo_store_stamp *stamp,
                      bool helper, struct mo_compiled *out, moire_error *err) {
    char outside[MO_SHA256_HEX];
    int rc = mo_store_open_file(store, stamp->model, MO_MODEL_SUFFIX, env->limits.model_image_bytes,
                                &out->file, err);
    if (rc) return rc;
    if (!out->file.bytes) return mo_fail(err, MOIRE_ESTORE, "the compiled model is missing");
    rc = mo_image_check_head(out->file.bytes, out->file.n, stamp->model, err);
    if (rc) return rc;
    mo_image_check_begin(env, out->file.bytes, helper, &out->checking);
    rc = mo_image_load(env, out->file.bytes, out->file.n, stamp->model, &out->graph, &out->times, err);
    if (rc) return rc;
    rc = mo_compiled_outside(env, request->path, out->graph, outside, err);
    if (!rc && strcmp(outside, stamp->outside))
        rc = mo_fail(err, MOIRE_ESTORE, "its external data has changed; run `moire compile` again");
    return rc;
}

int mo_compiled_open(const struct mo_store *store, const struct mo_env *env,
                     const struct mo_compiled_request *request, bool helper, struct mo_compiled *out,
                     moire_error *err) {
    struct mo_store_stamp stamp;
    *out = (struct mo_compiled){.env = env};
    int rc = mo_compiled_read_stamp(store, env, request, &stamp, err);
    if (!rc && !stamp.model[0]) return MOIRE_OK;
    if (!rc) rc = open_model(store, env, request, &stamp, helper, out, err);
    if (!rc) return MOIRE_OK;
    mo_graph_destroy(out->graph);
    out->graph = NULL;
    mo_compiled_close(out);
    return rc;
}

int mo_compiled_check(struct mo_compiled *compiled, moire_error *err) {
    return compiled->file.bytes ? mo_image_check_end(&compiled->checking, err) : MOIRE_OK;
}

void mo_compiled_trim(const struct mo_compiled *compiled, const struct mo_plan *plan) {
    const struct mo_trusted_file *file = &compiled->file;
    const char *begin = file->bytes, *end = begin + file->n, *from = end;
    if (!file->mapped) return;
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        for (int i = 1; i < step->n_versions; i++) {
            const char *weights = step->version[i].weights;
            if (weights != step->weights && weights >= begin && weights < from) from = weights;
        }
    }
    if (from < end) plan->env->sys->drop(plan->env->sys->self, from, (size_t)(end - from));
}

void mo_compiled_close(struct mo_compiled *compiled) {
    mo_image_check_leave(&compiled->checking);
    if (compiled->env) mo_trusted_close(compiled->env, &compiled->file);
}
