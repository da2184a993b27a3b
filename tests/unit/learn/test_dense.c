/* SPDX-License-Identifier: Apache-2.0
 * test_dense.c - products, nets, their slopes, Adam, random numbers, masks, the replay buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runtime/learn/experience.h"
#include "runtime/learn/masked.h"
#include "tests/unit/learn/double_net.h"

enum { SEED = 20 };
static const struct mo_sgemm plain = {0};

static void fill(float *v, size_t n, uint64_t *rng) {
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(2 * mo_draw_unit(rng) - 1);
}

/* --- products ------------------------------------------------------------------------------------------- */
enum { MOST = 40 };

/* Largest difference to the definition, in doubles; rows of all matrices are longer than they need be. */
static double product_is_off(const struct mo_sgemm *sgemm, int m, int n, int k, int form, uint64_t *rng) {
    static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], before[MOST * MOST];
    struct mo_matrix_product p = {
        .m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .lda = MOST, .ldb = MOST, .ldc = MOST};
    double off = 0;
    p.a_across = form & 1;
    p.b_across = form & 2;
    p.add = form & 4;
    fill(a, MOST * MOST, rng);
    fill(b, MOST * MOST, rng);
    fill(c, MOST * MOST, rng);
    a[3] = 0; /* a factor that the loops leave out */
    memcpy(before, c, sizeof c);
    if (!p.add) c[0] = NAN; /* is not read */
    mo_multiply(sgemm, &p);
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++) {
            double sum = i >= m || j >= n || p.add ? before[i * MOST + j] : 0;
            for (int l = 0; i < m && j < n && l < k; l++)
                sum += (double)a[p.a_across ? l * MOST + i : i * MOST + l] *
                       b[p.b_across ? j * MOST + l : l * MOST + j];
            off = fmax(off, fabs(sum - c[i * MOST + j]));
            if (!(off < 1e9)) return INFINITY;
        }
    return off;
}

static void products_of_every_form(const struct mo_sgemm *sgemm) {
    uint64_t rng = SEED;
    for (int form = 0; form < 8; form++)
        for (int round = 0; round < 60; round++) {
            int m = 1 + mo_draw_below(&rng, MOST), n = 1 + mo_draw_below(&rng, MOST),
                k = 1 + mo_draw_below(&rng, MOST);
            double off = product_is_off(sgemm, m, n, k, form, &rng);
            if (!(off < 1e-5))
                fail_msg("seed %d, form %d, %d x %d x %d: off by %g", SEED, form, m, n, k, off);
        }
}

static void products_are_those_of_the_definition(void **state) {
    (void)state;
    products_of_every_form(&plain);
}

static void openblas_computes_the_same(void **state) {
    (void)state;
    struct mo_sgemm blas;
    moire_error err = {0};
    if (mo_sgemm_open(learn_env(), &blas, &err)) {
        assert_int_equal(err.code, MOIRE_EUNSUPPORTED);
        assert_non_null(strstr(err.message, "libopenblas0-pthread"));
        skip();
    }
    products_of_every_form(&blas);
    mo_sgemm_close(&blas);
    mo_sgemm_close(&blas);
}

static void *nothing_to_open(void *self, const char *path, char *reason, size_t n) {
    (void)self, (void)path;
    if (n) reason[0] = 0;
    return NULL;
}

static void without_openblas_the_package_is_named(void **state) {
    (void)state;
    struct mo_sys sys = *mo_sys_posix();
    struct mo_env env = mo_env_default();
    struct mo_sgemm blas;
    moire_error err = {0};
    sys.dl_open = nothing_to_open;
    env.sys = &sys;
    assert_int_equal(mo_sgemm_open(&env, &blas, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "libopenblas0-pthread"));
    mo_sgemm_close(&blas);
}

/* A row alone has the bytes that it has among others: decisions may be made one by one or together. */
static void rows_do_not_depend_on_each_other(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    const int size[] = {11, 33, 18, 5};
    float x[7 * 11], one[5];
    struct mo_net net;
    struct mo_pass pass;
    uint64_t rng = SEED;
    assert_true(mo_net_make(region, size, &net) && mo_pass_make(region, &net, 7, &pass));
    mo_net_draw(&net, &rng);
    fill(x, 7 * 11, &rng);
    for (int r = 0; r < 7; r++) {
        memcpy(one, mo_net_forward(&plain, &net, x + r * 11, 11, 1, &pass), sizeof one);
        assert_memory_equal(one, mo_net_forward(&plain, &net, x, 11, 7, &pass) + r * 5, sizeof one);
    }
    mo_region_destroy(region);
}

/* --- nets ----------------------------------------------------------------------------------------------- */
enum { ROWS = 6, WIDE = 9 /* floats from one row of x to the next, of which size[0] count */ };

struct half_squares { /* loss: sum over rows and outputs of weight x output^2 / 2 */
    struct double_net net;
    double x[ROWS * WIDE], weight[8];
};

