/* SPDX-License-Identifier: Apache-2.0
 * test_policy_file.c - policies and checkpoints: what is written is read, every damage is one line with the
 * file, and a training that goes on from a checkpoint ends with the bytes of one that was never interrupted.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/file.h"
#include "runtime/learn/checkpoint.h"
#include "runtime/learn/policy_file.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/learn/double_net.h"

enum { SEED = 8 };
static const struct mo_sgemm plain = {0};
static char folder[64], file[128];

static int enter(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/moire-learn-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(file, sizeof file, "%s/policy.mo", folder);
    return 0;
}

static int leave(void **state) { /* fails when anything is left but the file */
    (void)state;
    unlink(file);
    return rmdir(folder);
}

/* A policy of 3 models, 2 GPUs and 2 slots, its nets in `region`. */
static struct mo_policy_file small_policy(struct mo_region *region) {
    struct mo_policy_file p = {.gpus = "two-gpus", .n_models = 3, .n_gpus = 2, .n_slots = 2, .updates = 77};
    uint64_t rng = SEED;
    snprintf(p.model[0], MO_POLICY_NAME, "alexnet");
    snprintf(p.model[1], MO_POLICY_NAME, "vgg19");
    snprintf(p.model[2], MO_POLICY_NAME, "a name as long as it may be ...................................");
    p.seed = UINT64_C(0xfedcba9876543210);
    assert_true(mo_net_make(region, (const int[]){5, 3, 2, 2}, &p.place));
    assert_true(mo_net_make(region, (const int[]){4, 2, 3, 4}, &p.divide));
    mo_net_draw(&p.place, &rng);
    mo_net_draw(&p.divide, &rng);
    return p;
}

static char *bytes_of(const char *path, size_t *n) {
    char *bytes;
    assert_int_equal(mo_file_read(learn_env(), path, 1 << 24, "test", &bytes, n, NULL), MOIRE_OK);
    return bytes;
}

static void put_bytes(const void *bytes, size_t n) {
    assert_int_equal(mo_output_write(learn_env(), file, bytes, n, NULL), MOIRE_OK);
}

/* The file as it is must be refused, with its name and this reason. */
static void refused(const char *reason) {
    struct mo_policy_file p;
    moire_error err = {0};
    assert_int_equal(mo_policy_read(learn_env(), file, &p, &err), MOIRE_EFORMAT);
    if (!strstr(err.message, file) || !strstr(err.message, reason) || strchr(err.message, '\n'))
        fail_msg("'%s' instead of the reason '%s'", err.message, reason);
    assert_null(p.region);
}

/* The same with a digest that is right: what a program could have written. */
static void refused_as_written(char *bytes, size_t n, const char *reason) {
    uint64_t all = n;
    struct mo_sha256 hash;
    memcpy(bytes + 16, &all, sizeof all);
    mo_sha256_init(&hash);
    mo_sha256_add(&hash, bytes, n - MO_SHA256_BYTES);
    mo_sha256_end(&hash, (uint8_t *)bytes + n - MO_SHA256_BYTES);
    put_bytes(bytes, n);
    refused(reason);
}

/* --- policies ------------------------------------------------------------------------------------------- */
static void what_is_written_is_read(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_policy_file p = small_policy(region), q;
    moire_error err;
    assert_int_equal(mo_policy_write(learn_env(), file, &p, &err), MOIRE_OK);
    assert_int_equal(mo_policy_read(learn_env(), file, &q, &err), MOIRE_OK);
    assert_string_equal(q.gpus, "two-gpus");
    assert_int_equal(q.n_models, 3);
    assert_int_equal(mo_policy_model(&q, p.model[2]), 2);
    assert_int_equal(mo_policy_model(&q, "vgg16"), -1);
    assert_true(q.seed == p.seed && q.updates == 77 && q.n_gpus == 2 && q.n_slots == 2);
    assert_memory_equal(q.place.size, p.place.size, sizeof p.place.size);
    assert_memory_equal(q.place.values, p.place.values, p.place.n * sizeof(float));
    assert_memory_equal(q.divide.values, p.divide.values, p.divide.n * sizeof(float));
    mo_policy_close(&q);
    mo_region_destroy(region);
}

static void every_cut_and_every_changed_byte_is_refused(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_policy_file p = small_policy(region);
    size_t n;
    assert_int_equal(mo_policy_write(learn_env(), file, &p, NULL), MOIRE_OK);
    char *bytes = bytes_of(file, &n);
    for (size_t i = 0; i < n; i++) {
        put_bytes(bytes, i);
        refused(i < MO_LEARN_HEADER ? "not a policy of moire train" : "cut");
        bytes[i] ^= (char)(1 << i % 8);
        put_bytes(bytes, n);
        refused(i < 8    ? "not a policy"
                : i < 12 ? "version"
                : i < 16 ? "not a policy"
                : i < 24 ? "cut or has too much"
                         : "damaged");
        bytes[i] ^= (char)(1 << i % 8);
    }
    put_bytes(bytes, 0);
    refused("not a policy");
    mo_free(learn_env(), bytes);
    mo_region_destroy(region);
}

