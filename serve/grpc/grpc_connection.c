/* SPDX-License-Identifier: Apache-2.0
 * grpc_connection.c - a client's connection: its socket, and its HTTP/2 streams by nghttp2; see grpc.h. */
#define _GNU_SOURCE
#include "serve/grpc/grpc.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

enum { READ_BYTES = 256 << 10, READS = 4, CONNECTION_WINDOW = 16 << 20 };

static const struct ms_h2 *h2_of(const struct ms_connection *c) {
    return &c->door->h2;
}

/* --- what nghttp2 tells --- */
static struct ms_call *call_of(const struct ms_connection *c, int32_t stream) {
    return h2_of(c)->session_get_stream_user_data(c->session, stream);
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct ms_connection *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    /* a client that leaves call after call to be worked on for nobody */
    if (c->n_calls >= MS_GRPC_CALLS) return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct ms_call *call = ms_call_new(c, frame->hd.stream_id);
    if (!call) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    h2_of(c)->session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                  const uint8_t *value, size_t n, uint8_t flags, void *user) {
    struct ms_call *call = call_of(user, frame->hd.stream_id);
    (void)session, (void)flags;
    if (!call) return 0;
    call->header_bytes += name_n + n + 32; /* as RFC 9113 counts (section 6.5.2) */
    if (call->header_bytes > MS_GRPC_HEADER_BYTES) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    ms_call_header(call, (const char *)name, name_n, (const char *)value, n);
    return 0;
}

static int frame_received(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)session;
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    struct ms_call *call = carries ? call_of(user, frame->hd.stream_id) : NULL;
    if (!call) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) ms_call_begin(call);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ms_call_received_all(call);
    return 0;
}

/* A client that is answered before it has sent all need not send the rest. */
static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    const struct ms_connection *c = user;
    const int32_t stream = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
        !h2_of(c)->session_get_stream_remote_close(session, stream))
        h2_of(c)->submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_NO_ERROR);
    return 0;
}

static int data_received(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                         size_t n, void *user) {
    struct ms_connection *c = user;
    struct ms_call *call = call_of(c, stream);
    (void)flags;
    h2_of(c)->session_consume_connection(session, n); /* streams do not wait for each other */
    if (call)
        ms_call_receive(call, data, n);
    else
        h2_of(c)->session_consume_stream(session, stream, n);
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t stream, uint32_t why, void *user) {
    struct ms_call *call = call_of(user, stream);
    (void)why;
    h2_of(user)->session_set_stream_user_data(session, stream, NULL);
    if (call) ms_call_stream_closed(call);
    return 0;
}

nghttp2_session_callbacks *ms_connection_callbacks(const struct ms_h2 *h2) {
    nghttp2_session_callbacks *calls;
    if (h2->session_callbacks_new(&calls)) return NULL;
    h2->session_callbacks_set_on_begin_headers_callback(calls, begin_headers);
    h2->session_callbacks_set_on_header_callback(calls, header);
    h2->session_callbacks_set_on_frame_recv_callback(calls, frame_received);
    h2->session_callbacks_set_on_frame_send_callback(calls, frame_sent);
    h2->session_callbacks_set_on_data_chunk_recv_callback(calls, data_received);
    h2->session_callbacks_set_on_stream_close_callback(calls, stream_closed);
    h2->session_callbacks_set_send_data_callback(calls, ms_call_put_frame);
    return calls;
}

/* --- begin and end --- */
static int start(struct ms_connection *c) {
    const struct ms_grpc *door = c->door;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MS_GRPC_STREAMS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, MS_GRPC_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, MS_GRPC_HEADER_BYTES},
    };
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    return door->h2.session_server_new2(&c->session, door->callbacks, c, door->option) ||
           door->h2.submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                    sizeof settings / sizeof *settings) ||
           door->h2.session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) ||
           epoll_ctl(door->epoll, EPOLL_CTL_ADD, c->fd, &e);
}

void ms_connection_new(struct ms_grpc *door, int fd, struct ms_channel *channel) {
    const int on = 1;
    const bool room = door->n_connections < MS_GRPC_CONNECTIONS && !atomic_load(&door->draining);
    struct ms_connection *c = room ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        ms_channel_free(channel);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *c = (struct ms_connection){
        .door = door, .next = door->first, .fd = fd, .channel = channel, .moved_ns = ms_grpc_now()};
    if (door->first) door->first->previous = c;
    door->first = c;
    door->n_connections++;
    if (start(c)) ms_connection_close(c);
    ms_connection_write(c);
}

