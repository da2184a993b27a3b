/* SPDX-License-Identifier: Apache-2.0
 * grpc_receive.c - the messages that a call receives, and what becomes of them; see grpc.h. */
#include <stdlib.h>
#include <string.h>
#include "serve/grpc/grpc.h"
#include "serve/grpc/infer_wire.h"
#include "serve/grpc/messages.h"
#include "serve/protocol/fault.h"

/* --- a message --- */
static int expand(const struct ms_call *call, struct ms_bytes *body, moire_error *err) {
    const struct ms_grpc *door = call->connection->door;
    if (body->failed) return ms_fail(err, MOIRE_ENOMEM, "no memory for the message");
    if (call->coding == MS_CODING_NONE || call->coding == MS_CODING_UNKNOWN)
        return ms_fail(err, MOIRE_EUNSUPPORTED, "messages may be compressed by gzip and deflate only");
    return ms_coding_expand(&door->zlib, body, door->body_bytes, err);
}

/* Requests of infer methods point into the body, which the item keeps; others are copies of it. */
static int read_message(struct ms_item *item, bool compressed, const char *from, size_t n, moire_error *err) {
    const struct ms_call *call = item->call;
    const bool infers = call->method->request == &inference__model_infer_request__descriptor;
    int rc = MOIRE_OK;
    if (compressed || (infers && !item->body.at)) {
        struct ms_bytes body = {0};
        ms_bytes_put(&body, from, n);
        ms_bytes_free(&item->body);
        item->body = body;
        if (compressed)
            rc = expand(call, &item->body, err);
        else if (body.failed)
            rc = ms_fail(err, MOIRE_ENOMEM, "no memory for the message");
        from = item->body.at;
        n = item->body.n;
    }
    if (!rc && infers)
        rc = ms_infer_wire_read(from, n, (Inference__ModelInferRequest **)(void *)&item->request, err);
    else if (!rc)
        rc = ms_message_read(call->method->request, from, n, &item->request, err);
    if (!rc) {
        item->bytes = n;
        call->connection->door->held += n;
    }
    return rc;
}

/* A message with its prefix, of n bytes.  body: what the buffer of the call had, where that is all of it. */
static void begin_item(struct ms_call *call, const char *from, size_t n, struct ms_bytes *body) {
    struct ms_item *item = calloc(1, sizeof *item);
    if (!item) {
        ms_call_finish(call, MOIRE_ENOMEM, "no memory for the message");
        return;
    }
    item->call = call;
    item->begun_ns = ms_grpc_now();
    item->body = *body;
    *body = (struct ms_bytes){0};
    if (call->last)
        call->last->next = item;
    else
        call->first = item;
    call->last = item;
    call->n_items++;
    int rc = read_message(item, *from, from + MS_GRPC_PREFIX, n - MS_GRPC_PREFIX, &item->error);
    if (!rc) rc = ms_item_allow(item, &item->error);
    if (!rc) rc = call->method->begin(item, &item->error);
    item->has_ended = rc || item->answer;
}

static uint32_t message_bytes(const char *prefix) {
    uint32_t n = 0;
    for (int i = 1; i < MS_GRPC_PREFIX; i++)
        n = n << 8 | (uint8_t)prefix[i];
    return n;
}

/* Bytes of the whole message at p, of which n have come; 0: more must come; -1: it is refused. */
static int64_t whole(struct ms_call *call, const char *p, size_t n) {
    if (n < MS_GRPC_PREFIX) return 0;
    const uint32_t length = message_bytes(p);
    const char *why = NULL;
    int code = MOIRE_EINVAL;
    if ((uint8_t)p[0] > 1) {
        why = "the prefix of a message is malformed";
    } else if (length > call->connection->door->body_bytes) {
        code = MOIRE_ELIMIT;
        why = "the message is larger than --http-max-input-size";
    } else if (call->has_message && !call->method->is_stream) {
        why = "the method takes one message";
    }
    if (why) ms_call_finish(call, code, why);
    if (why) return -1;
    return n < (size_t)length + MS_GRPC_PREFIX ? 0 : (int64_t)length + MS_GRPC_PREFIX;
}

/* --- all of them --- */
/* The first n bytes of what came are done with. */
static void forget(struct ms_call *call, size_t n) {
    if (!n) return;
    memmove(call->in.at, call->in.at + n, call->in.n - n);
    call->in.n -= n;
    call->connection->door->held -= n;
    if (!call->in.n) ms_bytes_free(&call->in);
}

