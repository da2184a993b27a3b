/* SPDX-License-Identifier: Apache-2.0
 * grpc_health.c - grpc.health.v1: Check asks once, Watch is told of every change; see grpc.h.
 *
 * Nothing tells a watcher of a change: the door's sweep looks, once a second.  A watcher that does not read
 * gets the newest state when it does, and not those before. */
#include <string.h>
#include "health.pb-c.h"
#include "serve/grpc/grpc.h"
#include "serve/protocol/fault.h"
#include "serve/repository/stuck_models.h"

typedef Grpc__Health__V1__HealthCheckResponse response;
enum {
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    UNKNOWN_SERVICE = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
};

static struct ms_grpc *door_of(const struct ms_item *item) {
    return item->call->connection->door;
}

static bool is_draining(const struct ms_item *item) {
    return atomic_load(&door_of(item)->draining) || ms_repository_leaves(door_of(item)->repository);
}

bool ms_health_of_server(const struct ms_item *item) {
    struct ms_repository *r = door_of(item)->repository;
    char why[MS_STUCK_WHY];
    return !is_draining(item) && ms_repository_is_ready(r) && !ms_stuck_server(r, why);
}

bool ms_health_of_model(const struct ms_item *item, struct ms_model *m) {
    char why[MS_STUCK_WHY];
    const bool ready = !is_draining(item) && ms_model_state(m) == MS_READY && !ms_stuck_model(m, why);
    ms_repository_give(m);
    return ready;
}

/* Service "": the server; else a model's name, or this protocol's.  MOIRE_ESTALE: there is no such service
 * for this client. */
static int look_at(const struct ms_item *item, int *status, moire_error *err) {
    const Grpc__Health__V1__HealthCheckRequest *r = (const void *)item->request;
    bool serving;
    struct ms_model *m;
    if (!*r->service || !strcmp(r->service, "inference.GRPCInferenceService")) {
        serving = ms_health_of_server(item);
    } else {
        int rc = ms_access_check(door_of(item)->access, &item->call->bearer, MS_RIGHT_MODEL, r->service, NULL,
                                 err);
        if (!rc) rc = ms_repository_take(door_of(item)->repository, r->service, NULL, &m, err);
        if (rc) return rc;
        serving = ms_health_of_model(item, m);
    }
    *status = serving ? SERVING : NOT_SERVING;
    return MOIRE_OK;
}

static int check(struct ms_item *item, moire_error *err) {
    int status;
    const int rc = look_at(item, &status, err);
    return rc ? rc
              : ms_grpc_answer(
                    item, json_pack("{s:s}", "status", status == SERVING ? "SERVING" : "NOT_SERVING"), err);
}

/* Says how it is, unless that was the last that was said. */
static int tell(struct ms_item *item, moire_error *err) {
    response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    int status;
    const int rc = look_at(item, &status, err);
    if (rc && rc != MOIRE_ESTALE) return rc;
    if (rc) status = UNKNOWN_SERVICE;
    if (status == item->told) return MOIRE_OK;
    item->told = status;
    r.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    ms_call_put(item->call, &r.base);
    return MOIRE_OK;
}

/* UNKNOWN, 0, is never told. */
static int watch(struct ms_item *item, moire_error *err) {
    item->told = 0;
    return tell(item, err);
}

static void look(struct ms_item *item) {
    struct ms_call *call = item->call;
    moire_error err = {0};
    const int rc = !call->finished && !call->out.n ? tell(item, &err) : MOIRE_OK;
    if (rc)
        ms_call_finish(call, rc, err.message);
    else if (is_draining(item))
        ms_call_finish(call, MOIRE_ESHUTDOWN, "the server is shutting down");
    item->has_ended = call->finished;
    ms_call_go_on(call);
}

#define TYPES                                                                                                \
    .request = &grpc__health__v1__health_check_request__descriptor,                                          \
    .answer = &grpc__health__v1__health_check_response__descriptor, .right = MS_RIGHT_NONE
static const struct ms_method methods[] = {
    {.name = "Check", TYPES, .begin = check},
    {.name = "Watch", TYPES, .begin = watch, .look = look},
};
#undef TYPES

const struct ms_method *ms_health_method(const char *name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}
