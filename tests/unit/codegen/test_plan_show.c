/* SPDX-License-Identifier: Apache-2.0
 * test_plan_show.c - `moire plan`: the view that it plans for, its document, table and drawing, the nearest
 * feasible rates, and what the command says and returns. */
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
#include "bench/plans/plan_show.h"
#include "tools/moire/verb.h"

static struct mo_bench_plan_view view; /* too large for a stack, as the plans are */
static struct mo_lets_plan plan, spare;

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static void path_of(char out[128], const char *kind, const char *name) {
    snprintf(out, 128, strchr(name, '/') ? "%.0s%s" : "bench/%s/%s.json", kind, name);
}

/* Opens the view, plans with moire-gpu, and returns the document; the view stays open. */
static json_t *document(const char *scenario, const char *machine, double load, double *nearest) {
    static char paths[2][128]; /* the view keeps them */
    const struct mo_planner *p = mo_planner_find("moire-gpu");
    moire_error err = {0};
    path_of(paths[0], "scenarios", scenario);
    path_of(paths[1], "machines", machine);
    if (mo_bench_plan_open(the_env(), paths[1], paths[0], &view, &err)) fail_msg("%s", err.message);
    mo_bench_plan_load(&view, load);
    if (mo_plan_make(p, &view.view, view.scratch, view.scratch_bytes, &plan, &err))
        fail_msg("%s", err.message);
    assert_int_equal(mo_bench_plan_nearest(&view, p, &plan, &spare, nearest, NULL), MOIRE_OK);
    json_t *d = mo_bench_plan_json(&view, &plan, p->name, load, nearest);
    assert_non_null(d);
    return d;
}

