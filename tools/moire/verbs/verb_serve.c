/* SPDX-License-Identifier: Apache-2.0
 * verb_serve.c - `moire serve`: answers clients of the Open Inference Protocol (serve/). */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"
#include "tools/moire/serve_functions.h"
#include "tools/moire/verb.h"

static const char about[] =
    "Serves a folder of models over HTTP and gRPC by the Open Inference Protocol (KServe v2), as Triton\n"
    "and OpenVINO Model Server do: clients of these need no change.  A folder has Triton's layout\n"
    "(NAME/config.pbtxt, NAME/1/model.onnx), or ONNX files.  Latency targets stand in\n"
    "config.pbtxt: parameters { key: \"qos_ms\" value: { string_value: \"15\" } }.\n";

static const char notes[] =
    "SIGTERM answers what was taken and ends; SIGHUP looks at the folder again.\n"
    "docs/serving.md has the protocol, the fields of config.pbtxt, metrics and limits.\n\n"
    "Examples:\n"
    "  moire serve --model-repository models\n"
    "  moire serve --check models\n"
    "  curl -s localhost:8000/v2/models/lenet\n";

/* Whether a flag stands on the command line: then it counts, and the file of --config does not. */
static bool is_given(const struct mo_options *o, const char *flag) {
    const size_t n = strlen(flag);
    for (int i = 0; i < o->argc; i++)
        if (!strncmp(o->argv[i], flag, n) && (!o->argv[i][n] || o->argv[i][n] == '=')) return true;
    return false;
}

/* What the file says where no flag does. */
static int read_file(const struct mo_options *o, const struct ms_config_file *f, struct ms_server_options *s,
                     char *repository, size_t room, moire_error *err) {
    const struct {
        const char *flag, *key;
        const char **text; /* or */
        int *whole;
    } rows[] = {
        {"--host", "host", &s->host, NULL},
        {"--policy", "policy", &s->policy, NULL},
        {"--store", "store", &s->store, NULL},
        {"--model-control-mode", "model_control_mode", &s->mode, NULL},
        {"--http-port", "http_port", NULL, &s->http_port},
        {"--grpc-port", "grpc_port", NULL, &s->grpc_port},
        {"--metrics-port", "metrics_port", NULL, &s->metrics_port},
        {"--agent-port", "agent_port", NULL, &s->agent_port},
        {"--drain-seconds", "drain_seconds", NULL, &s->drain_seconds},
        {"--threads", "threads", NULL, &s->threads},
        {"--repository-poll-secs", "repository_poll_secs", NULL, &s->poll_seconds},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (is_given(o, rows[i].flag)) continue;
        if (rows[i].text)
            *rows[i].text = ms_config_file_text(f, rows[i].key, *rows[i].text);
        else
            *rows[i].whole = ms_config_file_whole(f, rows[i].key, *rows[i].whole);
    }
    if (!is_given(o, "--load-first")) s->load_first = ms_config_file_switch(f, "load_first", s->load_first);
    s->config = f;
    const char *folder = s->repository ? NULL : ms_config_file_text(f, "model_repository", NULL);
    if (folder) {
        const bool absolute = folder[0] == '/';
        snprintf(repository, room, "%s%s%s", absolute ? "" : f->folder, absolute ? "" : "/", folder);
        s->repository = repository;
    }
    if (strcmp(s->mode, "none") && strcmp(s->mode, "poll") && strcmp(s->mode, "explicit"))
        return mo_fail(err, MOIRE_EINVAL, "%s: model_control_mode is none, poll or explicit", o->config);
    return MOIRE_OK;
}

static int check(const struct mo_options *o, const struct ms_server_options *s) {
    moire_error err;
    int faults = 0;
    const struct ms_source source = ms_server_source(s);
    if (ms_server_check(&source, stdout, &faults, &err)) return mo_verb_fail(o, &err);
    return faults ? MO_EXIT_USAGE : MO_EXIT_OK;
}

static int serve(const struct mo_options *o, const struct ms_server_options *s) {
    moire_error err;
    if (o->check) return check(o, s);
    if (!s->repository && !s->config) {
        mo_fail(&err, MOIRE_EINVAL, "needs --model-repository DIR or --config FILE; see moire help serve");
        return mo_verb_fail(o, &err);
    }
    if (s->n_load && strcmp(s->mode, "explicit") != 0) {
        mo_fail(&err, MOIRE_EINVAL, "--load-model is for --model-control-mode explicit: else all are loaded");
        return mo_verb_fail(o, &err);
    }
    return ms_server_run(s, &err) ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err;
    struct ms_config_file file = {.document = NULL};
    char repository[4096];
    struct ms_function rows[MO_SERVE_FUNCTIONS];
    const struct ms_functions functions = mo_serve_functions(rows);
    (void)env;
    struct ms_server_options s = {
        .repository = o->check ? o->check : o->repository,
        .host = o->host,
        .unix_path = o->unix_path,
        .grpc_unix = o->grpc_unix,
        .control_unix = o->control_unix,
        .token_file = o->token_file,
        .policy = o->policies.n ? o->policies.word[0] : NULL,
        .store = o->store,
        .mode = o->control_mode,
        .record = o->record,
        .http_port = o->http_port,
        .grpc_port = o->grpc_port,
        .metrics_port = o->metrics_port,
        .control_port = o->control_port,
        .agent_port = o->agent_port,
        .drain_seconds = o->drain_seconds,
        .tls = {.certificate = o->tls_cert, .key = o->tls_key, .client_ca = o->tls_client_ca},
        .threads = o->threads,
        .poll_seconds = o->poll_seconds,
        .body_bytes = o->body_bytes,
        .shared_memory = o->shared_memory,
        .trace_file = o->trace_file,
        .record_events = o->record_events,
        .shape_memory = o->shape_memory,
        .insecure = o->insecure,
        .json_log = o->json_log,
        .log_verbose = o->log_verbose,
        .nv_metrics = o->nv_metrics,
        .supervisor = getenv("NOTIFY_SOCKET"),
        .json = o->json,
        .functions = &functions,
        .load = o->load_models.word,
        .n_load = o->load_models.n,
        .load_first = o->load_first,
        .exit_on_error = o->exit_on_error};
    int rc = o->config ? ms_config_file_open(o->config, &file, &err) : MOIRE_OK;
    if (!rc && o->config) rc = read_file(o, &file, &s, repository, sizeof repository, &err);
    const int code = rc ? mo_verb_fail(o, &err) : serve(o, &s);
    ms_config_file_close(&file);
    return code;
}

const struct mo_verb mo_verb_serve = {
    .name = "serve",
    .group = MO_GROUP_MODELS,
    .summary = "serve a folder of models over HTTP and gRPC (Open Inference Protocol)",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_SERVER}},
    .run = run,
};
