/* SPDX-License-Identifier: Apache-2.0
 * request_log.c - a line for each request; see request_log.h. */
#define _GNU_SOURCE
#include "serve/net/request_log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "serve/protocol/bytes.h"

/* --- ids --- */
enum { TRACE_AT = 3, TRACE_N = 32, SPAN_AT = 36, SPAN_N = 16, FLAGS_AT = 53, WHOLE = 55 };

static bool is_hex(const char *text, size_t n) {
    return strspn(text, "0123456789abcdef") >= n;
}
static bool is_zero(const char *text, size_t n) {
    return strspn(text, "0") >= n;
}

/* "00-<32 hex>-<16 hex>-<2 hex>", neither id all zeros, the version not ff. */
static bool is_traceparent(const char *t, size_t n) {
    if (n < WHOLE || t[2] != '-' || t[SPAN_AT - 1] != '-' || t[FLAGS_AT - 1] != '-') return false;
    if (!is_hex(t, 2) || !memcmp(t, "ff", 2) || (n > WHOLE && (!memcmp(t, "00", 2) || t[WHOLE] != '-')))
        return false;
    return is_hex(t + TRACE_AT, TRACE_N) && is_hex(t + SPAN_AT, SPAN_N) && is_hex(t + FLAGS_AT, 2) &&
           !is_zero(t + TRACE_AT, TRACE_N) && !is_zero(t + SPAN_AT, SPAN_N);
}

static bool is_printable(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return n > 0;
}

static bool is_name(const char *wanted, const char *name, size_t n) {
    return strlen(wanted) == n && !strncasecmp(wanted, name, n);
}

bool ms_ids_take(struct ms_ids *ids, const char *name, size_t name_n, const char *value, size_t n) {
    if (is_name("traceparent", name, name_n)) {
        if (is_traceparent(value, n))
            snprintf(ids->traceparent, sizeof ids->traceparent, "%.*s", WHOLE, value);
        return true;
    }
    if (!is_name("x-request-id", name, name_n)) return false;
    if (n < sizeof ids->request && is_printable(value, n))
        snprintf(ids->request, sizeof ids->request, "%.*s", (int)n, value);
    return true;
}

/* --- lines --- */
static void put(struct ms_bytes *b, bool json, const char *key, const char *value, size_t n) {
    char text[128];
    if (!value || !*value) return;
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), value);
    if (json) {
        ms_bytes_print(b, ",\"%s\":", key);
        ms_bytes_quote(b, text);
    } else {
        ms_bytes_print(b, ", %s %s", key, text);
    }
}

void ms_request_log_put(const struct ms_log *log, const struct ms_request_line *a) {
    struct ms_bytes b = {0};
    char what[300];
    if (!ms_log_is_verbose(log)) return;
    snprintf(what, sizeof what, "%s%s%.250s %d", a->method, *a->path ? " " : "", a->path, a->status);
    if (log->json) {
        ms_bytes_print(&b, "{\"time\":\"");
        ms_log_stamp(&b);
        ms_bytes_print(&b, "\",\"level\":\"info\",\"message\":");
        ms_bytes_quote(&b, what);
        ms_bytes_print(
            &b,
            ",\"status\":%d,\"duration_ms\":%.3f,\"queue_ms\":%.3f,\"compute_ms\":%.3f,\"bytes_in\":%zu"
            ",\"bytes_out\":%zu",
            a->status, (double)a->ns / 1e6, (double)a->queue_ns / 1e6, (double)a->compute_ns / 1e6,
            a->bytes_in, a->bytes_out);
    } else {
        if (atomic_load(&log->shows_times)) {
            ms_log_stamp(&b);
            ms_bytes_put(&b, " ", 1);
        }
        ms_bytes_print(&b, "moire serve: ");
        for (const char *c = what; *c; c++) /* a path may hold anything */
            ms_bytes_print(&b, *c < ' ' || *c > '~' ? "?" : "%c", *c);
        ms_bytes_print(&b, ", %.3f ms", (double)a->ns / 1e6);
    }
    put(&b, log->json, "model", a->model, SIZE_MAX);
    put(&b, log->json, "version", a->version, SIZE_MAX);
    put(&b, log->json, "request_id", a->request_id && *a->request_id ? a->request_id : a->ids->request,
        SIZE_MAX);
    if (*a->ids->traceparent) {
        put(&b, log->json, "trace_id", a->ids->traceparent + TRACE_AT, TRACE_N);
        put(&b, log->json, "span_id", a->ids->traceparent + SPAN_AT, SPAN_N);
    }
    ms_bytes_print(&b, log->json ? "}\n" : "\n");
    if (!b.failed) fwrite(b.at, 1, b.n, stderr);
    ms_bytes_free(&b);
}
