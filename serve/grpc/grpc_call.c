/* SPDX-License-Identifier: Apache-2.0
 * grpc_call.c - a call: its headers and its end; see grpc.h. */
#include "serve/grpc/grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/grpc/infer_wire.h"
#include "serve/protocol/fault.h"

/* --- begin and end --- */
struct ms_call *ms_call_new(struct ms_connection *c, int32_t stream) {
    struct ms_call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    *call = (struct ms_call){
        .connection = c, .next = c->first, .stream = stream, .status = -1, .moved_ns = ms_grpc_now()};
    if (c->first) c->first->previous = call;
    c->first = call;
    c->n_calls++;
    return call;
}

void ms_call_release(struct ms_call *call) {
    struct ms_connection *c = call->connection;
    if (call->stream || call->first) return;
    if (call->previous)
        call->previous->next = call->next;
    else
        c->first = call->next;
    if (call->next) call->next->previous = call->previous;
    c->n_calls--;
    c->door->held -= call->in.n;
    ms_bytes_free(&call->in);
    ms_bytes_free(&call->out);
    free(call);
}

static void free_item(struct ms_item *item) {
    item->call->connection->door->held -= item->bytes;
    if (item->query) {
        ms_query_close(item->query);
        ms_request_close(&item->query->request);
        free(item->query);
    }
    if (item->request && item->request->descriptor == &inference__model_infer_request__descriptor)
        ms_infer_wire_free((Inference__ModelInferRequest *)(void *)item->request);
    else if (item->request)
        protobuf_c_message_free_unpacked(item->request, NULL);
    ms_bytes_free(&item->body);
    if (item->answer) protobuf_c_message_free_unpacked(item->answer, NULL);
    free(item);
}

void ms_call_drop_item(struct ms_call *call) {
    struct ms_item *item = call->first;
    call->first = item->next;
    if (!call->first) call->last = NULL;
    call->n_items--;
    free_item(item);
}

/* NULL: none of its items goes on by itself. */
static struct ms_item *lasting(const struct ms_call *call) {
    return call->method && call->method->look && call->first && !call->first->has_ended ? call->first : NULL;
}

void ms_call_look(struct ms_call *call) {
    struct ms_item *item = lasting(call);
    if (item) call->method->look(item);
}

void ms_call_stream_closed(struct ms_call *call) {
    struct ms_item *item = lasting(call);
    call->stream = 0;
    call->finished = true;
    if (item) item->has_ended = true;
    for (const struct ms_item *i = call->first; i; i = i->next)
        if (i->query && !i->has_ended) ms_query_cancel(i->query);
    while (call->first && call->first->has_ended)
        ms_call_drop_item(call);
    ms_call_release(call);
}

/* --- headers --- */
/* "100m": 100 ms.  Returns: microseconds; -1: malformed. */
static int64_t read_timeout(const char *value, size_t n) {
    static const char units[] = "HMSmun";
    static const int64_t us[] = {3600000000, 60000000, 1000000, 1000, 1, 0};
    int64_t count = 0;
    const char *unit = n > 1 && n <= 9 ? strchr(units, value[n - 1]) : NULL;
    for (size_t i = 0; unit && i + 1 < n; i++) {
        if (value[i] < '0' || value[i] > '9') return -1;
        count = count * 10 + (value[i] - '0');
    }
    if (!unit || !*unit) return -1;
    return us[unit - units] ? count * us[unit - units] : count / 1000 + 1;
}

static bool is(const char *text, const char *name, size_t n) {
    return strlen(text) == n && !memcmp(text, name, n);
}

void ms_call_header(struct ms_call *call, const char *name, size_t name_n, const char *value, size_t n) {
    static const char type[] = "application/grpc";
    if (call->has_begun) return; /* trailers say nothing here */
    if (is(":path", name, name_n)) {
        const size_t kept = n < sizeof call->path ? n : 0; /* no method has a longer one */
        memcpy(call->path, value, kept);
        call->path[kept] = 0;
    } else if (is("content-type", name, name_n)) {
        call->is_grpc = n >= sizeof type - 1 && !memcmp(value, type, sizeof type - 1);
    } else if (is("grpc-timeout", name, name_n)) {
        call->timeout_us = read_timeout(value, n);
    } else if (is("authorization", name, name_n)) {
        ms_bearer_read(value, n, &call->bearer);
    } else if (is("grpc-encoding", name, name_n)) {
        char coding[16] = "?";
        if (n < sizeof coding) memcpy(coding, value, n + 1);
        call->coding = ms_coding_of(coding);
    } else {
        ms_ids_take(&call->ids, name, name_n, value, n);
    }
}

void ms_call_begin(struct ms_call *call) {
    call->has_begun = true;
    call->method = ms_method_find(call->path);
    char what[200];
    moire_error err;
    if (!call->is_grpc) {
        ms_call_finish(call, MOIRE_EINVAL, "this port speaks gRPC: content-type must be application/grpc");
    } else if (!call->method) {
        snprintf(what, sizeof what, "there is no method %s", call->path);
        ms_call_finish(call, MOIRE_EUNSUPPORTED, what);
    } else if (call->timeout_us < 0) {
        ms_call_finish(call, MOIRE_EINVAL, "grpc-timeout is malformed");
    } else if (ms_call_allow(call, &err)) {
        ms_call_finish(call, err.code, err.message);
    } else if (atomic_load(&call->connection->door->draining)) {
        ms_call_finish(call, MOIRE_ESHUTDOWN, "the server is shutting down");
    }
}

void ms_call_finish(struct ms_call *call, int code, const char *message) {
    if (call->finished) return;
    call->finished = true;
    call->status = ms_grpc_status(code);
    snprintf(call->message, sizeof call->message, "%s", message);
    ms_call_send(call);
}
