/* SPDX-License-Identifier: Apache-2.0
 * test_server.c - a whole server in this process, and a client that writes its bytes itself. */
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
#include <sys/stat.h>
#include <unistd.h>
#include "models/zoo.h"
#include "serve/server.h"

enum { ANSWER = 1 << 16, PIXELS = 32 * 32 };

static char folder[] = "/tmp/moire-serve-XXXXXX";
static char model[512];
static struct ms_server *server;
static int port;

static struct ms_server_options options(const char *mode) {
    return (struct ms_server_options){.repository = folder,
                                      .host = "127.0.0.1",
                                      .store = "/nonexistent",
                                      .mode = mode,
                                      .metrics_port = -1,
                                      .control_port = -1,
                                      .grpc_port = -1,
                                      .threads = 2,
                                      .body_bytes = 1 << 20};
}

static int start(const char *mode) {
    moire_error err = {0};
    const struct ms_server_options o = options(mode);
    if (ms_server_start(&o, &server, &err)) {
        print_message("%s\n", err.message);
        return -1;
    }
    port = ms_server_port(server, MS_PORT_HTTP);
    while (strcmp(mode, "explicit") != 0 && !ms_server_is_ready(server))
        usleep(1000);
    return 0;
}

static int make_folder(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char built[512];
    if (!mkdtemp(folder) || mo_zoo_path(&env, "lenet", folder, built, sizeof built, NULL)) return -1;
    snprintf(model, sizeof model, "%s/lenet.onnx", folder);
    if (rename(built, model)) return -1;
    return start("none");
}

static int remove_folder(void **state) {
    (void)state;
    ms_server_stop(server);
    unlink(model);
    return rmdir(folder);
}

/* Sends the bytes and reads until the server closes; returns the status. */
static int talk(const char *bytes, size_t n, char *answer) {
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t got = 0;
    ssize_t more;
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to)) return -1;
    if (send(fd, bytes, n, MSG_NOSIGNAL) < 0) return -1;
    while (got < ANSWER - 1 && (more = read(fd, answer + got, ANSWER - 1 - got)) > 0)
        got += (size_t)more;
    answer[got] = 0;
    close(fd);
    return got > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static int ask(const char *method, const char *path, const char *body, char *answer) {
    char *bytes = malloc(strlen(body) + 400);
    const int n =
        sprintf(bytes, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                method, path, strlen(body), body);
    const int status = talk(bytes, (size_t)n, answer);
    free(bytes);
    return status;
}

static char *image_request(int batch) {
    char *json = malloc(200 + (size_t)batch * PIXELS * 6);
    int n = sprintf(
        json, "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[%d,1,32,32],\"data\":[",
        batch);
    for (int i = 0; i < batch * PIXELS; i++)
        n += sprintf(json + n, "%s0.%d", i ? "," : "", i % 7 + 1);
    sprintf(json + n, "]}]}");
    return json;
}

static void test_health_and_metadata(void **state) {
    (void)state;
    static char answer[ANSWER];
    assert_int_equal(ask("GET", "/v2/health/live", "", answer), 200);
    assert_int_equal(ask("GET", "/v2/health/ready", "", answer), 200);
    assert_int_equal(ask("GET", "/v2/models/lenet/ready", "", answer), 200);
    assert_int_equal(ask("GET", "/v2", "", answer), 200);
    assert_non_null(strstr(answer, "\"name\":\"moire\""));
    assert_int_equal(ask("GET", "/v2/models/lenet/versions/1", "", answer), 200);
    assert_non_null(strstr(answer, "\"shape\":[-1,1,32,32]"));
    assert_int_equal(ask("GET", "/v2/models/lenet/config", "", answer), 200);
    assert_non_null(strstr(answer, "TYPE_FP32"));
}

static void test_paths_that_are_not_there(void **state) {
    (void)state;
    static char answer[ANSWER];
    assert_int_equal(ask("GET", "/nothing", "", answer), 404);
    assert_int_equal(ask("POST", "/v2/health/live", "", answer), 405);
    assert_int_equal(ask("GET", "/v2/models/nope", "", answer), 404);
    assert_int_equal(ask("GET", "/v2/models/lenet/versions/2", "", answer), 404);
    assert_int_equal(ask("GET", "/v2/models//ready", "", answer), 404);
    assert_int_equal(ask("POST", "/v2/repository/models/lenet/load", "", answer), 400);
    assert_non_null(strstr(answer, "explicit"));
}

static void test_answers_are_alike(void **state) {
    (void)state;
    static char one[ANSWER], again[ANSWER], two[ANSWER];
    char *request = image_request(1), *pair = image_request(2);
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, one), 200);
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, again), 200);
    assert_string_equal(strstr(one, "\"data\""), strstr(again, "\"data\""));
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", pair, two), 200); /* a shape never seen before */
    assert_non_null(strstr(two, "\"shape\":[2,10]"));
    free(request);
    free(pair);
}

