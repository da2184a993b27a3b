/* SPDX-License-Identifier: Apache-2.0
 * grpc_wire.c - gRPC for a client of model servers: a stream of an HTTP/2 connection a query, by nghttp2 as
 * the server has it (serve/grpc/h2.h), tensors as raw bytes both ways; see client.h.
 *
 * The message of a request is made once a tenant.  A connection takes as many streams as the server allows,
 * MOST_CALLS at most; an answer is kept until it is whole, and must be one message without compression. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "bench/client/client.h"
#include "inference.pb-c.h"
#include "runtime/base/error.h"
#include "serve/grpc/h2.h"
#include "serve/grpc/messages.h"
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve.h"

enum {
    MOST_CALLS = 64,
    PREFIX = 5, /* whether a message is compressed, and its length */
    STREAM_WINDOW = 8 << 20,
    CONNECTION_WINDOW = 64 << 20,
    SEND_AT_ONCE = 256 << 10,
    TEXT = 240,
    NO_STATUS = -1
};

struct grpc_shared {
    struct ms_h2 h2;
    nghttp2_session_callbacks *callbacks;
};

/* One query on its way. */
struct grpc_call {
    struct mo_exchange *x; /* NULL: this place is free */
    size_t sent;
    int status;
    char text[TEXT];
    struct ms_bytes answer;
};

struct grpc_wire {
    struct mo_client_link *link;
    const struct ms_h2 *h2;
    nghttp2_session *session;
    struct grpc_call call[MOST_CALLS];
    int n_calls;
    struct ms_bytes out;
    bool broken;
};

/* --- requests ----------------------------------------------------------------------------------------- */
static int pack(struct mo_client_model *m, Inference__ModelInferRequest *message, moire_error *err) {
    const size_t n = inference__model_infer_request__get_packed_size(message);
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    ms_bytes_put(&m->request, prefix, sizeof prefix);
    char *at = n < MO_CLIENT_ANSWER_BYTES ? ms_bytes_extend(&m->request, n) : NULL;
    if (!at || m->request.failed) return mo_fail(err, MOIRE_ENOMEM, "%s: no memory for a request", m->name);
    inference__model_infer_request__pack(message, (uint8_t *)at);
    return MOIRE_OK;
}

static int prepare(struct mo_client_model *m, moire_error *err) {
    Inference__ModelInferRequest message = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor input[MO_BENCH_MAX_INPUTS], *inputs[MO_BENCH_MAX_INPUTS];
    ProtobufCBinaryData raw[MO_BENCH_MAX_INPUTS];
    for (int i = 0; i < m->n_inputs; i++) {
        moire_tensor *t = &m->tensor[i];
        inputs[i] = &input[i];
        inference__model_infer_request__infer_input_tensor__init(&input[i]);
        input[i].name = (char *)(uintptr_t)m->input[i];
        input[i].datatype = (char *)(uintptr_t)ms_type_name(t->dtype);
        input[i].n_shape = (size_t)t->rank;
        input[i].shape = t->shape;
        raw[i] = (ProtobufCBinaryData){.len = t->bytes, .data = t->data};
    }
    message.model_name = (char *)(uintptr_t)m->name;
    message.n_inputs = message.n_raw_input_contents = (size_t)m->n_inputs;
    message.inputs = inputs;
    message.raw_input_contents = raw;
    return pack(m, &message, err);
}

