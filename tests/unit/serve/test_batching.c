/* SPDX-License-Identifier: Apache-2.0
 * test_batching.c - queries of a repository, joined and not: every answer comes once and is the right one.
 *
 *     test_batching [ANSWERS]      20,000 of them where nothing is said
 *
 * Inputs are drawn from a few rows of which the answers are known from runs of one row each; a query brings
 * one to three.  Some are cancelled, some have deadlines that may pass. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "models/zoo.h"
#include "serve/query/infer_query.h"
#include "tests/unit/codegen/onnx_build.h"

enum { KNOWN = 64, MOST_ROWS = 3, MOST_COLUMNS = 1024, MODELS = 4, FLIGHT = 96, ROOMY = 1 << 28 };

static int answers = 20000;
static char folder[] = "/tmp/moire-batching-XXXXXX";
static moire_runtime *runtime;
static struct ms_repository *repository;

/* A model of the bed: x [N,in...] to y [N,out]. */
struct model {
    const char *name, *config;
    int rank, in, out;
    int64_t dims[3];
    float tolerance; /* of the largest value; 0: bit by bit */
    float *x, *y;    /* KNOWN rows */
};
#define BATCHED "max_batch_size: 32\nparameters { key: \"qos_ms\" value: { string_value: \"1000\" } }\n"
static const char delayed[] =
    BATCHED "dynamic_batching { max_queue_delay_microseconds: 200 preferred_batch_size: 12 }";
static const char levels[] = BATCHED "dynamic_batching { priority_levels: 3 default_priority_level: 2 }";
static struct model models[MODELS] = {
    {"identity", BATCHED "dynamic_batching { }", 2, 16, 16, {16}, 0, NULL, NULL},
    {"mlp", delayed, 2, 256, 10, {256}, 1e-5f, NULL, NULL},
    {"lenet", levels, 4, 1024, 10, {1, 32, 32}, 1e-5f, NULL, NULL},
    {"ordered", BATCHED "dynamic_batching { preserve_ordering: true }", 2, 16, 16, {16}, 0, NULL, NULL},
};

/* --- the bed --- */
static void write_config(const struct model *m) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, m->name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/1", folder, m->name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/config.pbtxt", folder, m->name);
    FILE *f = fopen(path, "w");
    fputs(m->config, f);
    fclose(f);
}

static void write_built(const struct model *m) {
    struct ob *b = ob_create(13);
    char path[600];
    ob_input(b, "x", MOIRE_F32, m->in == 256 ? "N,256" : "N,16");
    if (m->in == 256) {
        ob_random(b, "v", "4096,256");
        ob_random(b, "w", "10,4096");
        ob_node(b, "Gemm", "x v", "h");
        ob_int(b, "transB", 1);
        ob_node(b, "Relu", "h", "r");
        ob_node(b, "Gemm", "r w", "y");
        ob_int(b, "transB", 1);
    } else {
        ob_node(b, "Neg", "x", "h");
        ob_node(b, "Neg", "h", "y");
    }
    ob_output(b, "y");
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", folder, m->name);
    assert_true(ob_save(b, path));
    ob_destroy(b);
}

static void write_model(const struct model *m) {
    char built[600], path[600];
    struct mo_env env = mo_env_default();
    write_config(m);
    if (m->rank == 2) {
        write_built(m);
        return;
    }
    assert_int_equal(mo_zoo_path(&env, "lenet", folder, built, sizeof built, NULL), MOIRE_OK);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", folder, m->name);
    assert_int_equal(rename(built, path), 0);
}

