/* SPDX-License-Identifier: Apache-2.0
 * verb_top.c - `moire top`: what a server does, in a terminal. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/error.h"
#include "tools/moire/top/live_fetch.h"
#include "tools/moire/top/live_table.h"
#include "tools/moire/verb.h"

/* LOOKS: seconds that latencies go back; ABOVE: lines that are no tenants. */
enum { LOOKS = 60, ABOVE = 7, LEAST_ROWS = 3, ALL_ROWS = 1 << 20 };

static const char about[] = "Shows once a second who of a server's tenants is in time, how late they are, "
                            "what waits and which cores they "
                            "have.  The first line names those that are below their targets.  URL is "
                            "http://127.0.0.1:8000 unless it is "
                            "given; https://HOST:PORT is by TLS, unix:PATH is the socket file of --unix.\n";

static const char notes[] = "q or Ctrl-C ends it.  Where the output is no terminal, it prints once.\n\n"
                            "Examples:\n"
                            "  moire top\n"
                            "  moire top http://127.0.0.1:8080 --once\n"
                            "  moire top https://server:8000 --tls-ca ca.pem --token token.txt\n";

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t interrupted;
static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

static int once(const struct mo_live_server *server, const struct mo_options *o) {
    moire_error err;
    json_t *now;
    const struct mo_live_view view = {.rows = ALL_ROWS, .end = "\n"};
    int rc = mo_live_fetch(server, &now, &err);
    if (rc) return mo_verb_fail(o, &err);
    if (o->json)
        rc = mo_print_json(now, &err);
    else
        mo_live_print(&view, now, NULL, 0, stdout);
    json_decref(now);
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

/* --- in a terminal --- */
struct screen {
    struct termios before;
    bool is_set; /* keys come one by one */
};

static void open_screen(struct screen *s) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    s->is_set = !tcgetattr(STDIN_FILENO, &s->before);
    if (s->is_set) {
        struct termios keys = s->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    fputs("\033[?1049h\033[?25l", stdout); /* another screen, no cursor */
}

static void close_screen(const struct screen *s) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (s->is_set) tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
}

static int rows(void) {
    struct winsize w;
    const int n = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row ? 24 : w.ws_row;
    return n - ABOVE > LEAST_ROWS ? n - ABOVE : LEAST_ROWS;
}

/* A second, or less where a key says that it is over. */
static bool wait_for_end(const struct screen *s) {
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;
    const int n = poll(&keys, s->is_set ? 1 : 0, 1000);
    return interrupted || (n > 0 && read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q'));
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int watch(const struct mo_live_server *server, const struct mo_options *o) {
    struct screen screen;
    struct {
        json_t *document;
        double at;
    } look[LOOKS + 1] = {{0}};
    moire_error err;
    int n = 0;
    if (mo_live_fetch(server, &look[0].document, &err)) return mo_verb_fail(o, &err);
    look[n++].at = seconds_now();
    open_screen(&screen);
    for (int rc = MOIRE_OK;;) {
        const struct mo_live_view view = {.colours = true, .rows = rows(), .end = "\033[K\n"};
        fputs("\033[H", stdout);
        if (rc) printf("\033[1;31m%s; what is below is old\033[0m%s", err.message, view.end);
        mo_live_print(&view, look[n - 1].document, n > 1 ? look[0].document : NULL,
                      look[n - 1].at - look[0].at, stdout);
        fputs("\033[J", stdout);
        fflush(stdout);
        if (wait_for_end(&screen)) break;
        if (n > LOOKS) {
            json_decref(look[0].document);
            memmove(&look[0], &look[1], (size_t)--n * sizeof *look);
        }
        rc = mo_live_fetch(server, &look[n].document, &err);
        if (!rc) look[n++].at = seconds_now();
    }
    close_screen(&screen);
    while (n)
        json_decref(look[--n].document);
    return MO_EXIT_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err;
    char *token = NULL;
    (void)env;
    if (!o->tls_cert != !o->tls_key) {
        mo_fail(&err, MOIRE_EINVAL, "--tls-cert and --tls-key go together");
        return mo_verb_fail(o, &err);
    }
    if (o->token && mo_live_read_token(o->token, &token, &err)) return mo_verb_fail(o, &err);
    const struct mo_live_server server = {.url = o->operands.n ? o->operands.word[0] : "127.0.0.1:8000",
                                          .token = token,
                                          .tls_ca = o->tls_ca,
                                          .tls_cert = o->tls_cert,
                                          .tls_key = o->tls_key};
    const int code = o->once || o->json || !isatty(STDOUT_FILENO) ? once(&server, o) : watch(&server, o);
    free(token);
    return code;
}

const struct mo_verb mo_verb_top = {
    .name = "top",
    .group = MO_GROUP_MODELS,
    .summary = "show who of a server's tenants is within its target, and what they do",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_TOP, .operands = "[URL]"}},
    .run = run,
};
