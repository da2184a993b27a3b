/* SPDX-License-Identifier: Apache-2.0
 * test_agent.c - the door for HAProxy's agent checks, and a server that says that it is to end while it still
 * serves. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "models/zoo.h"
#include "serve/agent/agent.h"
#include "serve/agent/room.h"
#include "serve/server.h"

enum { ANSWER = 1 << 14, CROWD = 3 * MS_AGENT_LINE };

static char folder[] = "/tmp/moire-agent-XXXXXX";
static char model[512];
static struct ms_server *server;

static int start_as(bool load_first) {
    struct mo_env env = mo_env_default();
    char built[512];
    moire_error err = {0};
    const struct ms_server_options o = {.repository = folder,
                                        .host = "127.0.0.1",
                                        .store = "/nonexistent",
                                        .mode = "none",
                                        .metrics_port = -1,
                                        .control_port = -1,
                                        .grpc_port = -1,
                                        .threads = 1,
                                        .load_first = load_first,
                                        .body_bytes = 1 << 20};
    if (!*model) {
        if (!mkdtemp(folder) || mo_zoo_path(&env, "lenet", folder, built, sizeof built, NULL)) return -1;
        snprintf(model, sizeof model, "%s/lenet.onnx", folder);
        if (rename(built, model)) return -1;
    }
    if (ms_server_start(&o, &server, &err)) {
        print_message("%s\n", err.message);
        return -1;
    }
    return 0;
}

static int start(void **state) {
    (void)state;
    const int rc = start_as(false);
    while (!rc && !ms_server_is_ready(server))
        usleep(1000);
    return rc;
}

static int start_loaded(void **state) {
    (void)state;
    return start_as(true);
}

static int stop(void **state) {
    (void)state;
    ms_server_stop(server);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(model);
    return rmdir(folder);
}

static int reach(enum ms_port which) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)ms_server_port(server, which)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends the bytes, and reads until the end. */
static void talk(enum ms_port which, const char *bytes, size_t n, char *answer) {
    const int fd = reach(which);
    size_t got = 0;
    ssize_t more;
    (void)send(fd, bytes, n, MSG_NOSIGNAL);
    while (got < ANSWER - 1 && (more = read(fd, answer + got, ANSWER - 1 - got)) > 0)
        got += (size_t)more;
    answer[got] = '\0';
    close(fd);
}

static const char *agent(const char *line) {
    static char answer[ANSWER];
    talk(MS_PORT_AGENT, line, strlen(line), answer);
    return answer;
}

static int status(const char *path) {
    char bytes[200];
    static char answer[ANSWER];
    const int n =
        snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    talk(MS_PORT_HTTP, bytes, (size_t)n, answer);
    return strlen(answer) > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static int infer(char *answer) {
    static char bytes[1 << 14];
    static char body[1 << 13];
    int n = sprintf(
        body, "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,32,32],\"data\":[0");
    for (int i = 1; i < 32 * 32; i++)
        n += sprintf(body + n, ",%d", i % 5);
    n += sprintf(body + n, "]}]}");
    const int all = sprintf(
        bytes, "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", n, body);
    assert_true(all < (int)sizeof bytes);
    const int fd = reach(MS_PORT_HTTP);
    size_t got = 0;
    ssize_t more;
    assert_int_equal(send(fd, bytes, (size_t)all, MSG_NOSIGNAL), all);
    while (got < ANSWER - 1 && !strstr(answer, "]}") &&
           (more = read(fd, answer + got, ANSWER - 1 - got)) > 0) {
        got += (size_t)more;
        answer[got] = '\0';
    }
    close(fd);
    return (int)strtol(answer + 9, NULL, 10);
}

static void room_is_what_is_left_of_the_target(void **state) {
    (void)state;
    assert_int_equal(ms_room_percent(0, 10), 100);
    assert_int_equal(ms_room_percent(5, 10), 50);
    assert_int_equal(ms_room_percent(10, 10), 1);
    assert_int_equal(ms_room_percent(INT64_MAX, 10), 1);
    assert_int_equal(ms_room_percent(-5, 10), 100);
    assert_int_equal(ms_room_percent(INT64_C(250000000), 0), 75); /* no target: a second */
}

static void a_model_has_room(void **state) {
    (void)state;
    assert_string_equal(agent("lenet\n"), "up ready 100%\n");
    assert_string_equal(agent("lenet\r\n"), "up ready 100%\n");
    assert_string_equal(agent("lenet\nlenet\n"), "up ready 100%\n");
    assert_string_equal(agent("\n"), "up ready 100%\n");
    assert_string_equal(agent("none\n"), "down #no such model\n");
}

static void who_says_nothing_is_told_of_the_server(void **state) {
    (void)state;
    assert_string_equal(agent(""), "up ready 100%\n");
}

static void a_line_without_an_end_gets_no_answer(void **state) {
    (void)state;
    char line[CROWD + 1];
    memset(line, 'a', CROWD);
    line[CROWD] = '\0';
    assert_string_equal(agent(line), "");
    assert_string_equal(agent("lenet\n"), "up ready 100%\n");
}

/* More than are let in at once, and all of them silent. */
static void a_silent_crowd_keeps_nobody_out(void **state) {
    (void)state;
    int crowd[MS_AGENT_CLIENTS + 10];
    const int n = sizeof crowd / sizeof *crowd;
    for (int i = 0; i < n; i++)
        crowd[i] = reach(MS_PORT_AGENT);
    assert_string_equal(agent("lenet\n"), "up ready 100%\n");
    for (int i = 0; i < n; i++)
        close(crowd[i]);
}

static void a_server_that_leaves_serves_and_is_not_ready(void **state) {
    (void)state;
    static char answer[ANSWER];
    answer[0] = '\0';
    assert_int_equal(infer(answer), 200);
    assert_null(strcasestr(answer, "connection: close"));
    assert_int_equal(status("/v2/health/ready"), 200);
    assert_int_equal(status("/v2/models/lenet/ready"), 200);
    ms_server_leave(server);
    assert_string_equal(agent("lenet\n"), "drain\n");
    assert_string_equal(agent("\n"), "drain\n");
    assert_int_equal(status("/v2/health/live"), 200);
    assert_int_equal(status("/v2/health/ready"), 400);
    assert_int_equal(status("/v2/models/lenet/ready"), 400);
    answer[0] = '\0';
    assert_int_equal(infer(answer), 200);
    assert_non_null(strcasestr(answer, "connection: close")); /* and clients are told to come anew */
}

/* Its doors are open, so its models are there. */
static void doors_open_when_models_are_loaded(void **state) {
    (void)state;
    assert_int_equal(status("/v2/models/lenet/ready"), 200);
    assert_string_equal(agent("lenet\n"), "up ready 100%\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_what_is_left_of_the_target),
        cmocka_unit_test_setup_teardown(a_model_has_room, start, stop),
        cmocka_unit_test_setup_teardown(who_says_nothing_is_told_of_the_server, start, stop),
        cmocka_unit_test_setup_teardown(a_line_without_an_end_gets_no_answer, start, stop),
        cmocka_unit_test_setup_teardown(a_silent_crowd_keeps_nobody_out, start, stop),
        cmocka_unit_test_setup_teardown(doors_open_when_models_are_loaded, start_loaded, stop),
        cmocka_unit_test_setup_teardown(a_server_that_leaves_serves_and_is_not_ready, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
