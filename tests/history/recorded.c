/* SPDX-License-Identifier: Apache-2.0
 * recorded.c - events to a file to the checker; see recorded.h. */
#define _GNU_SOURCE
#include "tests/history/recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tests/history/check.h"

struct source { /* one of the two */
    struct mo_device *device;
    struct mo_events *events;
    int n_cores;
};

static int dump(const struct source *from, const char *path) {
    return from->device ? mo_device_dump(from->device, "", path, NULL)
                        : mo_events_dump(from->events, from->n_cores, "", path, NULL);
}

static void check(const struct source *from, int64_t queries) {
    char path[] = "/tmp/moire-history-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(dump(from, path), MOIRE_OK);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    size_t n = fread(text, 1, (size_t)size, file);
    fclose(file);
    unlink(path);
    struct history_verdict v = history_check(text, n);
    free(text);
    if (v.rule[0]) print_message("line %ld: %s %s\n", v.line, v.rule, v.message);
    assert_string_equal(v.rule, "");
    assert_int_equal(v.queries, queries);
}

void history_of_events(struct mo_events *events, int n_cores, int64_t queries) {
    check(&(struct source){.events = events, .n_cores = n_cores}, queries);
}

void history_of_device(struct mo_device *device, int64_t queries) {
    check(&(struct source){.device = device}, queries);
}