static void test_bad_requests(void **state) {
    (void)state;
    static char answer[ANSWER];
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", "{", answer), 400);
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", "{}", answer), 400);
    assert_non_null(strstr(answer, "input 'input' of model 'lenet' is missing"));
    assert_int_equal(
        ask("POST", "/v2/models/lenet/infer",
            "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[1,2]}]}",
            answer),
        400);
    assert_non_null(strstr(answer, "takes [-1,1,32,32]"));
    assert_int_equal(
        ask("POST", "/v2/models/lenet/infer",
            "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]}]}", answer),
        400);
    assert_int_equal(
        ask("POST", "/v2/models/lenet/infer",
            "{\"inputs\":[{\"name\":\"other\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]}]}", answer),
        400);
    assert_non_null(strstr(answer, "has no input 'other'"));
    static const char large[] =
        "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n";
    assert_int_equal(talk(large, sizeof large - 1, answer), 413);
    static const char garbage[] = "\1\2\3\r\n\r\n";
    talk(garbage, sizeof garbage - 1, answer);
    assert_int_equal(ask("GET", "/v2/health/live", "", answer), 200);
}

static void test_metrics_and_statistics(void **state) {
    (void)state;
    static char answer[ANSWER];
    assert_int_equal(ask("GET", "/metrics", "", answer), 200);
    assert_non_null(strstr(answer, "moire_requests_total{model=\"lenet\",version=\"1\",outcome=\"ok\"} 3"));
    assert_non_null(strstr(answer, "moire_request_seconds_count{model=\"lenet\",version=\"1\"} 3"));
    assert_int_equal(ask("GET", "/v2/models/lenet/stats", "", answer), 200);
    assert_non_null(strstr(answer, "\"inference_count\":3"));
    assert_non_null(strstr(answer, "\"cache_miss\":{\"count\":0,\"ns\":0}"));
}

static void *client(void *wrong) {
    char *request = image_request(1), *answer = malloc(ANSWER), *first = malloc(ANSWER);
    *first = 0;
    for (int i = 0; i < 40; i++) {
        if (ask("POST", "/v2/models/lenet/infer", request, answer) != 200) ++*(int *)wrong;
        char *data = strstr(answer, "\"data\"");
        if (!*first && data) memcpy(first, data, strlen(data) + 1);
        if (!data || strcmp(first, data) != 0) ++*(int *)wrong;
    }
    free(request);
    free(answer);
    free(first);
    return NULL;
}

static void test_many_clients(void **state) {
    (void)state;
    pthread_t threads[8];
    int wrong[8] = {0};
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, &wrong[i]), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
}

static void test_loading_and_unloading(void **state) {
    (void)state;
    static char answer[ANSWER];
    char *request = image_request(1);
    ms_server_stop(server);
    assert_int_equal(start("explicit"), 0);
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, answer), 404);
    assert_int_equal(ask("POST", "/v2/repository/models/nope/load", "", answer), 404);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ask("POST", "/v2/repository/models/lenet/load", "{}", answer), 200);
        assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, answer), 200);
        assert_int_equal(ask("POST", "/v2/repository/models/lenet/unload", "", answer), 200);
        assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, answer), 404);
    }
    assert_int_equal(
        ask("POST", "/v2/repository/models/lenet/load", "{\"parameters\":{\"config\":\"{}\"}}", answer), 501);
    assert_int_equal(ask("POST", "/v2/repository/index", "{}", answer), 200);
    assert_non_null(strstr(answer, "[{\"name\":\"lenet\"}]"));
    ms_server_refresh(server); /* loads nothing that no client has */
    while (!ms_server_is_ready(server))
        usleep(1000);
    assert_int_equal(ask("POST", "/v2/models/lenet/infer", request, answer), 404);
    free(request);
}

/* A model that cannot be served is named, keeps the server from being ready, and is forgotten with its file.
 */
static void test_faults_come_and_go(void **state) {
    (void)state;
    static char answer[ANSWER];
    char bad[600];
    ms_server_stop(server);
    snprintf(bad, sizeof bad, "%s/bad.onnx", folder);
    FILE *f = fopen(bad, "w");
    fputs("no model", f);
    fclose(f);
    const struct ms_server_options o = options("poll");
    moire_error err;
    assert_int_equal(ms_server_start(&o, &server, &err), MOIRE_OK);
    port = ms_server_port(server, MS_PORT_HTTP);
    do
        assert_int_equal(ask("POST", "/v2/repository/index", "{}", answer), 200);
    while (!strstr(answer, "READY") || !strstr(answer, "UNAVAILABLE"));
    assert_non_null(strstr(answer, "bad.onnx: malformed ONNX data"));
    assert_int_equal(ask("GET", "/v2/health/ready", "", answer), 400);
    assert_int_equal(ask("GET", "/v2/models/lenet/ready", "", answer), 200);
    unlink(bad);
    ms_server_refresh(server);
    while (!ms_server_is_ready(server))
        usleep(1000);
    assert_int_equal(ask("GET", "/v2/health/ready", "", answer), 200);
    assert_int_equal(ask("GET", "/v2/models/bad", "", answer), 404);
}

static void test_addresses_that_are_refused(void **state) {
    (void)state;
    struct ms_server_options o = options("none");
    struct ms_server *s;
    moire_error err;
    o.host = "0.0.0.0";
    assert_int_equal(ms_server_start(&o, &s, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "--insecure"));
    o.host = "nowhere";
    assert_int_equal(ms_server_start(&o, &s, &err), MOIRE_EINVAL);
    o.host = "127.0.0.1";
    o.http_port = port; /* taken */
    assert_int_equal(ms_server_start(&o, &s, &err), MOIRE_EIO);
    o.repository = "/nonexistent";
    assert_int_equal(ms_server_start(&o, &s, &err), MOIRE_EIO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health_and_metadata),        cmocka_unit_test(test_paths_that_are_not_there),
        cmocka_unit_test(test_answers_are_alike),          cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_metrics_and_statistics),     cmocka_unit_test(test_many_clients),
        cmocka_unit_test(test_loading_and_unloading),      cmocka_unit_test(test_faults_come_and_go),
        cmocka_unit_test(test_addresses_that_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
