/* SPDX-License-Identifier: Apache-2.0
 * server.c - starts, runs and stops `moire serve`; see server.h. */
#define _GNU_SOURCE
#include "serve/server.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "serve/net/supervisor.h"
#include "serve/protocol/fault.h"
#include "serve/server_impl.h"

enum { DRAIN_SECONDS = 30 };

/* A file that was to be read again, and cannot be. */
static void log_kept(struct ms_server *s, const moire_error *err) {
    char line[sizeof err->message + 40];
    snprintf(line, sizeof line, "what was read before stays in use: %s", err->message);
    ms_log_line(&s->log, MOIRE_LOG_ERROR, line);
}

/* --- start and stop --- */
static int start_runtime(struct ms_server *s, moire_error *err) {
    moire_config c;
    moire_config_init(&c);
    c.threads = s->options.threads;
    c.policy = s->options.policy;
    c.store = s->options.store;
    c.log = ms_log_line;
    c.log_user = &s->log;
    c.record = s->options.record ? s->options.record_events : 0;
    return moire_runtime_create(&c, &s->runtime, err);
}

struct ms_source ms_server_source(const struct ms_server_options *o) {
    struct ms_source source = {.folder = o->repository, .functions = o->functions};
    if (o->config) {
        source.models = ms_config_file_models(o->config);
        source.models_folder = o->config->folder;
    }
    return source;
}

static void loaded_first(void *user, int code, const char *message) {
    struct ms_server *s = user;
    if (!code) return;
    atomic_fetch_add(&s->failed_first, 1);
    ms_log_line(&s->log, MOIRE_LOG_ERROR, message);
}

static int load_first(struct ms_server *s, moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < s->options.n_load && !rc; i++)
        rc = ms_repository_load(s->repository, s->options.load[i], loaded_first, s, err);
    return rc;
}

static int start_repository(struct ms_server *s, moire_error *err) {
    const struct ms_repository_options o = {.source = ms_server_source(&s->options),
                                            .runtime = s->runtime,
                                            .is_explicit = !strcmp(s->options.mode, "explicit"),
                                            .shape_memory = s->options.shape_memory,
                                            .log = ms_log_line,
                                            .log_user = &s->log,
                                            .logger = &s->log,
                                            .trace = s->trace,
                                            .regions = s->regions,
                                            .has_shared_memory = s->options.shared_memory != NULL};
    const int rc = ms_repository_start(&o, &s->repository, err);
    return rc ? rc : load_first(s, err);
}

/* A recording that cannot be written is better known before the run than after it. */
static int check_record(const struct ms_server *s, moire_error *err) {
    FILE *f = s->options.record ? fopen(s->options.record, "ae") : NULL;
    if (s->options.record && !f)
        return ms_fail(err, MOIRE_EIO, "--record %.300s cannot be written: %s", s->options.record,
                       strerror(errno));
    if (f) fclose(f);
    return MOIRE_OK;
}

/* Regions have names that all clients share: who may use one model must not read what another's client has
 * there. */
static int open_extensions(struct ms_server *s, moire_error *err) {
    const struct ms_server_options *o = &s->options;
    if (o->shared_memory && s->access)
        return ms_fail(err, MOIRE_EINVAL,
                       "--shared-memory is for clients that trust each other: not with tokens");
    int rc = ms_trace_open(o->trace_file, &s->trace, err);
    if (!rc) rc = check_record(s, err);
    if (!rc && !(s->regions = ms_regions_open(o->shared_memory, (size_t)o->body_bytes)))
        rc = ms_fail(err, MOIRE_ENOMEM, "no memory for the server");
    return rc;
}

/* A signal to end, which whoever waits for the end takes, ends this. */
static void load_before_doors(struct ms_server *s) {
    sigset_t pending;
    while (s->options.load_first && ms_repository_is_busy(s->repository)) {
        sigemptyset(&pending);
        if (!sigpending(&pending) && (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT)))
            return;
        usleep(5000);
    }
}

