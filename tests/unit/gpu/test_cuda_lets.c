/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_lets.c - lets of the CUDA plugin on the fake driver: disjoint as a kernel sees it, from a pool,
 * opened and closed without disturbing others, side by side in time where they are disjoint and only there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/gpu/cuda_case.h"

mo_gpu_plugin_function mo_gpu_plugin;

enum { RANGES = MO_GPU_UNITS * (MO_GPU_UNITS + 1) / 2 };

struct range {
    int first, units;
    uint64_t sms[MO_GPU_SM_WORDS];
};

static int bits(const uint64_t *sms) {
    int n = 0;
    for (int w = 0; w < MO_GPU_SM_WORDS; w++)
        n += __builtin_popcountll(sms[w]);
    return n;
}

static bool meet(const uint64_t *a, const uint64_t *b) {
    for (int w = 0; w < MO_GPU_SM_WORDS; w++)
        if (a[w] & b[w]) return true;
    return false;
}

/* Probes the let of every run of units. */
static int probe_all(struct cuda_case *c, const struct mo_gpu_info *info, struct range *out) {
    int n = 0;
    for (int first = 0; first < info->units; first++)
        for (int units = 1; first + units <= info->units; units++) {
            struct mo_gpu_let *let;
            out[n] = (struct range){.first = first, .units = units};
            assert_int_equal(c->ops->let_open(c->system, 0, first, units, 1, &let, NULL), MOIRE_OK);
            assert_int_equal(c->ops->let_probe(let, out[n++].sms, NULL), MOIRE_OK);
            c->ops->let_close(let);
        }
    return n;
}

static void lets_of_disjoint_units_have_disjoint_sms(void **state) {
    (void)state;
    static const struct mo_fake_config shapes[] = {
        {.sms = 132}, {.sms = 68, .least = 2, .align = 2}, {.sms = 130}, {.sms = 13, .least = 4, .align = 2}};
    static struct range all[RANGES];
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct cuda_case c;
        struct mo_gpu_info info;
        cuda_case_begin(&c, &shapes[k]);
        cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
        assert_int_equal(c.ops->describe(c.system, 0, &info, NULL), MOIRE_OK);
        const int n = probe_all(&c, &info, all);
        for (int i = 0; i < n; i++) {
            const bool whole = all[i].units == info.units;
            assert_int_equal(bits(all[i].sms), whole ? info.sms : all[i].units * info.unit_sms);
            for (int j = 0; j < n; j++)
                if (all[i].first + all[i].units <= all[j].first) assert_false(meet(all[i].sms, all[j].sms));
        }
        cuda_case_end(&c);
    }
}

static void ranges_that_are_not_there(void **state) {
    (void)state;
    static const int bad[][3] = {{-1, 1, 1}, {0, 0, 1}, {15, 2, 1}, {16, 1, 1},
                                 {0, 17, 1}, {0, 1, 3}, {0, 1, -1}};
    struct cuda_case c;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    struct mo_gpu_let *let;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(c.ops->let_open(c.system, 0, bad[i][0], bad[i][1], bad[i][2], &let, NULL),
                         MOIRE_EINVAL);
    assert_int_equal(c.ops->let_open(c.system, 1, 0, 1, 1, &let, NULL), MOIRE_EINVAL);
    cuda_case_end(&c);
}

/* A size that was there costs the driver nothing but the stream of a priority that is new, and two lets of
 * one size have a stream each. */
static void lets_come_from_the_pool(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_fake_counts before, after;
    struct mo_gpu_let *a, *b, *again;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, 0, &a, NULL), MOIRE_OK);
    c.ops->let_close(a);
    c.fake->counts(&before);
    assert_int_equal(before.green, 1);
    assert_int_equal(before.streams, 1); /* each holds a hardware queue */
    c.fake->fail_call("cuGreenCtxCreate", 0, 0, 999);
    for (int p = 0; p < MO_GPU_PRIORITIES; p++) {
        assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, p, &a, NULL), MOIRE_OK);
        c.ops->let_close(a);
    }
    c.fake->counts(&before);
    assert_int_equal(before.streams, MO_GPU_PRIORITIES);
    c.fake->fail_call("cuGreenCtxStreamCreate", 0, 0, 999);
    for (int p = 0; p < MO_GPU_PRIORITIES; p++) {
        assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, p, &a, NULL), MOIRE_OK);
        assert_ptr_not_equal(a->track->stream, NULL);
        c.ops->let_close(a);
    }
    c.fake->counts(&after);
    assert_int_equal(after.green + after.streams + after.events,
                     before.green + before.streams + before.events);
    cuda_case_end(&c);

    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, 1, &a, NULL), MOIRE_OK);
    assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, 1, &b, NULL), MOIRE_OK);
    assert_ptr_not_equal(a->track, b->track);
    assert_ptr_equal(a->track->context, b->track->context);
    const struct mo_cuda_track *was = a->track;
    c.ops->let_close(a);
    assert_int_equal(c.ops->let_open(c.system, 0, 4, 4, 1, &again, NULL), MOIRE_OK);
    assert_ptr_equal(again->track, was);
    c.ops->let_close(again);
    c.ops->let_close(b);
    cuda_case_end(&c);
}