void ms_connection_close(struct ms_connection *c) {
    if (c->fd < 0) return;
    ms_channel_free(c->channel);
    c->channel = NULL;
    close(c->fd);
    c->fd = -1;
    if (c->session) h2_of(c)->session_del(c->session);
    c->session = NULL;
    ms_bytes_free(&c->out);
    for (struct ms_call *call = c->first, *next; call; call = next) {
        next = call->next;
        ms_call_stream_closed(call);
    }
}

void ms_connection_release(struct ms_connection *c) {
    if (c->fd >= 0 || c->first) return;
    if (c->previous)
        c->previous->next = c->next;
    else
        c->door->first = c->next;
    if (c->next) c->next->previous = c->previous;
    c->door->n_connections--;
    free(c);
}

/* --- bytes --- */
/* Frames that nghttp2 has to send, behind those that wait already. */
static void gather(struct ms_connection *c) {
    const uint8_t *frame;
    while (c->out.n < MS_GRPC_WRITE_BYTES && !c->out.failed) {
        const ssize_t n = h2_of(c)->session_mem_send(c->session, &frame);
        if (n <= 0) return;
        ms_bytes_put(&c->out, frame, (size_t)n);
    }
}

static void wait_to_write(struct ms_connection *c, bool waits) {
    if (waits == c->waits_to_write) return;
    struct epoll_event e = {.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
    c->waits_to_write = waits;
    epoll_ctl(c->door->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

/* false: the connection is to be closed. */
static bool write_some(struct ms_connection *c) {
    for (;;) {
        gather(c);
        if (c->out.failed) return false;
        if (!c->out.n) break;
        const ssize_t n = ms_channel_send(c->channel, c->fd, c->out.at + c->sent, c->out.n - c->sent);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (n < 0) {
            wait_to_write(c, true);
            return true;
        }
        c->sent += (size_t)n;
        c->moved_ns = ms_grpc_now();
        if (c->sent == c->out.n) c->sent = c->out.n = 0;
    }
    wait_to_write(c, false);
    return h2_of(c)->session_want_read(c->session) || h2_of(c)->session_want_write(c->session);
}

void ms_connection_write(struct ms_connection *c) {
    if (c->fd >= 0 && !write_some(c)) ms_connection_close(c);
    ms_connection_release(c);
}

void ms_connection_read(struct ms_connection *c) {
    uint8_t buffer[READ_BYTES];
    bool open = c->fd >= 0;
    for (int i = 0; i < READS && open; i++) {
        const ssize_t n = ms_channel_receive(c->channel, c->fd, buffer, sizeof buffer);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        open = n > 0;
        if (!open) break;
        c->moved_ns = ms_grpc_now();
        open = h2_of(c)->session_mem_recv(c->session, buffer, (size_t)n) >= 0;
        if (n < (ssize_t)sizeof buffer) break;
    }
    if (!open) ms_connection_close(c);
    ms_connection_write(c);
}

/* --- time --- */
void ms_connection_say_goodbye(struct ms_connection *c) {
    if (c->fd < 0 || c->said_goodbye) return;
    c->said_goodbye = true;
    for (struct ms_call *call = c->first, *next; call; call = next) {
        next = call->next; /* open calls without anything under way */
        if (!call->first && !call->finished)
            ms_call_finish(call, MOIRE_ESHUTDOWN, "the server is shutting down");
        ms_call_look(call);
    }
    h2_of(c)->submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                            h2_of(c)->session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR, NULL, 0);
    ms_connection_write(c);
}

/* It has to receive or to send more, and does not. */
static bool is_stuck(const struct ms_call *call, int64_t now_ns) {
    const bool receives = !call->received_all && (!call->method || !call->method->is_stream || call->in.n);
    return call->stream && (receives || (call->out.n && call->sent < call->out.n) || call->finished) &&
           !(call->first && call->received_all) && /* it is worked on */
           now_ns - call->moved_ns > (int64_t)MS_GRPC_STUCK_SECONDS * 1000000000;
}

void ms_connection_sweep(struct ms_connection *c, int64_t now_ns) {
    if (c->fd < 0) return;
    for (struct ms_call *call = c->first; call; call = call->next) {
        ms_call_look(call);
        if (is_stuck(call, now_ns))
            h2_of(c)->submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
    }
    const int64_t still = now_ns - c->moved_ns;
    if (still > (int64_t)MS_GRPC_STUCK_SECONDS * 1000000000 && c->out.n) {
        ms_connection_close(c);
        ms_connection_release(c);
    } else if (still > (int64_t)MS_GRPC_IDLE_SECONDS * 1000000000 && !c->first) {
        ms_connection_say_goodbye(c);
    } else {
        ms_connection_write(c);
    }
}
