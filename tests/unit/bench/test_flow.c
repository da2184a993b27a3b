/* SPDX-License-Identifier: Apache-2.0
 * test_flow.c - applications on their way through their stages: in order, with what is left of the target,
 * ended once whatever fails; from several threads at once, and stopped at any moment; and live, by the
 * backend of `moire bench serve`, on cores and on the toy GPU. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/load/flow.h"
#include "bench/load/moire_backend.h"
#include "bench/data/trace.h"
#include "models/zoo.h"

enum { JOBS = 400, THREADS = 4, STAGES = 4, PIECES = 7 };

/* find, then 3 of cars beside 2 of people, then both joined. */
static struct mo_dag diamond = {.name = "camera",
                                .n = STAGES,
                                .stage = {{.name = "find", .count = 1},
                                          {.name = "cars", .count = 3, .n_after = 1, .after = {0}},
                                          {.name = "people", .count = 2, .n_after = 1, .after = {0}},
                                          {.name = "join", .count = 1, .n_after = 2, .after = {1, 2}}}};
static const int64_t split[] = {100, 200, 100};

/* An engine: a bag of what was submitted, answered by whoever takes it out. */
struct piece {
    struct mo_bench_flow_part *part;
    int tenant;
    int64_t deadline;
};
struct bed {
    struct mo_env env;
    struct mo_bench_flow_app app;
    struct mo_bench_flow *flow;
    pthread_mutex_t lock;
    struct piece bag[JOBS * PIECES];
    int n, submitted, fail_tenant, refuse_tenant, by_tenant[STAGES];
    atomic_long now;
    atomic_int ends[JOBS], code[JOBS], over, running;
    int64_t start[JOBS], end[JOBS];
    bool stopped; /* from then on nothing may be submitted */
};

static int64_t bed_now(void *ctx) {
    return atomic_load(&((struct bed *)ctx)->now);
}

static int bed_submit(void *ctx, int tenant, int64_t deadline, struct mo_bench_flow_part *part) {
    struct bed *b = ctx;
    pthread_mutex_lock(&b->lock);
    assert_false(b->stopped);
    b->submitted++;
    b->by_tenant[tenant]++;
    int code = tenant == b->refuse_tenant ? MOIRE_EBUSY : MOIRE_OK;
    if (!code) b->bag[b->n++] = (struct piece){part, tenant, deadline};
    pthread_mutex_unlock(&b->lock);
    return code;
}

static void bed_done(void *ctx, int index, int code, int64_t start_ns, int64_t end_ns) {
    struct bed *b = ctx;
    b->start[index] = start_ns;
    b->end[index] = end_ns;
    atomic_store(&b->code[index], code);
    atomic_fetch_add(&b->ends[index], 1);
    atomic_fetch_add(&b->over, 1);
}

static struct bed *make(void) {
    struct bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->env = mo_env_default();
    b->fail_tenant = b->refuse_tenant = -1;
    b->now = 1000;
    pthread_mutex_init(&b->lock, NULL);
    assert_int_equal(mo_dag_finish(&diamond, NULL), MOIRE_OK);
    b->app = (struct mo_bench_flow_app){.dag = &diamond, .split = split, .target_ns = 400};
    b->flow = mo_bench_flow_create(&(struct mo_bench_flow_config){.env = &b->env,
                                                                  .apps = &b->app,
                                                                  .n = JOBS,
                                                                  .now = bed_now,
                                                                  .submit = bed_submit,
                                                                  .done = bed_done,
                                                                  .ctx = b});
    assert_non_null(b->flow);
    return b;
}