static double half_squares(void *ctx) {
    struct half_squares *h = ctx;
    double out[DOUBLE_WIDTH], loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double_forward(&h->net, h->x + r * WIDE, out);
        for (int j = 0; j < h->net.size[MO_NET_LAYERS]; j++)
            loss += h->weight[j] * out[j] * out[j] / 2;
    }
    return loss;
}

static void slopes_of_a_net_on(const struct mo_sgemm *sgemm, const int *size, uint64_t seed) {
    static struct half_squares h;
    struct mo_region *region = mo_region_create(learn_env());
    float x[ROWS * WIDE], slope[DOUBLE_VALUES], x_slope[ROWS * WIDE] = {0}, wide[ROWS * WIDE] = {0};
    struct mo_net net;
    struct mo_pass pass;
    uint64_t rng = seed;
    assert_true(mo_net_make(region, size, &net) && mo_pass_make(region, &net, ROWS, &pass));
    mo_net_draw(&net, &rng);
    fill(x, ROWS * WIDE, &rng);
    h.net = double_net_of(&net);
    for (int i = 0; i < ROWS * WIDE; i++)
        h.x[i] = x[i];
    for (int j = 0; j < size[3]; j++)
        h.weight[j] = 1 + j;
    const float *out = mo_net_forward(sgemm, &net, x, WIDE, ROWS, &pass);
    float *by_out = mo_pass_slope(&pass);
    for (int r = 0; r < ROWS; r++) {
        double exact[DOUBLE_WIDTH];
        double_forward(&h.net, h.x + r * WIDE, exact);
        for (int j = 0; j < size[3]; j++) {
            assert_true(fabs(exact[j] - out[r * size[3] + j]) < 1e-5);
            by_out[r * size[3] + j] = (float)h.weight[j] * out[r * size[3] + j];
        }
    }
    mo_net_backward(sgemm, &net, x, WIDE, &pass, slope, x_slope);
    check_slope("a net", h.net.values, net.n, slope, half_squares, &h);
    for (int r = 0; r < ROWS; r++) /* by what lies between the rows of x there is none */
        memcpy(wide + r * WIDE, x_slope + r * size[0], (size_t)size[0] * sizeof *wide);
    check_slope("its inputs", h.x, ROWS * WIDE, wide, half_squares, &h);
    mo_region_destroy(region);
}

static void slopes_are_those_of_differences(void **state) {
    (void)state;
    struct mo_sgemm blas;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        slopes_of_a_net_on(&plain, (const int[]){WIDE, 17, 16, 3}, seed);
        slopes_of_a_net_on(&plain, (const int[]){4, 5, 30, 1}, seed);
        if (mo_sgemm_open(learn_env(), &blas, NULL)) continue;
        slopes_of_a_net_on(&blas, (const int[]){6, 20, 7, 8}, seed);
        mo_sgemm_close(&blas);
    }
}

static void nets_are_drawn_within_their_bound(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    const int size[] = {4, 100, 25, 1};
    struct mo_net net;
    uint64_t rng = SEED;
    float most = 0;
    assert_true(mo_net_make(region, size, &net));
    assert_int_equal(net.n, 5 * 100 + 101 * 25 + 26);
    mo_net_draw(&net, &rng);
    for (size_t i = 0; i < 500; i++) /* the first layer: 1/sqrt(4) */
        most = fmaxf(most, fabsf(net.values[i]));
    assert_true(most <= 0.5F && most > 0.48F);
    for (size_t i = 500, n = (most = 0, 500 + 101 * 25); i < n; i++) /* the second: 1/sqrt(100) */
        most = fmaxf(most, fabsf(net.values[i]));
    assert_true(most <= 0.1F && most > 0.098F);
    mo_region_destroy(region);
}

static void a_target_follows_by_its_part(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    const int size[] = {1, 1, 1, 1};
    struct mo_net a, b;
    assert_true(mo_net_make(region, size, &a));
    assert_true(mo_net_make(region, size, &b));
    for (size_t i = 0; i < a.n; i++) {
        a.values[i] = (float)i;
        b.values[i] = 10;
    }
    mo_net_follow(&a, &b, 0.25);
    for (size_t i = 0; i < a.n; i++)
        assert_true(fabs(a.values[i] - (0.75 * (double)i + 2.5)) < 1e-6);
    mo_net_copy(&a, &b);
    assert_memory_equal(a.values, b.values, a.n * sizeof *a.values);
    mo_region_destroy(region);
}

/* Against the paper's Algorithm 1 in doubles, for slopes of very different size. */
static void adam_takes_the_steps_of_its_paper(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    float v[3] = {1, -2, 3};
    double exact[3] = {1, -2, 3}, m[3] = {0}, s[3] = {0};
    struct mo_adam adam;
    uint64_t rng = SEED;
    assert_true(mo_adam_make(region, 3, &adam));
    for (int t = 1; t <= 50; t++) {
        const float g[3] = {(float)mo_draw_normal(&rng), (float)(1e3 * mo_draw_normal(&rng)),
                            (float)(1e-5 * mo_draw_normal(&rng))};
        mo_adam_step(&adam, v, g, 0.01);
        for (int i = 0; i < 3; i++) {
            m[i] = 0.9 * m[i] + 0.1 * g[i];
            s[i] = 0.999 * s[i] + 0.001 * (double)g[i] * g[i];
            exact[i] -= 0.01 * (m[i] / (1 - pow(0.9, t))) / (sqrt(s[i] / (1 - pow(0.999, t))) + 1e-8);
            assert_true(fabs(v[i] - exact[i]) < 1e-5);
        }
    }
    assert_true(fabs(exact[0] - 1) > 0.01);
    mo_region_destroy(region);
}

