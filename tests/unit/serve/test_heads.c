/* SPDX-License-Identifier: Apache-2.0
 * test_heads.c - connections whose request does not begin in time are shut down, the others are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include "serve/http/http_heads.h"

enum { PAIRS = 4, ROUNDS = 2000, THREADS = 3 };

struct pair {
    struct ms_head head;
    int fd[2];
};

static void open_pair(struct ms_heads *h, struct pair *p) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fd), 0);
    ms_heads_add(h, &p->head, p->fd[0]);
}

static void close_pair(struct ms_heads *h, struct pair *p) {
    ms_heads_remove(h, &p->head);
    assert_true(!close(p->fd[0]) && !close(p->fd[1]));
}

/* Whether the other end sees that it was closed, within so many milliseconds; -1: until it was. */
static bool is_closed(const struct pair *p, int ms) {
    struct pollfd at = {.fd = p->fd[1], .events = POLLIN};
    char c;
    return poll(&at, 1, ms) == 1 && recv(p->fd[1], &c, 1, MSG_DONTWAIT) == 0;
}

static void who_does_not_begin_is_closed(void **state) {
    (void)state;
    struct ms_heads h;
    struct pair p[PAIRS];
    assert_int_equal(ms_heads_open(&h, 0.05, NULL), MOIRE_OK);
    for (int i = 0; i < PAIRS; i++)
        open_pair(&h, &p[i]);
    ms_heads_came(&p[1].head);
    ms_heads_came(&p[3].head);
    assert_true(is_closed(&p[0], -1) && is_closed(&p[2], -1));
    assert_true(!is_closed(&p[1], 100) && !is_closed(&p[3], 0));
    ms_heads_await(&p[3].head); /* its next request does not come */
    assert_true(is_closed(&p[3], -1));
    assert_false(is_closed(&p[1], 0));
    assert_int_equal(h.closed, 3); /* each once */
    for (int i = 0; i < PAIRS; i++)
        close_pair(&h, &p[i]);
    struct pair later; /* the thread sleeps by now, and wakes */
    open_pair(&h, &later);
    assert_true(is_closed(&later, -1));
    close_pair(&h, &later);
    ms_heads_close(&h);
    ms_heads_close(&h);
}

static void *come_and_go(void *ctx) {
    struct pair p;
    for (int i = 0; i < ROUNDS; i++) {
        open_pair(ctx, &p);
        ms_heads_came(&p.head);
        ms_heads_await(&p.head);
        close_pair(ctx, &p);
    }
    return NULL;
}

static void they_come_and_go_beside_it(void **state) {
    (void)state;
    struct ms_heads h;
    pthread_t thread[THREADS];
    assert_int_equal(ms_heads_open(&h, 0.0005, NULL), MOIRE_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, &h), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_null(h.first);
    ms_heads_close(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_begin_is_closed),
        cmocka_unit_test(they_come_and_go_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
