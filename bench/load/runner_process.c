/* SPDX-License-Identifier: Apache-2.0
 * runner_process.c - runner processes: starting, asking, measuring, stopping; see session.h.
 *
 * A runner gets its own process group, so that a Ctrl-C reaches only the conductor, and dies with it.  It
 * speaks on fd 1; its stderr is ours.  A runner that dies, hangs or answers nonsense is an error with its
 * name, never a hang: every wait has a limit and sees signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "bench/client/server_table.h"
#include "runtime/sched/policy.h"

enum { LOAD_TIMEOUT_S = 600, MAX_ANSWER = 1 << 20 };

/* --- where the runners are ---------------------------------------------------------------------------- */
static bool beside_exe(const struct mo_bench_session *s, const char *relative, char *out, size_t n) {
    const char *slash = strrchr(s->exe, '/');
    snprintf(out, n, "%.*s/%s", (int)(slash ? slash - s->exe : 0), s->exe, relative);
    return access(out, R_OK) == 0;
}

bool mo_bench_script(const struct mo_bench_session *s, const char *name, char *out, size_t n) {
    char relative[128];
    snprintf(relative, sizeof relative, "../bench/%s", name);
    if (beside_exe(s, relative, out, n)) return true;
    snprintf(relative, sizeof relative, "../share/moire/%s", name);
    if (beside_exe(s, relative, out, n)) return true;
    snprintf(out, n, "bench/%s", name);
    return access(out, R_OK) == 0;
}

static bool find_script(const struct mo_bench_session *s, const char *name, char *out, size_t n) {
    char relative[100];
    snprintf(relative, sizeof relative, "peers/%s", name);
    return mo_bench_script(s, relative, out, n);
}

/* This program as a runner; a client is one, too. */
static bool own_argv(const struct mo_bench_session *s, const char *command, char a[3][1024]) {
    snprintf(a[0], sizeof a[0], "%s", s->exe);
    snprintf(a[1], sizeof a[1], "bench");
    snprintf(a[2], sizeof a[2], "%s", command);
    return true;
}

/* argv of a family's runner, without the job; false = not here. */
static bool runner_argv(const struct mo_bench_session *s, const char *family, char a[3][1024]) {
    a[0][0] = a[1][0] = a[2][0] = 0;
    if (!strcmp(family, "moire")) return own_argv(s, "runner", a);
    char script[64];
    static const char *const in_c[] = {"openvino", "onednn"};
    for (size_t i = 0; i < sizeof in_c / sizeof *in_c; i++) {
        if (strcmp(family, in_c[i]) != 0) continue;
        snprintf(script, sizeof script, "peers/%s-runner", family);
        return beside_exe(s, script, a[0], sizeof a[0]);
    }
    snprintf(script, sizeof script, "%.40s_runner.py", family);
    snprintf(a[0], sizeof a[0], "%s%s/bin/python", s->venv, strcmp(family, "tvm") ? "" : "-tvm");
    return access(a[0], X_OK) == 0 && find_script(s, script, a[1], sizeof a[1]);
}

const char *mo_bench_missing(const struct mo_bench_session *session, const char *family) {
    char a[3][1024];
    if (runner_argv(session, family, a)) return NULL;
    return strcmp(family, "tvm") ? "not set up here; run `make peers`"
                                 : "not set up here; run `tools/setup --tvm`";
}

/* The command of a model server; NULL = not here. */
static json_t *server_argv(const struct mo_bench_session *s, const char *family) {
    char python[1024], script[1024];
    if (!strcmp(family, "moire")) return json_pack("[s, s]", s->exe, "serve");
    const struct mo_server_family *row = mo_server_family(family);
    if (!row) return NULL;
    snprintf(python, sizeof python, "%s/%s/bin/python", s->servers ? s->servers : "", row->environment);
    if (access(python, X_OK) != 0 || !find_script(s, row->script, script, sizeof script)) return NULL;
    return json_pack("[s, s]", python, script);
}

const char *mo_bench_system_missing(const struct mo_bench_session *session,
                                    const struct mo_bench_system *system) {
    if (!system->over) return mo_bench_missing(session, system->family);
    const struct mo_server_family *row = mo_server_family(system->family);
    if (row && row->only_over && strcmp(row->only_over, system->over) != 0) return "speaks HTTP only";
    json_t *argv = server_argv(session, system->family);
    json_decref(argv);
    return argv ? NULL : "not set up here; run `bench/serve-peers setup`";
}