/* Begins what has come whole, as long as not too much is under way. */
static void take_messages(struct ms_call *call) {
    size_t at = 0;
    while (!call->finished && call->n_items < MS_GRPC_ITEMS && at < call->in.n) {
        const char *p = call->in.at + at;
        const int64_t n = whole(call, p, call->in.n - at);
        struct ms_bytes body = {0};
        if (n <= 0) break;
        call->has_message = true;
        if (!at && (size_t)n == call->in.n) { /* mostly: the item gets the buffer instead of a copy */
            body = call->in;
            call->in = (struct ms_bytes){0};
            call->connection->door->held -= (size_t)n;
        } else {
            at += (size_t)n;
        }
        begin_item(call, p, (size_t)n, &body);
        ms_bytes_free(&body);
    }
    forget(call, call->finished ? call->in.n : at);
    if (call->unread && call->stream && (call->finished || call->n_items < MS_GRPC_ITEMS)) {
        const struct ms_connection *c = call->connection;
        c->door->h2.session_consume_stream(c->session, call->stream, call->unread);
        call->unread = 0;
    }
}

/* Its answer is `out` bytes long. */
static void log_item(const struct ms_item *item, size_t out) {
    const struct ms_call *call = item->call;
    const struct ms_query *q = item->query;
    const struct ms_request_line line = {.method = call->path,
                                         .path = "",
                                         .status = ms_grpc_status(item->error.code),
                                         .bytes_in = item->bytes,
                                         .bytes_out = out,
                                         .ns = ms_grpc_now() - item->begun_ns,
                                         .queue_ns = q ? q->queue_ns : 0,
                                         .compute_ns = q ? q->compute_ns : 0,
                                         .model = q ? q->model_name : NULL,
                                         .version = q ? q->model_version : NULL,
                                         .request_id = q ? q->request.id : NULL,
                                         .ids = &call->ids};
    ms_request_log_put(call->connection->door->log, &line);
}

/* Answers the items at the head of the call that are done; false: there is none. */
static bool answer_items(struct ms_call *call) {
    bool any = false;
    if (!call->method) return false;
    const bool is_stream = call->method->is_stream;
    for (; call->first && call->first->has_ended; any = true) {
        struct ms_item *item = call->first;
        const size_t before = call->out.n;
        if (!call->finished && item->error.code && !is_stream) {
            ms_call_finish(call, item->error.code, item->error.message);
        } else if (!call->finished) {
            if (item->answer)
                ms_call_put(call, item->answer);
            else
                call->method->pack(item);
            if (!is_stream) ms_call_finish(call, MOIRE_OK, "");
        }
        log_item(item, call->out.n > before ? call->out.n - before : 0);
        ms_call_drop_item(call);
    }
    return any;
}

void ms_call_go_on(struct ms_call *call) {
    do
        take_messages(call);
    while (answer_items(call) && call->in.n);
    if (!call->finished && !call->first) {
        if (call->received_all && (call->in.n || !call->method->is_stream))
            ms_call_finish(call, MOIRE_EINVAL, "the call ended before its message did");
        else if (call->received_all)
            ms_call_finish(call, MOIRE_OK, "");
        else if (call->method->is_stream && atomic_load(&call->connection->door->draining))
            ms_call_finish(call, MOIRE_ESHUTDOWN, "the server is shutting down");
    }
    ms_call_send(call);
}

/* A message whose beginning is here gets its place at once, up to a window's bytes: its length is a claim. */
static void make_room(struct ms_call *call, const uint8_t *data, size_t n) {
    if (call->in.n || n < MS_GRPC_PREFIX) return;
    const size_t all = (size_t)message_bytes((const char *)data) + MS_GRPC_PREFIX;
    ms_bytes_reserve(&call->in, all < MS_GRPC_WINDOW ? all : MS_GRPC_WINDOW);
}

void ms_call_receive(struct ms_call *call, const uint8_t *data, size_t n) {
    struct ms_grpc *door = call->connection->door;
    call->moved_ns = ms_grpc_now();
    call->unread += n;
    if (!call->finished && door->held + n > door->body_bytes * MS_GRPC_BUDGET_BODIES)
        ms_call_finish(call, MOIRE_ELIMIT, "the server holds as much of requests as it may");
    if (!call->finished) {
        const size_t before = call->in.n;
        make_room(call, data, n);
        ms_bytes_put(&call->in, data, n);
        door->held += call->in.n - before;
        if (call->in.failed) ms_call_finish(call, MOIRE_ENOMEM, "no memory for the message");
    }
    ms_call_go_on(call);
}

void ms_call_received_all(struct ms_call *call) {
    call->received_all = true;
    ms_call_go_on(call);
}

void ms_call_item_ended(struct ms_item *item) {
    struct ms_call *call = item->call;
    struct ms_connection *c = call->connection;
    item->has_ended = true;
    call->moved_ns = ms_grpc_now(); /* its client could do nothing meanwhile */
    if (item->query && item->query->error.code) item->error = item->query->error;
    if (call->stream) {
        ms_call_go_on(call);
    } else {
        while (call->first && call->first->has_ended)
            ms_call_drop_item(call);
        ms_call_release(call);
    }
    ms_connection_write(c);
}
