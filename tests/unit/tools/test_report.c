/* SPDX-License-Identifier: Apache-2.0
 * test_report.c - reports from a hand-made document: well-formed, names escaped, nothing from outside. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/report/report.h"
#include "bench/report/report_page.h"

#define EVIL "<script>\"&'</title>\\n"

static json_t *point(double load, double overall) {
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:i, s:b, s:[{s:s, s:i, s:f, s:f, s:f, s:f, s:i, s:[[f,f],[f,f]]}]}", "load",
        load, "qps", 10.0, "overall", overall, "worst_tenant", overall / 2, "n", 100, "stopped_early", 0,
        "tenants", "name", EVIL, "n", 100, "within_qos", overall / 2, "p50_ms", 1.0, "p95_ms", 2.0, "p99_ms",
        3.0, "shed", 0, "quantiles", 50.0, 1.0, 100.0, 9.0);
}

static json_t *result(const char *system, const char *name, int seed, double max) {
    json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:[o,o]}", "system", system, "policy", "p",
                            "name", name, "seed", seed, "max_load_overall", max, "max_load_every_tenant",
                            max / 2, "loads", point(0.5, 0.9), point(0.25, 1.0));
    json_object_set_new(row, "memory", json_pack("{s:f, s:f}", "rss_mib", 12.0, "peak_mib", 13.0));
    return row;
}

static json_t *document(void) {
    json_t *doc =
        json_pack("{s:{s:s, s:[s]}, s:s, s:s, s:i, s:f, s:{s:[{s:s, s:f, s:f}]}, s:[o,o,o], s:b}",
                  "experiment", "cpu", EVIL, "flags", "avx2", "scenario", EVIL, "about", EVIL, "seed", 1,
                  "goal", 0.95, "calibration", "tenants", "name", EVIL, "qos_ms", 4.0, "solo_ms", 1.0,
                  "results", result("moire", "moire/moire", 1, 0.9), result("moire", "moire/moire", 2, 0.7),
                  result("openvino", "openvino-latency", 1, 0.2), "complete", 1);
    json_t *first = json_array_get(json_object_get(doc, "results"), 0);
    json_object_set_new(
        first, "timeline",
        json_pack("{s:i, s:f, s:[[i,i,i,f,f,i,i],[i,i,i,f,f,i,i,i],[i]], s:[[f,f],[f,f],[f,s]]}", "cores", 2,
                  "load", 0.5, "blocks", 0, 0, 1, 0.0, 500.0, 0, 3, 1, 0, 2, 100.0, 900.0, 0, 5, 4, 7,
                  "pressure", 0.0, 0.0, 300.0, 0.75, 700.0, EVIL));
    json_object_set_new(first, "scheduling",
                        json_pack("{s:i, s:f, s:f, s:f}", "decisions", 10, "mean_us", 1.0, "p99_us", 2.0,
                                  "outside_kernels", 0.1));
    assert_non_null(doc);
    return doc;
}

static char *read_back(const char *path) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    unlink(path);
    return text;
}

static void fresh_path(char *path, size_t n) {
    snprintf(path, n, "/tmp/moire-report-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

/* Tags close in the order they were opened; only void elements stand alone. */
static void check_tags(const char *html) {
    static const char *const alone[] = {"meta", "!doctype", "line", "rect", "circle", "polyline", "br"};
    char stack[64][16];
    int depth = 0;
    for (const char *p = strchr(html, '<'); p; p = strchr(p + 1, '<')) {
        char name[16] = {0};
        bool closing = p[1] == '/';
        const char *q = p + 1 + closing;
        for (int i = 0; i < 15 && (isalnum((unsigned char)*q) || *q == '!'); i++)
            name[i] = *q++;
        const char *end = strchr(p, '>');
        assert_non_null(end);
        bool single = end[-1] == '/';
        for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
            single |= !strcmp(name, alone[i]) && (i < 2 || i == 6 || end[-1] == '/');
        if (closing) {
            assert_true(depth > 0);
            if (strcmp(stack[--depth], name) != 0) fail_msg("</%s> closes <%s>", name, stack[depth]);
        } else if (!single) {
            assert_true(depth < 64);
            snprintf(stack[depth++], sizeof stack[0], "%s", name);
        }
    }
    assert_int_equal(depth, 0);
}

static void html_is_closed_and_escaped(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[64];
    json_t *doc = document();
    fresh_path(path, sizeof path);
    assert_int_equal(mo_bench_write_html(&env, doc, path, NULL), 0);
    char *html = read_back(path);
    check_tags(html);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "http")); /* nothing from outside */
    assert_non_null(strstr(html, "&#60;script&#62;"));
    assert_non_null(strstr(html, "Timeline"));
    assert_non_null(strstr(html, "moire/moire"));
    assert_null(strstr(html, "{&#34;")); /* no raw JSON */
    assert_non_null(strstr(html, "class=\"answer\">moire keeps 95 % in time up to load 0.40"));
    assert_non_null(strstr(html, "unanswered"));
    assert_null(strstr(html, " nan"));
    assert_null(strstr(html, ",nan"));
    free(html);
    json_decref(doc);
}

