/* SPDX-License-Identifier: Apache-2.0
 * server_process.c - starts, awaits and ends a model server; see server_process.h.
 *
 * A server stays in the process group of the generator, so that who kills that group leaves nothing behind,
 * and what it has started becomes the generator's child where it ends first. */
#define _GNU_SOURCE
#include "bench/client/server_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "bench/client/server_folder.h"
#include "runtime/base/error.h"

enum { READY_S = 300, END_S = 20, STEP_MS = 50, TAIL = 300, HTTP_OK = 200, MOST_WORDS = 32 };

/* --- what it wrote ------------------------------------------------------------------------------------ */
/* The end of its log on one line, for a message. */
static void log_tail(const struct mo_server_process *s, char out[TAIL]) {
    char path[MO_SERVER_PATH + 16];
    snprintf(path, sizeof path, "%s/log", s->folder);
    FILE *f = fopen(path, "re");
    out[0] = 0;
    if (!f) return;
    if (fseek(f, -(TAIL - 1), SEEK_END)) rewind(f);
    const size_t n = fread(out, 1, TAIL - 1, f);
    out[n] = 0;
    fclose(f);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
}

static int fail(const struct mo_server_process *s, const char *what, moire_error *err) {
    char tail[TAIL];
    log_tail(s, tail);
    return mo_fail(err, MOIRE_EFAILED, "the server %s%s%s", what, *tail ? "; it wrote: ..." : "", tail);
}

/* --- starting ----------------------------------------------------------------------------------------- */
static int open_log(const struct mo_server_process *s) {
    char path[MO_SERVER_PATH + 16];
    snprintf(path, sizeof path, "%s/log", s->folder);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void become(char **argv, int log) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, 0);
    dup2(log, 1);
    dup2(log, 2);
    execv(argv[0], argv);
    _exit(127);
}

static int start_process(struct mo_server_process *s, char **argv, moire_error *err) {
    const int log = open_log(s);
    if (log < 0) return mo_fail(err, MOIRE_EIO, "%s/log: %s", s->folder, strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    s->pid = fork();
    if (s->pid == 0) become(argv, log);
    const int why = errno;
    close(log);
    if (s->pid > 0) return MOIRE_OK;
    s->pid = 0;
    return mo_fail(err, MOIRE_EIO, "fork: %s", strerror(why));
}

/* A port that nobody listens on now; 0: none can be had. */
static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool ok =
        fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !getsockname(fd, (struct sockaddr *)&a, &n);
    if (fd >= 0) close(fd);
    return ok ? ntohs(a.sin_port) : 0;
}

/* --- is it ready? ------------------------------------------------------------------------------------- */
/* The status of a GET; 0: no answer. */
static int get_status(int port, const char *path) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 5};
    char text[256] = "";
    int status = 0;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    if (!connect(fd, (struct sockaddr *)&a, sizeof a) &&
        send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)) {
        const ssize_t n = recv(fd, text, sizeof text - 1, MSG_WAITALL);
        text[n > 0 ? n : 0] = 0;
        if (!strncmp(text, "HTTP/1.", 7)) status = (int)strtol(text + 8, NULL, 10);
    }
    close(fd);
    return status;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int await(struct mo_server_process *s, moire_error *err) {
    for (const int64_t until = now_ms() + READY_S * 1000LL; now_ms() < until; poll(NULL, 0, STEP_MS)) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return fail(s, "ended before it was ready", err);
        }
        if (get_status(s->http_port, "/v2/health/ready") == HTTP_OK) return MOIRE_OK;
    }
    return fail(s, "was not ready in time", err);
}

/* The command line: the server's own words, then what it is told. */
static int put_words(const struct mo_bench_job *job, const struct mo_server_process *s,
                     char *argv[MOST_WORDS], char text[][MO_SERVER_PATH + 16]) {
    const bool is_moire = !strcmp(job->family, "moire");
    snprintf(text[0], sizeof text[0], "%d", s->http_port);
    snprintf(text[1], sizeof text[1], "%d", s->grpc_port);
    snprintf(text[2], sizeof text[2], "%d", (int)job->threads);
    snprintf(text[3], sizeof text[3], "%s/%s", s->folder, is_moire ? MO_SERVER_MODELS : "");
    snprintf(text[4], sizeof text[4], "%s/no-store", s->folder);
    const char *const told[] = {"--host", "127.0.0.1", "--http-port", text[0], "--grpc-port",
                                text[1],  "--threads", text[2],       NULL};
    const char *const others[] = {"--folder", text[3], NULL};
    const char *const moire[] = {"--model-repository",
                                 text[3],
                                 "--metrics-port",
                                 "-1",
                                 "--policy",
                                 job->arrangement,
                                 "--store",
                                 job->generic ? text[4] : job->store,
                                 NULL};
    const char *const *const lists[] = {told, is_moire ? moire : others};
    int n = 0;
    for (size_t i = 0; i < json_array_size(job->server) && n < MOST_WORDS / 2; i++)
        argv[n++] = (char *)(uintptr_t)json_string_value(json_array_get(job->server, i));
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; lists[k][i]; i++)
            argv[n++] = (char *)(uintptr_t)lists[k][i];
    if (is_moire && !job->generic && !job->store) n--; /* the default one */
    argv[n] = NULL;
    return n;
}

int mo_server_start(const struct mo_bench_job *job, struct mo_server_process *out, moire_error *err) {
    char *argv[MOST_WORDS], text[5][MO_SERVER_PATH + 16];
    *out = (struct mo_server_process){.folder = "/tmp/moire-server-XXXXXX"};
    if (!mkdtemp(out->folder)) {
        *out->folder = 0;
        return mo_fail(err, MOIRE_EIO, "no temporary folder for the server: %s", strerror(errno));
    }
    out->http_port = free_port();
    out->grpc_port = free_port();
    if (!out->http_port || !out->grpc_port) return mo_fail(err, MOIRE_EIO, "no free ports for the server");
    int code = mo_server_folder_write(job, out, err);
    if (code) return code;
    if (!put_words(job, out, argv, text) || !argv[0])
        return mo_fail(err, MOIRE_EINVAL, "the job names no server");
    code = start_process(out, argv, err);
    return code ? code : await(out, err);
}

/* --- ending ------------------------------------------------------------------------------------------- */
/* What the server had started and left is a child of this process now. */
static void end_leftovers(void) {
    char path[64], list[4096] = "", *at = list, *behind;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (f) list[fread(list, 1, sizeof list - 1, f)] = 0;
    if (f) fclose(f);
    for (long pid; (pid = strtol(at, &behind, 10)) > 0; at = behind)
        kill((pid_t)pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void mo_server_stop(struct mo_server_process *s) {
    if (s->pid) {
        kill(s->pid, SIGTERM);
        for (const int64_t until = now_ms() + END_S * 1000; s->pid; poll(NULL, 0, STEP_MS)) {
            if (now_ms() > until) kill(s->pid, SIGKILL);
            if (waitpid(s->pid, NULL, WNOHANG) == s->pid) s->pid = 0;
        }
        end_leftovers();
    }
    if (*s->folder) nftw(s->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *s->folder = 0;
}
