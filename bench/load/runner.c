/* SPDX-License-Identifier: Apache-2.0
 * runner.c - the command loop of a runner process, and the job file that starts it; see drive.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include "bench/load/drive.h"

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])
enum { MAX_SOLO = 4000, MAX_PATH = 1024 };

struct job_tenant_raw {
    const char *name, *model;
    int64_t qos_ns, priority, cls, cores;
    double rate, share;
    bool shed_late;
    json_t *shapes, *stages, *split;
};

/* Stages as in a scenario; "split_ns" has one whole number from 1 on for each level. */
static int read_application(const struct mo_json_file *f, const char *where, const struct job_tenant_raw *raw,
                            struct mo_bench_tenant *t, moire_error *err) {
    int code = mo_bench_read_stages(f, where, raw->stages, t, err);
    struct mo_bench_application *app = t->app;
    if (code || !app) return code;
    if ((int)json_array_size(raw->split) != app->dag.n_levels)
        return mo_json_fail(f, where, err, "\"split_ns\" needs %d parts of the target", app->dag.n_levels);
    for (int i = 0; i < app->dag.n_levels; i++)
        if ((app->split_ns[i] = json_integer_value(json_array_get(raw->split, (size_t)i))) < 1)
            return mo_json_fail(f, where, err, "\"split_ns\" has a part that is no time");
    return MOIRE_OK;
}

static int read_job_tenant(struct mo_bench_job *job, int i, const json_t *object, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct job_tenant_raw, name), 0, 0},
        {"model", MO_JSON_STRING, false, offsetof(struct job_tenant_raw, model), 0, 0},
        {"stages", MO_JSON_ARRAY, false, offsetof(struct job_tenant_raw, stages), 0, 0},
        {"split_ns", MO_JSON_ARRAY, false, offsetof(struct job_tenant_raw, split), 0, 0},
        {"qos_ns", MO_JSON_INT, true, offsetof(struct job_tenant_raw, qos_ns), 0, 1e18},
        {"class", MO_JSON_INT, false, offsetof(struct job_tenant_raw, cls), 0, 1},
        {"priority", MO_JSON_INT, false, offsetof(struct job_tenant_raw, priority), -1000, 1000},
        {"rate", MO_JSON_NUMBER, false, offsetof(struct job_tenant_raw, rate), 0, 1e9},
        {"cores", MO_JSON_INT, false, offsetof(struct job_tenant_raw, cores), 0, 1024},
        {"share", MO_JSON_NUMBER, false, offsetof(struct job_tenant_raw, share), 0, 1000},
        {"shed_late", MO_JSON_BOOL, false, offsetof(struct job_tenant_raw, shed_late), 0, 0},
        {"shapes", MO_JSON_OBJECT, false, offsetof(struct job_tenant_raw, shapes), 0, 0},
    };
    char where[64];
    snprintf(where, sizeof where, "tenants[%d]", i);
    struct job_tenant_raw raw = {0};
    int code = mo_json_fields(&job->file, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    struct mo_bench_tenant *t = &job->tenants[i];
    *t = (struct mo_bench_tenant){.name = raw.name,
                                  .model = raw.model,
                                  .declared = raw.rate,
                                  .cores = (int)raw.cores,
                                  .share = raw.share,
                                  .shed_late = raw.shed_late,
                                  .priority = (int)raw.priority,
                                  .cls = (enum moire_class)raw.cls};
    job->qos_ns[i] = raw.qos_ns;
    if ((raw.model != NULL) == (raw.stages != NULL))
        return mo_json_fail(&job->file, where, err, "needs exactly one of \"model\" and \"stages\"");
    if (raw.stages && (code = read_application(&job->file, where, &raw, t, err))) return code;
    snprintf(where, sizeof where, "tenants[%d].shapes", i);
    return raw.shapes ? mo_bench_read_shapes(&job->file, where, raw.shapes, t, err) : MOIRE_OK;
}