/* What runs of one row give. */
static void learn(struct model *m, uint64_t *seed) {
    char path[600];
    moire_tenant *tenant;
    moire_error err = {0};
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", folder, m->name);
    m->x = malloc((size_t)KNOWN * (size_t)m->in * sizeof *m->x);
    m->y = malloc((size_t)KNOWN * (size_t)m->out * sizeof *m->y);
    assert_int_equal(moire_load(runtime, path, NULL, &tenant, &err), MOIRE_OK);
    for (int i = 0; i < KNOWN * m->in; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        m->x[i] = (float)(*seed >> 40) / (1 << 23) - 1;
    }
    for (int i = 0; i < KNOWN; i++) {
        moire_tensor in = {.dtype = MOIRE_F32, .rank = m->rank, .data = m->x + i * m->in},
                     out = {.data = m->y + i * m->out, .bytes = (size_t)m->out * sizeof *m->y};
        in.shape[0] = 1;
        memcpy(in.shape + 1, m->dims, sizeof m->dims);
        in.bytes = (size_t)m->in * sizeof *m->x;
        assert_int_equal(moire_run(tenant, &in, 1, &out, 1, &err), MOIRE_OK);
    }
    moire_unload(tenant, NULL);
}

/* Without memory for shapes, tenants of other rows than the last go as soon as nobody uses them. */
static void open_server(const char *policy, int64_t shape_memory) {
    moire_config c;
    moire_error err = {0};
    moire_config_init(&c);
    c.store = "/nonexistent";
    c.threads = 2;
    c.policy = policy;
    assert_int_equal(moire_runtime_create(&c, &runtime, &err), MOIRE_OK);
    const struct ms_repository_options o = {
        .source = {.folder = folder}, .runtime = runtime, .shape_memory = shape_memory};
    assert_int_equal(ms_repository_start(&o, &repository, &err), MOIRE_OK);
    while (!ms_repository_is_ready(repository))
        usleep(1000);
}

static void close_server(void) {
    moire_drain(runtime);
    ms_repository_stop(repository);
    moire_runtime_destroy(runtime, 1);
}

static int make_folder(void **state) {
    (void)state;
    uint64_t seed = 20;
    if (!mkdtemp(folder)) return -1;
    for (int i = 0; i < MODELS; i++)
        write_model(&models[i]);
    open_server("moire", 0);
    for (int i = 0; i < MODELS; i++)
        learn(&models[i], &seed);
    close_server();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", folder);
    for (int i = 0; i < MODELS; i++) {
        free(models[i].x);
        free(models[i].y);
    }
    return system(command);
}

/* --- queries --- */
struct load {
    sem_t room;
    atomic_long done, ok, wrong, cancelled, expired, others, bit_equal;
    atomic_long turn; /* of the model that keeps order */
    bool in_order;
};
struct ask {
    struct ms_query query;
    struct load *load;
    const struct model *model;
    int rows, row[MOST_ROWS];
    long turn;
    struct ask *then; /* started where this one ends; NULL: none */
    atomic_int calls;
    float data[];
};

static bool is_right(const struct ask *a, bool *bit_equal) {
    const struct model *m = a->model;
    const moire_tensor *t = &a->query.output[0].tensor;
    if (a->query.n_outputs != 1 || t->rank != 2 || t->shape[0] != a->rows || t->shape[1] != m->out)
        return false;
    *bit_equal = true;
    for (int r = 0; r < a->rows; r++) {
        const float *got = (const float *)t->data + r * m->out, *want = m->y + a->row[r] * m->out;
        float most = 1;
        for (int i = 0; i < m->out; i++)
            most = fmaxf(most, fabsf(want[i]));
        for (int i = 0; i < m->out; i++)
            if (!(fabsf(got[i] - want[i]) <= m->tolerance * most)) return false;
        *bit_equal = *bit_equal && !memcmp(got, want, (size_t)m->out * sizeof *got);
    }
    return true;
}

