/* SPDX-License-Identifier: Apache-2.0
 * loadgen.c - one system after the other under LoadGen; see loadgen.h.
 *
 * A system's process gets a job file and leaves a row, or the reason why there is none.  It ends with this
 * one, and what it has started ends with it. */
#define _GNU_SOURCE
#include "bench/loadgen/loadgen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/journal.h"
#include "bench/data/json_read.h"
#include "models/zoo.h"

enum { LOOK_NS = 50000000, PATH_ROOM = 1024 };

/* The files of one system's process. */
struct piece {
    char job[PATH_ROOM], result[PATH_ROOM], logs[PATH_ROOM];
};

/* --- the job -------------------------------------------------------------------------------------------- */
static const char *label(const struct mo_loadgen_system *system) {
    return system->over && !strcmp(system->family, "moire") ? system->over : system->family;
}

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

/* What LoadGen calls the benchmark, of which its rules are: the zoo's name, or the file's. */
static void benchmark_name(const char *model, char *out, size_t n) {
    const char *slash = strrchr(model, '/');
    snprintf(out, n, "%s", slash ? slash + 1 : model);
    char *dot = strrchr(out, '.');
    if (dot && !strcmp(dot, ".onnx") && dot > out) *dot = 0;
}

static int write_job(struct mo_bench_session *s, const struct mo_loadgen_options *o,
                     const struct mo_bench_tenant *t, const struct mo_loadgen_system *system,
                     const struct piece *files, moire_error *err) {
    char name[200];
    benchmark_name(o->model, name, sizeof name);
    json_t *job = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "system", system->family, "model", t->model,
                            "name", name, "scenario", o->scenario, "moire", s->exe, "output", files->logs);
    const struct {
        const char *key, *value;
    } texts[] = {{"over", system->over}, {"server", system->over ? o->server : NULL}, {"store", s->store}};
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"qps", o->qps}, {"latency_ms", o->latency_ms}, {"seconds", o->seconds}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_object_set_new(job, texts[i].key, texts[i].value ? json_string(texts[i].value) : json_null());
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(job, numbers[i].key, json_real(numbers[i].value));
    json_object_set_new(job, "samples", json_integer(o->samples));
    json_object_set_new(job, "batch", json_integer(o->batch));
    json_object_set_new(job, "threads", json_integer(o->threads));
    json_object_set_new(job, "seed", json_integer(o->seed));
    json_object_set_new(job, "generic_only", json_boolean(o->generic));
    json_object_set_new(job, "shapes", shapes_of(t));
    const bool bad = !job || json_dump_file(job, files->job, JSON_INDENT(1));
    json_decref(job);
    return bad ? mo_fail(err, MOIRE_EIO, "%s: cannot be written", files->job) : MOIRE_OK;
}

/* --- its process ---------------------------------------------------------------------------------------- */
static int find_python(const struct mo_bench_session *s, char out[PATH_ROOM], moire_error *err) {
    static const char *const names[] = {"python", "python3"};
    for (int i = 0; i < 2; i++) {
        snprintf(out, PATH_ROOM, "%s/bin/%s", s->venv, names[i]);
        if (!access(out, X_OK)) return MOIRE_OK;
    }
    return mo_fail(err, MOIRE_EIO,
                   "no Python in '%.200s': `make loadgen` sets up one with what LoadGen needs, and "
                   "VENV=build/loadgen/venv names it",
                   s->venv);
}

static int wait_for(struct mo_bench_session *s, struct mo_child *child, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    while (sys->end_process(sys->self, child, mo_now(s->env) + LOOK_NS) == -ETIMEDOUT)
        if (mo_bench_interrupted(s)) sys->kill_process(sys->self, child);
    close(child->link);
    return s->interrupted ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted") : MOIRE_OK;
}