static double number(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v)) fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static void save(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static char *read_back(const char *path) {
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(path, "r");
    assert_true(f && text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

/* Every let of the plan with its duty cycle, and every turn on it; all of it survives writing and reading. */
static void the_document_has_lets_and_duty_cycles(void **state) {
    (void)state;
    double nearest[MO_PLAN_TENANTS];
    json_t *d = document("game", "gpus4-2080ti", 8, nearest), *let, *t;
    char *text = json_dumps(d, 0);
    json_t *again = json_loads(text, 0, NULL);
    size_t i, k;
    assert_true(json_equal(d, again));
    assert_true(json_is_true(json_object_get(d, "complete")));
    assert_int_equal(json_array_size(json_object_get(d, "gpus")), 4);
    assert_int_equal(json_array_size(json_object_get(d, "lets")), plan.n_lets);
    assert_true(number(d, "bound_gpus") > 0 && number(d, "bound_gpus") <= 4);
    json_array_foreach(json_object_get(d, "lets"), i, let) {
        double duty = number(let, "duty_ms"), busy = 0;
        assert_true(duty > 0 && number(let, "gpu") == plan.lets[i].gpu);
        assert_true(number(let, "first") == plan.lets[i].first && number(let, "units") == plan.lets[i].units);
        assert_int_equal(json_array_size(json_object_get(let, "tenants")), plan.lets[i].n_entries);
        json_array_foreach(json_object_get(let, "tenants"), k, t) {
            busy += number(t, "batch_ms");
            assert_true(number(t, "batch") >= 1 && number(t, "rate") > 0);
            assert_true(fabs(number(t, "worst_ms") - duty - number(t, "batch_ms")) < 1e-6);
            assert_true(number(t, "worst_ms") <= number(t, "target_ms") + 1e-3);
        }
        assert_true(busy <= duty + 1e-3);
    }
    /* an application is a tenant for each stage, with its part of the target and its count of queries */
    t = json_array_get(json_object_get(d, "tenants"), 0);
    assert_string_equal(json_string_value(json_object_get(t, "name")), "game/digits");
    assert_true(number(t, "rate") == 4800 && number(t, "placed") > 4799 && !json_object_get(t, "why"));
    json_decref(again);
    json_decref(d);
    free(text);
    mo_bench_plan_close(the_env(), &view);
}

static char *table(const json_t *d) {
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    mo_bench_plan_print(out, d);
    fclose(out);
    return text;
}

static void the_table_has_every_turn_and_every_reason(void **state) {
    (void)state;
    double nearest[MO_PLAN_TENANTS];
    json_t *d = document("gpulet-equal", "gpus2-v100", 1, nearest);
    char *text = table(d);
    int lines = 0;
    for (int l = 0; l < plan.n_lets; l++)
        lines += plan.lets[l].n_entries;
    assert_int_equal(count(text, "\n"), 3 + lines); /* the head takes three */
    assert_int_equal(count(text, " v100 "), plan.n_lets);
    assert_non_null(strstr(text, "everything is placed; 0."));
    assert_non_null(strstr(text, "duty ms"));
    for (int t = 0; t < plan.n_tenants; t++)
        assert_non_null(strstr(text, view.tenants[t].name));
    free(text);
    json_decref(d);
    mo_bench_plan_close(the_env(), &view);

    int missing = 0;
    d = document("gpulet-equal", "gpus2-v100", 40, nearest);
    text = table(d);
    assert_non_null(strstr(text, "not everything is placed"));
    for (int t = 0; t < plan.n_tenants; t++) {
        char why[320];
        mo_plan_why(&view.view, &plan, t, why, sizeof why);
        missing += why[0] != 0;
        assert_true(why[0] == 0 || strstr(text, why));
    }
    assert_true(missing > 0);
    assert_int_equal(count(text, "it could have"), missing);
    free(text);
    json_decref(d);
    mo_bench_plan_close(the_env(), &view);
}

/* What the others keep and the nearest rate can be planned; a thousandth of the rate asked for more cannot.
 */
static void the_nearest_rate_is_feasible_and_the_next_is_not(void **state) {
    (void)state;
    const struct mo_planner *p = mo_planner_find("moire-gpu");
    double nearest[MO_PLAN_TENANTS];
    int tried = 0;
    json_decref(document("gpulet-equal", "gpus2-v100", 40, nearest));
    for (int t = 0; t < plan.n_tenants; t++) {
        assert_true(nearest[t] >= plan.tenants[t].placed * (1 - 1e-9));
        assert_true(nearest[t] <= plan.tenants[t].rate && view.tenants[t].rate == plan.tenants[t].rate);
    }
    for (int t = 0; t < plan.n_tenants; t++) {
        const double asked = plan.tenants[t].rate;
        if (plan.tenants[t].reason == MO_PLAN_PLACED) continue;
        for (int o = 0; o < plan.n_tenants; o++)
            view.tenants[o].rate = fmin(plan.tenants[o].placed, plan.tenants[o].rate);
        if (nearest[t] > view.tenants[t].rate) { /* more than the plan gave it: planned anew */
            view.tenants[t].rate = nearest[t];
            assert_int_equal(mo_plan_make(p, &view.view, view.scratch, view.scratch_bytes, &spare, NULL), 0);
            assert_true(spare.complete);
        }
        if (nearest[t] + asked / 1000 >= asked) continue;
        view.tenants[t].rate = nearest[t] + asked / 1000;
        assert_int_equal(mo_plan_make(p, &view.view, view.scratch, view.scratch_bytes, &spare, NULL), 0);
        assert_false(spare.complete);
        tried++;
    }
    assert_true(tried > 0);
    mo_bench_plan_close(the_env(), &view);
}

/* Tags that nest and close, attributes in quotes, no bare & or <: enough for what fprintf can get wrong. */
static void well_formed(const char *s) {
    char open[16][16];
    int depth = 0;
    while (*s) {
        if (*s == '&') {
            const char *end = strchr(s, ';');
            assert_true(end && end - s <= 6);
        }
        if (*s++ != '<') continue;
        bool closes = *s == '/';
        s += closes;
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
        assert_true(n > 0 && n < sizeof open[0]);
        const char *name = s;
        for (s += n; *s && *s != '>'; s++) {
            assert_true(*s != '<');
            if (*s != '"') continue;
            s = strchr(s + 1, '"');
            assert_non_null(s);
        }
        assert_true(*s == '>');
        if (closes) {
            assert_true(depth-- > 0 && strlen(open[depth]) == n && !strncmp(open[depth], name, n));
        } else if (s[-1] != '/') {
            assert_true(depth < 16);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)n, name);
        }
    }
    assert_int_equal(depth, 0);
}

/* A box for each let, a bar with its length in ms for each turn, and names that are no markup. */
static void the_drawing_is_well_formed(void **state) {
    (void)state;
    char scenario[] = "/tmp/moire-plan-XXXXXX", svg[] = "/tmp/moire-plan-svg-XXXXXX";
    double nearest[MO_PLAN_TENANTS];
    int fds[] = {mkstemp(scenario), mkstemp(svg)}, turns = 0;
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    save(scenario, "{\"name\": \"s\", \"qos\": {\"ms\": 100}, \"tenants\": ["
                   "{\"model\": \"resnet50\", \"name\": \"a<b&\\\"c\\\">\", \"rate\": 300},"
                   "{\"model\": \"vgg16\", \"rate\": 200}, {\"model\": \"lenet\", \"rate\": 2000}]}");
    json_t *d = document(scenario, "gpus2-v100", 1, nearest);
    assert_int_equal(mo_bench_plan_svg(the_env(), d, svg, NULL), MOIRE_OK);
    char *text = read_back(svg);
    well_formed(text);
    for (int l = 0; l < plan.n_lets; l++)
        turns += plan.lets[l].n_entries;
    assert_int_equal(strncmp(text, "<svg ", 5), 0);
    assert_int_equal(count(text, "stroke="), plan.n_lets);
    assert_int_equal(count(text, "<title>"), turns);
    assert_int_equal(count(text, ">GPU "), 2);
    assert_non_null(strstr(text, "a&#60;b&#38;"));
    assert_null(strstr(text, "nan"));
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    unlink(scenario);
    unlink(svg);
    free(text);
    json_decref(d);
    mo_bench_plan_close(the_env(), &view);
}

/* Two types of GPU and cores in one plan; a model runs where it has a profile. */
static void mixed_machines_are_planned_whole(void **state) {
    (void)state;
    char scenario[] = "/tmp/moire-plan-XXXXXX";
    double nearest[MO_PLAN_TENANTS];
    int fd = mkstemp(scenario), used[3] = {0};
    assert_true(fd >= 0);
    save(scenario, "{\"name\": \"s\", \"qos\": {\"ms\": 200}, \"tenants\": ["
                   "{\"model\": \"vgg19\", \"rate\": 1e5}, {\"model\": \"resnet50\", \"rate\": 1e5}]}");
    json_t *d = document(scenario, "gpus-mixed", 1, nearest);
    assert_int_equal(view.view.n_gpus, 8); /* two, two, and four groups of 16 cores */
    assert_null(view.tenants[0].profile[1]);
    assert_null(view.tenants[0].profile[2]);
    for (int l = 0; l < plan.n_lets; l++) {
        int kind = view.gpu_kind[plan.lets[l].gpu];
        for (int e = 0; e < plan.lets[l].n_entries; e++)
            assert_true(plan.lets[l].entries[e].tenant == 1 || kind == 0);
        used[kind]++;
    }
    assert_true(used[0] && used[1] && used[2]);
    json_decref(d);
    mo_bench_plan_close(the_env(), &view);
    /* cores on which nothing runs are left out */
    save(scenario,
         "{\"name\": \"s\", \"tenants\": [{\"model\": \"lenet\", \"rate\": 1, \"qos\": {\"ms\": 5}}]}");
    json_decref(document(scenario, "gpus-mixed", 1, nearest));
    assert_true(view.view.n_gpus == 4 && view.view.n_kinds == 2 && plan.complete);
    mo_bench_plan_close(the_env(), &view);
    save(scenario,
         "{\"name\": \"s\", \"tenants\": [{\"model\": \"nobody\", \"rate\": 1, \"qos\": {\"ms\": 5}}]}");
    moire_error err = {0};
    assert_int_equal(mo_bench_plan_open(the_env(), "bench/machines/gpus-mixed.json", scenario, &view, &err),
                     MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "tenant 'nobody'"));
    close(fd);
    unlink(scenario);
}