static void html_of_an_empty_document(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[64];
    json_t *doc = json_pack("{s:[]}", "results");
    fresh_path(path, sizeof path);
    assert_int_equal(mo_bench_write_html(&env, doc, path, NULL), 0);
    char *html = read_back(path);
    check_tags(html);
    free(html);
    json_decref(doc);
}

static void trace_is_what_viewers_read(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[64];
    json_t *doc = document();
    fresh_path(path, sizeof path);
    assert_int_equal(mo_bench_write_trace(&env, doc, path, NULL), 0);
    json_t *trace = json_load_file(path, 0, NULL), *event;
    unlink(path);
    size_t i;
    int blocks = 0;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        if (strcmp(mo_json_text(event, "ph"), "X") != 0) continue;
        assert_string_equal(mo_json_text(event, "name"), EVIL);
        assert_true(mo_json_number(event, "dur") > 0);
        const char *key;
        json_t *value;
        assert_int_equal(json_object_size(json_object_get(event, "args")), 4);
        json_object_foreach(json_object_get(event, "args"), key, value) assert_true(json_is_integer(value));
        blocks++;
    }
    assert_int_equal(blocks, 2); /* the malformed third row is left out */
    json_decref(trace);
    json_decref(doc);
}

static void curves_average_over_seeds(void **state) {
    (void)state;
    static struct mo_curve curves[MO_CURVES];
    json_t *doc = document();
    assert_int_equal(mo_doc_curves(doc, curves), 2);
    assert_int_equal(curves[0].n, 2);
    assert_int_equal(curves[0].seeds[0], 2);
    assert_true(curves[0].load[0] == 0.25 && curves[0].load[1] == 0.5);
    assert_true(curves[0].max_overall > 0.799 && curves[0].max_overall < 0.801);
    assert_true(mo_doc_common_load(doc) == 0.5);
    json_decref(doc);
}

/* What a page and a text say of trust, as one string. */
static char *warnings(const json_t *doc) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    mo_page_trust(out, doc);
    mo_text_trust(out, doc);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void a_disturbed_calibration_is_said_first(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    char path[64];
    json_t *doc = document(), *calibration = json_object_get(doc, "calibration");
    char *text = warnings(doc); /* an earlier version's result knows nothing of it */
    assert_string_equal(text, "");
    free(text);
    json_object_set_new(calibration, "trusted", json_true());
    json_object_set_new(calibration, "why", json_array());
    text = warnings(doc);
    assert_string_equal(text, "");
    free(text);
    json_object_set_new(calibration, "trusted", json_false());
    json_object_set_new(calibration, "why", json_pack("[s]", EVIL " was slower"));
    text = warnings(doc);
    assert_non_null(strstr(text, "\nWARNING: These numbers cannot be trusted"));
    assert_non_null(strstr(text, "  * " EVIL " was slower\n"));
    free(text);
    for (int i = 0; i < 9; i++)
        json_array_append_new(json_object_get(calibration, "why"), json_sprintf("reason %d", i));
    text = warnings(doc);
    assert_null(strstr(text, "reason 5")); /* ten are too many to read */
    assert_non_null(strstr(text, "  * and 4 more"));
    free(text);
    json_object_set_new(doc, "runs", json_pack("{s:b, s:[s]}", "trusted", 0, "why", "run 7"));
    json_object_set_new(calibration, "trusted", json_true());
    text = warnings(doc);
    assert_null(strstr(text, "reason 0"));
    assert_non_null(strstr(text, "  * run 7\n"));
    free(text);
    fresh_path(path, sizeof path);
    assert_int_equal(mo_bench_write_html(&env, doc, path, NULL), 0);
    char *html = read_back(path);
    check_tags(html);
    assert_null(strstr(html, "<script"));
    const char *banner = strstr(html, "role=\"alert\"");
    assert_non_null(banner);
    assert_true(banner < strstr(html, "<table")); /* ahead of every result */
    free(html);
    json_decref(doc);
}

static void unwritable_place_leaves_nothing(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    json_t *doc = document();
    moire_error err = {0};
    assert_int_equal(mo_bench_write_html(&env, doc, "/nonexistent/report.html", &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "/nonexistent/report.html"));
    json_decref(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html_is_closed_and_escaped),
        cmocka_unit_test(html_of_an_empty_document),
        cmocka_unit_test(trace_is_what_viewers_read),
        cmocka_unit_test(curves_average_over_seeds),
        cmocka_unit_test(a_disturbed_calibration_is_said_first),
        cmocka_unit_test(unwritable_place_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
