/* SPDX-License-Identifier: Apache-2.0
 * http_wire.c - HTTP/1.1 for a client of model servers: one query at a time on a kept-alive connection, with
 * binary tensors both ways; see client.h.
 *
 * A request is made once a tenant and sent from where it lies.  Of an answer only the head and the start of
 * its body are kept: tensors are counted and dropped. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "bench/client/client.h"
#include "runtime/base/error.h"
#include "serve/protocol/kserve.h"

enum { TEXT = 240, STATUS_OK = 200, TOO_MANY = 429, UNAVAILABLE = 503, INFORMATIONAL = 199 };

struct http_wire {
    struct mo_client_link *link;
    struct mo_exchange *x; /* NULL: free for one */
    const char *at;        /* of the request, not yet handed on */
    size_t left;
    bool has_answered; /* one before this */
    bool closes;       /* the server will, behind this answer */
    bool in_body;
    char head[MO_CLIENT_HEAD_BYTES];
    size_t head_n;
    int status;
    size_t body_n, body_got, json_n;
    bool has_length, is_binary;
    char text[TEXT];
    size_t text_n;
};

/* --- requests ----------------------------------------------------------------------------------------- */
static void put_values(const moire_tensor *t, struct ms_bytes *json) {
    const int64_t n = ms_elements(t);
    for (int64_t i = 0; i < n; i++) {
        if (i) ms_bytes_put(json, ",", 1);
        if (t->dtype == MOIRE_F32)
            ms_bytes_print(json, "%g", (double)((const float *)t->data)[i]);
        else
            ms_bytes_put(json, "1", 1); /* as net_backend.c fills others */
    }
}