static void drop(struct bed *b) {
    mo_bench_flow_destroy(b->flow);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Takes the newest out of the bag. */
static bool take(struct bed *b, struct piece *out) {
    pthread_mutex_lock(&b->lock);
    bool any = b->n > 0;
    if (any) *out = b->bag[--b->n];
    pthread_mutex_unlock(&b->lock);
    return any;
}

static void answer(struct bed *b, const struct piece *p, int code) {
    int64_t at = atomic_load(&b->now);
    mo_bench_flow_answer(b->flow, p->part, code, at - 5, at);
    mo_bench_flow_go_on(b->flow);
}

static void answer_next(struct bed *b, int tenant, int64_t deadline) {
    struct piece p = {0};
    assert_true(take(b, &p));
    assert_int_equal(p.tenant, tenant);
    assert_int_equal(p.deadline, deadline);
    answer(b, &p, MOIRE_OK);
}

/* Each stage waits for all before it; what the first leaves over goes to the others in proportion. */
static void stages_follow_one_another(void **state) {
    (void)state;
    struct bed *b = make();
    mo_bench_flow_begin(b->flow, 0, 7, 1000);
    assert_int_equal(b->n, 1);
    b->now = 1040;
    answer_next(b, 0, 1100);
    assert_int_equal(b->n, 5); /* 360 left: 240 for the second level, 120 for the third */
    b->now = 1100;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(b->by_tenant[3], 0);
        answer_next(b, b->bag[b->n - 1].tenant, 1040 + 240);
    }
    assert_int_equal(b->n, 1);
    assert_int_equal(b->over, 0);
    b->now = 1150;
    answer_next(b, 3, 1400); /* all that is left */
    assert_int_equal(b->over, 1);
    assert_int_equal(b->code[7], MOIRE_OK);
    assert_int_equal(b->start[7], 1035);
    assert_int_equal(b->end[7], 1150);
    drop(b);
}

/* One that is late already is due at once. */
static void a_late_query_has_no_time_left(void **state) {
    (void)state;
    struct bed *b = make();
    b->now = 5000;
    mo_bench_flow_begin(b->flow, 0, 0, 1000);
    answer_next(b, 0, 5000);
    drop(b);
}

static void a_failed_stage_ends_the_query(void **state) {
    (void)state;
    struct bed *b = make();
    struct piece p = {0};
    mo_bench_flow_begin(b->flow, 0, 0, 1000);
    answer_next(b, 0, 1100);
    assert_true(take(b, &p));
    answer(b, &p, MOIRE_ESHED);
    assert_int_equal(b->over, 1);
    assert_int_equal(b->code[0], MOIRE_ESHED);
    while (take(b, &p)) /* the others are answered all the same, and change nothing */
        answer(b, &p, p.tenant == 2 ? MOIRE_EDEVICE : MOIRE_OK);
    assert_int_equal(b->ends[0], 1);
    assert_int_equal(b->code[0], MOIRE_ESHED);
    assert_int_equal(b->by_tenant[3], 0); /* the last stage never began */
    drop(b);
}

static void a_refusal_ends_the_query(void **state) {
    (void)state;
    struct bed *b = make();
    b->refuse_tenant = 2;
    mo_bench_flow_begin(b->flow, 0, 0, 1000);
    answer_next(b, 0, 1100);
    assert_int_equal(b->code[0], MOIRE_EBUSY);
    assert_int_equal(b->by_tenant[2], 1); /* the second of two is not tried */
    for (struct piece p; take(b, &p);)
        answer(b, &p, MOIRE_OK);
    assert_int_equal(b->ends[0], 1);
    assert_int_equal(b->by_tenant[3], 0);
    drop(b);
}

/* --- threads ------------------------------------------------------------------------------------------ */
static void *answer_all(void *arg) {
    struct bed *b = arg;
    struct piece p = {0};
    while (atomic_load(&b->running)) {
        if (take(b, &p)) {
            atomic_fetch_add(&b->now, 1);
            answer(b, &p, p.tenant == b->fail_tenant && p.deadline % 3 == 0 ? MOIRE_EFAILED : MOIRE_OK);
        } else {
            sched_yield();
        }
    }
    while (take(b, &p)) /* what the engine still had when the flow was stopped */
        answer(b, &p, MOIRE_ECANCELLED);
    return NULL;
}

/* JOBS queries against THREADS that answer; stopped once so many have ended. */
static void race(struct bed *b, int stop_at) {
    pthread_t thread[THREADS];
    b->running = 1;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, answer_all, b), 0);
    int begun = 0;
    while (begun < JOBS && atomic_load(&b->over) < stop_at)
        mo_bench_flow_begin(b->flow, 0, begun++, bed_now(b));
    while (atomic_load(&b->over) < (stop_at < begun ? stop_at : begun))
        sched_yield();
    mo_bench_flow_stop(b->flow);
    pthread_mutex_lock(&b->lock);
    b->stopped = true;
    pthread_mutex_unlock(&b->lock);
    b->running = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(b->over, begun);
    for (int i = 0; i < begun; i++)
        assert_int_equal(b->ends[i], 1);
}

