/* SPDX-License-Identifier: Apache-2.0
 * grpc_answer.c - what a call sends: headers, messages, the status; see grpc.h. */
#include <stdio.h>
#include <string.h>
#include "serve/grpc/grpc.h"

#define HEADER(name, value, n)                                                                               \
    { (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, n, NGHTTP2_NV_FLAG_NONE }
enum { STATUS_FIELDS = 2, ID_FIELDS = 2, ESCAPED = 1800 };

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

/* nghttp2 asks for bytes of the body. */
static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    struct ms_call *call = source->ptr;
    const struct ms_connection *c = user;
    size_t n = call->out.n - call->sent;
    (void)session;
    call->moved_ns = ms_grpc_now();
    if (n > room) n = room;
    if (n) memcpy(to, call->out.at + call->sent, n);
    call->sent += n;
    if (call->sent < call->out.n) return (ssize_t)n;
    ms_bytes_free(&call->out);
    call->sent = 0;
    if (!call->finished) return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
    struct status s;
    write_status(call, &s);
    *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (c->door->h2.submit_trailer(c->session, stream, s.field, s.n))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)n;
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
