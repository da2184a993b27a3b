/* SPDX-License-Identifier: Apache-2.0
 * test_grpc.c - a whole server in this process, and a client of gRPC by nghttp2. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "inference.pb-c.h"
#include "models/zoo.h"
#include "serve/protocol/bytes.h"
#include "serve/server.h"

enum { PIXELS = 32 * 32, PREFIX = 5 };
#define INFER  "/inference.GRPCInferenceService/ModelInfer"
#define STREAM "/inference.GRPCInferenceService/ModelStreamInfer"

static char folder[] = "/tmp/moire-grpc-XXXXXX";
static char model[512];
static struct ms_server *server;

static int start(void **state) {
    struct mo_env env = mo_env_default();
    char built[512];
    moire_error err = {0};
    (void)state;
    if (!*model) {
        if (!mkdtemp(folder) || mo_zoo_path(&env, "lenet", folder, built, sizeof built, NULL)) return -1;
        snprintf(model, sizeof model, "%s/lenet.onnx", folder);
        if (rename(built, model)) return -1;
    }
    const struct ms_server_options o = {.repository = folder,
                                        .host = "127.0.0.1",
                                        .store = "/nonexistent",
                                        .mode = "none",
                                        .http_port = -1,
                                        .metrics_port = -1,
                                        .agent_port = -1,
                                        .control_port = -1,
                                        .threads = 2,
                                        .body_bytes = 1 << 20};
    if (ms_server_start(&o, &server, &err)) {
        print_message("%s\n", err.message);
        return -1;
    }
    while (!ms_server_is_ready(server))
        usleep(1000);
    return 0;
}

static int stop(void **state) {
    (void)state;
    if (server) ms_server_stop(server);
    server = NULL;
    return unlink(model) || rmdir(folder);
}

/* --- a client --- */
struct client {
    int fd;
    nghttp2_session *session;
};
struct call {
    struct ms_bytes send, answer;
    size_t sent;
    bool keeps_open; /* does not say that it has sent all */
    int status;      /* -1: none came */
    bool closed;
};

static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *user) {
    struct call *call = source->ptr;
    size_t n = call->send.n - call->sent;
    (void)session, (void)id, (void)user;
    if (n > room) n = room;
    if (n) memcpy(to, call->send.at + call->sent, n);
    call->sent += n;
    if (call->sent == call->send.n && !call->keeps_open) *flags = NGHTTP2_DATA_FLAG_EOF;
    return n || !call->keeps_open ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static int take(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                void *user) {
    struct call *call = nghttp2_session_get_stream_user_data(session, id);
    (void)flags, (void)user;
    ms_bytes_put(&call->answer, data, n);
    return 0;
}

static int header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                  const uint8_t *value, size_t n, uint8_t flags, void *user) {
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)n, (void)flags, (void)user;
    if (call && name_n == 11 && !memcmp(name, "grpc-status", 11))
        call->status = (int)strtol((const char *)value, NULL, 10);
    return 0;
}

static int ended(nghttp2_session *session, int32_t id, uint32_t why, void *user) {
    struct call *call = nghttp2_session_get_stream_user_data(session, id);
    (void)why, (void)user;
    if (call) call->closed = true;
    return 0;
}

static void connect_client(struct client *c) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)ms_server_port(server, MS_PORT_GRPC)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    nghttp2_session_callbacks *calls;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&calls), 0);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, take);
    nghttp2_session_callbacks_set_on_header_callback(calls, header);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, ended);
    assert_int_equal(nghttp2_session_client_new(&c->session, calls, NULL), 0);
    nghttp2_session_callbacks_del(calls);
    nghttp2_submit_settings(c->session, 0, NULL, 0);
}

static void close_client(struct client *c) {
    nghttp2_session_del(c->session);
    close(c->fd);
}

static void flush(struct client *c) {
    const uint8_t *frame;
    for (ssize_t n; (n = nghttp2_session_mem_send(c->session, &frame)) > 0;)
        if (send(c->fd, frame, (size_t)n, MSG_NOSIGNAL) != n) return;
}

static bool receive(struct client *c) {
    uint8_t bytes[4096];
    const ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    return n > 0 && nghttp2_session_mem_recv(c->session, bytes, (size_t)n) >= 0;
}

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