static void threads_answer_every_query_once(void **state) {
    (void)state;
    struct bed *b = make();
    race(b, JOBS);
    assert_int_equal(b->submitted, JOBS * PIECES);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(b->code[i], MOIRE_OK);
    drop(b);
    b = make();
    b->fail_tenant = 1;
    race(b, JOBS);
    assert_true(b->submitted < JOBS * PIECES);
    drop(b);
}

static void a_stop_ends_what_is_under_way(void **state) {
    (void)state;
    for (int stop_at = 0; stop_at < JOBS; stop_at += 23) {
        struct bed *b = make();
        race(b, stop_at);
        drop(b);
    }
}

/* Begun, and the flow stopped before the first answer: no stage follows it. */
static void nothing_begins_after_a_stop(void **state) {
    (void)state;
    struct bed *b = make();
    mo_bench_flow_begin(b->flow, 0, 0, 1000);
    mo_bench_flow_stop(b->flow);
    answer_next(b, 0, 1100);
    assert_int_equal(b->submitted, 1);
    assert_int_equal(b->code[0], MOIRE_ECANCELLED);
    mo_bench_flow_begin(b->flow, 0, 1, 1000);
    assert_int_equal(b->submitted, 1);
    assert_int_equal(b->code[1], MOIRE_ECANCELLED);
    drop(b);
}

/* --- live --------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/moire-flow-XXXXXX";
static char model[512], job_file[512], toy[600];
static const int64_t second = 1000000000;

static const char job_text[] =
    "{%s, \"threads\": 2, \"generic\": true, \"tenants\": ["
    " {\"name\": \"camera\", \"rate\": 2.5, \"qos_ns\": %lld, \"shed_late\": true, \"split_ns\": [%lld, "
    "%lld], \"stages\": ["
    "  {\"name\": \"find\", \"model\": \"%s\"},"
    "  {\"name\": \"cars\", \"model\": \"%s\", \"count\": 3, \"after\": [\"find\"]}]},"
    " {\"name\": \"alone\", \"qos_ns\": 5000000000, \"model\": \"%s\"}]}";

static int make_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    if (!mkdtemp(folder)) return -1;
    snprintf(job_file, sizeof job_file, "%s/job.json", folder);
    char exe[400];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0) return -1;
    exe[n] = 0;
    *strrchr(exe, '/') = 0;
    snprintf(toy, sizeof toy, "\"arrangement\": \"moire-gpu\", \"device\": \"cuda:%s/fake/libmoire-toy.so\"",
             exe);
    return mo_zoo_path(&env, "lenet", folder, model, sizeof model, NULL);
}

static int remove_model(void **state) {
    (void)state;
    unlink(model);
    unlink(job_file);
    return rmdir(folder);
}

enum { ARRIVALS = 60, RUNS = 100 };

static const char cores[] = "\"arrangement\": \"moire\"";

/* Plays ARRIVALS of both tenants in turn against the backend, on cores or the toy. */
static void play_live(const char *where, int64_t target, int64_t apart, int64_t after,
                      struct mo_bench_record *records, struct mo_bench_schedule *schedule) {
    static struct mo_bench_arrival items[ARRIVALS];
    static struct mo_bench_job job;
    struct mo_env env = mo_env_default();
    const struct mo_bench_backend *backend = mo_bench_moire_backend();
    moire_error err = {0};
    int64_t cut;
    void *self = NULL;
    FILE *f = fopen(job_file, "w");
    assert_non_null(f);
    fprintf(f, job_text, where, (long long)target, (long long)target / 2, (long long)(target - target / 2),
            model, model, model);
    fclose(f);
    int code = mo_bench_job_load(&env, job_file, &job, &err);
    if (!code) code = backend->open(&env, &job, &self, &err);
    if (code) print_message("%s\n", err.message);
    assert_int_equal(code, MOIRE_OK);
    if (target > second) assert_int_equal(backend->solo(self, 0, &err), MOIRE_OK);
    for (int i = 0; i < ARRIVALS; i++)
        items[i] = (struct mo_bench_arrival){i * apart, i % 2};
    *schedule = (struct mo_bench_schedule){
        .items = items, .n = ARRIVALS, .window_ns = second, .total_ns = ARRIVALS * apart + after};
    assert_int_equal(mo_bench_play(&env, backend, self, schedule, job.qos_ns,
                                   &(struct mo_bench_budget){.all = -1}, records, &cut, &err),
                     MOIRE_OK);
    backend->close(self);
    mo_bench_job_close(&job);
}

