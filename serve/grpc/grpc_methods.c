/* SPDX-License-Identifier: Apache-2.0
 * grpc_methods.c - the methods that are served, and all but infer; see grpc.h. */
#include <string.h>
#include "inference.pb-c.h"
#include "serve/grpc/grpc.h"
#include "serve/grpc/messages.h"
#include "serve/protocol/fault.h"
#include "serve/repository/documents.h"

static struct ms_repository *repository_of(const struct ms_item *item) {
    return item->call->connection->door->repository;
}

int ms_grpc_answer(struct ms_item *item, json_t *document, moire_error *err) {
    item->answer = document ? ms_message_of_json(item->call->method->answer, document) : NULL;
    json_decref(document);
    return item->answer ? MOIRE_OK : ms_fail(err, MOIRE_ENOMEM, "no memory for the answer");
}

/* --- is it ready --- */

static int live(struct ms_item *item, moire_error *err) {
    return ms_grpc_answer(item, json_pack("{s:b}", "live", 1), err);
}

static int ready(struct ms_item *item, moire_error *err) {
    return ms_grpc_answer(item, json_pack("{s:b}", "ready", ms_health_of_server(item)), err);
}

/* The requests that name a model have the same fields, but for those of loads. */
static const char *version_of(const char *version) {
    return *version ? version : NULL;
}

static int model_ready(struct ms_item *item, moire_error *err) {
    const Inference__ModelReadyRequest *r = (const void *)item->request;
    struct ms_model *m;
    const int rc = ms_repository_take(repository_of(item), r->name, version_of(r->version), &m, err);
    if (rc == MOIRE_EINVAL) return rc;
    *err = (moire_error){0};
    return ms_grpc_answer(item, json_pack("{s:b}", "ready", !rc && ms_health_of_model(item, m)),
                          err); /* none: not */
}

/* --- documents --- */
static int server(struct ms_item *item, moire_error *err) {
    return ms_grpc_answer(item, ms_document_server(repository_of(item)), err);
}

/* What a list tells is cut to the models that the client has a right on. */
static void filter(const struct ms_item *item, json_t *list) {
    ms_access_filter(item->call->connection->door->access, &item->call->bearer, list);
}

typedef int (*of_model)(struct ms_repository *repository, const char *name, const char *version, json_t **out,
                        moire_error *err);
static int document(struct ms_item *item, of_model makes, json_t **out, moire_error *err) {
    const Inference__ModelMetadataRequest *r = (const void *)item->request;
    return makes(repository_of(item), r->name, version_of(r->version), out, err);
}

static int model(struct ms_item *item, moire_error *err) {
    json_t *made;
    const int rc = document(item, ms_document_model, &made, err);
    return rc ? rc : ms_grpc_answer(item, made, err);
}

static int config(struct ms_item *item, moire_error *err) {
    json_t *made;
    const int rc = document(item, ms_document_config, &made, err);
    return rc ? rc : ms_grpc_answer(item, json_pack("{s:o}", "config", made), err);
}

static int statistics(struct ms_item *item, moire_error *err) {
    json_t *made;
    const Inference__ModelStatisticsRequest *r = (const void *)item->request;
    const int rc = document(item, ms_document_stats, &made, err);
    if (!rc && !*r->name) filter(item, json_object_get(made, "model_stats"));
    return rc ? rc : ms_grpc_answer(item, made, err);
}

static int index_of(struct ms_item *item, moire_error *err) {
    const Inference__RepositoryIndexRequest *r = (const void *)item->request;
    json_t *index = ms_document_index(repository_of(item), r->ready);
    filter(item, index);
    return ms_grpc_answer(item, json_pack("{s:o}", "models", index), err);
}

/* --- loads --- */
static void job_ended(void *user, int code, const char *message) {
    struct ms_item *item = user;
    if (code) ms_fail(&item->error, code, "%s", message);
    ms_item_ended(item);
}

/* RepositoryModelLoadRequest and RepositoryModelUnloadRequest have the same fields. */
static int start(struct ms_item *item, ms_job_start starts, ms_job_start with_dependents, moire_error *err) {
    const Inference__RepositoryModelLoadRequest *r = (const void *)item->request;
    for (size_t i = 0; i < r->n_parameters; i++) {
        const Inference__ModelRepositoryParameter *p = r->parameters[i]->value;
        if (strcmp(r->parameters[i]->key, "unload_dependents") != 0)
            return ms_fail(err, MOIRE_EUNSUPPORTED,
                           "the parameter '%.60s' is not served; models come from the repository",
                           r->parameters[i]->key);
        if (p &&
            p->parameter_choice_case == INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM &&
            p->bool_param)
            starts = with_dependents;
    }
    return starts(repository_of(item), r->model_name, job_ended, item, err);
}