/* --- the job file ------------------------------------------------------------------------------------- */
static json_t *shapes_json(const struct mo_bench_tenant *t) {
    json_t *shapes = json_object();
    for (int i = 0; i < t->n_shapes; i++) {
        json_t *dims = json_array();
        for (int k = 0; k < t->shapes[i].rank; k++)
            json_array_append_new(dims, json_integer(t->shapes[i].shape[k]));
        json_object_set_new(shapes, t->shapes[i].input, dims);
    }
    return shapes;
}

/* As a scenario has them, and how the target is divided. */
static void add_stages(json_t *tenant, const struct mo_bench_application *app) {
    json_t *stages = json_array(), *split = json_array();
    for (int i = 0; i < app->dag.n; i++) {
        const struct mo_dag_stage *s = &app->dag.stage[i];
        json_t *after = json_array();
        for (int k = 0; k < s->n_after; k++)
            json_array_append_new(after, json_string(app->dag.stage[s->after[k]].name));
        json_array_append_new(stages, json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", s->name, "model",
                                                app->stage[i].model, "count", s->count, "after", after,
                                                "shapes", shapes_json(&app->stage[i])));
    }
    for (int i = 0; i < app->dag.n_levels; i++)
        json_array_append_new(split, json_integer((json_int_t)app->split_ns[i]));
    json_object_set_new(tenant, "stages", stages);
    json_object_set_new(tenant, "split_ns", split);
}

static int write_job(struct mo_bench_session *s, const char *path, const struct mo_bench_system *system,
                     const struct mo_bench_tenant *tenants, const int64_t *qos_ns, int n, int threads,
                     bool generic, bool trace, moire_error *err) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct mo_bench_tenant *t = &tenants[i];
        json_t *tenant = json_pack("{s:s, s:s*, s:I, s:i, s:i, s:b, s:o}", "name", t->name, "model", t->model,
                                   "qos_ns", (json_int_t)qos_ns[i], "class", (int)t->cls, "priority",
                                   t->priority, "shed_late", (int)t->shed_late, "shapes", shapes_json(t));
        if (t->app) add_stages(tenant, t->app);
        if (t->cores) json_object_set_new(tenant, "cores", json_integer(t->cores));
        if (t->share > 0) json_object_set_new(tenant, "share", json_real(t->share));
        if (t->declared > 0) json_object_set_new(tenant, "rate", json_real(t->declared));
        json_array_append_new(list, tenant);
    }
    json_t *job =
        json_pack("{s:s, s:i, s:b, s:b, s:b, s:o}", "arrangement", system->arrangement, "threads", threads,
                  "generic", (int)generic, "exact", (int)s->exact, "trace", (int)trace, "tenants", list);
    const struct mo_policy *policy = mo_policy_find(system->arrangement);
    const char *weights = s->gpu_weights ? s->gpu_weights : s->weights;
    const struct {
        const char *key, *value;
    } texts[] = {{"store", s->store},
                 {"record", s->record},
                 {"objective", s->objective},
                 {"pressure", s->pressure},
                 {"proxy", s->proxy},
                 {"device", s->device},
                 {"device_process", s->process},
                 {"device_libraries", s->libraries},
                 {"precision", s->precision},
                 {"device_profiles", s->gpu_profiles},
                 {"device_weights", policy && policy->learned ? weights : NULL},
                 {"device_cache", s->device_cache},
                 {"over", system->over},
                 {"family", system->over ? system->family : NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value) json_object_set_new(job, texts[i].key, json_string(texts[i].value));
    if (system->over) json_object_set_new(job, "server", server_argv(s, system->family));
    const struct mo_server_family *family = mo_server_family(system->family);
    if (family && family->json) json_object_set_new(job, "json", json_true());
    int bad = !job || json_dump_file(job, path, JSON_INDENT(1));
    json_decref(job);
    return bad ? mo_fail(err, MOIRE_EIO, "%s: cannot be written", path) : MOIRE_OK;
}

/* --- processes ---------------------------------------------------------------------------------------- */
static void become(char a[3][1024], const char *job, int in, int out) {
    char *argv[5];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (a[i][0]) argv[n++] = a[i];
    argv[n++] = (char *)job;
    argv[n] = NULL;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, 0);
    dup2(out, 1);
    execv(argv[0], argv);
    _exit(127);
}

static int start_process(struct mo_bench_child *child, char a[3][1024], const char *job, moire_error *err) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC)) return mo_fail(err, MOIRE_EIO, "pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return mo_fail(err, MOIRE_EIO, "pipe: %s", strerror(errno));
    }
    child->pid = fork();
    if (child->pid == 0) become(a, job, to[0], from[1]);
    if (child->pid > 0) setpgid(child->pid, child->pid); /* here too: whoever comes first */
    close(to[0]);
    close(from[1]);
    child->to = to[1];
    child->from = from[0];
    if (child->pid < 0) {
        child->pid = 0;
        close(child->to);
        close(child->from);
        return mo_fail(err, MOIRE_EIO, "fork: %s", strerror(errno));
    }
    return MOIRE_OK;
}

