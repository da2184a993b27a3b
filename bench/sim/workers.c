/* SPDX-License-Identifier: Apache-2.0
 * workers.c - see workers.h.
 *
 * Worker k does the pieces k, k + jobs, ... and writes one line of JSON a piece; the lines are put together
 * in the order of the pieces. */
#define _GNU_SOURCE
#include "bench/sim/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 64, MAX_PATH = 128, LOOK_MS = 5, GRACE_MS = 2000 };

struct crew {
    const struct mo_bench_workers *of;
    int n_jobs;
    pid_t pid[MAX_JOBS]; /* 0 = ended */
    char path[MAX_JOBS][MAX_PATH];
};

/* Writes {"row": ..., "code": ..., "message": ...} a piece; stops at the first failure. */
static int worker(const struct crew *crew, int k) {
    FILE *f = fopen(crew->path[k], "we");
    crew->of->session->quiet = true; /* workers would talk all at once */
    int code = f ? MOIRE_OK : MOIRE_EIO;
    for (int i = k; f && !code && i < crew->of->n_pieces; i += crew->n_jobs) {
        moire_error err = {0};
        json_t *row = NULL;
        int64_t decisions = 0;
        if (mo_bench_interrupted(crew->of->session))
            code = mo_fail(&err, MOIRE_EINTERRUPTED, "interrupted");
        else
            code = crew->of->piece(crew->of->self, i, &row, &decisions, &err);
        json_t *line = json_pack("{s:o?, s:i, s:s, s:I}", "row", code == MOIRE_EINTERRUPTED ? NULL : row,
                                 "code", code, "message", err.message, "decisions", (json_int_t)decisions);
        if (!line || json_dumpf(line, f, JSON_COMPACT | JSON_REAL_PRECISION(12)) || fputc('\n', f) == EOF)
            code = MOIRE_EIO;
        if (f) fflush(f); /* who is killed later has answered this */
        json_decref(line);
    }
    return (f && fclose(f)) || code ? 1 : 0;
}

static int start(struct crew *crew, moire_error *err) {
    fflush(NULL); /* or each worker would write it again */
    for (int k = 0; k < crew->n_jobs; k++) {
        mo_bench_temporary(crew->of->session, ".sim", crew->path[k], sizeof crew->path[k]);
        crew->pid[k] = fork();
        if (crew->pid[k] < 0) return mo_fail(err, MOIRE_EIO, "fork: %s", strerror(errno));
        if (crew->pid[k] == 0) _exit(worker(crew, k));
    }
    return MOIRE_OK;
}

/* Takes note of the workers that have ended; returns how many have not. */
static int reap(struct crew *crew) {
    int left = 0;
    for (int k = 0; k < crew->n_jobs; k++)
        if (crew->pid[k] > 0 && !waitpid(crew->pid[k], NULL, WNOHANG))
            left++;
        else
            crew->pid[k] = 0;
    return left;
}

static void send_all(const struct crew *crew, int signal) {
    for (int k = 0; k < crew->n_jobs; k++)
        if (crew->pid[k] > 0) kill(crew->pid[k], signal);
}

/* Waits for the workers.  Who is interrupted tells them, once: they end between two runs; a run that takes
 * longer than GRACE_MS is ended with its worker. */
static void finish(struct crew *crew) {
    for (int since = -1; reap(crew); poll(NULL, 0, LOOK_MS)) {
        if (since < 0 && !mo_bench_interrupted(crew->of->session)) continue;
        since = since < 0 ? 0 : since + LOOK_MS;
        if (!since) send_all(crew, SIGTERM);
        if (since >= GRACE_MS) send_all(crew, SIGKILL);
    }
}

/* The pieces' lines in their order; an error is the first piece's that has one. */
static int collect(struct crew *crew, json_t *results, int64_t *decisions, moire_error *err) {
    FILE *files[MAX_JOBS] = {NULL};
    int code = MOIRE_OK;
    for (int k = 0; k < crew->n_jobs; k++)
        files[k] = fopen(crew->path[k], "re");
    for (int i = 0; !code && i < crew->of->n_pieces; i++) {
        FILE *f = files[i % crew->n_jobs];
        json_t *line = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
        json_t *row = json_object_get(line, "row");
        if (json_is_object(row)) json_array_append(results, row);
        if (!line)
            code = crew->of->session->interrupted
                       ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted")
                       : mo_fail(err, MOIRE_EFAILED, "a worker process ended without an answer");
        else if ((code = (int)json_integer_value(json_object_get(line, "code"))))
            mo_fail(err, code, "%s", json_string_value(json_object_get(line, "message")));
        *decisions += json_integer_value(json_object_get(line, "decisions"));
        json_decref(line);
    }
    for (int k = 0; k < crew->n_jobs; k++) {
        if (files[k]) fclose(files[k]);
        unlink(crew->path[k]);
    }
    return code;
}

int mo_bench_workers_run(const struct mo_bench_workers *workers, json_t *results, int64_t *decisions,
                         moire_error *err) {
    struct crew crew = {.of = workers, .n_jobs = workers->n_jobs};
    moire_error why;
    if (crew.n_jobs > workers->n_pieces) crew.n_jobs = workers->n_pieces;
    if (crew.n_jobs > MAX_JOBS) crew.n_jobs = MAX_JOBS;
    int code = start(&crew, err);
    finish(&crew);
    int answer = collect(&crew, results, decisions, &why);
    if (answer && !code) *err = why;
    return code ? code : answer;
}