static void put_inputs(const struct mo_client_model *m, struct ms_bytes *json) {
    for (int i = 0; i < m->n_inputs; i++) {
        const moire_tensor *t = &m->tensor[i];
        ms_bytes_print(json, "%s{\"name\":", i ? "," : "");
        ms_bytes_quote(json, m->input[i]);
        ms_bytes_print(json, ",\"datatype\":\"%s\",\"shape\":[", ms_type_name(t->dtype));
        for (int k = 0; k < t->rank; k++)
            ms_bytes_print(json, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        if (m->json) {
            ms_bytes_print(json, "],\"data\":[");
            put_values(t, json);
            ms_bytes_print(json, "]}");
        } else {
            ms_bytes_print(json, "],\"parameters\":{\"binary_data_size\":%zu}}", t->bytes);
        }
    }
}

static int prepare(struct mo_client_model *m, moire_error *err) {
    struct ms_bytes json = {0}, *out = &m->request;
    const int n_binary = m->json ? 0 : m->n_inputs;
    size_t tensors = 0;
    ms_bytes_print(&json, "{\"inputs\":[");
    put_inputs(m, &json);
    ms_bytes_print(&json, m->json ? "]}" : "],\"parameters\":{\"binary_data_output\":true}}");
    for (int i = 0; i < n_binary; i++)
        tensors += m->tensor[i].bytes;
    ms_bytes_print(out, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n",
                   m->name, json.n + tensors);
    if (m->json)
        ms_bytes_print(out, "Content-Type: application/json\r\n\r\n");
    else
        ms_bytes_print(
            out, "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %zu\r\n\r\n",
            json.n);
    if (json.n) ms_bytes_put(out, json.at, json.n);
    for (int i = 0; i < n_binary; i++)
        ms_bytes_put(out, m->tensor[i].data, m->tensor[i].bytes);
    const bool failed = json.failed || out->failed;
    ms_bytes_free(&json);
    return failed ? mo_fail(err, MOIRE_ENOMEM, "%s: no memory for a request", m->name) : MOIRE_OK;
}

/* --- a connection ------------------------------------------------------------------------------------- */
static void *open_wire(struct mo_client_link *link, void *shared) {
    struct http_wire *w = calloc(1, sizeof *w);
    (void)shared;
    if (w) w->link = link;
    return w;
}

static void close_wire(void *wire) {
    free(wire);
}

static bool has_room(void *wire) {
    const struct http_wire *w = wire;
    return !w->x && !w->closes;
}

static int begin(void *wire, struct mo_exchange *x) {
    struct http_wire *w = wire;
    w->x = x;
    w->at = x->model->request.at;
    w->left = x->model->request.n;
    w->head_n = w->text_n = 0;
    w->in_body = false;
    return 0;
}

static size_t next(void *wire, const char **bytes) {
    struct http_wire *w = wire;
    const size_t n = w->left;
    *bytes = w->at;
    w->left = 0;
    return n;
}

static struct mo_exchange *orphan(void *wire, bool *untouched) {
    struct http_wire *w = wire;
    struct mo_exchange *x = w->x;
    *untouched = w->has_answered && !w->head_n && !w->in_body;
    w->x = NULL;
    return x;
}

/* --- answers ------------------------------------------------------------------------------------------ */
/* A field's value as a whole number of bytes; false: it is none, or too large. */
static bool read_length(const char *value, size_t *out) {
    char *after;
    if (!isdigit((unsigned char)*value)) return false;
    const unsigned long long n = strtoull(value, &after, 10);
    *out = (size_t)n;
    return n <= MO_CLIENT_ANSWER_BYTES && !after[strspn(after, " \t")];
}

/* One field; `line` ends with a 0.  false: a client cannot go on. */
static bool read_field(struct http_wire *w, char *line) {
    char *value = strchr(line, ':');
    if (!value) return false;
    *value++ = 0;
    value += strspn(value, " \t");
    if (!strcasecmp(line, "Content-Length")) return w->has_length = read_length(value, &w->body_n);
    if (!strcasecmp(line, "Inference-Header-Content-Length"))
        return w->is_binary = read_length(value, &w->json_n);
    if (!strcasecmp(line, "Connection")) w->closes = w->closes || strcasestr(value, "close");
    /* a body of unknown length is of no use: servers know what they answer */
    return strcasecmp(line, "Transfer-Encoding") != 0 && strcasecmp(line, "Content-Encoding") != 0;
}

/* The head, whole, ending with an empty line. */
static bool read_head(struct http_wire *w) {
    char *line = w->head, *end = strstr(line, "\r\n");
    w->has_length = w->is_binary = false;
    w->body_n = w->body_got = w->json_n = 0;
    if (memchr(w->head, 0, w->head_n - 1) || strncmp(line, "HTTP/1.1 ", 9) != 0) return false;
    w->status = (int)strtol(line + 9, NULL, 10);
    for (line = end + 2; (end = strstr(line, "\r\n")) && end > line; line = end + 2) {
        *end = 0;
        if (!read_field(w, line)) return false;
    }
    return w->status > INFORMATIONAL && w->status < 1000 && w->has_length && w->json_n <= w->body_n;
}

/* Bytes of tensors; of JSON just whether there are outputs: how many digits it has says nothing. */
static size_t tensors_of(const struct http_wire *w) {
    if (w->x->model->json) return memmem(w->text, w->text_n, "\"outputs\"", 9) != NULL;
    return w->is_binary ? w->body_n - w->json_n : 0;
}

/* The connection is free for the next query before this one's answer is told. */
static void finish(struct http_wire *w) {
    struct mo_exchange *x = w->x;
    const size_t tensors = tensors_of(w);
    w->x = NULL;
    w->has_answered = true;
    if (w->status == STATUS_OK)
        mo_client_judge(w->link, x, tensors);
    else
        mo_client_ended(w->link, x,
                        w->status == TOO_MANY || w->status == UNAVAILABLE ? MOIRE_EBUSY : MOIRE_EFAILED,
                        "%s: HTTP %d: %.*s", x->model->name, w->status, (int)w->text_n, w->text);
}

/* Bytes that belong to the head; SIZE_MAX: it cannot be read. */
static size_t take_head(struct http_wire *w, const char *bytes, size_t n) {
    const size_t before = w->head_n, room = sizeof w->head - 1 - before, got = n < room ? n : room;
    memcpy(w->head + before, bytes, got);
    w->head_n += got;
    w->head[w->head_n] = 0;
    const size_t from = before > 3 ? before - 3 : 0;
    const char *end = memmem(w->head + from, w->head_n - from, "\r\n\r\n", 4);
    if (!end) return got == n ? n : SIZE_MAX;
    w->head_n = (size_t)(end + 4 - w->head);
    w->head[w->head_n] = 0;
    w->in_body = read_head(w);
    return w->in_body ? w->head_n - before : SIZE_MAX;
}

static size_t take_body(struct http_wire *w, const char *bytes, size_t n) {
    const size_t wanted = w->body_n - w->body_got, got = n < wanted ? n : wanted;
    const size_t room = sizeof w->text - w->text_n, kept = got < room ? got : room;
    memcpy(w->text + w->text_n, bytes, kept);
    w->text_n += kept;
    w->body_got += got;
    return got;
}

static int take(void *wire, const char *bytes, size_t n) {
    struct http_wire *w = wire;
    while (n || (w->in_body && w->body_got == w->body_n)) {
        if (!w->x) return -1; /* an answer that nobody asked for */
        const size_t got = w->in_body ? take_body(w, bytes, n) : take_head(w, bytes, n);
        if (got == SIZE_MAX) return -1;
        bytes += got;
        n -= got;
        if (!w->in_body || w->body_got < w->body_n) continue;
        w->in_body = false;
        w->head_n = 0;
        finish(w);
        if (w->closes) return -1;
    }
    return 0;
}

const struct mo_client_protocol mo_client_http = {.name = "http",
                                                  .prepare = prepare,
                                                  .open = open_wire,
                                                  .close = close_wire,
                                                  .has_room = has_room,
                                                  .begin = begin,
                                                  .next = next,
                                                  .take = take,
                                                  .orphan = orphan};
