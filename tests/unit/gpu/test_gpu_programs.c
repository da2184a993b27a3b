/* SPDX-License-Identifier: Apache-2.0
 * test_gpu_programs.c - a model lowered once for every batch: all are cut at the same layers, and what cores
 * compute of it is said once. */
#define _GNU_SOURCE
#include "tests/unit/sched/serve_bed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/serve/gpu.h"
#include "tests/unit/codegen/onnx_build.h"

/* However many segments: a model takes the same batches, whose programs are cut at the same layers. */
static void batches_are_cut_alike(void **state) {
    (void)state;
    const struct mo_env env = mo_env_default();
    for (int most = 1; most <= 12; most++) {
        struct mo_gpu_programs p;
        moire_error err = {0};
        const struct mo_gpu_programs_request request = {
            .path = serve_model(), .max_batch = 16, .options = {.model = 1, .max_segments = most}};
        if (mo_gpu_programs_make(&env, &request, &p, &err)) fail_msg("%s", err.message);
        assert_int_equal(p.n, 5); /* 1, 2, 4, 8, 16 */
        for (int i = 1; i < p.n; i++) {
            assert_int_equal(p.program[i]->n_segments, p.program[0]->n_segments);
            for (int k = 0; k < p.program[0]->n_segments; k++)
                assert_int_equal(p.program[i]->segments[k].end_layer, p.program[0]->segments[k].end_layer);
        }
        mo_gpu_programs_free(&p);
    }
}

static void count_line(void *user, int level, const char *line) {
    int *said = user;
    *said += level == MOIRE_LOG_WARN && strstr(line, "1 of its ") && strstr(line, "run on a core") &&
             strstr(line, "Hardmax");
}

static int lines_of(const char *path) {
    struct mo_env env = mo_env_default();
    struct mo_gpu_programs p;
    moire_error err = {0};
    int said = 0;
    env.log = count_line;
    env.log_user = &said;
    const struct mo_gpu_programs_request request = {
        .path = path, .max_batch = 4, .options = {.model = 1, .max_segments = 4}};
    if (mo_gpu_programs_make(&env, &request, &p, &err)) fail_msg("%s", err.message);
    mo_gpu_programs_free(&p);
    return said;
}

static void layers_on_cores_are_told(void **state) {
    (void)state;
    char path[] = "/tmp/moire-cores-XXXXXX";
    const int fd = mkstemp(path);
    size_t n;
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,4");
    ob_node(b, "Hardmax", "x", "h");
    ob_node(b, "Add", "h x", "y");
    ob_output(b, "y");
    const uint8_t *bytes = ob_pack(b, &n);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(lines_of(path), 1);
    assert_int_equal(lines_of(serve_model()), 0);
    remove(path);
    ob_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_cut_alike),
        cmocka_unit_test(layers_on_cores_are_told),
    };
    return cmocka_run_group_tests(tests, serve_setup, serve_teardown);
}
