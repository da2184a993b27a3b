/* SPDX-License-Identifier: Apache-2.0
 * server_folder.c - writes the folder of a model server; see server_folder.h. */
#define _GNU_SOURCE
#include "bench/client/server_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/base/error.h"

enum { PATH = MO_SERVER_PATH + 64 };

void mo_server_model_name(int tenant, char *out, size_t n) {
    snprintf(out, n, "tenant%d", tenant);
}

static int fail(const char *path, moire_error *err) {
    return mo_fail(err, MOIRE_EIO, "%s: %s", path, strerror(errno));
}

/* --- moire: NAME/config.pbtxt and NAME/1/model.onnx ----------------------------------------------------- */
static void put_parameter(FILE *f, const char *key, const char *value) {
    fprintf(f, "parameters { key: \"%s\" value: { string_value: \"%s\" } }\n", key, value);
}

static int write_config(const char *path, const struct mo_bench_tenant *t, int64_t qos_ns, moire_error *err) {
    char value[40];
    FILE *f = fopen(path, "we");
    if (!f) return fail(path, err);
    if (qos_ns > 0) {
        snprintf(value, sizeof value, "%.6f", (double)qos_ns * 1e-6);
        put_parameter(f, "qos_ms", value);
    }
    put_parameter(f, "class", t->cls == MOIRE_BEST_EFFORT ? "best-effort" : "latency-critical");
    snprintf(value, sizeof value, "%d", t->priority);
    put_parameter(f, "priority", value);
    if (t->cores) {
        snprintf(value, sizeof value, "%d", t->cores);
        put_parameter(f, "cores", value);
    }
    if (t->share > 0) {
        snprintf(value, sizeof value, "%.9g", t->share);
        put_parameter(f, "weight", value);
    }
    return fclose(f) ? fail(path, err) : MOIRE_OK;
}

static int write_model(const struct mo_bench_job *job, const char *folder, int i, moire_error *err) {
    char name[32], path[PATH];
    mo_server_model_name(i, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (mkdir(path, 0700)) return fail(path, err);
    snprintf(path, sizeof path, "%s/%s/1", folder, name);
    if (mkdir(path, 0700)) return fail(path, err);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", folder, name);
    if (symlink(job->tenants[i].model, path)) return fail(path, err);
    snprintf(path, sizeof path, "%s/%s/config.pbtxt", folder, name);
    return write_config(path, &job->tenants[i], job->qos_ns[i], err);
}

/* --- others: spec.json ---------------------------------------------------------------------------------- */
static json_t *shapes_of(const struct mo_bench_tenant *t) {
    json_t *shapes = json_object();
    for (int i = 0; i < t->n_shapes; i++) {
        json_t *dims = json_array();
        for (int k = 0; k < t->shapes[i].rank; k++)
            json_array_append_new(dims, json_integer(t->shapes[i].shape[k]));
        json_object_set_new(shapes, t->shapes[i].input, dims);
    }
    return shapes;
}

static int write_spec(const struct mo_bench_job *job, const char *folder, moire_error *err) {
    char name[32], path[PATH];
    json_t *models = json_array();
    for (int i = 0; i < job->n_tenants; i++) {
        mo_server_model_name(i, name, sizeof name);
        json_array_append_new(models,
                              json_pack("{s:s, s:s, s:o}", "name", name, "file", job->tenants[i].model,
                                        "shapes", shapes_of(&job->tenants[i])));
    }
    json_t *spec = json_pack("{s:s, s:o}", "arrangement", job->arrangement, "models", models);
    snprintf(path, sizeof path, "%s/spec.json", folder);
    const int bad = !spec || json_dump_file(spec, path, JSON_INDENT(1));
    json_decref(spec);
    return bad ? mo_fail(err, MOIRE_EIO, "%s: cannot be written", path) : MOIRE_OK;
}

int mo_server_folder_write(const struct mo_bench_job *job, const struct mo_server_process *server,
                           moire_error *err) {
    char models[MO_SERVER_PATH + 16];
    int code = MOIRE_OK;
    if (strcmp(job->family, "moire") != 0) return write_spec(job, server->folder, err);
    snprintf(models, sizeof models, "%s/" MO_SERVER_MODELS, server->folder);
    if (mkdir(models, 0700)) return fail(models, err);
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = write_model(job, models, i, err);
    return code;
}