static int read_job(struct mo_bench_job *job, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"arrangement", MO_JSON_STRING, true, offsetof(struct mo_bench_job, arrangement), 0, 0},
        {"store", MO_JSON_STRING, false, offsetof(struct mo_bench_job, store), 0, 0},
        {"record", MO_JSON_STRING, false, offsetof(struct mo_bench_job, record), 0, 0},
        {"objective", MO_JSON_STRING, false, offsetof(struct mo_bench_job, objective), 0, 0},
        {"pressure", MO_JSON_STRING, false, offsetof(struct mo_bench_job, pressure), 0, 0},
        {"proxy", MO_JSON_STRING, false, offsetof(struct mo_bench_job, proxy), 0, 0},
        {"device", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device), 0, 0},
        {"device_process", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device_process), 0, 0},
        {"device_libraries", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device_libraries), 0, 0},
        {"device_cache", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device_cache), 0, 0},
        {"device_profiles", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device_profiles), 0, 0},
        {"device_weights", MO_JSON_STRING, false, offsetof(struct mo_bench_job, device_weights), 0, 0},
        {"precision", MO_JSON_STRING, false, offsetof(struct mo_bench_job, precision), 0, 0},
        {"family", MO_JSON_STRING, false, offsetof(struct mo_bench_job, family), 0, 0},
        {"over", MO_JSON_STRING, false, offsetof(struct mo_bench_job, over), 0, 0},
        {"server", MO_JSON_ARRAY, false, offsetof(struct mo_bench_job, server), 0, 0},
        {"threads", MO_JSON_INT, true, offsetof(struct mo_bench_job, threads), 1, 1024},
        {"generic", MO_JSON_BOOL, false, offsetof(struct mo_bench_job, generic), 0, 0},
        {"exact", MO_JSON_BOOL, false, offsetof(struct mo_bench_job, exact), 0, 0},
        {"json", MO_JSON_BOOL, false, offsetof(struct mo_bench_job, json), 0, 0},
        {"trace", MO_JSON_BOOL, false, offsetof(struct mo_bench_job, trace), 0, 0},
        {"tenants", MO_JSON_ARRAY, true, offsetof(struct mo_bench_job, raw_tenants), 0, 0},
    };
    int code = mo_json_fields(&job->file, "", job->file.root, fields, COUNT(fields), job, err);
    const json_t *tenants = job->raw_tenants;
    size_t n = json_array_size(tenants);
    if (!code && (n < 1 || n > MO_BENCH_MAX_TENANTS))
        code = mo_json_fail(&job->file, "tenants", err, "needs 1 to %d tenants", MO_BENCH_MAX_TENANTS);
    job->n_tenants = code ? 0 : (int)n;
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = read_job_tenant(job, i, json_array_get(tenants, (size_t)i), err);
    return code;
}

int mo_bench_job_load(const struct mo_env *env, const char *path, struct mo_bench_job *out,
                      moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_json_load(env, path, &out->file, err);
    if (!code && (code = read_job(out, err))) mo_bench_job_close(out);
    return code;
}

void mo_bench_job_close(struct mo_bench_job *job) {
    mo_json_close(&job->file);
    memset(job, 0, sizeof *job);
}

struct runner {
    const struct mo_env *env;
    const struct mo_bench_backend *backend;
    struct mo_bench_job job;
    void *self;
    int64_t load_ns; /* what loading all tenants took */
};

static int do_solo(struct runner *r, const char *arguments, moire_error *err) {
    char *end;
    long tenant = strtol(arguments, &end, 10), ms = strtol(end, NULL, 10);
    if (tenant < 0 || tenant >= r->job.n_tenants || ms < 0)
        return mo_fail(err, MOIRE_EINVAL, "usage: solo TENANT MILLISECONDS");
    static const int untimed = 1;
    int64_t *took = mo_alloc(r->env, MAX_SOLO * sizeof *took);
    if (!took) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = MOIRE_OK, n = -untimed;
    for (int64_t start = mo_now(r->env), now = start; !code && n < MAX_SOLO; n++) {
        if (n > 0 && now - start > ms * 1000000) break;
        int64_t from = now;
        code = r->backend->solo(r->self, (int)tenant, err);
        now = mo_now(r->env);
        if (n >= 0)
            took[n] = now - from;
        else
            start = now;
    }
    if (!code) {
        printf("solo %d", n);
        for (int i = 0; i < n; i++)
            printf(" %" PRId64, took[i]);
        printf("\n");
    }
    mo_free(r->env, took);
    return code;
}