static int grow(struct mo_bench_child *child, moire_error *err) {
    if (child->used + 1 < child->cap) return MOIRE_OK;
    size_t cap = child->cap ? child->cap * 2 : 4096;
    char *line = cap > MAX_ANSWER ? NULL : realloc(child->line, cap);
    if (!line) return mo_fail(err, MOIRE_EFAILED, "%s: answer too long", child->system->name);
    child->line = line;
    child->cap = cap;
    return MOIRE_OK;
}

/* Waits for one line; it ends up in child->line without its newline. */
static int read_line(struct mo_bench_child *child, int timeout_s, moire_error *err) {
    struct mo_bench_session *s = child->session;
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_s;
    child->used = 0;
    for (;;) {
        if (mo_bench_interrupted(s)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end.tv_sec)
            return mo_fail(err, MOIRE_EFAILED, "%s: no answer in %d s", child->system->name, timeout_s);
        struct pollfd fds[2] = {{.fd = child->from, .events = POLLIN},
                                {.fd = s->signal_fd, .events = POLLIN}};
        poll(fds, 2, 1000);
        if (!(fds[0].revents & (POLLIN | POLLHUP))) continue;
        int code = grow(child, err);
        if (code) return code;
        /* answers come one at a time, so a newline can only be the last byte */
        ssize_t n = read(child->from, child->line + child->used, child->cap - child->used - 1);
        if (n <= 0) return mo_fail(err, MOIRE_EFAILED, "%s: its runner died", child->system->name);
        child->used += (size_t)n;
        if (child->line[child->used - 1] != '\n') continue;
        child->line[child->used - 1] = 0;
        return MOIRE_OK;
    }
}

static int receive(struct mo_bench_child *child, int timeout_s, moire_error *err) {
    int code = read_line(child, timeout_s, err);
    if (code || strncmp(child->line, "error ", 6) != 0) return code;
    char *text;
    code = (int)strtol(child->line + 6, &text, 10);
    return mo_fail(err, code < 0 ? code : MOIRE_EFAILED, "%s:%s", child->system->name, text);
}

int mo_bench_child_start(struct mo_bench_session *session, const struct mo_bench_system *system,
                         const struct mo_bench_tenant *tenants, const int64_t *qos_ns, int n_tenants,
                         int threads, bool generic, bool trace, struct mo_bench_child *out,
                         moire_error *err) {
    *out = (struct mo_bench_child){.session = session, .system = system};
    char a[3][1024], job[256];
    const char *missing = mo_bench_system_missing(session, system);
    if (missing) return mo_fail(err, MOIRE_EIO, "%s: %s", system->family, missing);
    if (system->over)
        (void)own_argv(session, "client", a);
    else
        (void)runner_argv(session, system->family, a);
    mo_bench_temporary(session, ".json", job, sizeof job);
    int code = write_job(session, job, system, tenants, qos_ns, n_tenants, threads, generic, trace, err);
    if (!code) code = start_process(out, a, job, err);
    if (!code) code = receive(out, LOAD_TIMEOUT_S, err);
    if (!code && strcmp(out->line, "ready") != 0)
        code = mo_fail(err, MOIRE_EFAILED, "%s: unexpected answer from its runner", system->name);
    if (code) mo_bench_child_stop(out);
    return code;
}

int mo_bench_child_ask(struct mo_bench_child *child, const char *command, int timeout_s, const char **answer,
                       moire_error *err) {
    if (!child->pid) return mo_fail(err, MOIRE_EFAILED, "%s: its runner is gone", child->system->name);
    if (dprintf(child->to, "%s\n", command) < 0)
        return mo_fail(err, MOIRE_EFAILED, "%s: its runner died", child->system->name);
    int code = receive(child, timeout_s, err);
    if (!code) *answer = child->line;
    return code;
}

void mo_bench_child_stop(struct mo_bench_child *child) {
    if (!child->pid) return;
    /* a model server has time to end by itself */
    const int patience = child->system && child->system->over ? 3000 : 150;
    if (!child->session->interrupted) dprintf(child->to, "quit\n");
    close(child->to);
    for (int i = 0; i < patience + 50 && child->pid; i++) {
        if (waitpid(child->pid, NULL, WNOHANG) == child->pid) child->pid = 0;
        if (child->pid && (child->session->interrupted || i == patience)) kill(-child->pid, SIGKILL);
        if (child->pid) poll(NULL, 0, 10);
    }
    if (child->pid) waitpid(child->pid, NULL, 0);
    close(child->from);
    free(child->line);
    *child = (struct mo_bench_child){0};
}
