/* SPDX-License-Identifier: Apache-2.0
 * test_run_image.c - `moire run` and what measures layers take the compiled model of a file where it fits,
 * pack its weights where it does not, say which, and answer the same. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/kernels/kernels.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/publish.h"
#include "tools/moire/verb.h"
#include "tools/moire/verify/npy.h"
#include "variants/packed.h"

enum { A = 96, B = 130, Y = 71, MOST_ROWS = 3, ARGS = 24 };

/* What the log says of where the weights came from. */
enum taken { NOTHING_SAID, MAPPED, PACKED, SKIPPED };

static struct mo_env env;
static char folder[64], model[96], file_a[3][96], file_b[3][96];
static enum taken seen;
static int lines;

static void listen(void *user, int level, const char *line) {
    (void)user;
    if (strstr(line, "slow reference")) return;
    lines++;
    seen = level == MOIRE_LOG_WARN && strstr(line, "skipped, loading ONNX")      ? SKIPPED
           : level == MOIRE_LOG_INFO && strstr(line, "are mapped from its")      ? MAPPED
           : level == MOIRE_LOG_INFO && strstr(line, "weights are packed now: ") ? PACKED
                                                                                 : NOTHING_SAID;
}

/* --- a model of two inputs, whose rows are open --- */
static void write_model(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "b", MOIRE_F32, "N,130");
    ob_input(b, "a", MOIRE_F32, "N,96");
    ob_random(b, "w", "96,130");
    ob_random(b, "v", "130,71");
    ob_node(b, "MatMul", "a w", "p");
    ob_node(b, "Relu", "p", "r");
    ob_node(b, "Add", "r b", "s");
    ob_node(b, "MatMul", "s v", "y");
    ob_output(b, "y");
    assert_true(ob_save(b, model));
    ob_destroy(b);
}

static void write_input(const char *path, int rows, int columns) {
    static float x[MOST_ROWS * B];
    moire_tensor t = {.dtype = MOIRE_F32,
                      .rank = 2,
                      .shape = {rows, columns},
                      .data = x,
                      .bytes = (size_t)(rows * columns) * sizeof *x};
    for (int i = 0; i < rows * columns; i++)
        x[i] = (float)(i % 19) / 19 - 0.4f;
    assert_int_equal(mo_npy_write(&env, path, &t, NULL), MOIRE_OK);
}

static void publish(const moire_shape *shapes, int n, bool exact, enum moire_precision precision) {
    const struct mo_compiled_request request = {.path = model,
                                                .shapes = shapes,
                                                .n_shapes = n,
                                                .exact = exact,
                                                .isa = mo_isa_detect(),
                                                .precision = precision};
    const struct mo_env quiet = mo_env_default();
    struct mo_published done = {0};
    moire_error err = {0};
    if (mo_publish(&quiet, folder, &request, NULL, &done, &err)) fail_msg("%s", err.message);
    assert_true(done.packed_bytes > 0);
}