static void done(void *user) {
    struct ask *a = user;
    struct load *l = a->load;
    bool equal = false;
    if (atomic_fetch_add(&a->calls, 1)) atomic_fetch_add(&l->wrong, 1);
    if (l->in_order && atomic_fetch_add(&l->turn, 1) != a->turn) atomic_fetch_add(&l->wrong, 1);
    const int code = a->query.error.code;
    if (!code) {
        atomic_fetch_add(is_right(a, &equal) ? &l->ok : &l->wrong, 1);
        atomic_fetch_add(&l->bit_equal, equal);
    } else {
        atomic_fetch_add(code == MOIRE_ECANCELLED ? &l->cancelled
                         : code == MOIRE_EEXPIRED ? &l->expired
                                                  : &l->others,
                         1);
    }
    if (a->then) ms_query_start(&a->then->query);
    atomic_fetch_add(&l->done, 1);
    sem_post(&l->room);
}

static struct ask *make(struct load *l, const struct model *m, int rows, uint64_t draw) {
    struct ask *a = calloc(1, sizeof *a + (size_t)(rows * m->in) * sizeof *a->data);
    a->load = l;
    a->model = m;
    a->rows = rows;
    for (int r = 0; r < rows; r++) {
        a->row[r] = (int)((draw >> (8 * r)) % KNOWN);
        memcpy(a->data + r * m->in, m->x + a->row[r] * m->in, (size_t)m->in * sizeof *a->data);
    }
    struct ms_query *q = &a->query;
    struct ms_input *in = &q->request.input[0];
    in->name = m->rank == 2 ? "x" : "input";
    in->tensor = (moire_tensor){.dtype = MOIRE_F32, .rank = m->rank, .data = a->data};
    in->tensor.shape[0] = rows;
    memcpy(in->tensor.shape + 1, m->dims, sizeof m->dims);
    in->tensor.bytes = (size_t)(rows * m->in) * sizeof *a->data;
    q->request.n_inputs = 1;
    q->done = done;
    q->user = a;
    assert_int_equal(ms_repository_take(repository, m->name, NULL, &q->model, NULL), MOIRE_OK);
    return a;
}

static void begin(struct load *l) {
    memset(l, 0, sizeof *l);
    sem_init(&l->room, 0, FLIGHT);
}

/* All are answered; the queries can go. */
static void wait_for_all(struct load *l, struct ask **list, int n) {
    for (int i = 0; i < FLIGHT; i++)
        sem_wait(&l->room);
    for (int i = 0; i < FLIGHT; i++)
        sem_post(&l->room);
    for (int i = 0; i < n; i++) {
        ms_query_close(&list[i]->query);
        free(list[i]);
    }
}

static struct ms_tally tally_of(const char *name) {
    struct ms_model *m;
    assert_int_equal(ms_repository_take(repository, name, NULL, &m, NULL), MOIRE_OK);
    pthread_mutex_lock(&repository->lock);
    const struct ms_tally t = *m->tally;
    assert_true(m->held.queries >= 0 && m->held.bytes >= 0);
    pthread_mutex_unlock(&repository->lock);
    ms_repository_give(m);
    return t;
}

/* Runs of more rows than a query brings. */
static int64_t joined_of(const char *name) {
    const struct ms_tally t = tally_of(name);
    int64_t joined = 0;
    for (int k = 0; k < MS_RUN_SIZES && t.by_rows[k].count; k++)
        joined += t.by_rows[k].rows > MOST_ROWS ? t.by_rows[k].count : 0;
    return joined;
}

/* --- tests --- */
/* Sizes are prepared beside the load, and joined where that pays: of the model that reads megabytes of
 * weights for a row it does, so the load goes on until some were joined. */
