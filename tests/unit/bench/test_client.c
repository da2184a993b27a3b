/* SPDX-License-Identifier: Apache-2.0
 * test_client.c - the load generator's clients: against a whole server in this process, and against servers
 * that break the rules: each query ends once, and nothing crashes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bench/client/client.h"
#include "models/zoo.h"
#include "serve/server.h"

enum { PIXELS = 32 * 32, MANY = 200, WAIT_MS = 60000, SOON_MS = 50 };

static float image[PIXELS];

static void make_model(struct mo_client_model *m, const char *name, bool json) {
    memset(m, 0, sizeof *m);
    m->name = name;
    m->json = json;
    m->n_inputs = 1;
    m->input[0] = "input";
    m->tensor[0] = (moire_tensor){
        .dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = image, .bytes = sizeof image};
}

/* --- queries whose ends are counted --- */
struct ends {
    struct mo_exchange x[MANY];
    atomic_int ended[MANY], ok, busy, failed;
};

static void count(struct mo_exchange *x, int code) {
    struct ends *ends = x->user;
    atomic_fetch_add(&ends->ended[x->index], 1);
    atomic_fetch_add(code == MOIRE_OK ? &ends->ok : code == MOIRE_EBUSY ? &ends->busy : &ends->failed, 1);
}

static void ask(struct mo_client *c, struct mo_client_model *m, struct ends *ends, int n) {
    memset(ends, 0, sizeof *ends);
    for (int i = 0; i < n; i++) {
        ends->x[i] = (struct mo_exchange){.model = m, .done = count, .user = ends, .index = i};
        assert_int_equal(mo_client_ask(c, &ends->x[i]), MOIRE_OK);
    }
}

static void all_ended_once(const struct ends *ends, int n) {
    for (int i = 0; i < n; i++)
        assert_int_equal(atomic_load(&ends->ended[i]), 1);
}

/* --- a whole server --- */
static char folder[] = "/tmp/moire-client-XXXXXX";
static char model[512];
static struct ms_server *server;

static int start(void **state) {
    struct mo_env env = mo_env_default();
    char built[512];
    moire_error err = {0};
    (void)state;
    for (int i = 0; i < PIXELS; i++)
        image[i] = (float)(i % 1000) * 1e-3f;
    if (!mkdtemp(folder) || mo_zoo_path(&env, "lenet", folder, built, sizeof built, NULL)) return -1;
    snprintf(model, sizeof model, "%s/lenet.onnx", folder);
    if (rename(built, model)) return -1;
    const struct ms_server_options o = {.repository = folder,
                                        .host = "127.0.0.1",
                                        .store = "/nonexistent",
                                        .mode = "none",
                                        .metrics_port = -1,
                                        .agent_port = -1,
                                        .control_port = -1,
                                        .threads = 2,
                                        .body_bytes = 1 << 20};
    if (ms_server_start(&o, &server, &err)) {
        print_message("%s\n", err.message);
        return -1;
    }
    while (!ms_server_is_ready(server))
        usleep(1000);
    return 0;
}

static int stop(void **state) {
    (void)state;
    if (server) ms_server_stop(server);
    return unlink(model) || rmdir(folder);
}

/* Many at once, one after the other's answer, and a model that is not there. */
static void answers(const char *name, enum ms_port port, bool json) {
    const struct mo_client_protocol *protocol = mo_client_protocol(name);
    struct mo_client_model good, missing;
    struct ends *ends = calloc(1, sizeof *ends);
    struct mo_client *c;
    char why[300];
    moire_error err;
    make_model(&good, "lenet", json);
    make_model(&missing, "nobody", json);
    assert_non_null(ends);
    assert_int_equal(protocol->prepare(&good, &err), MOIRE_OK);
    assert_int_equal(protocol->prepare(&missing, &err), MOIRE_OK);
    assert_int_equal(mo_client_create(protocol, ms_server_port(server, port), &c, &err), MOIRE_OK);
    for (int round = 0; round < 2; round++) {
        ask(c, &good, ends, MANY);
        assert_int_equal(mo_client_wait(c, WAIT_MS), MOIRE_OK);
        all_ended_once(ends, MANY);
        mo_client_why(c, why, sizeof why);
        assert_string_equal(why, "");
        assert_int_equal(ends->ok, MANY);
    }
    if (!json) assert_int_equal(good.answer_bytes, 10 * sizeof(float));
    ask(c, &missing, ends, 1);
    assert_int_equal(mo_client_wait(c, WAIT_MS), MOIRE_OK);
    assert_int_equal(ends->failed, 1);
    mo_client_why(c, why, sizeof why);
    assert_non_null(strstr(why, "nobody"));
    mo_client_destroy(c);
    ms_bytes_free(&good.request);
    ms_bytes_free(&missing.request);
    free(ends);
}

static void over_http(void **state) {
    (void)state;
    answers("http", MS_PORT_HTTP, false);
    answers("http", MS_PORT_HTTP, true);
}

