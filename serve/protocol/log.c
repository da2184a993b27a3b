/* SPDX-License-Identifier: Apache-2.0
 * log.c - log lines and their settings; see log.h. */
#define _GNU_SOURCE
#include "serve/protocol/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include "serve/protocol/bytes.h"
#include "serve/protocol/fault.h"

static const char *const names[] = {"error", "warning", "info", "debug"};
static const char *const switches[] = {"log_error", "log_warning", "log_info"};
enum { SWITCHES = 3, VERBOSE_MOST = 1000 };

void ms_log_stamp(struct ms_bytes *b) {
    struct timespec t;
    struct tm utc;
    char at[32];
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &utc));
    ms_bytes_print(b, "%s.%03ldZ", at, t.tv_nsec / 1000000);
}

bool ms_log_is_verbose(const struct ms_log *log) {
    return log && atomic_load_explicit(&log->verbose, memory_order_relaxed);
}

void ms_log_line(void *user, int level, const char *line) {
    struct ms_log *log = user;
    struct ms_bytes b = {0};
    if (level < 0 || level > MOIRE_LOG_DEBUG) return;
    if (level == MOIRE_LOG_DEBUG ? !atomic_load(&log->verbose) : atomic_load(&log->is_off[level])) return;
    if (log->json) {
        ms_bytes_print(&b, "{\"time\":\"");
        ms_log_stamp(&b);
        ms_bytes_print(&b, "\",\"level\":\"%s\",\"message\":", names[level]);
        ms_bytes_quote(&b, line);
        ms_bytes_put(&b, "}", 1);
    } else {
        if (atomic_load(&log->shows_times)) {
            ms_log_stamp(&b);
            ms_bytes_put(&b, " ", 1);
        }
        ms_bytes_print(&b, "moire serve: %s%s", level == MOIRE_LOG_INFO ? "" : names[level],
                       level == MOIRE_LOG_INFO ? "" : ": ");
        ms_bytes_put(&b, line, strlen(line));
    }
    ms_bytes_put(&b, "\n", 1);
    if (!b.failed) fwrite(b.at, 1, b.n, stderr); /* one write: lines of threads do not mix */
    ms_bytes_free(&b);
}

/* --- settings --- */
struct change {
    bool is_off[SWITCHES], shows_times;
    unsigned verbose;
};

static int read_one(struct change *c, const char *key, const json_t *v, moire_error *err) {
    for (int i = 0; i < SWITCHES; i++) {
        if (strcmp(key, switches[i]) != 0) continue;
        c->is_off[i] = json_is_false(v);
        return json_is_boolean(v) ? MOIRE_OK
                                  : ms_fail(err, MOIRE_EINVAL, "\"%s\" must be true or false", key);
    }
    if (!strcmp(key, "log_file"))
        return ms_fail(err, MOIRE_EUNSUPPORTED, "lines go to standard error; requests choose no file");
    if (!strcmp(key, "log_verbose_level")) {
        const json_int_t n = json_integer_value(v);
        if (!json_is_integer(v) || n < 0 || n > VERBOSE_MOST)
            return ms_fail(err, MOIRE_EINVAL, "\"%s\" must be a whole number from 0 to %d", key,
                           VERBOSE_MOST);
        c->verbose = (unsigned)n;
        return MOIRE_OK;
    }
    if (strcmp(key, "log_format") != 0)
        return ms_fail(err, MOIRE_EINVAL, "there is no log setting '%.60s'", key);
    const char *format = json_string_value(v);
    c->shows_times = format && !strcmp(format, "ISO8601");
    return c->shows_times || (format && !strcmp(format, "default"))
               ? MOIRE_OK
               : ms_fail(err, MOIRE_EINVAL, "\"log_format\" must be \"default\" or \"ISO8601\"");
}

static int change_all(struct ms_log *log, const json_t *change, moire_error *err) {
    const char *key;
    const json_t *v;
    struct change c = {.shows_times = atomic_load(&log->shows_times), .verbose = atomic_load(&log->verbose)};
    for (int i = 0; i < SWITCHES; i++)
        c.is_off[i] = atomic_load(&log->is_off[i]);
    if (!json_is_object(change)) return ms_fail(err, MOIRE_EINVAL, "the settings are no JSON object");
    json_object_foreach((json_t *)(uintptr_t)change, key, v) {
        const int rc = read_one(&c, key, v, err);
        if (rc) return rc;
    }
    for (int i = 0; i < SWITCHES; i++)
        atomic_store(&log->is_off[i], c.is_off[i]);
    atomic_store(&log->verbose, c.verbose);
    atomic_store(&log->shows_times, c.shows_times);
    return MOIRE_OK;
}

int ms_log_settings(struct ms_log *log, const json_t *change, json_t **out, moire_error *err) {
    const int rc = change ? change_all(log, change, err) : MOIRE_OK;
    if (rc) return rc;
    *out = json_pack("{s:s, s:b, s:b, s:b, s:i, s:s}", "log_file", "", "log_info",
                     !atomic_load(&log->is_off[2]), "log_warning", !atomic_load(&log->is_off[1]), "log_error",
                     !atomic_load(&log->is_off[0]), "log_verbose_level", (int)atomic_load(&log->verbose),
                     "log_format", atomic_load(&log->shows_times) ? "ISO8601" : "default");
    return *out ? MOIRE_OK : ms_fail(err, MOIRE_ENOMEM, "no memory for the settings");
}