static void every_answer_is_right(void **state) {
    (void)state;
    enum { ROUND = 2000, PATIENCE = 20 };
    static const int share[] = {0, 0, 0, 1, 1, 2, 3, 0};
    struct load l;
    struct ask *list[ROUND];
    uint64_t draw = 1;
    long asked = 0;
    begin(&l);
    open_server("moire", ROOMY);
    while (asked < answers || (!joined_of("mlp") && asked < PATIENCE * (long)answers)) {
        for (int i = 0; i < ROUND; i++, asked++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            struct ask *a = list[i] =
                make(&l, &models[share[draw >> 61]], 1 + (int)((draw >> 30) % MOST_ROWS), draw >> 32);
            if (draw >> 20 & 1) a->query.request.priority = 1 + (int64_t)(draw >> 21) % 3;
            if ((draw >> 24) % 32 == 0) a->query.request.timeout_us = 300;
            sem_wait(&l.room);
            ms_query_start(&a->query);
            if ((draw >> 10) % 32 == 0) ms_query_cancel(&a->query);
        }
        wait_for_all(&l, list, ROUND);
    }
    print_message("%ld answers, %ld of them equal to the bit, %ld wrong; %ld cancelled, %ld expired\n",
                  atomic_load(&l.ok), atomic_load(&l.bit_equal), atomic_load(&l.wrong),
                  atomic_load(&l.cancelled), atomic_load(&l.expired));
    assert_int_equal(atomic_load(&l.done), asked);
    assert_int_equal(atomic_load(&l.wrong), 0);
    assert_int_equal(atomic_load(&l.others), 0);
    assert_true(atomic_load(&l.ok) > asked / 2);
    for (int i = 0; i < MODELS; i++) {
        const struct ms_tally t = tally_of(models[i].name);
        print_message("%s: %lld rows in %lld runs\n", models[i].name, (long long)t.rows, (long long)t.runs);
        assert_true(!t.pending && t.runs > 0 && t.rows >= t.runs);
    }
    assert_true(joined_of("mlp") > 0);
    sem_destroy(&l.room);
    close_server();
}

static void order_is_kept(void **state) {
    (void)state;
    enum { N = 3000 };
    struct load l;
    static struct ask *list[N];
    begin(&l);
    l.in_order = true;
    open_server("moire", 0);
    for (int i = 0; i < N; i++) {
        struct ask *a = list[i] = make(&l, &models[3], 1 + i % MOST_ROWS, (uint64_t)i * 977);
        a->turn = i;
        sem_wait(&l.room);
        ms_query_start(&a->query);
        if (i % 50 == 0) ms_query_cancel(&a->query);
    }
    wait_for_all(&l, list, N);
    assert_int_equal(atomic_load(&l.done), N);
    assert_int_equal(atomic_load(&l.wrong), 0);
    sem_destroy(&l.room);
    close_server();
}

/* Levels, bounds, cancels, and queries that come from where others end: nothing waits for ever. */
static void answer_all(const char *policy) {
    enum { N = 1500 };
    struct load l;
    static struct ask *list[2 * N];
    begin(&l);
    open_server(policy, 0);
    for (int i = 0; i < N; i++) {
        struct ask *a = list[2 * i] = make(&l, &models[i % 3], 1 + i % MOST_ROWS, (uint64_t)i * 977);
        a->then = list[2 * i + 1] = make(&l, &models[(i + 1) % 3], 1, (uint64_t)i * 31);
        a->query.request.priority = 1 + i % 3;
        if (i % 7 == 0) a->then->query.request.timeout_us = 500;
        sem_wait(&l.room);
        sem_wait(&l.room);
        ms_query_start(&a->query);
        if (i % 5 == 0) ms_query_cancel(&a->query);
    }
    wait_for_all(&l, list, 2 * N);
    assert_int_equal(atomic_load(&l.done), 2 * N);
    assert_int_equal(atomic_load(&l.wrong), 0);
    assert_true(atomic_load(&l.ok) > 0);
    sem_destroy(&l.room);
    close_server();
}

static void every_policy_answers_all(void **state) {
    (void)state;
    static const char *const policies[] = {"moire", "fcfs", "edf-reject", "prema", "veltair-as"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        answer_all(policies[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_right),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(every_policy_answers_all),
    };
    if (argc > 1) answers = (int)strtol(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
