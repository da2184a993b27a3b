/* SPDX-License-Identifier: Apache-2.0
 * verb_serve.c - `moire serve`: answers clients of the Open Inference Protocol (serve/). */
#include <stdlib.h>
#include "serve/server.h"
#include "runtime/base/error.h"
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

static int check(const struct mo_options *o) {
    moire_error err;
    int faults = 0;
    if (ms_server_check(o->check, stdout, &faults, &err)) return mo_verb_fail(o, &err);
    return faults ? MO_EXIT_USAGE : MO_EXIT_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err;
    (void)env;
    if (o->check) return check(o);
    if (!o->repository) {
        mo_fail(&err, MOIRE_EINVAL, "needs --model-repository DIR; see moire help serve");
        return mo_verb_fail(o, &err);
    }
    const struct ms_server_options s = {
        .repository = o->repository,
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
        .json = o->json};
    return ms_server_run(&s, &err) ? mo_verb_fail(o, &err) : MO_EXIT_OK;
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