/* --- draws, masks, rows --------------------------------------------------------------------------------- */
static void normal_draws_have_their_moments(void **state) {
    (void)state;
    uint64_t rng = SEED;
    double moment[5] = {0};
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        const double x = mo_draw_normal(&rng);
        assert_true(isfinite(x));
        for (int p = 1; p <= 4; p++)
            moment[p] += pow(x, p) / n;
    }
    assert_true(fabs(moment[1]) < 0.01 && fabs(moment[2] - 1) < 0.02 && fabs(moment[3]) < 0.05 &&
                fabs(moment[4] - 3) < 0.1);
}

static void a_mask_decides_whatever_the_scores_are(void **state) {
    (void)state;
    const float odd[] = {INFINITY, -INFINITY, NAN, 3e38F, -3e38F, 0, 1};
    uint64_t rng = SEED;
    for (int round = 0; round < 100000; round++) {
        enum { N = 5 };
        float scores[N], mask[N], p[N], log_p[N];
        int n_allowed = 0;
        for (int i = 0; i < N; i++) {
            mask[i] = mo_draw_below(&rng, 3) == 0;
            n_allowed += mask[i] > 0;
            scores[i] =
                mo_draw_below(&rng, 3) ? (float)(100 * mo_draw_normal(&rng)) : odd[mo_draw_below(&rng, 7)];
        }
        mo_masked_softmax(N, scores, mask, p, log_p);
        for (int i = 0; i < N; i++)
            if (!(mask[i] > 0)) assert_true(p[i] == 0 && log_p[i] == 0);
        const int drawn = mo_masked_draw(N, p, mask, &rng), best = mo_masked_best(N, scores, mask);
        assert_true(n_allowed ? mask[drawn] > 0 && mask[best] > 0 : drawn == -1 && best == -1);
    }
}

static void draws_come_as_often_as_they_are_probable(void **state) {
    (void)state;
    const float scores[] = {0, 1, 50, 2}, mask[] = {1, 1, 0, 1};
    float p[4], log_p[4];
    int count[4] = {0};
    uint64_t rng = SEED;
    mo_masked_softmax(4, scores, mask, p, log_p);
    const double sum = 1 + exp(1) + exp(2);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            assert_true(fabs(p[i] - exp((double)scores[i]) / sum) < 1e-6 &&
                        fabsf(expf(log_p[i]) - p[i]) < 1e-6F);
    for (int n = 0; n < 100000; n++)
        count[mo_masked_draw(4, p, mask, &rng)]++;
    for (int i = 0; i < 4; i++)
        assert_true(fabs(count[i] / 1e5 - p[i]) < 0.01);
    assert_int_equal(mo_masked_best(4, scores, mask), 3);
}

static void a_full_replay_buffer_loses_the_oldest(void **state) {
    (void)state;
    struct mo_region *region = mo_region_create(learn_env());
    struct mo_experience e;
    float out[400 * 2];
    int seen[10] = {0};
    uint64_t rng = SEED;
    assert_true(mo_experience_make(region, 2, 4, &e));
    for (int i = 0; i < 10; i++) {
        float *row = mo_experience_add(&e);
        row[0] = (float)i;
        row[1] = (float)(i * i);
        assert_int_equal(e.n, i < 4 ? i + 1 : 4);
    }
    mo_experience_draw(&e, &rng, 400, out);
    for (int i = 0; i < 400; i++) {
        assert_true(out[2 * i + 1] == out[2 * i] * out[2 * i]);
        seen[(int)out[2 * i]]++;
    }
    for (int i = 0; i < 10; i++)
        assert_true(i < 6 ? seen[i] == 0 : seen[i] > 60);
    mo_region_destroy(region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_definition),
        cmocka_unit_test(openblas_computes_the_same),
        cmocka_unit_test(without_openblas_the_package_is_named),
        cmocka_unit_test(rows_do_not_depend_on_each_other),
        cmocka_unit_test(slopes_are_those_of_differences),
        cmocka_unit_test(nets_are_drawn_within_their_bound),
        cmocka_unit_test(a_target_follows_by_its_part),
        cmocka_unit_test(adam_takes_the_steps_of_its_paper),
        cmocka_unit_test(normal_draws_have_their_moments),
        cmocka_unit_test(a_mask_decides_whatever_the_scores_are),
        cmocka_unit_test(draws_come_as_often_as_they_are_probable),
        cmocka_unit_test(a_full_replay_buffer_loses_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
