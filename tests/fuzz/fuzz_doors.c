/* SPDX-License-Identifier: Apache-2.0
 * fuzz_doors.c - whole connections: what a stranger sends to a server that runs, over HTTP and over HTTP/2.
 *
 * Besides what the sanitizers see, a connection that has ended must leave nothing behind: no call, no query,
 * no byte of a body that is still counted.  What is never answered is what libFuzzer calls a timeout.
 *
 * The first byte of an input chooses.  'h': bytes of a connection of HTTP/1.1; 'k': the same of a client
 * that does not wait for its answers.  'g': bytes of a connection of
 * gRPC behind the preface.  's': records, of which the frames of such a connection are made, so that changes
 * of one do not break all behind it: kind, stream (a byte), length (two), payload; see put_record(). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "tests/fuzz/served_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { STEP_MS = 10, FIELD = 126, SOME_HEADERS = 4000 };

static void fail(const char *what) {
    fprintf(stderr, "fuzz_doors: %s\n", what);
    abort();
}

/* --- HTTP --- */
static int connect_to(const struct ms_server *s) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", s->options.unix_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to)) fail("no connection");
    return fd;
}

/* A request of another client: the thread of all of them has been through what came before.  The server ends
 * that client's connection where nothing came by it for a while. */
static void ping(const struct ms_server *s) {
    static const char request[] = "GET /v2/health/live HTTP/1.1\r\nHost: m\r\n\r\n";
    static int fd = -1;
    char answer[1 << 10];
    for (int tries = 0; tries < 2; tries++) {
        if (fd < 0) fd = connect_to(s);
        if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 && recv(fd, answer, sizeof answer, 0) > 0)
            return;
        close(fd);
        fd = -1;
    }
    fail("the server does not answer another client");
}

/* What it has of an answer; true: there was some. */
static bool read_answer(int fd) {
    char answer[1 << 14];
    bool any = false;
    while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
        any = true;
    return any;
}

static void http(struct ms_server *s, bool waits, const char *bytes, size_t n) {
    const int fd = connect_to(s);
    bool more = true;
    while (n) {
        const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) break; /* it was refused before it was whole */
        bytes += sent;
        n -= (size_t)sent;
    }
    for (ping(s); waits && (more || atomic_load(&s->http.suspended)); ping(s))
        more = read_answer(fd);
    close(fd);
    while (atomic_load(&s->http.active) || atomic_load(&s->http.suspended) || atomic_load(&s->http.held))
        ping(s);
}