/* An application whose target no division meets is planned as far as the others go, with the reason. */
static void an_application_out_of_reach_is_an_answer(void **state) {
    (void)state;
    char scenario[] = "/tmp/moire-plan-XXXXXX";
    double nearest[MO_PLAN_TENANTS];
    int fd = mkstemp(scenario);
    assert_true(fd >= 0);
    save(scenario, "{\"name\": \"s\", \"tenants\": ["
                   "{\"name\": \"a\", \"rate\": 10, \"qos\": {\"ms\": 1}, \"stages\": ["
                   "{\"name\": \"x\", \"model\": \"lenet\"},"
                   "{\"name\": \"y\", \"model\": \"vgg16\", \"after\": [\"x\"]}]},"
                   "{\"model\": \"resnet50\", \"rate\": 10, \"qos\": {\"ms\": 100}}]}");
    json_t *d = document(scenario, "gpus2-v100", 1, nearest);
    char *text = table(d);
    assert_non_null(strstr(text, "no number of GPUs would do"));
    assert_non_null(strstr(text, "'a/y': the target of 0."));
    assert_int_equal(plan.tenants[0].reason, MO_PLAN_TARGET);
    assert_int_equal(plan.tenants[1].reason, MO_PLAN_TARGET);
    assert_int_equal(plan.tenants[2].reason, MO_PLAN_PLACED);
    assert_true(nearest[1] == 0);
    close(fd);
    unlink(scenario);
    free(text);
    json_decref(d);
    mo_bench_plan_close(the_env(), &view);
}

