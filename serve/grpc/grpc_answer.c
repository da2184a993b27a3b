/* SPDX-License-Identifier: Apache-2.0
 * grpc_answer.c - what a call sends: headers, messages, the status; see grpc.h. */
#include <stdio.h>
#include <string.h>
#include "serve/grpc/grpc.h"

#define HEADER(name, value, n)                                                                               \
    { (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, n, NGHTTP2_NV_FLAG_NONE }
enum { STATUS_FIELDS = 2, ID_FIELDS = 2, ESCAPED = 1800, FRAME_HEAD = 9 };

void ms_call_put(struct ms_call *call, const ProtobufCMessage *message) {
    const size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *to = n <= UINT32_MAX ? (uint8_t *)ms_bytes_extend(&call->out, n + MS_GRPC_PREFIX) : NULL;
    if (!to) {
        ms_call_finish(call, MOIRE_ENOMEM, "no memory for the answer");
        return;
    }
    const uint8_t prefix[MS_GRPC_PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                            (uint8_t)n};
    memcpy(to, prefix, sizeof prefix);
    protobuf_c_message_pack(message, to + MS_GRPC_PREFIX);
}

/* The status as header fields.  Bytes that a field cannot hold are escaped as gRPC says ("%0A"). */
struct status {
    char code[12], message[ESCAPED + 4];
    nghttp2_nv field[STATUS_FIELDS];
    size_t n;
};
static void write_status(const struct ms_call *call, struct status *s) {
    size_t n = 0;
    for (const char *p = call->message; *p && n < ESCAPED; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c >= ' ' && c <= '~' && c != '%')
            s->message[n++] = *p;
        else
            n += (size_t)snprintf(s->message + n, 4, "%%%02X", c);
    }
    snprintf(s->code, sizeof s->code, "%d", call->status);
    s->field[0] = (nghttp2_nv)HEADER("grpc-status", s->code, strlen(s->code));
    s->field[1] = (nghttp2_nv)HEADER("grpc-message", s->message, n);
    s->n = n ? 2 : 1;
}

/* nghttp2 asks how much of the body goes into the next frame; ms_call_put_frame() puts it there. */
static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    struct ms_call *call = source->ptr;
    const struct ms_connection *c = user;
    const size_t left = call->out.n - call->sent, n = left < room ? left : room;
    (void)session, (void)to;
    call->moved_ns = ms_grpc_now();
    if (n) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n < left) return (ssize_t)n;
    if (!call->finished) return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
    struct status s;
    write_status(call, &s);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (c->door->h2.submit_trailer(c->session, stream, s.field, s.n))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)n;
}

int ms_call_put_frame(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                      nghttp2_data_source *source, void *user) {
    struct ms_call *call = source->ptr;
    struct ms_connection *c = user;
    (void)session, (void)frame;
    if (c->out.n >= MS_GRPC_WRITE_BYTES) return NGHTTP2_ERR_WOULDBLOCK;
    ms_bytes_put(&c->out, head, FRAME_HEAD);
    ms_bytes_put(&c->out, call->out.at + call->sent, n);
    call->sent += n;
    if (call->sent < call->out.n) return 0;
    ms_bytes_free(&call->out);
    call->sent = 0;
    return 0;
}

void ms_call_send(struct ms_call *call) {
    const struct ms_connection *c = call->connection;
    nghttp2_nv fields[3 + ID_FIELDS + STATUS_FIELDS] = {
        HEADER(":status", "200", 3), HEADER("content-type", "application/grpc", 16),
        HEADER("grpc-accept-encoding", "identity,deflate,gzip", 21)};
    size_t n = 3;
    if (!call->stream || !c->session || (!call->finished && !call->out.n)) return;
    if (call->out.failed) {
        c->door->h2.submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (call->has_answered) {
        c->door->h2.session_resume_data(c->session, call->stream);
        return;
    }
    call->has_answered = true;
    if (*call->ids.traceparent)
        fields[n++] = (nghttp2_nv)HEADER("traceparent", call->ids.traceparent, strlen(call->ids.traceparent));
    if (*call->ids.request)
        fields[n++] = (nghttp2_nv)HEADER("x-request-id", call->ids.request, strlen(call->ids.request));
    if (call->out.n) {
        const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};
        c->door->h2.submit_response(c->session, call->stream, fields, n, &body);
        return;
    }
    struct status s; /* no message: all in one HEADERS frame */
    write_status(call, &s);
    for (size_t i = 0; i < s.n; i++)
        fields[n++] = s.field[i];
    c->door->h2.submit_response(c->session, call->stream, fields, n, NULL);
}