/* Every application is answered, no sooner than its stages can be one after the other. */
static void run_live(const char *where) {
    struct mo_bench_record r[ARRIVALS];
    struct mo_bench_schedule s;
    play_live(where, 20 * second, 1000000, 20 * second, r, &s);
    for (int i = 0; i < ARRIVALS; i++) {
        assert_int_equal(r[i].code, MOIRE_OK);
        assert_true(r[i].start_ns >= s.items[i].at_ns);
        assert_true(r[i].end_ns > r[i].start_ns);
    }
}

/* A target that nobody meets: applications are shed by a stage, and end with its code. */
static void are_shed_live(const char *where) {
    struct mo_bench_record r[ARRIVALS];
    struct mo_bench_schedule s;
    play_live(where, 2, 1000000, 20 * second, r, &s);
    for (int i = 0; i < ARRIVALS; i += 2) {
        assert_true(r[i].code == MOIRE_ESHED || r[i].code == MOIRE_EEXPIRED);
        assert_int_equal(r[i].end_ns, -1);
        assert_int_equal(r[i + 1].code, MOIRE_OK);
    }
}

static void applications_are_shed_live(void **state) {
    (void)state;
    are_shed_live(cores);
    are_shed_live(toy);
}

/* The run ends while applications are under way: each is cancelled once, and the runtime is empty.  Where the
 * driver loses its core between the last arrival and the end, all may have been answered: it runs again. */
static void a_run_ends(const char *where) {
    struct mo_bench_record r[ARRIVALS];
    struct mo_bench_schedule s;
    int cancelled = 0;
    for (int run = 0; run < RUNS && !cancelled; run++) {
        play_live(where, 20 * second, 1, 0, r, &s);
        for (int i = 0; i < ARRIVALS; i++) {
            cancelled += r[i].code == MOIRE_ECANCELLED;
            assert_true(r[i].code == MOIRE_ECANCELLED || (r[i].code == MOIRE_OK && r[i].end_ns >= 0));
        }
    }
    assert_true(cancelled > 0);
}

static void applications_run_live(void **state) {
    (void)state;
    run_live(cores);
    run_live(toy);
}

/* Each model of an application is declared with the queries that it gets; a tenant without a rate is not. */
static void declared_rates_reach_the_planner(void **state) {
    (void)state;
    struct mo_bench_record r[ARRIVALS];
    struct mo_bench_schedule s;
    struct mo_env env = mo_env_default();
    struct mo_trace trace;
    moire_error err = {0};
    char record[600], where[1300];
    snprintf(record, sizeof record, "%s/trace", folder);
    snprintf(where, sizeof where, "%s, \"record\": \"%s\"", toy, record);
    play_live(where, 20 * second, 1000000, 20 * second, r, &s);
    if (mo_trace_read(&env, record, &trace, &err)) fail_msg("%s", err.message);
    assert_int_equal(trace.n_tenants, 3);
    for (int i = 0; i < 3; i++) {
        bool find = strstr(trace.tenants[i].name, "find"), cars = strstr(trace.tenants[i].name, "cars");
        assert_true(trace.tenants[i].declared == (find ? 2.5 : cars ? 7.5 : 0));
    }
    mo_trace_free(&trace);
    unlink(record);
}

static void a_run_that_ends_cancels_applications(void **state) {
    (void)state;
    a_run_ends(cores);
    a_run_ends(toy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_one_another),
        cmocka_unit_test(a_late_query_has_no_time_left),
        cmocka_unit_test(a_failed_stage_ends_the_query),
        cmocka_unit_test(a_refusal_ends_the_query),
        cmocka_unit_test(threads_answer_every_query_once),
        cmocka_unit_test(a_stop_ends_what_is_under_way),
        cmocka_unit_test(nothing_begins_after_a_stop),
        cmocka_unit_test(applications_run_live),
        cmocka_unit_test(declared_rates_reach_the_planner),
        cmocka_unit_test(applications_are_shed_live),
        cmocka_unit_test(a_run_that_ends_cancels_applications),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