static int set_up(void **state) {
    (void)state;
    env = mo_env_default();
    env.log = listen;
    toy_folder(folder);
    snprintf(model, sizeof model, "%s/model.onnx", folder);
    write_model();
    for (int rows = 1; rows <= MOST_ROWS; rows++) {
        snprintf(file_a[rows - 1], sizeof file_a[0], "a=%s/a%d.npy", folder, rows);
        snprintf(file_b[rows - 1], sizeof file_b[0], "b=%s/b%d.npy", folder, rows);
        write_input(file_a[rows - 1] + 2, rows, A);
        write_input(file_b[rows - 1] + 2, rows, B);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    toy_remove(folder);
    return 0;
}

/* --- runs --- */
struct answer {
    float y[MOST_ROWS * Y];
    int rows;
};

/* `moire run` of the model with the words of a list that ends with NULL. */
static void run_words(char *const *words, bool generic, struct answer *out) {
    char *argv[ARGS] = {"run", model, "--store", folder, "--output-dir", folder}, path[96];
    int argc = 6;
    moire_tensor y;
    if (generic) argv[argc++] = "--generic";
    for (int i = 0; words[i]; i++)
        argv[argc++] = words[i];
    seen = NOTHING_SAID;
    lines = 0;
    assert_int_equal(mo_verb_call(&env, &mo_verb_run, argc, argv), MO_EXIT_OK);
    snprintf(path, sizeof path, "%s/y.npy", folder);
    assert_int_equal(mo_npy_read(&env, path, &y, NULL), MOIRE_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(y.shape[1], Y);
    out->rows = (int)y.shape[0];
    assert_true(y.bytes <= sizeof out->y);
    memcpy(out->y, y.data, y.bytes);
    mo_free(&env, y.data);
}

/* With the store, whose compiled model is taken or not, and without. */
static void must(enum taken want, int rows, char *const *words) {
    struct answer with, without;
    run_words(words, true, &without);
    assert_int_equal(seen, NOTHING_SAID);
    run_words(words, false, &with);
    if (seen != want) fail_msg("%s ...: %d, wanted %d", words[0] ? words[0] : "", seen, want);
    assert_int_equal(lines, want != NOTHING_SAID);
    assert_int_equal(with.rows, rows);
    assert_int_equal(without.rows, rows);
    assert_memory_equal(with.y, without.y, (size_t)(rows * Y) * sizeof(float));
}

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static void taken_where_it_fits(void **state) {
    (void)state;
    must(PACKED, 1, WORDS("--seed", "7"));
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    must(MAPPED, 1, WORDS("--seed", "7"));
    must(MAPPED, 1, WORDS("--seed", "8", "--repeat", "3", "--threads", "2"));
    must(MAPPED, 1, WORDS("--profile"));
    must(MAPPED, 1, WORDS("--json"));
    /* whoever spells all shapes out, in any order, or gives files that have them */
    must(MAPPED, 1, WORDS("--shape", "a=1,96", "--shape", "b=1,130"));
    must(MAPPED, 1, WORDS("--shape", "b=1,130", "--shape", "a=1,96"));
    must(MAPPED, 1, WORDS("--input", file_a[0], "--input", file_b[0]));
    must(MAPPED, 1, WORDS("--input", file_b[0], "--shape", "a=1,96"));
    must(MAPPED, 1, WORDS("--input", file_a[0]));
    must(MAPPED, 1, WORDS("--input", file_b[0]));
}

static void packed_at_another_shape(void **state) {
    (void)state;
    moire_shape three[] = {{.input = "b", .rank = 2, .shape = {3, B}},
                           {.input = "a", .rank = 2, .shape = {3, A}}};
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    must(PACKED, 2, WORDS("--shape", "a=2,96", "--shape", "b=2,130"));
    must(PACKED, 2, WORDS("--shape", "a=2,96", "--input", file_b[1]));
    must(PACKED, 2, WORDS("--input", file_a[1], "--input", file_b[1]));
    must(PACKED, 2, WORDS("--input", file_a[1]));
    must(PACKED, 3, WORDS("--input", file_b[2], "--input", file_a[2]));
    publish(three, 2, false, MOIRE_PRECISION_AUTO);
    must(MAPPED, 3, WORDS("--input", file_b[2], "--input", file_a[2]));
    must(MAPPED, 3, WORDS("--shape", "a=3,96", "--shape", "b=3,130"));
    must(MAPPED, 1, WORDS("--input", file_a[0]));
    must(PACKED, 2, WORDS("--input", file_a[1]));
}

static void packed_at_other_settings(void **state) {
    (void)state;
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    must(PACKED, 1, WORDS("--no-passes"));
    must(PACKED, 1, WORDS("--exact"));
    must(PACKED, 1, WORDS("--precision", "fp32"));
    must(PACKED, 1, WORDS("--precision", "fp16"));
    must(NOTHING_SAID, 1, WORDS("--reference"));
    if (mo_isa_detect() != MO_ISA_BASE) must(PACKED, 1, WORDS("--isa", "base"));
    publish(NULL, 0, true, MOIRE_PRECISION_AUTO);
    publish(NULL, 0, false, MOIRE_PRECISION_FP32);
    must(MAPPED, 1, WORDS("--exact"));
    must(MAPPED, 1, WORDS("--precision", "fp32"));
    must(PACKED, 1, WORDS("--precision", "fp16"));
    must(PACKED, 1, WORDS("--exact", "--precision", "fp32"));
    must(PACKED, 1, WORDS("--exact", "--no-passes"));
    publish(NULL, 0, false, MOIRE_PRECISION_FP16);
    must(MAPPED, 1, WORDS("--precision", "fp16"));
}

/* --- damage --- */
/* Path of the compiled model: the store has one. */
static void find_image(char *out, size_t n) {
    const struct mo_compiled_request request = {.path = model, .isa = mo_isa_detect()};
    struct mo_store_stamp stamp;
    struct mo_store *store;
    char command[256], line[256];
    assert_int_equal(mo_store_open(&env, folder, &store, NULL), MOIRE_OK);
    assert_int_equal(mo_compiled_read_stamp(store, &env, &request, &stamp, NULL), MOIRE_OK);
    mo_store_close(store);
    assert_true(stamp.model[0]);
    snprintf(command, sizeof command, "find %s -name %s" MO_MODEL_SUFFIX, folder, stamp.model);
    FILE *found = popen(command, "re");
    assert_non_null(found);
    assert_non_null(fgets(line, sizeof line, found));
    pclose(found);
    snprintf(out, n, "%.*s", (int)strcspn(line, "\n"), line);
}

static void packed_where_the_file_is_bad(void **state) {
    (void)state;
    char image[256];
    struct stat st;
    char byte;
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    must(MAPPED, 1, WORDS("--seed", "3"));
    find_image(image, sizeof image);
    assert_int_equal(chmod(image, 0644), 0);
    int fd = open(image, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    const off_t places[] = {9, st.st_size / 3, st.st_size - 65};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        must(SKIPPED, 1, WORDS("--seed", "3"));
        must(SKIPPED, 1, WORDS("--input", file_a[0]));
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
    }
    must(MAPPED, 1, WORDS("--seed", "3"));
    assert_int_equal(ftruncate(fd, st.st_size - 64), 0);
    must(SKIPPED, 1, WORDS("--seed", "3"));
    assert_int_equal(ftruncate(fd, 100), 0);
    must(SKIPPED, 1, WORDS("--seed", "3"));
    close(fd);
    assert_int_equal(unlink(image), 0);
    must(SKIPPED, 1, WORDS("--seed", "3"));
}

/* Another file by the same name is another model. */
static void packed_where_the_model_has_changed(void **state) {
    (void)state;
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    must(MAPPED, 1, WORDS("--seed", "3"));
    write_model();
    must(PACKED, 1, WORDS("--seed", "3"));
}

/* --- below the command --- */
static void layers_are_those_of_onnx(void **state) {
    (void)state;
    const struct mo_frontend_options front = {.n_shapes = 0};
    struct mo_bench_layers mapped, packed;
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    assert_int_equal(mo_bench_layers_open(&env, model, &front, folder, &mapped, NULL), MOIRE_OK);
    assert_int_equal(seen, MAPPED);
    assert_int_equal(mo_bench_layers_open(&env, model, &front, NULL, &packed, NULL), MOIRE_OK);
    assert_true(mapped.model.compiled.file.n > 0);
    assert_int_equal(packed.model.compiled.file.n, 0);
    assert_int_equal(mapped.n, packed.n);
    assert_true(mapped.n >= 2);
    for (int i = 0; i < mapped.n; i++)
        assert_memory_equal(&mapped.layer[i], &packed.layer[i], sizeof mapped.layer[i]);
    mo_bench_layers_close(&mapped);
    mo_bench_layers_close(&packed);
}

/* One who looks at the graph: how often, and whom to refuse. */
struct looking {
    int looked, refuse;
};

static int look(void *ctx, const struct mo_graph *graph, moire_error *err) {
    struct looking *l = ctx;
    assert_true(graph->n_nodes > 1);
    return ++l->looked <= l->refuse ? mo_fail(err, MOIRE_EINVAL, "no") : MOIRE_OK;
}

static int open_model(const struct mo_env *with, struct looking *l) {
    const struct mo_frontend_options front = {.n_shapes = 0};
    struct mo_plan_options planning = {.isa = mo_isa_detect()};
    const struct mo_model_ask ask = {
        .env = with, .path = model, .front = &front, .planning = &planning, .look = look, .look_ctx = l};
    struct mo_store *store;
    struct mo_model_plan m;
    int rc = mo_store_open(with, folder, &store, NULL);
    if (rc) return rc;
    planning.store = store;
    rc = mo_model_plan_open(&ask, &m, NULL);
    assert_int_equal(m.plan != NULL, rc == MOIRE_OK);
    mo_model_plan_close(&m);
    mo_model_plan_close(&m);
    mo_store_close(store);
    return rc;
}

static void who_looks_may_refuse(void **state) {
    (void)state;
    struct looking l = {0};
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    assert_int_equal(open_model(&env, &l), MOIRE_OK);
    assert_int_equal(l.looked, 1);
    l = (struct looking){.refuse = 1}; /* the compiled model, not that from ONNX */
    assert_int_equal(open_model(&env, &l), MOIRE_OK);
    assert_int_equal(l.looked, 2);
    l = (struct looking){.refuse = 2};
    assert_int_equal(open_model(&env, &l), MOIRE_EINVAL);
    assert_int_equal(l.looked, 2);
}

static int sweep_body(void *ctx) {
    struct looking l = {0};
    return open_model(ctx, &l);
}

static void failing_allocations(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env with = env;
    publish(NULL, 0, false, MOIRE_PRECISION_AUTO);
    fault_sys_init(&fault);
    with.sys = &fault.table;
    with.log = NULL;
    assert_int_equal(sweep_body(&with), MOIRE_OK);
    assert_true(fault_sys_sweep(&fault, sweep_body, &with, MOIRE_OK) > 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(taken_where_it_fits),
        TEST(packed_at_another_shape),
        TEST(packed_at_other_settings),
        TEST(packed_where_the_file_is_bad),
        TEST(packed_where_the_model_has_changed),
        TEST(layers_are_those_of_onnx),
        TEST(who_looks_may_refuse),
        TEST(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