/* --- frames of HTTP/2 --- */
static void put_frame(struct ms_bytes *to, int type, int flags, uint32_t stream, const void *body, size_t n) {
    const uint8_t head[] = {(uint8_t)(n >> 16),      (uint8_t)(n >> 8),      (uint8_t)n,
                            (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                            (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    ms_bytes_put(to, head, sizeof head);
    ms_bytes_put(to, body, n);
}

/* A text as HPACK has it: its length, and its bytes as they are. */
static void put_text(struct ms_bytes *to, const char *text, size_t n) {
    const uint8_t length = (uint8_t)(n > FIELD ? FIELD : n);
    ms_bytes_put(to, &length, 1);
    ms_bytes_put(to, text, length);
}

/* Header fields, from lines "name value". */
static void put_headers(struct ms_bytes *to, int flags, uint32_t stream, const char *text, size_t n) {
    struct ms_bytes block = {0};
    while (n && block.n < SOME_HEADERS) {
        const char *end = memchr(text, '\n', n), *gap = memchr(text, ' ', n);
        const size_t line = end ? (size_t)(end - text) : n;
        const size_t name = gap && (size_t)(gap - text) < line ? (size_t)(gap - text) : line;
        const size_t value = name < line ? name + 1 : line;
        ms_bytes_put(&block, "\0", 1); /* literal, not kept */
        put_text(&block, text, name);
        put_text(&block, text + value, line - value);
        text += line + (end != NULL);
        n -= line + (end != NULL);
    }
    put_frame(to, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, block.at ? block.at : "",
              block.n);
    ms_bytes_free(&block);
}

/* A message of gRPC with its prefix, compressed or not. */
static void put_message(const struct ms_grpc *door, struct ms_bytes *to, int flags, uint32_t stream,
                        enum ms_coding coding, const char *text, size_t n) {
    struct ms_bytes body = {0}, whole = {0};
    ms_bytes_put(&body, text, n);
    const bool is_coded = coding && ms_coding_compress(&door->zlib, coding, &body);
    const uint8_t prefix[MS_GRPC_PREFIX] = {is_coded, 0, 0, (uint8_t)(body.n >> 8), (uint8_t)body.n};
    ms_bytes_put(&whole, prefix, sizeof prefix);
    ms_bytes_put(&whole, body.at ? body.at : "", body.n);
    put_frame(to, NGHTTP2_DATA, flags, stream, whole.at, whole.n);
    ms_bytes_free(&body);
    ms_bytes_free(&whole);
}

struct record {
    char kind;
    uint32_t stream;
    const char *text;
    size_t n;
};

/* A small letter in place of a capital one: the stream ends with it. */
static void put_record(const struct ms_grpc *door, struct ms_bytes *to, const struct record *r) {
    const int flags = r->kind >= 'a' ? NGHTTP2_FLAG_END_STREAM : 0;
    switch (r->kind & ~0x20) {
    case 'H':
        put_headers(to, flags, r->stream, r->text, r->n);
        break;
    case 'D':
        put_frame(to, NGHTTP2_DATA, flags, r->stream, r->text, r->n);
        break;
    case 'M':
        put_message(door, to, flags, r->stream, MS_CODING_NONE, r->text, r->n);
        break;
    case 'Z':
        put_message(door, to, flags, r->stream, MS_CODING_GZIP, r->text, r->n);
        break;
    case 'Y':
        put_message(door, to, flags, r->stream, MS_CODING_DEFLATE, r->text, r->n);
        break;
    case 'F': /* any frame: its type, its flags */
        if (r->n > 1) put_frame(to, r->text[0], r->text[1], r->stream, r->text + 2, r->n - 2);
        break;
    default:
        break;
    }
}

/* --- a connection of gRPC --- */
struct wire {
    struct ms_grpc *door;
    struct ms_connection *connection; /* NULL: the server has closed it */
    int fd;
};

static void look(struct wire *w, int ms) {
    char answer[1 << 14];
    ms_grpc_round(w->door, ms);
    while (recv(w->fd, answer, sizeof answer, MSG_DONTWAIT) > 0) {
    }
    if (!w->door->first) w->connection = NULL;
}

/* Who watches the server's health is told of changes, of which there is none. */
static bool is_worked_on(const struct wire *w) {
    for (const struct ms_call *call = w->connection ? w->connection->first : NULL; call; call = call->next)
        for (const struct ms_item *i = call->first; i; i = i->next)
            if (!i->has_ended && !call->method->look) return true;
    return false;
}

/* What was asked is answered. */
static void settle(struct wire *w) {
    look(w, 0);
    while (is_worked_on(w))
        look(w, STEP_MS);
}

static void give(struct wire *w, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n && w->connection) {
        const ssize_t sent = send(w->fd, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent > 0) {
            from += sent;
            n -= (size_t)sent;
        }
        look(w, 0);
    }
}

static void hang_up(struct wire *w) {
    close(w->fd);
    while (w->door->first)
        ms_grpc_round(w->door, STEP_MS);
    if (w->door->n_connections || w->door->held) fail("a connection of gRPC has left bytes behind");
}

/* 'W': waits until all is answered; 'X': the client leaves as it is. */
static void play(struct wire *w, const char *text, size_t n) {
    while (n >= 4) {
        struct record r = {.kind = text[0], .stream = (uint8_t)text[1], .text = text + 4};
        const size_t asked = (size_t)(uint8_t)text[2] << 8 | (uint8_t)text[3];
        struct ms_bytes frame = {0};
        r.n = asked < n - 4 ? asked : n - 4;
        text += 4 + r.n;
        n -= 4 + r.n;
        if (r.kind == 'X') return;
        if (r.kind == 'W') settle(w);
        put_record(w->door, &frame, &r);
        give(w, frame.at, frame.n);
        ms_bytes_free(&frame);
    }
    settle(w);
}

static void grpc(struct ms_grpc *door, bool is_played, const char *text, size_t n) {
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) fail("no sockets");
    ms_connection_new(door, pair[0], NULL);
    struct wire w = {.door = door, .connection = door->first, .fd = pair[1]};
    give(&w, begin, sizeof begin);
    if (is_played) {
        play(&w, text, n);
    } else {
        give(&w, text, n);
        settle(&w);
    }
    hang_up(&w);
}

/* --- both --- */
static struct ms_grpc door;

static void open_door(struct ms_server *s) {
    moire_error err = {0};
    if (ms_grpc_open(&door, &err)) fail(err.message);
    door.repository = s->repository;
    door.runtime = s->runtime;
    door.body_bytes = SERVED_BODY;
    door.log = &s->log;
    if (ms_grpc_prepare(&door, &err)) fail(err.message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) return 0;
    struct ms_server *s = served();
    if (!door.callbacks) open_door(s);
    const char *text = (const char *)data + 1;
    if (data[0] == 'h' || data[0] == 'k')
        http(s, data[0] == 'h', text, n - 1);
    else if (data[0] == 'g' || data[0] == 's')
        grpc(&door, data[0] == 's', text, n - 1);
    served_reset(s);
    return 0;
}