/* Runs `moire plan` with its output in `out`. */
static int run(int argc, const char *const *args, char *out, size_t n) {
    char *argv[10] = {0};
    int saved[2] = {dup(1), dup(2)};
    FILE *to = tmpfile();
    assert_non_null(to);
    for (int i = 0; i < argc; i++)
        argv[i] = strdup(args[i]);
    fflush(NULL);
    dup2(fileno(to), 1);
    dup2(fileno(to), 2);
    int rc = mo_verb_call(the_env(), &mo_verb_plan, argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    rewind(to);
    out[fread(out, 1, n - 1, to)] = 0;
    fclose(to);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return rc;
}

static void the_command_says_what_it_found(void **state) {
    (void)state;
    static char out[1 << 18];
    static const struct {
        const char *args[9], *says;
        int rc;
    } rows[] = {
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100"}, "everything is placed", MO_EXIT_OK},
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100", "--load", "40"}, "finds no let", MO_EXIT_FAILED},
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100", "--load", "-1"}, "--load -1", MO_EXIT_USAGE},
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100", "--load", "nan"}, "--load nan", MO_EXIT_USAGE},
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100", "--planner", "best"},
         "no planner 'best'",
         MO_EXIT_USAGE},
        {{"plan", "gpulet-equal", "--machine", "gpus2-v100", "--load", "1e9"},
         "queries/s; must",
         MO_EXIT_USAGE},
        {{"plan", "gpulet-equal", "--machine", "cores64"}, "nothing to plan", MO_EXIT_USAGE},
        {{"plan", "light", "--machine", "gpus2-v100"}, "rate", MO_EXIT_USAGE},
        {{"plan", "gpulet-equal"}, "--machine", MO_EXIT_USAGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int argc = 0;
        while (rows[i].args[argc])
            argc++;
        int rc = run(argc, rows[i].args, out, sizeof out);
        if (rc != rows[i].rc || !strstr(out, rows[i].says)) fail_msg("row %zu: %d, %s", i, rc, out);
    }
    static const char *const json[] = {"plan",   "game",      "--machine", "gpus4-2080ti",
                                       "--json", "--planner", "sbp"};
    assert_int_equal(run(7, json, out, sizeof out), MO_EXIT_OK);
    json_t *d = json_loads(out, 0, NULL);
    assert_non_null(d);
    assert_string_equal(json_string_value(json_object_get(d, "planner")), "sbp");
    json_decref(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_has_lets_and_duty_cycles),
        cmocka_unit_test(the_table_has_every_turn_and_every_reason),
        cmocka_unit_test(the_nearest_rate_is_feasible_and_the_next_is_not),
        cmocka_unit_test(the_drawing_is_well_formed),
        cmocka_unit_test(mixed_machines_are_planned_whole),
        cmocka_unit_test(an_application_out_of_reach_is_an_answer),
        cmocka_unit_test(the_command_says_what_it_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
