/* SPDX-License-Identifier: Apache-2.0
 * peer.c - ONNX Runtime in a Python process; the protocol is described in peer_worker.py. */
#define _GNU_SOURCE
#include "tests/differential/peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct dt_peer {
    char python[512], worker[512];
    pid_t pid;
    FILE *to, *from;
};

static bool start(struct dt_peer *p) {
    int in[2], out[2];
    if (pipe(in)) return false;
    if (pipe(out)) return false;
    p->pid = fork();
    if (p->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        execl(p->python, p->python, "-W", "ignore", p->worker, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    p->to = fdopen(in[1], "wb");
    p->from = fdopen(out[0], "rb");
    return p->pid > 0 && p->to && p->from;
}

static void end(struct dt_peer *p) {
    if (p->to) fclose(p->to);
    if (p->from) fclose(p->from);
    p->to = p->from = NULL;
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

struct dt_peer *dt_peer_start(const char *python, const char *worker) {
    char command[700];
    if (access(python, X_OK)) return NULL;
    snprintf(command, sizeof command, "'%s' -c 'import onnxruntime' >/dev/null 2>&1", python);
    FILE *test = popen(command, "r");
    if (!test || pclose(test)) return NULL;
    struct dt_peer *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    signal(SIGPIPE, SIG_IGN);
    snprintf(p->python, sizeof p->python, "%s", python);
    snprintf(p->worker, sizeof p->worker, "%s", worker);
    if (start(p)) return p;
    dt_peer_stop(p);
    return NULL;
}

void dt_peer_stop(struct dt_peer *peer) {
    if (!peer) return;
    end(peer);
    free(peer);
}

static bool put(const struct dt_peer *p, const void *bytes, size_t n) {
    return fwrite(bytes, 1, n, p->to) == n;
}

static bool put_number(const struct dt_peer *p, int64_t x) {
    return put(p, &x, sizeof x);
}

static bool get(const struct dt_peer *p, void *bytes, size_t n) {
    return fread(bytes, 1, n, p->from) == n;
}

static int64_t get_number(const struct dt_peer *p) {
    int64_t x = -1;
    return get(p, &x, sizeof x) ? x : -1;
}

static bool ask(const struct dt_peer *p, const struct dt_case *c) {
    bool ok = put_number(p, (int64_t)c->n) && put(p, c->bytes, c->n) && put_number(p, c->n_in);
    for (int i = 0; ok && i < c->n_in; i++)
        ok = put_number(p, (int64_t)c->in[i].bytes) && put(p, c->in[i].data, c->in[i].bytes);
    return ok && !fflush(p->to);
}

static bool read_output(const struct dt_peer *p, moire_tensor *out) {
    out->dtype = (moire_dtype)get_number(p);
    out->rank = (int)get_number(p);
    if (out->rank < 0 || out->rank > MOIRE_MAX_RANK) return false;
    for (int i = 0; i < out->rank; i++)
        out->shape[i] = get_number(p);
    int64_t bytes = get_number(p);
    if (bytes < 0 || !(out->data = malloc((size_t)bytes + 1))) return false;
    out->bytes = (size_t)bytes;
    return get(p, out->data, out->bytes);
}

static int refused(const struct dt_peer *p, char *reason, size_t room) {
    char text[512];
    int64_t n = get_number(p);
    if (n < 0 || n >= (int64_t)sizeof text || !get(p, text, (size_t)n)) return -2;
    text[n] = 0;
    snprintf(reason, room, "%s", text);
    return -1;
}

static int read_answer(const struct dt_peer *p, moire_tensor *outputs, int *n, char *reason, size_t room) {
    int64_t status = get_number(p);
    if (status == 1) return refused(p, reason, room);
    int64_t count = status ? -1 : get_number(p);
    if (count < 0 || count > DT_PORTS) return -2;
    for (*n = 0; *n < count; ++*n)
        if (!read_output(p, &outputs[*n])) return -2;
    return 0;
}

int dt_peer_run(struct dt_peer *peer, const struct dt_case *c, moire_tensor outputs[DT_PORTS], int *n,
                char *reason, size_t room) {
    *n = 0;
    int rc = peer->to && ask(peer, c) ? read_answer(peer, outputs, n, reason, room) : -2;
    if (rc != -2) return rc;
    end(peer);
    snprintf(reason, room, "its process died");
    start(peer);
    return -1;
}