/* What it left: a row, or an error of its own words. */
static int read_row(struct mo_bench_session *s, const char *path, const char *name, json_t **row,
                    moire_error *err) {
    struct mo_json_file file;
    int code = access(path, R_OK)
                   ? mo_fail(err, MOIRE_EFAILED, "%s: its process ended without a result", name)
                   : mo_json_load(s->env, path, &file, err);
    if (code) return code;
    const json_t *why = json_object_get(file.root, "error");
    if (why)
        code = mo_fail(err, json_is_true(json_object_get(file.root, "missing")) ? MOIRE_EIO : MOIRE_EFAILED,
                       "%s", mo_json_text(file.root, "error"));
    else
        *row = json_deep_copy(file.root);
    mo_json_close(&file);
    return code || *row ? code : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int test(struct mo_bench_session *s, const struct mo_loadgen_options *o,
                const struct mo_bench_tenant *t, const struct mo_loadgen_system *system,
                const struct piece *files, json_t **row, moire_error *err) {
    char python[PATH_ROOM], script[PATH_ROOM];
    struct mo_child child;
    int code = find_python(s, python, err);
    if (!code && !mo_bench_script(s, "loadgen/run.py", script, sizeof script))
        code = mo_fail(err, MOIRE_EIO, "bench/loadgen/run.py is not where this program looks for its data");
    if (!code) code = write_job(s, o, t, system, files, err);
    if (code) return code;
    const char *const argv[] = {python, script, files->job, files->result, NULL};
    const int rc = s->env->sys->start_process(s->env->sys->self, argv, NULL, 0, &child);
    if (rc) return mo_fail(err, MOIRE_EIO, "%s: %s", python, strerror(-rc));
    code = wait_for(s, &child, err);
    return code ? code : read_row(s, files->result, label(system), row, err);
}

/* --- the command ---------------------------------------------------------------------------------------- */
/* A system that fails is a line of its own; moire's failure is the command's, too. */
static int run_system(struct mo_bench_journal *journal, struct mo_bench_session *s,
                      const struct mo_loadgen_options *o, const struct mo_bench_tenant *t, int index,
                      moire_error *err) {
    const struct mo_loadgen_system *system = &o->system[index];
    struct piece files;
    json_t *row = NULL;
    moire_error why = {0};
    mo_bench_temporary(s, ".json", files.job, sizeof files.job);
    mo_bench_temporary(s, ".json", files.result, sizeof files.result);
    snprintf(files.logs, sizeof files.logs, "%s%s%s", o->output, index ? "/" : "",
             index ? label(system) : "");
    mo_bench_say(s, "%s%s%s under LoadGen's %s; logs in %s", system->family, system->over ? " over " : "",
                 system->over ? system->over : "", o->scenario, files.logs);
    const int code = test(s, o, t, system, &files, &row, &why);
    if (!code)
        return json_array_append_new(mo_bench_journal_results(journal), row)
                   ? mo_fail(err, MOIRE_ENOMEM, "out of memory")
                   : MOIRE_OK;
    if (!strcmp(system->family, "moire") || code == MOIRE_EINTERRUPTED || code == MOIRE_ENOMEM) {
        *err = why;
        return code;
    }
    json_array_append_new(mo_bench_journal_left_out(journal),
                          json_pack("{s:s, s:s}", "system", system->family, "why", why.message));
    return MOIRE_OK;
}

/* A verdict that is not VALID is the command's failure, if it is moire's. */
static int judge(const json_t *results, moire_error *err) {
    size_t i;
    const json_t *row;
    json_array_foreach((json_t *)results, i, row) {
        if (strcmp(mo_json_text(row, "system"), "moire") != 0) continue;
        if (strcmp(mo_json_text(row, "verdict"), "VALID") != 0)
            return mo_fail(err, MOIRE_EFAILED, "LoadGen's verdict is %s: %s", mo_json_text(row, "verdict"),
                           json_string_value(json_array_get(json_object_get(row, "reasons"), 0)));
    }
    return MOIRE_OK;
}

static int find_model(struct mo_bench_session *s, const struct mo_loadgen_options *o,
                      struct mo_region *region, struct mo_bench_tenant *t, moire_error *err) {
    *t = (struct mo_bench_tenant){.name = o->model, .model = o->model};
    for (int i = 0; i < o->n_shapes && i < MO_BENCH_MAX_INPUTS; i++)
        t->shapes[t->n_shapes++] = o->shapes[i];
    return o->server ? MOIRE_OK : mo_bench_resolve(s, region, t, err);
}

int mo_loadgen(struct mo_bench_session *s, const struct mo_loadgen_options *o, json_t **out,
               moire_error *err) {
    struct mo_bench_journal journal;
    struct mo_bench_tenant tenant;
    struct mo_region *region = mo_region_create(s->env);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = find_model(s, o, region, &tenant, err);
    if (!code) code = mo_bench_journal_open(s, "loadgen", MO_BENCH_MEASURED, NULL, false, &journal, err);
    if (code) {
        mo_region_destroy(region);
        return code;
    }
    json_object_set_new(journal.document, "model", json_string(o->model));
    json_object_set_new(journal.document, "scenario", json_string(o->scenario));
    json_object_set_new(journal.document, "threads", json_integer(o->threads));
    for (int i = 0; !code && i < o->n_systems; i++)
        code = run_system(&journal, s, o, &tenant, i, err);
    if (!code) code = judge(mo_bench_journal_results(&journal), err);
    *out = mo_bench_journal_finish(&journal, code == MOIRE_OK);
    mo_region_destroy(region);
    return code;
}