int ms_server_start(const struct ms_server_options *options, struct ms_server **out, moire_error *err) {
    struct ms_server *s = *out = calloc(1, sizeof *s);
    if (!s) return ms_fail(err, MOIRE_ENOMEM, "no memory for the server");
    s->options = *options;
    if (options->repository && access(options->repository, R_OK | X_OK)) {
        free(s);
        *out = NULL;
        return ms_fail(err, MOIRE_EIO, "the model repository %.300s is no folder that can be read",
                       options->repository);
    }
    s->log.json = options->json_log;
    s->log.verbose = (unsigned)options->log_verbose;
    int rc = ms_server_guard(s, err);
    if (!rc) rc = open_extensions(s, err);
    if (!rc) rc = start_runtime(s, err);
    if (!rc) rc = start_repository(s, err);
    if (!rc) load_before_doors(s);
    if (!rc) rc = ms_server_listen(s, err);
    if (!rc) return MOIRE_OK;
    ms_server_stop(s);
    *out = NULL;
    return rc;
}

static void write_record(struct ms_server *s) {
    moire_error err = {0};
    char line[sizeof err.message];
    const int rc = moire_record(s->runtime, s->options.record, &err);
    snprintf(line, sizeof line, "recorded in %.300s; `moire whatif` replays it", s->options.record);
    ms_log_line(&s->log, rc ? MOIRE_LOG_ERROR : MOIRE_LOG_INFO, rc ? err.message : line);
}

void ms_server_leave(struct ms_server *s) {
    ms_repository_leave(s->repository);
}

void ms_server_stop(struct ms_server *s) {
    if (s->repository) ms_repository_leave(s->repository);
    if (s->repository) ms_repository_quiesce(s->repository);
    ms_grpc_quiesce(&s->grpc);
    ms_http_close(&s->http, DRAIN_SECONDS);
    ms_grpc_close(&s->grpc, DRAIN_SECONDS);
    ms_agent_close(&s->agent);
    ms_tls_close(s->tls);
    ms_access_close(s->access);
    if (s->runtime) moire_drain(s->runtime);
    if (s->runtime && s->options.record) write_record(s);
    if (s->repository) ms_repository_stop(s->repository);
    moire_runtime_destroy(s->runtime, 1);
    ms_trace_close(s->trace);
    ms_regions_close(s->regions);
    ms_server_remove_files(s);
    free(s);
}

int ms_server_port(const struct ms_server *s, enum ms_port which) {
    return s->port[which];
}

bool ms_server_is_ready(struct ms_server *s) {
    return ms_repository_is_ready(s->repository);
}

void ms_server_refresh(struct ms_server *s) {
    ms_repository_refresh(s->repository);
}

void ms_server_reload(struct ms_server *s) {
    moire_error err;
    if (s->tls && ms_tls_reload(s->tls, &err)) log_kept(s, &err);
    if (s->access && ms_access_reload(s->access, &err)) log_kept(s, &err);
    ms_repository_refresh(s->repository);
}

/* --- running --- */
static void announce(const struct ms_server *s) {
    const struct ms_server_options *o = &s->options;
    const char *scheme = s->tls ? "https" : "http";
    if (o->json) {
        json_t *line = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s?, s:s?, s:s?}", "host", o->host,
                                 "http_port", s->port[MS_PORT_HTTP], "metrics_port", s->port[MS_PORT_METRICS],
                                 "grpc_port", s->port[MS_PORT_GRPC], "control_port", s->port[MS_PORT_CONTROL],
                                 "agent_port", s->port[MS_PORT_AGENT], "unix", o->unix_path, "grpc_unix",
                                 o->grpc_unix, "control_unix", o->control_unix);
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(line);
    } else {
        static const char *const what[] = {"HTTP", "metrics", "gRPC", "control", "agent"};
        static const char *const path[] = {"/v2", "/metrics", "", "/v2/repository", ""};
        for (int i = 0; i < MS_TCP_PORTS; i++)
            if (s->port[i])
                printf("%s on %s%s%s:%d%s\n", what[i], *path[i] ? scheme : "", *path[i] ? "://" : "", o->host,
                       s->port[i], path[i]);
        if (o->unix_path) printf("HTTP on the socket %s\n", o->unix_path);
        if (o->grpc_unix && s->owns[MS_FILE_GRPC]) printf("gRPC on the socket %s\n", o->grpc_unix);
        if (o->control_unix) printf("control on the socket %s\n", o->control_unix);
    }
    fflush(stdout);
}