static int load(struct ms_item *item, moire_error *err) {
    return start(item, ms_repository_load, ms_repository_load, err);
}
static int unload(struct ms_item *item, moire_error *err) {
    return start(item, ms_repository_unload, ms_repository_unload_all, err);
}
/* A message without fields. */
static void pack_nothing(struct ms_item *item) {
    Inference__RepositoryModelLoadResponse nothing = INFERENCE__REPOSITORY_MODEL_LOAD_RESPONSE__INIT;
    ms_call_put(item->call, &nothing.base);
}

/* --- the table --- */
#define TYPES(name) &inference__##name##_request__descriptor, &inference__##name##_response__descriptor
#define NOWHERE     0, 0
#define NAMES(type, model)                                                                                   \
    offsetof(Inference__##type##Request, model), offsetof(Inference__##type##Request, version)
static const struct ms_method methods[] = {
    {"ModelInfer", TYPES(model_infer), MS_RIGHT_MODEL, offsetof(Inference__ModelInferRequest, model_name),
     offsetof(Inference__ModelInferRequest, model_version), false, ms_grpc_infer, ms_grpc_pack_infer, NULL},
    {"ModelStreamInfer", &inference__model_infer_request__descriptor,
     &inference__model_stream_infer_response__descriptor, MS_RIGHT_MODEL,
     offsetof(Inference__ModelInferRequest, model_name),
     offsetof(Inference__ModelInferRequest, model_version), true, ms_grpc_infer, ms_grpc_pack_stream, NULL},
    {"ServerLive", TYPES(server_live), MS_RIGHT_NONE, NOWHERE, false, live, NULL, NULL},
    {"ServerReady", TYPES(server_ready), MS_RIGHT_NONE, NOWHERE, false, ready, NULL, NULL},
    {"ServerMetadata", TYPES(server_metadata), MS_RIGHT_TOKEN, NOWHERE, false, server, NULL, NULL},
    {"ModelReady", TYPES(model_ready), MS_RIGHT_MODEL, NAMES(ModelReady, name), false, model_ready, NULL,
     NULL},
    {"ModelMetadata", TYPES(model_metadata), MS_RIGHT_MODEL, NAMES(ModelMetadata, name), false, model, NULL,
     NULL},
    {"ModelConfig", TYPES(model_config), MS_RIGHT_MODEL, NAMES(ModelConfig, name), false, config, NULL, NULL},
    {"ModelStatistics", TYPES(model_statistics), MS_RIGHT_TOKEN, NAMES(ModelStatistics, name), false,
     statistics, NULL, NULL},
    {"SystemSharedMemoryStatus", TYPES(system_shared_memory_status), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_regions, NULL, NULL},
    {"SystemSharedMemoryRegister", TYPES(system_shared_memory_register), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_register, NULL, NULL},
    {"SystemSharedMemoryUnregister", TYPES(system_shared_memory_unregister), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_unregister, NULL, NULL},
    {"CudaSharedMemoryStatus", TYPES(cuda_shared_memory_status), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_no_regions, NULL, NULL},
    {"CudaSharedMemoryRegister", TYPES(cuda_shared_memory_register), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_no_register, NULL, NULL},
    {"CudaSharedMemoryUnregister", TYPES(cuda_shared_memory_unregister), MS_RIGHT_TOKEN, NOWHERE, false,
     ms_grpc_no_unregister, NULL, NULL},
    {"TraceSetting", TYPES(trace_setting), MS_RIGHT_CONTROL, NOWHERE, false, ms_grpc_trace, NULL, NULL},
    {"LogSettings", TYPES(log_settings), MS_RIGHT_CONTROL, NOWHERE, false, ms_grpc_log, NULL, NULL},
    {"RepositoryIndex", TYPES(repository_index), MS_RIGHT_TOKEN, NOWHERE, false, index_of, NULL, NULL},
    {"RepositoryModelLoad", TYPES(repository_model_load), MS_RIGHT_CONTROL, NOWHERE, false, load,
     pack_nothing, NULL},
    {"RepositoryModelUnload", TYPES(repository_model_unload), MS_RIGHT_CONTROL, NOWHERE, false, unload,
     pack_nothing, NULL},
};
#undef NAMES
#undef NOWHERE
#undef TYPES
/* What stands behind the prefix, or NULL. */
static const char *behind(const char *path, const char *prefix) {
    const size_t n = strlen(prefix);
    return strncmp(path, prefix, n) ? NULL : path + n;
}

const struct ms_method *ms_method_find(const char *path) {
    const char *name = behind(path, "/grpc.health.v1.Health/");
    if (name) return ms_health_method(name);
    name = behind(path, "/inference.GRPCInferenceService/");
    for (size_t i = 0; name && i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}