static int greens(struct cuda_case *c) {
    struct mo_fake_counts counts;
    c->fake->counts(&counts);
    return counts.green;
}

/* Every run of units becomes a let once, beside two that stay open: there are never more contexts than those
 * of open lets and the spare ones, which are those left last. */
static void contexts_are_as_many_as_lets_in_use(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *stays[2], *let;
    int most = 0, made = 0;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    for (int i = 0; i < 2; i++)
        assert_int_equal(c.ops->let_open(c.system, 0, i, 1, 1, &stays[i], NULL), MOIRE_OK);
    const struct mo_cuda_context *kept[] = {stays[0]->track->context, stays[1]->track->context};
    for (int first = 0; first < 16; first++)
        for (int units = 1; first + units <= 16; units++, made++) {
            assert_int_equal(c.ops->let_open(c.system, 0, first, units, 1, &let, NULL), MOIRE_OK);
            if (greens(&c) > most) most = greens(&c);
            c.ops->let_close(let);
        }
    assert_int_equal(made, 136);
    assert_int_equal(most, 2 + 1 + MO_CUDA_SPARE);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(stays[i]->track->context, kept[i]);
        assert_int_equal(stays[i]->track->context->first, i);
    }
    c.fake->fail_call("cuGreenCtxCreate", 0, 0, 2);
    for (int first = 15; first > 15 - 3; first--) /* of the last ones */
        for (int units = 1; first + units <= 16; units++) {
            assert_int_equal(c.ops->let_open(c.system, 0, first, units, 1, &let, NULL), MOIRE_OK);
            c.ops->let_close(let);
        }
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 16, 1, &let, NULL), MOIRE_ENOMEM); /* long gone */
    for (int i = 0; i < 2; i++)
        c.ops->let_close(stays[i]);
    cuda_case_end(&c);
}

/* A closed let's track is nobody's before its work has ended. */
static void a_closed_let_finishes_its_work(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *let, *next;
    cuda_case_begin(&c, &(struct mo_fake_config){0});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    struct cuda_run run = {.c = &c, .name = "long", .sm_ns = 8 * 30e6};
    const struct mo_cuda_work work = cuda_run_work(&run);
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &let, NULL), MOIRE_OK);
    const struct mo_cuda_track *was = let->track;
    assert_int_equal(mo_cuda_submit(let, &work, NULL), MOIRE_OK);
    c.ops->let_close(let);
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 1, 1, &next, NULL), MOIRE_OK);
    if (atomic_load(&run.done) == 0) assert_ptr_not_equal(next->track, was);
    cuda_run_wait(&run, 1);
    assert_int_equal(run.code, MOIRE_OK);
    c.ops->let_close(next);
    cuda_case_end(&c);
}

/* --- resize
 * ------------------------------------------------------------------------------------------------- */

static _Atomic bool enough;

static void again(struct cuda_run *run) {
    const struct mo_cuda_work work = cuda_run_work(run);
    if (!atomic_load(&enough)) assert_int_equal(mo_cuda_submit(run->let, &work, NULL), MOIRE_OK);
}

/* The driver does not end the making of a context before five more kernels have ended: they would not, if it
 * held up the let they are on. */
static void a_new_size_does_not_pause_the_others(void **state) {
    (void)state;
    struct cuda_case c;
    struct mo_gpu_let *steady, *let;
    cuda_case_begin(&c, &(struct mo_fake_config){.green_kernels = 5});
    cuda_case_open(&c, mo_gpu_plugin(), &(struct mo_gpu_config){0});
    assert_int_equal(c.ops->let_open(c.system, 0, 0, 8, 1, &steady, NULL), MOIRE_OK);
    atomic_store(&enough, false);
    struct cuda_run run = {.c = &c, .name = "steady", .sm_ns = 64 * 0.1e6, .then = again, .let = steady};
    again(&run);
    cuda_run_wait(&run, 3);

    for (int units = 1; units < 5; units++) {
        const int before = atomic_load(&run.done);
        assert_int_equal(c.ops->let_open(c.system, 0, 8, units, 1, &let, NULL), MOIRE_OK);
        assert_true(atomic_load(&run.done) >= before + 3);
        c.ops->let_close(let);
    }
    atomic_store(&enough, true);
    c.ops->let_close(steady);
    cuda_case_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_of_disjoint_units_have_disjoint_sms),
        cmocka_unit_test(ranges_that_are_not_there),
        cmocka_unit_test(lets_come_from_the_pool),
        cmocka_unit_test(contexts_are_as_many_as_lets_in_use),
        cmocka_unit_test(a_closed_let_finishes_its_work),
        cmocka_unit_test(a_new_size_does_not_pause_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