static int32_t begin(struct client *c, struct call *call, const char *path, const char *type) {
    const nghttp2_nv fields[] = {field(":method", "POST"), field(":scheme", "http"), field(":path", path),
                                 field(":authority", "x"), field("content-type", type)};
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = give};
    call->status = -1;
    const int32_t id =
        nghttp2_submit_request(c->session, NULL, fields, sizeof fields / sizeof *fields, &body, call);
    assert_true(id > 0);
    return id;
}

static void finish(struct client *c, struct call *call) {
    flush(c);
    while (!call->closed && receive(c))
        flush(c);
}

static void free_call(struct call *call) {
    ms_bytes_free(&call->send);
    ms_bytes_free(&call->answer);
}

static void put_prefix(struct ms_bytes *to, int compressed, size_t n) {
    const uint8_t prefix[PREFIX] = {(uint8_t)compressed, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                                    (uint8_t)(n >> 8), (uint8_t)n};
    ms_bytes_put(to, prefix, sizeof prefix);
}

/* Appends a request for the image whose pixels are all `value`. */
static void put_request(struct ms_bytes *to, const char *name, const char *id, float value) {
    static float x[PIXELS];
    int64_t shape[] = {1, 1, 32, 32};
    for (int i = 0; i < PIXELS; i++)
        x[i] = value;
    Inference__ModelInferRequest m = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor
        in = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT,
        *inputs[] = {&in};
    ProtobufCBinaryData raw = {.len = sizeof x, .data = (uint8_t *)x};
    in.name = (char *)(uintptr_t) "input";
    in.datatype = (char *)(uintptr_t) "FP32";
    in.n_shape = 4;
    in.shape = shape;
    m.model_name = (char *)(uintptr_t)name;
    m.id = (char *)(uintptr_t)id;
    m.n_inputs = m.n_raw_input_contents = 1;
    m.inputs = inputs;
    m.raw_input_contents = &raw;
    const size_t n = inference__model_infer_request__get_packed_size(&m);
    put_prefix(to, 0, n);
    char *at = ms_bytes_extend(to, n);
    assert_non_null(at);
    inference__model_infer_request__pack(&m, (uint8_t *)at);
}

/* The message at *at of the answer, which it moves. */
static const uint8_t *next_message(const struct call *call, size_t *at, size_t *n) {
    const uint8_t *p = (const uint8_t *)call->answer.at + *at;
    assert_true(call->answer.n >= *at + PREFIX);
    *n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    assert_true(call->answer.n >= *at + PREFIX + *n);
    *at += PREFIX + *n;
    return p + PREFIX;
}

static int status_of(const char *path, const char *type, const void *body, size_t n) {
    struct client c;
    struct call call = {0};
    connect_client(&c);
    ms_bytes_put(&call.send, body, n);
    begin(&c, &call, path, type);
    finish(&c, &call);
    const int status = call.status;
    free_call(&call);
    close_client(&c);
    return status;
}

/* --- tests --- */
static void unary(void **state) {
    struct client c;
    (void)state;
    connect_client(&c);
    for (int i = 0; i < 20; i++) {
        struct call call = {0};
        size_t at = 0, n;
        put_request(&call.send, "lenet", "seven", (float)i);
        begin(&c, &call, INFER, "application/grpc+proto");
        finish(&c, &call);
        assert_int_equal(call.status, 0);
        const uint8_t *bytes = next_message(&call, &at, &n);
        Inference__ModelInferResponse *r = inference__model_infer_response__unpack(NULL, n, bytes);
        assert_non_null(r);
        assert_string_equal(r->id, "seven");
        assert_int_equal(r->raw_output_contents[0].len, 10 * sizeof(float));
        inference__model_infer_response__free_unpacked(r, NULL);
        free_call(&call);
    }
    close_client(&c);
}