/* true: the models of the start are loaded, or have failed to; false: a signal to end came before. */
static bool wait_for_models(struct ms_server *s, const sigset_t *signals) {
    const struct timespec pause = {.tv_nsec = 20000000};
    while (ms_repository_is_busy(s->repository)) {
        const int signal = sigtimedwait(signals, NULL, &pause);
        if (signal == SIGTERM || signal == SIGINT) return false;
    }
    return true;
}

static int64_t nanoseconds(const struct timespec *t) {
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Until a signal to end. */
static void wait_for_end(struct ms_server *s, const sigset_t *signals) {
    const bool polls = !strcmp(s->options.mode, "poll");
    const struct timespec pause = {.tv_sec = polls ? s->options.poll_seconds : 3600};
    for (;;) {
        const int signal = sigtimedwait(signals, NULL, &pause);
        if (signal == SIGTERM || signal == SIGINT) return;
        if (signal == SIGHUP) {
            ms_supervisor_tell(s->options.supervisor, MS_TOLD_RELOADING);
            ms_server_reload(s);
            ms_supervisor_tell(s->options.supervisor, MS_TOLD_READY);
        }
        if (signal < 0 && polls) ms_server_refresh(s);
    }
}

/* Time for those who spread queries to see that the server is not ready; until a second signal. */
static void turn_away(struct ms_server *s, const sigset_t *signals) {
    struct timespec now, left;
    char line[120];
    const int seconds = s->options.drain_seconds;
    if (!seconds) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t until = nanoseconds(&now) + seconds * INT64_C(1000000000);
    snprintf(line, sizeof line, "not ready any more; serves for %d s, until a second signal", seconds);
    ms_log_line(&s->log, MOIRE_LOG_INFO, line);
    ms_server_leave(s);
    for (int64_t ns; (ns = until - nanoseconds(&now)) > 0; clock_gettime(CLOCK_MONOTONIC, &now)) {
        left = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        const int signal = sigtimedwait(signals, NULL, &left);
        if (signal == SIGTERM || signal == SIGINT) return;
    }
}

static int serve_until_end(struct ms_server *s, const sigset_t *signals, moire_error *err) {
    announce(s);
    if (s->options.exit_on_error) {
        if (!wait_for_models(s, signals)) return MOIRE_OK;
        if (atomic_load(&s->failed_first) || !ms_repository_is_ready(s->repository))
            return ms_fail(err, MOIRE_EFAILED,
                           "a model does not serve, and --exit-on-error is said; the log says why");
    }
    ms_supervisor_tell(s->options.supervisor, MS_TOLD_READY);
    wait_for_end(s, signals);
    ms_supervisor_tell(s->options.supervisor, MS_TOLD_STOPPING);
    turn_away(s, signals);
    ms_log_line(&s->log, MOIRE_LOG_INFO,
                "ends when what it has taken is answered; a second signal ends it at once");
    return MOIRE_OK;
}

int ms_server_run(const struct ms_server_options *options, moire_error *err) {
    struct ms_server *s = NULL;
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &signals, &before); /* threads that start now inherit it */
    int rc = ms_server_start(options, &s, err);
    if (s) rc = serve_until_end(s, &signals, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s) ms_server_stop(s);
    return rc;
}
