/* SPDX-License-Identifier: Apache-2.0
 * grpc_infer.c - ModelInfer and ModelStreamInfer; see grpc.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/grpc/grpc.h"
#include "serve/grpc/infer_message.h"
#include "serve/protocol/fault.h"

int ms_grpc_infer(struct ms_item *item, moire_error *err) {
    const Inference__ModelInferRequest *m = (const void *)item->request;
    const struct ms_call *call = item->call;
    const struct ms_grpc *door = call->connection->door;
    struct ms_model *model = NULL;
    if (atomic_load(&door->draining)) return ms_fail(err, MOIRE_ESHUTDOWN, "the server is shutting down");
    int rc = ms_repository_take(door->repository, m->model_name, *m->model_version ? m->model_version : NULL,
                                &model, err);
    if (rc) return rc;
    struct ms_query *q = item->query = calloc(1, sizeof *q);
    rc = q ? ms_infer_message_read(m, &q->request, err)
           : ms_fail(err, MOIRE_ENOMEM, "no memory for the request");
    if (rc || !q) {
        ms_repository_give(model);
        return rc;
    }
    q->model = model;
    q->patience_us = call->timeout_us;
    q->done = ms_item_ended;
    q->user = item;
    ms_query_start(q);
    return MOIRE_OK;
}

static int write_answer(const struct ms_item *item, struct ms_infer_message *out, moire_error *err) {
    const struct ms_query *q = item->query;
    struct ms_response r = {
        .model = q->model_name, .version = q->model_version, .id = q->request.id, .n_outputs = q->n_outputs};
    memcpy(r.output, q->output, (size_t)q->n_outputs * sizeof *r.output);
    return ms_infer_message_write(&r, out, err);
}

void ms_grpc_pack_infer(struct ms_item *item) {
    struct ms_infer_message m;
    if (write_answer(item, &m, &item->error))
        ms_call_finish(item->call, item->error.code, item->error.message);
    else
        ms_call_put(item->call, &m.message.base);
}

/* Errors of one request do not end a stream. */
void ms_grpc_pack_stream(struct ms_item *item) {
    struct ms_infer_message m;
    Inference__ModelInferResponse failed = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    Inference__ModelStreamInferResponse r = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
    if (item->error.code || write_answer(item, &m, &item->error)) {
        const Inference__ModelInferRequest *asked = (const void *)item->request;
        r.error_message = item->error.message;
        if (asked) failed.id = asked->id; /* says whose error it is */
        r.infer_response = &failed;
    } else {
        ms_infer_message_is_last(&m);
        r.infer_response = &m.message;
    }
    ms_call_put(item->call, &r.base);
}
