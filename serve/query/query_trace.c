/* SPDX-License-Identifier: Apache-2.0
 * query_trace.c - which queries are traced, and the file that their times go to; see query_trace.h. */
#define _GNU_SOURCE
#include "serve/query/query_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve/protocol/bytes.h"
#include "serve/protocol/fault.h"
#include "serve/query/trace_settings.h"

enum { WAITING_BYTES = 64 << 10 };

struct ms_trace {
    char *file; /* NULL: none */
    pthread_mutex_t lock;
    struct ms_trace_rules rules;
    atomic_bool is_on; /* somebody's level is not OFF */
    uint64_t last_id;
    struct ms_bytes waiting;
    int64_t n_waiting; /* traces */
    int fd;            /* of the one file, where there are no files by number; -1: not opened yet */
    bool has_begun;    /* the one file has something */
    int n_files;
    size_t written;
};

static int open_file(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

int ms_trace_open(const char *file, struct ms_trace **out, moire_error *err) {
    struct ms_trace *t = *out = calloc(1, sizeof *t);
    if (t && file) t->file = strdup(file);
    if (!t || (file && !t->file)) {
        free(t);
        *out = NULL;
        return ms_fail(err, MOIRE_ENOMEM, "no memory for traces");
    }
    t->fd = file ? open_file(file) : -1;
    ms_trace_rules_init(&t->rules);
    pthread_mutex_init(&t->lock, NULL);
    if (!file || t->fd >= 0) return MOIRE_OK;
    ms_fail(err, MOIRE_EIO, "--trace-file %.300s cannot be written: %s", file, strerror(errno));
    ms_trace_close(t);
    *out = NULL;
    return MOIRE_EIO;
}

/* --- the file --- */
static bool put_all(int fd, const char *data, size_t n) {
    while (n) {
        const ssize_t k = write(fd, data, n);
        if (k <= 0) return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* A disk that is full loses traces, never queries. */
static void flush_one(struct ms_trace *t) {
    if (put_all(t->fd, t->has_begun ? "," : "[", 1)) put_all(t->fd, t->waiting.at, t->waiting.n);
    t->has_begun = true;
}

static void flush_numbered(struct ms_trace *t) {
    char *path = NULL;
    if (asprintf(&path, "%s.%d", t->file, t->n_files++) < 0) return;
    const int fd = open_file(path);
    if (fd >= 0 && put_all(fd, "[", 1) && put_all(fd, t->waiting.at, t->waiting.n)) put_all(fd, "]\n", 2);
    if (fd >= 0) close(fd);
    free(path);
}

static void flush(struct ms_trace *t, bool numbered) {
    const bool room =
        t->written + t->waiting.n <= MS_TRACE_BYTES && (!numbered || t->n_files < MS_TRACE_FILES);
    if (t->waiting.n && !t->waiting.failed && room) {
        t->written += t->waiting.n;
        if (numbered)
            flush_numbered(t);
        else
            flush_one(t);
    }
    ms_bytes_free(&t->waiting);
    t->n_waiting = 0;
}

void ms_trace_close(struct ms_trace *t) {
    if (!t) return;
    if (t->file && t->fd >= 0) {
        flush(t, t->rules.server.value[MS_TRACE_FREQUENCY] > 0);
        put_all(t->fd, t->has_begun ? "]\n" : "[]\n", t->has_begun ? 2 : 3);
        close(t->fd);
    }
    ms_trace_rules_free(&t->rules);
    pthread_mutex_destroy(&t->lock);
    free(t->file);
    free(t);
}

/* --- settings --- */
int ms_trace_settings(struct ms_trace *t, const char *model, const json_t *change, json_t **out,
                      moire_error *err) {
    int rc = MOIRE_OK;
    pthread_mutex_lock(&t->lock);
    if (t->file) flush(t, t->rules.server.value[MS_TRACE_FREQUENCY] > 0);
    if (change) rc = ms_trace_rules_change(&t->rules, model, t->file != NULL, change, err);
    if (!rc) *out = ms_trace_rules_show(&t->rules, model, t->file ? t->file : "");
    atomic_store(&t->is_on, ms_trace_rules_are_on(&t->rules));
    pthread_mutex_unlock(&t->lock);
    if (!rc && !*out) rc = ms_fail(err, MOIRE_ENOMEM, "no memory for the settings");
    return rc;
}

/* --- queries --- */
static void put_trace(struct ms_trace *t, const struct ms_traced *q) {
    const struct {
        const char *name;
        int64_t ns;
    } times[] = {{"REQUEST_START", q->request_start},
                 {"QUEUE_START", q->queue_start},
                 {"COMPUTE_START", q->compute_start},
                 {"COMPUTE_INPUT_END", q->compute_start},
                 {"COMPUTE_OUTPUT_START", q->output_start},
                 {"COMPUTE_END", q->output_start ? q->request_end : 0},
                 {"REQUEST_END", q->request_end}};
    struct ms_bytes *b = &t->waiting;
    const uint64_t id = ++t->last_id;
    ms_bytes_print(b, "%s{\"id\":%" PRIu64 ",\"model_name\":", b->n ? "," : "", id);
    ms_bytes_quote(b, q->model);
    ms_bytes_print(b, ",\"model_version\":%s", q->version);
    if (q->id) {
        ms_bytes_print(b, ",\"request_id\":");
        ms_bytes_quote(b, q->id);
    }
    ms_bytes_print(b, "},{\"id\":%" PRIu64 ",\"timestamps\":[", id);
    for (size_t i = 0, n = 0; i < sizeof times / sizeof *times; i++)
        if (times[i].ns)
            ms_bytes_print(b, "%s{\"name\":\"%s\",\"ns\":%" PRId64 "}", n++ ? "," : "", times[i].name,
                           times[i].ns);
    ms_bytes_print(b, "]}");
    t->n_waiting++;
}

void ms_trace_query(struct ms_trace *t, const struct ms_traced *q) {
    if (!t || !atomic_load_explicit(&t->is_on, memory_order_relaxed)) return;
    pthread_mutex_lock(&t->lock);
    if (ms_trace_rules_take(&t->rules, q->model)) {
        const int64_t frequency = t->rules.server.value[MS_TRACE_FREQUENCY];
        put_trace(t, q);
        if (t->waiting.n >= WAITING_BYTES || (frequency && t->n_waiting >= frequency))
            flush(t, frequency > 0);
    }
    pthread_mutex_unlock(&t->lock);
}