/* One query of every tenant, in turn. */
static int do_first(struct runner *r, moire_error *err) {
    int64_t since = mo_now(r->env);
    int code = MOIRE_OK;
    for (int i = 0; !code && i < r->job.n_tenants; i++)
        code = r->backend->solo(r->self, i, err);
    if (!code) printf("first %" PRId64 " %" PRId64 "\n", r->load_ns, mo_now(r->env) - since);
    return code;
}

static int play(struct runner *r, const char *schedule_path, const char *records_path,
                const struct mo_bench_budget *budget, moire_error *err) {
    struct mo_bench_schedule schedule;
    int64_t cut;
    int code = mo_bench_schedule_read(r->env, schedule_path, r->job.n_tenants, &schedule, err);
    if (code) return code;
    const int slots = mo_bench_slots(&schedule);
    struct mo_bench_record *records = mo_alloc(r->env, ((size_t)slots + 1) * sizeof *records);
    if (!records) code = mo_fail(err, MOIRE_ENOMEM, "no memory for %d queries", slots);
    if (!code)
        code =
            mo_bench_play(r->env, r->backend, r->self, &schedule, r->job.qos_ns, budget, records, &cut, err);
    if (!code) code = mo_bench_records_write(records, slots, cut, records_path, err);
    if (!code) printf("served %d\n", slots);
    mo_free(r->env, records);
    mo_bench_schedule_free(r->env, &schedule);
    return code;
}

static int do_serve(struct runner *r, char *arguments, moire_error *err) {
    char *save, *schedule = strtok_r(arguments, "\t", &save), *records = strtok_r(NULL, "\t", &save);
    char *give_up = strtok_r(NULL, "\t", &save);
    struct mo_bench_budget budget;
    if (!schedule || !records || !give_up || mo_bench_budget_read(give_up, r->job.n_tenants, &budget))
        return mo_fail(err, MOIRE_EINVAL, "usage: serve SCHEDULE<TAB>RECORDS<TAB>GIVE_UP");
    return play(r, schedule, records, &budget, err);
}

static int do_report(struct runner *r, const char *path, moire_error *err) {
    if (!r->backend->report) return mo_fail(err, MOIRE_EUNSUPPORTED, "this system reports nothing");
    int code = r->backend->report(r->self, path, err);
    if (!code) printf("reported\n");
    return code;
}

static void serve_commands(struct runner *r) {
    char line[3 * MAX_PATH + MO_BENCH_MAX_TENANTS * 12];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        moire_error err = {0};
        char *arguments = line + strcspn(line, " ");
        if (*arguments) *arguments++ = 0;
        int code;
        if (!strcmp(line, "quit")) return;
        if (!strcmp(line, "solo"))
            code = do_solo(r, arguments, &err);
        else if (!strcmp(line, "first"))
            code = do_first(r, &err);
        else if (!strcmp(line, "serve"))
            code = do_serve(r, arguments, &err);
        else if (!strcmp(line, "report"))
            code = do_report(r, arguments, &err);
        else
            code = mo_fail(&err, MOIRE_EINVAL, "no command '%s'", line);
        if (code) printf("error %d %s\n", code, err.message);
        fflush(stdout);
    }
}

int mo_bench_runner(const struct mo_env *env, const struct mo_bench_backend *backend, const char *job_path) {
    struct runner *r = mo_alloc(env, sizeof *r);
    moire_error err = {0};
    if (!r) return 4;
    *r = (struct runner){.env = env, .backend = backend};
    /* the generator must wake on time; the default slack is 50 us */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    int code = mo_bench_job_load(env, job_path, &r->job, &err);
    int64_t since = mo_now(env);
    if (!code) code = backend->open(env, &r->job, &r->self, &err);
    r->load_ns = mo_now(env) - since;
    if (code)
        printf("error %d %s\n", code, err.message);
    else
        printf("ready\n");
    fflush(stdout);
    if (!code) {
        serve_commands(r);
        backend->close(r->self);
    }
    mo_bench_job_close(&r->job);
    mo_free(env, r);
    return code ? 4 : 0;
}
