/* SPDX-License-Identifier: Apache-2.0
 * pipeline_bed.c - see pipeline_bed.h. */
#define _GNU_SOURCE
#include "tests/unit/serve/pipeline_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/unit/codegen/onnx_build.h"

static void write_model(const struct pipeline_bed *bed, const char *name, struct ob *b) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s.onnx", bed->folder, name);
    assert_true(ob_save(b, path));
    ob_destroy(b);
}

static void make_twice(const struct pipeline_bed *bed) {
    struct ob *b = ob_create(13);
    ob_input(b, "i", MOIRE_F32, "N,4");
    ob_scalar(b, "two", 2);
    ob_node(b, "Mul", "i two", "o");
    ob_output(b, "o");
    write_model(bed, "twice", b);
}

static void make_add(const struct pipeline_bed *bed) {
    struct ob *b = ob_create(13);
    ob_input(b, "i", MOIRE_F32, "N,4");
    ob_input(b, "j", MOIRE_F32, "N,4");
    ob_node(b, "Add", "i j", "o");
    ob_output(b, "o");
    write_model(bed, "add", b);
}

static void make_pick(const struct pipeline_bed *bed) {
    float table[32];
    for (int i = 0; i < 32; i++)
        table[i] = (float)i;
    struct ob *b = ob_create(13);
    ob_input(b, "i", MOIRE_I64, "N");
    ob_floats(b, "table", "8,4", table);
    ob_node(b, "Gather", "table i", "o");
    ob_output(b, "o");
    write_model(bed, "pick", b);
}

static void make_slow(const struct pipeline_bed *bed) {
    struct ob *b = ob_create(13);
    ob_input(b, "i", MOIRE_F32, "N,4");
    ob_random(b, "w", "4,1024");
    ob_random(b, "u", "1024,1024");
    ob_random(b, "v", "1024,4");
    ob_node(b, "MatMul", "i w", "a0");
    for (int k = 0; k < 16; k++) {
        char in[20], out[20];
        snprintf(in, sizeof in, "a%d u", k);
        snprintf(out, sizeof out, "a%d", k + 1);
        ob_node(b, "MatMul", in, out);
    }
    ob_node(b, "MatMul", "a16 v", "o");
    ob_output(b, "o");
    write_model(bed, "slow", b);
}

void pipeline_bed_make(struct pipeline_bed *bed) {
    *bed = (struct pipeline_bed){.folder = "/tmp/moire-pipeline-XXXXXX"};
    assert_non_null(mkdtemp(bed->folder));
    make_twice(bed);
    make_add(bed);
    make_pick(bed);
    make_slow(bed);
}

void pipeline_bed_config(const struct pipeline_bed *bed, const char *name, const char *config) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", bed->folder, name);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/config.pbtxt", bed->folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
}

void pipeline_bed_ensemble(const struct pipeline_bed *bed, const char *name, const char *config) {
    char text[4096];
    const int n = snprintf(text, sizeof text, "platform: \"ensemble\"\n%s", config);
    assert_true(n > 0 && n < (int)sizeof text);
    pipeline_bed_config(bed, name, text);
}

static void say(void *user, int level, const char *line) {
    (void)user;
    if (level == MOIRE_LOG_ERROR) print_message("log: %s\n", line);
}

void pipeline_bed_start(struct pipeline_bed *bed, bool is_explicit) {
    moire_config c;
    moire_error err = {0};
    moire_config_init(&c);
    c.threads = 2;
    c.store = "/nonexistent";
    assert_int_equal(moire_runtime_create(&c, &bed->runtime, &err), MOIRE_OK);
    const struct ms_repository_options o = {.source = {.folder = bed->folder, .functions = &bed->functions},
                                            .runtime = bed->runtime,
                                            .shape_memory = 64 << 20,
                                            .is_explicit = is_explicit,
                                            .log = say};
    assert_int_equal(ms_repository_start(&o, &bed->repository, &err), MOIRE_OK);
    for (bool busy = true; busy; usleep(1000)) {
        pthread_mutex_lock(&bed->repository->lock);
        busy = bed->repository->busy > 0;
        pthread_mutex_unlock(&bed->repository->lock);
    }
}

void pipeline_bed_stop(struct pipeline_bed *bed) {
    char line[100];
    moire_drain(bed->runtime);
    ms_repository_stop(bed->repository);
    moire_runtime_destroy(bed->runtime, 1);
    snprintf(line, sizeof line, "rm -r %s", bed->folder);
    assert_int_equal(system(line), 0);
}

/* --- queries -------------------------------------------------------------------------------------------- */
static void answered(void *user) {
    struct asked *a = user;
    atomic_fetch_add(&a->answers, 1);
}

void ask_begin(struct pipeline_bed *bed, struct asked *a, const char *model, int rows, const int64_t *index) {
    moire_error err = {0};
    struct ms_query *q = &a->query;
    atomic_store(&a->answers, 0);
    assert_int_equal(ms_repository_take(bed->repository, model, NULL, &q->model, &err), MOIRE_OK);
    for (int i = 0; !index && i < rows * 4; i++)
        a->x[i] = (float)(i + 1);
    q->request.n_inputs = 1;
    q->request.input[0] = (struct ms_input){.name = "x"};
    q->request.input[0].tensor = index ? (moire_tensor){.dtype = MOIRE_I64,
                                                        .rank = 1,
                                                        .shape = {rows},
                                                        .data = (void *)(uintptr_t)index,
                                                        .bytes = (size_t)rows * sizeof *index}
                                       : (moire_tensor){.dtype = MOIRE_F32,
                                                        .rank = 2,
                                                        .shape = {rows, 4},
                                                        .data = a->x,
                                                        .bytes = (size_t)rows * 16};
    q->done = answered;
    q->user = a;
    ms_query_start(q);
}

int ask_end(struct asked *a) {
    while (!atomic_load(&a->answers))
        usleep(50);
    return a->query.error.code;
}

void ask_close(struct asked *a) {
    assert_int_equal(atomic_load(&a->answers), 1);
    ms_query_close(&a->query);
    *a = (struct asked){.answers = 0};
}

const float *ask(struct pipeline_bed *bed, struct asked *a, const char *model, int rows) {
    ask_begin(bed, a, model, rows, NULL);
    if (ask_end(a)) print_message("%s\n", a->query.error.message);
    return a->query.n_outputs ? a->query.output[0].tensor.data : NULL;
}

/* --- jobs ----------------------------------------------------------------------------------------------- */
struct job {
    atomic_int done;
    int code;
};
static void job_done(void *user, int code, const char *message) {
    struct job *j = user;
    (void)message;
    j->code = code;
    atomic_store(&j->done, 1);
}

int ask_job(struct pipeline_bed *bed, ms_job_start start, const char *name) {
    struct job j = {.code = 0};
    const int rc = start(bed->repository, name, job_done, &j, NULL);
    while (!rc && !atomic_load(&j.done))
        usleep(50);
    return rc ? rc : j.code;
}
