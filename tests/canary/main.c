/* SPDX-License-Identifier: Apache-2.0
 * main.c - `make canary`: as many answers as asked for over mixed tenants, searched for each other's bytes.
 *
 *   canary [ANSWERS [SEED]]       a million answers, seed 1
 *
 * Exit status 1 when a foreign byte was found, or an answer that differs from the tenant's first. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "tests/unit/sched/canary.h"

static void tell(int64_t answers, int64_t foreign, int64_t different) {
    printf("canary: %lld answers, %lld foreign bytes, %lld differ\n", (long long)answers, (long long)foreign,
           (long long)different);
    fflush(stdout);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/moire-canary-XXXXXX";
    struct canary_config config = {.folder = folder, .progress = tell};
    struct canary_result r;
    moire_error err = {0};
    config.answers = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000;
    config.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc > 3 || config.answers < 1) {
        fprintf(stderr, "usage: canary [ANSWERS [SEED]]\n");
        return 2;
    }
    if (!mkdtemp(folder)) {
        perror("canary: cannot make a folder in /tmp");
        return 2;
    }
    const time_t began = time(NULL);
    int rc = canary_run(&config, &r, &err);
    rmdir(folder);
    if (rc) {
        fprintf(stderr, "canary: %s\n", err.message);
        return 2;
    }
    printf("canary: seed %llu, %lld answers of 8 tenants beside %lld of the marked one; %lld cancelled, %lld "
           "failed, "
           "%lld reloads; %lld texts of %lld bytes\n",
           (unsigned long long)config.seed, (long long)r.answers, (long long)r.marked, (long long)r.cancelled,
           (long long)r.failed, (long long)r.reloads, (long long)r.texts, (long long)r.text_bytes);
    printf("canary: %lld foreign bytes, %lld answers differ, %lld s\n", (long long)r.foreign,
           (long long)r.different, (long long)(time(NULL) - began));
    return r.foreign || r.different;
}