/* More than may be under way at once, an unknown model among them, in one piece. */
static void streams_keep_their_order(void **state) {
    enum { N = 100, BAD = 40 };
    struct client c;
    struct call call = {0};
    size_t at = 0, n;
    (void)state;
    connect_client(&c);
    for (int i = 0; i < N; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        put_request(&call.send, i == BAD ? "nope" : "lenet", id, (float)i);
    }
    begin(&c, &call, STREAM, "application/grpc");
    finish(&c, &call);
    assert_int_equal(call.status, 0);
    for (int i = 0; i < N; i++) {
        const uint8_t *bytes = next_message(&call, &at, &n);
        Inference__ModelStreamInferResponse *r =
            inference__model_stream_infer_response__unpack(NULL, n, bytes);
        assert_non_null(r);
        assert_int_equal(strtol(r->infer_response->id, NULL, 10), i);
        assert_int_equal(*r->error_message != 0, i == BAD);
        assert_int_equal(r->infer_response->n_outputs, i != BAD);
        inference__model_stream_infer_response__free_unpacked(r, NULL);
    }
    assert_int_equal(at, call.answer.n);
    free_call(&call);
    close_client(&c);
}

static void statuses(void **state) {
    static const char nothing[PREFIX], packed[PREFIX] = {1}, bad[PREFIX] = {2}, half[3],
                                       huge[PREFIX] = {0, 0x7f}, wrong[] = {0, 0, 0, 0, 2, '\xff', '\xff'};
    struct ms_bytes two = {0};
    (void)state;
    assert_int_equal(status_of("/x/y", "application/grpc", nothing, PREFIX), 12);
    assert_int_equal(status_of(INFER, "text/plain", nothing, PREFIX), 3);
    assert_int_equal(status_of(INFER, "application/grpc", nothing, PREFIX), 5); /* model '' */
    assert_int_equal(status_of(INFER, "application/grpc", "", 0), 3);
    assert_int_equal(status_of(INFER, "application/grpc", half, sizeof half), 3);
    assert_int_equal(status_of(STREAM, "application/grpc", half, sizeof half), 3);
    assert_int_equal(status_of(STREAM, "application/grpc", "", 0), 0);
    assert_int_equal(status_of(INFER, "application/grpc", bad, PREFIX), 3);
    assert_int_equal(status_of(INFER, "application/grpc", packed, PREFIX), 12);
    assert_int_equal(status_of(INFER, "application/grpc", huge, PREFIX), 8);
    assert_int_equal(status_of(INFER, "application/grpc", wrong, sizeof wrong), 3);
    put_request(&two, "lenet", "", 1);
    put_request(&two, "lenet", "", 1);
    assert_int_equal(status_of(INFER, "application/grpc", two.at, two.n), 3);
    ms_bytes_free(&two);
}

/* Calls that are taken back, and a client that vanishes: nothing is left, and others are answered. */
static void clients_that_leave(void **state) {
    enum { ROUNDS = 12, CALLS = 40 };
    (void)state;
    for (int r = 0; r < ROUNDS; r++) {
        struct client c;
        struct call calls[CALLS];
        memset(calls, 0, sizeof calls);
        connect_client(&c);
        for (int i = 0; i < CALLS; i++) {
            put_request(&calls[i].send, "lenet", "", (float)i);
            const int32_t id = begin(&c, &calls[i], i % 2 ? INFER : STREAM, "application/grpc");
            if (i % 3) flush(&c);
            if (i % 4 == 1) nghttp2_submit_rst_stream(c.session, 0, id, NGHTTP2_CANCEL);
        }
        flush(&c);
        if (r % 2) finish(&c, &calls[0]);
        close_client(&c);
        for (int i = 0; i < CALLS; i++)
            free_call(&calls[i]);
    }
    unary(state);
}

/* The end waits for no stream that has nothing under way. */
static void the_end(void **state) {
    struct client c;
    struct call call = {.keeps_open = true};
    connect_client(&c);
    put_request(&call.send, "lenet", "", 1);
    begin(&c, &call, STREAM, "application/grpc");
    flush(&c);
    while (call.answer.n < PREFIX && receive(&c))
        flush(&c);
    ms_server_stop(server);
    server = NULL;
    finish(&c, &call);
    assert_true(call.answer.n > PREFIX);
    assert_int_equal(call.status, 14);
    free_call(&call);
    close_client(&c);
    assert_int_equal(start(state), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary),    cmocka_unit_test(streams_keep_their_order),
        cmocka_unit_test(statuses), cmocka_unit_test(clients_that_leave),
        cmocka_unit_test(the_end),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