static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *user) {
    struct grpc_call *call = source->ptr;
    (void)session, (void)id, (void)user;
    const struct ms_bytes *request = &call->x->model->request;
    size_t n = request->n - call->sent;
    if (n > room) n = room;
    memcpy(to, request->at + call->sent, n);
    call->sent += n;
    if (call->sent == request->n) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* --- answers ------------------------------------------------------------------------------------------ */
/* Its place is free before its answer is told. */
static struct mo_exchange *leave(struct grpc_wire *w, struct grpc_call *call) {
    struct mo_exchange *x = call->x;
    call->x = NULL;
    w->n_calls--;
    ms_bytes_free(&call->answer);
    return x;
}

/* Bytes of tensors in a message; 0: it is none. */
static size_t tensors_of(const struct ms_bytes *answer) {
    const uint8_t *p = (const uint8_t *)answer->at;
    ProtobufCMessage *read;
    size_t sum = 0;
    if (answer->failed || answer->n < PREFIX || p[0] ||
        ((size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4]) != answer->n - PREFIX)
        return 0;
    if (ms_message_read(&inference__model_infer_response__descriptor, answer->at + PREFIX, answer->n - PREFIX,
                        &read, NULL))
        return 0;
    const Inference__ModelInferResponse *response = (const Inference__ModelInferResponse *)read;
    for (size_t i = 0; i < response->n_raw_output_contents; i++)
        sum += response->raw_output_contents[i].len;
    protobuf_c_message_free_unpacked(read, NULL);
    return sum;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t why, void *user) {
    struct grpc_wire *w = user;
    struct grpc_call *call = w->h2->session_get_stream_user_data(session, id);
    if (!call || !call->x) return 0;
    const int status = call->status;
    const size_t tensors = status == MS_GRPC_OK ? tensors_of(&call->answer) : 0;
    const bool busy = status == MS_GRPC_RESOURCE_EXHAUSTED || status == MS_GRPC_UNAVAILABLE ||
                      status == MS_GRPC_DEADLINE_EXCEEDED;
    struct mo_exchange *x = leave(w, call);
    if (status == MS_GRPC_OK)
        mo_client_judge(w->link, x, tensors);
    else if (status == NO_STATUS)
        mo_client_ended(w->link, x, MOIRE_EIO, "%s: the stream ended without a status (HTTP/2 error %u)",
                        x->model->name, why);
    else
        mo_client_ended(w->link, x, busy ? MOIRE_EBUSY : MOIRE_EFAILED, "%s: gRPC status %d: %s",
                        x->model->name, status, call->text);
    return 0;
}

static int header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                  const uint8_t *value, size_t n, uint8_t flags, void *user) {
    static const char status[] = "grpc-status", message[] = "grpc-message";
    const struct grpc_wire *w = user;
    struct grpc_call *call = w->h2->session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    if (!call || !call->x) return 0;
    if (name_n == sizeof status - 1 && !memcmp(name, status, name_n)) {
        const long code = strtol((const char *)value, NULL, 10); /* nghttp2 ends it with a 0 */
        call->status = n && code >= 0 && code < 100 ? (int)code : NO_STATUS;
    } else if (name_n == sizeof message - 1 && !memcmp(name, message, name_n)) {
        snprintf(call->text, sizeof call->text, "%.*s", (int)(n < TEXT ? n : TEXT - 1), (const char *)value);
    }
    return 0;
}

static int data_received(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                         void *user) {
    struct grpc_wire *w = user;
    struct grpc_call *call = w->h2->session_get_stream_user_data(session, id);
    (void)flags;
    if (!call || !call->x) return 0;
    if (call->answer.n + n > MO_CLIENT_ANSWER_BYTES)
        call->answer.failed = true;
    else
        ms_bytes_put(&call->answer, data, n);
    return 0;
}

/* --- a connection ------------------------------------------------------------------------------------- */
static void *open_wire(struct mo_client_link *link, void *shared) {
    const struct grpc_shared *s = shared;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW}};
    struct grpc_wire *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->link = link;
    w->h2 = &s->h2;
    if (s->h2.session_client_new2(&w->session, s->callbacks, w, NULL)) {
        free(w);
        return NULL;
    }
    s->h2.submit_settings(w->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings);
    s->h2.session_set_local_window_size(w->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    return w;
}