/* Where things are in the file of small_policy(). */
enum { GPUS = MO_LEARN_HEADER, MODELS = GPUS + 4 + 8 };

static void bad_values_are_refused_though_the_checksum_is_right(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_policy_file p = small_policy(region);
    const int32_t none = 0, many = 1 << 30, five = 5;
    const float odd = NAN;
    size_t n;
    assert_int_equal(mo_policy_write(learn_env(), file, &p, NULL), MOIRE_OK);
    char *bytes = bytes_of(file, &n), *copy = malloc(n + 8);
    assert_non_null(copy);
    const struct {
        size_t at;
        const void *value;
        size_t n;
        const char *reason;
    } change[] = {
        {GPUS, &none, 4, "the type of GPU is 0"},
        {GPUS, &many, 4, "the type of GPU is 1073741824"},
        {GPUS + 4, "a\0b", 3, "the type of GPU has a NUL inside"},
        {MODELS, &none, 4, "the number of models is 0; must be 1 to 64"},
        {MODELS, &many, 4, "the number of models is"},
        {n - 32 - (p.divide.n * 4) - 4, &five, 4, "the net that divides has 5 outputs; must be 4"},
        {n - 32 - (p.divide.n * 4) - 12, &many, 4, "the net that divides is 1073741824"},
        {n - 32 - (p.divide.n * 4) - 12, &five, 4, "ends before its last value"},
        {n - 32 - 4, &odd, 4, "the net that divides has a value that is no finite number"},
    };
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        memcpy(copy, bytes, n);
        memcpy(copy + change[i].at, change[i].value, change[i].n);
        refused_as_written(copy, n, change[i].reason);
    }
    memcpy(copy, bytes, n);
    refused_as_written(copy, n + 8, "has 8 bytes behind its last value");
    refused_as_written(copy, n - 8, "ends before its last value");
    free(copy);
    mo_free(learn_env(), bytes);
    mo_region_destroy(region);
}

static void what_is_no_number_is_not_written(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_policy_file p = small_policy(region);
    moire_error err;
    p.place.values[1] = INFINITY;
    assert_int_equal(mo_policy_write(learn_env(), file, &p, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "no finite number"));
    assert_int_equal(access(file, F_OK), -1);
    mo_region_destroy(region);
}

static void files_that_cannot_be_read_are_named(void **state) {
    (void)state;
    struct mo_policy_file p;
    struct mo_env env = mo_env_default();
    moire_error err;
    assert_int_equal(mo_policy_read(&env, file, &p, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, file));
    env.limits.learned_bytes = 10;
    put_bytes("more than ten bytes", 19);
    assert_int_equal(mo_policy_read(&env, file, &p, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "learned_bytes"));
    mo_policy_close(&(struct mo_policy_file){0});
}

static int read_and_write(void *env) {
    struct mo_policy_file p;
    int code = mo_policy_read(env, file, &p, NULL);
    if (code) return code;
    code = mo_policy_write(env, file, &p, NULL);
    mo_policy_close(&p);
    return code;
}

static void memory_that_runs_out_leaks_nothing(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_policy_file p = small_policy(region);
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    assert_int_equal(mo_policy_write(learn_env(), file, &p, NULL), MOIRE_OK);
    fault_sys_init(&fault);
    env.sys = &fault.table;
    assert_true(fault_sys_sweep(&fault, read_and_write, &env, 0) > 1);
    mo_region_destroy(region);
}

/* --- checkpoints ---------------------------------------------------------------------------------------- */
enum { STATE = 3, CHOICES = 3 };
struct pair {
    struct mo_sacd *sacd;
    struct mo_td3 *td3;
    uint64_t rng; /* of the world */
};

static void walk_pair(void *data, struct mo_learn_io *io) {
    struct pair *p = data;
    mo_learn_word(io, &p->rng);
    mo_checkpoint_sacd(io, p->sacd);
    mo_checkpoint_td3(io, p->td3);
}

static int make_pair(const struct mo_env *env, uint64_t seed, int room, struct pair *p) {
    struct mo_sacd_options s = mo_sacd_options(STATE, CHOICES);
    struct mo_td3_options t = mo_td3_options(STATE, CHOICES);
    s.learn.hidden = t.learn.hidden = 6;
    s.learn.batch = t.learn.batch = 8;
    s.learn.room = t.learn.room = room;
    s.learn.rate = t.learn.rate = 1e-2;
    *p = (struct pair){.rng = seed};
    int code = mo_sacd_create(env, &plain, &s, seed, &p->sacd, NULL);
    if (!code) code = mo_td3_create(env, &plain, &t, seed, &p->td3, NULL);
    if (code) mo_sacd_destroy(p->sacd);
    return code;
}

static void end_pair(struct pair *p) {
    mo_sacd_destroy(p->sacd);
    mo_td3_destroy(p->td3);
}