static void over_grpc(void **state) {
    (void)state;
    answers("grpc", MS_PORT_GRPC, false);
}

static void protocols_have_names(void **state) {
    (void)state;
    assert_ptr_equal(mo_client_protocol("http"), &mo_client_http);
    assert_ptr_equal(mo_client_protocol("grpc"), &mo_client_grpc);
    assert_null(mo_client_protocol("smtp"));
}

/* --- servers that lie --- */
struct liar {
    int listener, port;
    const char *says; /* to every connection */
    size_t n;
    bool stays;       /* keeps the connection open behind it */
    bool reads_first; /* waits for the start of a request */
    int connections;
    pthread_t thread;
};

static void *lie(void *opaque) {
    struct liar *l = opaque;
    int kept[MANY], n = 0;
    char drop[4096];
    for (int fd; n < MANY && (fd = accept(l->listener, NULL, NULL)) >= 0;) {
        l->connections++;
        if (l->reads_first) (void)!read(fd, drop, sizeof drop);
        (void)!send(fd, l->says, l->n, MSG_NOSIGNAL);
        if (l->stays) {
            kept[n++] = fd;
            continue;
        }
        shutdown(fd, SHUT_WR);
        while (l->reads_first && read(fd, drop, sizeof drop) > 0) /* else the end would overtake the answer */
            continue;
        close(fd);
    }
    while (n > 0)
        close(kept[--n]);
    return NULL;
}

static void open_liar(struct liar *l) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(l->listener, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(listen(l->listener, 64), 0);
    l->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&l->thread, NULL, lie, l), 0);
}

static void close_liar(struct liar *l) {
    shutdown(l->listener, SHUT_RDWR);
    pthread_join(l->thread, NULL);
    close(l->listener);
}

/* Asks it some queries; returns how many were answered well. */
static int believe(const char *name, struct liar *l, size_t want) {
    const struct mo_client_protocol *protocol = mo_client_protocol(name);
    struct mo_client_model m;
    struct ends *ends = calloc(1, sizeof *ends);
    struct mo_client *c;
    moire_error err;
    const int n = 8;
    make_model(&m, "lenet", false);
    m.answer_bytes = want;
    assert_non_null(ends);
    assert_int_equal(protocol->prepare(&m, &err), MOIRE_OK);
    open_liar(l);
    assert_int_equal(mo_client_create(protocol, l->port, &c, &err), MOIRE_OK);
    ask(c, &m, ends, n);
    mo_client_wait(c, l->stays ? SOON_MS : WAIT_MS); /* one that says nothing is waited for until the end */
    mo_client_destroy(c);
    close_liar(l);
    all_ended_once(ends, n);
    const int ok = ends->ok;
    ms_bytes_free(&m.request);
    free(ends);
    return ok;
}

#define HEAD       "HTTP/1.1 200 OK\r\n"
#define SAYS(text) text, sizeof(text) - 1