static void close_wire(void *wire) {
    struct grpc_wire *w = wire;
    w->h2->session_del(w->session);
    for (int i = 0; i < MOST_CALLS; i++)
        ms_bytes_free(&w->call[i].answer);
    ms_bytes_free(&w->out);
    free(w);
}

static bool has_room(void *wire) {
    const struct grpc_wire *w = wire;
    const uint32_t most =
        w->h2->session_get_remote_settings(w->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return !w->broken && w->n_calls < MOST_CALLS && (uint32_t)w->n_calls < most;
}

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static int begin(void *wire, struct mo_exchange *x) {
    const nghttp2_nv fields[] = {field(":method", "POST"),
                                 field(":scheme", "http"),
                                 field(":path", "/inference.GRPCInferenceService/ModelInfer"),
                                 field(":authority", "127.0.0.1"),
                                 field("te", "trailers"),
                                 field("content-type", "application/grpc")};
    struct grpc_wire *w = wire;
    struct grpc_call *call = w->call;
    while (call->x)
        call++; /* has_room() said that there is one */
    call->x = x;
    call->sent = 0;
    call->status = NO_STATUS;
    call->text[0] = 0;
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = give};
    if (w->h2->submit_request(w->session, NULL, fields, sizeof fields / sizeof *fields, &body, call) < 0) {
        call->x = NULL;
        w->broken = true;
        return -1;
    }
    w->n_calls++;
    return 0;
}

/* Frames are gathered, so that a request takes few calls of the kernel. */
static size_t next(void *wire, const char **bytes) {
    struct grpc_wire *w = wire;
    const uint8_t *frame;
    ssize_t n = 1;
    w->out.n = 0;
    while (w->out.n < SEND_AT_ONCE && (n = w->h2->session_mem_send(w->session, &frame)) > 0)
        ms_bytes_put(&w->out, frame, (size_t)n);
    if (n < 0 || w->out.failed) w->broken = true;
    *bytes = w->out.at;
    return w->out.failed ? 0 : w->out.n;
}

static int take(void *wire, const char *bytes, size_t n) {
    struct grpc_wire *w = wire;
    if (w->h2->session_mem_recv(w->session, (const uint8_t *)bytes, n) < 0) return -1;
    return w->broken || (!w->h2->session_want_read(w->session) && !w->h2->session_want_write(w->session));
}

static struct mo_exchange *orphan(void *wire, bool *untouched) {
    struct grpc_wire *w = wire;
    *untouched = false;
    for (int i = 0; i < MOST_CALLS; i++)
        if (w->call[i].x) return leave(w, &w->call[i]);
    return NULL;
}

/* --- what connections share --------------------------------------------------------------------------- */
static void end(void *shared) {
    struct grpc_shared *s = shared;
    if (s->callbacks) s->h2.session_callbacks_del(s->callbacks);
    ms_h2_close(&s->h2);
    free(s);
}

static int start(void **shared, moire_error *err) {
    struct grpc_shared *s = *shared = calloc(1, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "no memory for a client");
    const int code = ms_h2_open(&s->h2, err);
    if (code) {
        free(s);
        *shared = NULL;
        return code;
    }
    if (s->h2.session_callbacks_new(&s->callbacks)) {
        s->callbacks = NULL;
        return mo_fail(err, MOIRE_ENOMEM, "no memory for a client");
    }
    s->h2.session_callbacks_set_on_header_callback(s->callbacks, header);
    s->h2.session_callbacks_set_on_data_chunk_recv_callback(s->callbacks, data_received);
    s->h2.session_callbacks_set_on_stream_close_callback(s->callbacks, stream_closed);
    return MOIRE_OK;
}

const struct mo_client_protocol mo_client_grpc = {.name = "grpc",
                                                  .start = start,
                                                  .end = end,
                                                  .prepare = prepare,
                                                  .open = open_wire,
                                                  .close = close_wire,
                                                  .has_room = has_room,
                                                  .begin = begin,
                                                  .next = next,
                                                  .take = take,
                                                  .orphan = orphan};