static void live(struct pair *p, int steps) {
    for (int n = 0; n < steps; n++) {
        const bool last = p->sacd->updates % 9 == 0;
        float seen[2][STATE], mask[2][CHOICES], action[2 * CHOICES];
        struct mo_sacd_losses sl;
        struct mo_td3_losses tl;
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < STATE; j++)
                seen[i][j] = (float)mo_draw_normal(&p->rng);
            for (int j = 0; j < CHOICES; j++)
                mask[i][j] = j == 1 || mo_draw_below(&p->rng, 2);
        }
        const int choice = mo_sacd_explore(p->sacd, seen[0], mask[0]);
        mo_sacd_keep(p->sacd, &(struct mo_sacd_step){seen[0], mask[0], choice, seen[0][choice],
                                                     p->sacd->updates % 9 == 0, seen[1], mask[1]});
        mo_td3_explore(p->td3, seen[0], mask[0], action);
        mo_td3_keep(p->td3,
                    &(struct mo_td3_step){seen[0], mask[0], action, action[1], last, seen[1], mask[1]});
        assert_int_equal(mo_sacd_update(p->sacd, &sl, NULL), MOIRE_OK);
        assert_int_equal(mo_td3_update(p->td3, &tl, NULL), MOIRE_OK);
    }
}

static char *checkpoint_of(struct pair *p, size_t *n) {
    moire_error err;
    if (mo_learn_write(learn_env(), file, MO_LEARN_CHECKPOINT, walk_pair, p, &err))
        fail_msg("%s", err.message);
    return bytes_of(file, n);
}

/* Interrupted before the replay buffer is full, and after; between two updates of the delayed actor, and not.
 */
static void an_interrupted_training_ends_with_the_same_bytes(void **state) {
    (void)state;
    enum { ALL = 57, ROOM = 30 };
    struct pair whole, part;
    size_t n, m;
    assert_int_equal(make_pair(learn_env(), SEED, ROOM, &whole), MOIRE_OK);
    live(&whole, ALL);
    char *expected = checkpoint_of(&whole, &n);
    for (int at = 10; at < ALL; at += 31) {
        assert_int_equal(make_pair(learn_env(), SEED, ROOM, &part), MOIRE_OK);
        live(&part, at);
        mo_free(learn_env(), checkpoint_of(&part, &m));
        end_pair(&part);
        assert_int_equal(make_pair(learn_env(), SEED + 1, ROOM, &part),
                         MOIRE_OK); /* the seed is overwritten */
        assert_int_equal(mo_learn_read(learn_env(), file, MO_LEARN_CHECKPOINT, walk_pair, &part, NULL),
                         MOIRE_OK);
        live(&part, ALL - at - 1);
        char *got = checkpoint_of(&part, &m);
        assert_true(n == m && memcmp(expected, got, n) != 0); /* one step is missing */
        mo_free(learn_env(), got);
        live(&part, 1);
        got = checkpoint_of(&part, &m);
        assert_int_equal(n, m);
        assert_memory_equal(expected, got, n);
        mo_free(learn_env(), got);
        end_pair(&part);
    }
    mo_free(learn_env(), expected);
    end_pair(&whole);
}

static void a_checkpoint_of_another_setting_is_refused(void **state) {
    (void)state;
    struct pair p, other;
    struct mo_policy_file policy;
    moire_error err;
    size_t n;
    assert_int_equal(make_pair(learn_env(), SEED, 30, &p), MOIRE_OK);
    live(&p, 3);
    mo_free(learn_env(), checkpoint_of(&p, &n));
    assert_int_equal(make_pair(learn_env(), SEED, 31, &other), MOIRE_OK);
    assert_int_equal(mo_learn_read(learn_env(), file, MO_LEARN_CHECKPOINT, walk_pair, &other, &err),
                     MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "was made with replay rows 30, and this is 31"));
    assert_int_equal(mo_policy_read(learn_env(), file, &policy, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "is a checkpoint, not a policy"));
    end_pair(&other);
    /* an action that there is not: its place in the first row is behind both states and masks */
    p.sacd->experience.rows[2 * (STATE + CHOICES)] = CHOICES;
    assert_int_equal(mo_learn_write(learn_env(), file, MO_LEARN_CHECKPOINT, walk_pair, &p, &err),
                     MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "an action that there is not"));
    end_pair(&p);
}

static int pair_once(void *env) {
    struct pair p;
    int code = make_pair(env, SEED, 30, &p);
    if (code) return code;
    code = mo_learn_write(env, file, MO_LEARN_CHECKPOINT, walk_pair, &p, NULL);
    if (!code) code = mo_learn_read(env, file, MO_LEARN_CHECKPOINT, walk_pair, &p, NULL);
    end_pair(&p);
    return code;
}

static void agents_that_get_no_memory_leak_nothing(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env env = mo_env_default();
    fault_sys_init(&fault);
    env.sys = &fault.table;
    assert_true(fault_sys_sweep(&fault, pair_once, &env, 0) > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, enter, leave),
        cmocka_unit_test_setup_teardown(every_cut_and_every_changed_byte_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(bad_values_are_refused_though_the_checksum_is_right, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_no_number_is_not_written, enter, leave),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_read_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_leaks_nothing, enter, leave),
        cmocka_unit_test_setup_teardown(an_interrupted_training_ends_with_the_same_bytes, enter, leave),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_setting_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(agents_that_get_no_memory_leak_nothing, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