static void http_servers_that_lie(void **state) {
    (void)state;
    static const struct {
        const char *says;
        size_t n;
    } lies[] = {
        {SAYS("")},
        {SAYS("HTTP/1.1")},
        {SAYS("HTTP/1.1 \r\n\r\n")},
        {SAYS("SSH-2.0-OpenSSH_9.2\r\n\r\n")},
        {SAYS("HTTP/1.1 200 OK\r\n\r\n")},
        {SAYS(HEAD "Content-Length: -1\r\n\r\n")},
        {SAYS(HEAD "Content-Length: 99999999999999999999999\r\n\r\n")},
        {SAYS(HEAD "Content-Length: 4x\r\n\r\n1234")},
        {SAYS(HEAD "Content-Length: 4\r\nInference-Header-Content-Length: 5\r\n\r\n1234")},
        {SAYS(HEAD "Content-Length: 4\r\n\r\n1234")},
        {SAYS(HEAD "Content-Length: 0\r\n\r\n")},
        {SAYS(HEAD "Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
        {SAYS(HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")},
        {SAYS(HEAD "no colon\r\nContent-Length: 0\r\n\r\n")},
        {SAYS(HEAD "a\0b: c\r\nContent-Length: 0\r\n\r\n")},
        {SAYS(HEAD "Content-Length: 40\r\nInference-Header-Content-Length: 2\r\n\r\n{}")},
        {SAYS("HTTP/1.1 503 busy\r\nContent-Length: 4\r\n\r\nbusy")},
        {SAYS("HTTP/1.1 500 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n")},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (int how = 0; how < 4; how++) {
            struct liar l = {.says = lies[i].says, .n = lies[i].n, .stays = how & 1, .reads_first = how & 2};
            assert_int_equal(believe("http", &l, 0), 0);
        }
}

/* What is right of them is believed: as many bytes of tensors as an answer has, and no others. */
static void http_answers_are_measured(void **state) {
    (void)state;
    struct liar l = {.says = HEAD "content-length: 6\r\nINFERENCE-HEADER-CONTENT-LENGTH: 2\r\n\r\n{}1234",
                     .reads_first = true};
    l.n = strlen(l.says);
    assert_int_equal(believe("http", &l, 4), 8);
    assert_int_equal(believe("http", &l, 5), 0);
}

static void a_head_without_end(void **state) {
    (void)state;
    enum { LONG = MO_CLIENT_HEAD_BYTES * 2 };
    char *says = malloc(LONG);
    assert_non_null(says);
    memset(says, 'a', LONG);
    memcpy(says, HEAD, sizeof HEAD - 1);
    struct liar l = {.says = says, .n = LONG, .stays = true};
    assert_int_equal(believe("http", &l, 0), 0);
    free(says);
}

static void grpc_servers_that_lie(void **state) {
    (void)state;
    static const struct {
        const char *says;
        size_t n;
    } lies[] = {
        {SAYS("")},
        {SAYS("HTTP/1.1 400 Bad Request\r\n\r\n")},
        {SAYS("\0\0\0\4\0\0\0\0\0")},                                        /* settings, and nothing more */
        {SAYS("\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1\xff")},                  /* a field that is none */
        {SAYS("\0\0\0\4\0\0\0\0\0\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0")},     /* goodbye before any stream */
        {SAYS("\0\0\0\4\0\0\0\0\0\0\0\4\3\0\0\0\0\1\0\0\0\7")},              /* the stream is refused */
        {SAYS("\0\0\0\4\0\0\0\0\0\0\0\1\1\5\0\0\0\1\x88")},                  /* 200, and no status of gRPC */
        {SAYS("\0\0\6\4\0\0\0\0\0\0\3\0\0\0\0")},                            /* no streams at all */
        {SAYS("\0\0\0\4\0\0\0\0\0\xff\xff\xff\0\0\0\0\0\1garbage garbage")}, /* a frame that is too long */
        {SAYS("\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1\x88\0\0\5\0\1\0\0\0\1\0\xff\xff\xff\xff")},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (int how = 0; how < 4; how++) {
            struct liar l = {.says = lies[i].says, .n = lies[i].n, .stays = how & 1, .reads_first = how & 2};
            assert_int_equal(believe("grpc", &l, 0), 0);
        }
}

/* Nobody listens: each query is told so. */
static void no_server(void **state) {
    (void)state;
    struct liar l = {.says = ""};
    struct mo_client_model m;
    struct ends *ends = calloc(1, sizeof *ends);
    struct mo_client *c;
    moire_error err;
    assert_non_null(ends);
    make_model(&m, "lenet", false);
    open_liar(&l);
    close_liar(&l);
    assert_int_equal(mo_client_http.prepare(&m, &err), MOIRE_OK);
    assert_int_equal(mo_client_create(&mo_client_http, l.port, &c, &err), MOIRE_OK);
    ask(c, &m, ends, 3);
    assert_int_equal(mo_client_wait(c, WAIT_MS), MOIRE_OK);
    assert_int_equal(ends->failed, 3);
    mo_client_destroy(c);
    ms_bytes_free(&m.request);
    free(ends);
}

/* Beyond the bound a query is refused, never kept waiting unseen; what is on its way ends with the client. */
static void the_bound_is_told(void **state) {
    (void)state;
    struct liar l = {.says = "", .stays = true};
    struct mo_exchange *x = calloc(MO_CLIENT_IN_FLIGHT + 1, sizeof *x);
    struct ends *ends = calloc(1, sizeof *ends);
    struct mo_client_model m;
    struct mo_client *c;
    moire_error err;
    assert_non_null(x);
    assert_non_null(ends);
    make_model(&m, "lenet", false);
    open_liar(&l);
    assert_int_equal(mo_client_grpc.prepare(&m, &err), MOIRE_OK);
    assert_int_equal(mo_client_create(&mo_client_grpc, l.port, &c, &err), MOIRE_OK);
    for (int i = 0; i <= MO_CLIENT_IN_FLIGHT; i++) {
        x[i] = (struct mo_exchange){.model = &m, .done = count, .user = ends};
        assert_int_equal(mo_client_ask(c, &x[i]), i < MO_CLIENT_IN_FLIGHT ? MOIRE_OK : MOIRE_EBUSY);
    }
    mo_client_destroy(c);
    assert_int_equal(ends->ended[0], MO_CLIENT_IN_FLIGHT);
    close_liar(&l);
    ms_bytes_free(&m.request);
    free(ends);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(protocols_have_names),
                                       cmocka_unit_test(over_http),
                                       cmocka_unit_test(over_grpc),
                                       cmocka_unit_test(http_servers_that_lie),
                                       cmocka_unit_test(http_answers_are_measured),
                                       cmocka_unit_test(a_head_without_end),
                                       cmocka_unit_test(grpc_servers_that_lie),
                                       cmocka_unit_test(no_server),
                                       cmocka_unit_test(the_bound_is_told)};
    return cmocka_run_group_tests(tests, start, stop);
}
